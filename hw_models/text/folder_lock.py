"""The lock of a folder that a command writes to: one process at a time, and nothing outside the folder is touched."""

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from dsascape.hw_models.text.record_file import reason_of, shown_path

LOCK = ".lock"
_MOST_DIGITS = 20


class LockError(ValueError):
    """A folder that another process writes to, or whose lock cannot be taken; the message says which."""


class FolderLock:
    """Lock of one folder, held until `close`, or until the process ends."""

    def __init__(self, folder: Path) -> None:
        """Make the folder where there is none, and lock it; raise ``LockError`` if that fails."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = _locked(folder)
        except OSError as error:
            raise LockError(f"{shown_path(folder)}: cannot hold results ({reason_of(error)})") from error

    def __enter__(self) -> "FolderLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the lock back."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _locked(folder: Path) -> int:
    """Return the descriptor of the locked file in ``folder``, with this process' number in it."""
    path = folder / LOCK
    with contextlib.suppress(FileNotFoundError):
        _check(path.lstat(), path)  # before it is opened: that may have effects on a device
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags, 0o666)
    try:
        opened = os.fstat(handle)
        _check(opened, path)
        _check(path.lstat(), path)  # where the system has no O_NOFOLLOW, a link may have come in between
        if not os.path.samestat(opened, path.lstat()):
            raise LockError(f"{shown_path(path)}: has been replaced at this moment; start again")
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        whose = os.pread(handle, _MOST_DIGITS, 0).decode("ascii", "replace")
        os.close(handle)
        process = f" (process {whose})" if whose.isdecimal() else ""
        raise LockError(
            f"{shown_path(folder)}: another run{process} is writing there; wait for its end, or give another --out"
        ) from error
    except BaseException:
        os.close(handle)
        raise
    with contextlib.suppress(OSError):
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
    return handle


def _check(status: os.stat_result, path: Path) -> None:
    """Raise ``LockError`` unless the file is a plain one with no other name."""
    if stat.S_ISLNK(status.st_mode):
        raise LockError(f"{shown_path(path)}: is a symbolic link, and what it points to is not written to; remove it")
    if not stat.S_ISREG(status.st_mode):
        raise LockError(f"{shown_path(path)}: is not a regular file; remove it")
    if status.st_nlink > 1:
        raise LockError(f"{shown_path(path)}: has a second name (a hard link), whose file is not written to; remove it")
