"""Writing of files: whole or not at all, and what was computed is kept elsewhere where the disk takes no more."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from dsascape.hw_models.text.record_file import reason_of, shown_path

_NEW_FILE_MODE = 0o666


class FileError(ValueError):
    """A path that cannot be written; the message says why."""


class DiskError(FileError):
    """A file that the disk did not take; the message names the file, the reason, and where its content is kept."""


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` as `write_with` does."""
    write_with(path, lambda place: place.write_text(text, encoding="utf-8", newline=""))


def write_with(path: Path, write: Callable[[Path], object]) -> None:
    """Have ``write`` fill an empty file beside ``path`` that then takes its place: readers see the old one or the new.

    A link at ``path`` is replaced, and what it points to is left alone. Raises ``DiskError`` where the disk does not
    take the file; its content is then in the system's folder for temporary files, if that takes it.
    """
    try:
        _replace(path, write)
    except OSError as error:
        kept = _kept(path.name, write)
        more = f"; its content is kept in {shown_path(kept)}" if kept is not None else ""
        raise DiskError(f"{shown_path(path)}: cannot be written: {reason_of(error)}{more}") from error


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(_mode(path))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _kept(name: str, write: Callable[[Path], object]) -> Path | None:
    """Return the file in a new folder for temporary files that ``write`` has filled; None where none can be."""
    folder: Path | None = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="dsascape-"))
        write(folder / name)
    except OSError:
        if folder is not None:
            with contextlib.suppress(OSError):
                (folder / name).unlink(missing_ok=True)
                folder.rmdir()
        return None
    return folder / name


def _mode(path: Path) -> int:
    """Return the permissions of ``path``, or those of a new file."""
    with contextlib.suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return _NEW_FILE_MODE & ~mask
