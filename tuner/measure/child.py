"""A process that works for this one, which its work may crash or hold up without end."""

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_END_S = 5.0


class ChildEndedError(Exception):
    """A process that ended, or was ended because it took too long; the message says which."""


class Child:
    """A spawned process and this end of the pipe to it; its function gets the other end before ``arguments``."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, message: Any) -> None:
        """Send a message; if the process has ended, the next `receive` says so."""
        with suppress(OSError):
            self._pipe.send(message)

    def receive(self, limit_s: float) -> Any:
        """Return the next message; raise ``ChildEndedError`` if there is none within ``limit_s`` seconds."""
        try:
            if not self._pipe.poll(limit_s):
                raise ChildEndedError(f"took longer than {limit_s:g} s")
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(_END_S)
            raise ChildEndedError(_ending(self._process.exitcode)) from None

    def end(self) -> None:
        """Kill the process, if it still runs."""
        with suppress(OSError):
            self._process.kill()
        self._process.join(_END_S)
        self._pipe.close()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"
