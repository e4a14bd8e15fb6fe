"""Atomic file writing, and text made safe for terminals and spreadsheets."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NEW_FILE_MODE = 0o666


class FileError(ValueError):
    """A path that cannot be written; the message says why."""


def check_place(path: Path | None, flag: str) -> None:
    """Raise ``FileError`` if no file can be written at the path given to the option ``flag``."""
    if path is None:
        return
    if path.is_dir():
        raise FileError(f"{flag} has {path}, which is a folder; needs a file's name")
    if path.exists() and not path.is_file():
        raise FileError(f"{flag} has {path}, which is not a regular file and would be replaced by one")
    if not path.parent.is_dir():
        raise FileError(f"{flag} has {path}, but there is no folder {path.parent}; create it first")
    if not os.access(path.parent, os.W_OK):
        raise FileError(f"{flag} has {path}, but nothing can be written to {path.parent}")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty temporary file in the folder of ``path``; it replaces ``path`` on success, else it is removed."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_mode(path))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically; concurrent readers see the old file or the new one."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def _mode(path: Path) -> int:
    """Return the permissions of ``path``, or those of a new file."""
    with contextlib.suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return _NEW_FILE_MODE & ~mask


def for_terminal(text: str) -> str:
    """Return ``text`` with unprintable characters, line breaks aside, as escape sequences."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode("ascii") for each in text
    )


def for_spreadsheet(text: str) -> str:
    """Return ``text`` with an apostrophe in front where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def without_apostrophe(text: str) -> str:
    """Return ``text`` as it was before `for_spreadsheet`."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
