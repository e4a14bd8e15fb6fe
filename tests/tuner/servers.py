"""Real RPC servers and trackers of TVM on this machine, with one thread each."""

import os
import runpy
import signal
import socket
import sys
import time
from collections.abc import Mapping

from tests.tuner.forked import context

_START_LIMIT_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _serve(kind: str, arguments: list[str], around: Mapping[str, str]) -> None:
    """Be the program ``tvm.exec.rpc_KIND``, at the head of a group of processes."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ.update(around)
    sys.argv = [kind, *arguments]
    runpy.run_module(f"tvm.exec.rpc_{kind}", run_name="__main__", alter_sys=True)


class Server:
    """A server of TVM's RPC, or its tracker, with all the processes that it starts."""

    def __init__(self, kind: str = "server", *options: str, around: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--port-end", str(self.port + 1), *options]
        environment = {"TVM_NUM_THREADS": "1", **(around or {})}
        self._process = context().Process(target=_serve, args=(kind, arguments, environment))
        self._process.start()
        end = time.monotonic() + _START_LIMIT_S
        while not answers(self.port):
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.02)

    @property
    def device(self) -> str:
        return f"rpc://127.0.0.1:{self.port}"

    def kill(self) -> None:
        if self._process.pid is not None and self._process.is_alive():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.join()
