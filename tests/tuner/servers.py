"""Real RPC servers and trackers of TVM on this machine, with one thread each."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping

_START_LIMIT_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A server of TVM's RPC, or its tracker, with all the processes that it starts."""

    def __init__(self, kind: str = "server", *options: str, around: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", f"tvm.exec.rpc_{kind}", "--host", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(
            [*command, "--port-end", str(self.port + 1), *options],
            env={**os.environ, "TVM_NUM_THREADS": "1", **(around or {})},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        end = time.monotonic() + _START_LIMIT_S
        while not answers(self.port):
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.2)

    @property
    def device(self) -> str:
        return f"rpc://127.0.0.1:{self.port}"

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
