"""SQLite files that others may have written: opened with bounds on waits, sizes and what runs in them.

A file is a regular one of at most 4 GiB. Views, triggers and virtual tables are refused: a query would run what they
say. What is written to is no link, nor a file with a second name, as that would change something outside the folder.
"""

import sqlite3
import stat
from pathlib import Path

from dsascape.hw_models.text.record_file import RecordError, reason_of, shown_path

ERRORS = (sqlite3.Error, OverflowError, UnicodeError)
"""What SQLite's module raises for a file that is damaged, also in names of its columns, and for the disk."""
WAIT_S = 10.0
"""Longest wait for another process that writes in the same file, in seconds."""
LARGEST_FILE_BYTES = 2**32
LARGEST_VALUE_BYTES = 64 * 2**20
"""Size of the largest text or row that is read."""
_BESIDE = ("", "-wal", "-shm", "-journal")
"""Ends of the names of the files that SQLite uses together."""
_OF_DISK = {
    sqlite3.SQLITE_FULL: "the disk is full", sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_READONLY: "the disk or the file is read-only", sqlite3.SQLITE_PERM: "access is denied",
    sqlite3.SQLITE_CANTOPEN: "no file can be opened or made there", sqlite3.SQLITE_NOLFS: "the disk takes no such file",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
}  # fmt: skip
_OF_PEERS = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_PRIMARY = 0xFF
"""Bits of SQLite's extended error codes that hold the primary one."""
_RUN = "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE 'create virtual%' LIMIT 1"


def open_database(path: Path, *, writes: bool) -> sqlite3.Connection:
    """Open the database at ``path``, to read only or also to write, where it is made if it is not there.

    Raises ``RecordError`` for what is no plain file, too large, or holds views, triggers or virtual tables, and
    ``sqlite3.Error``, which `in_words` explains, for what SQLite refuses.
    """
    _check_files(path, writes=writes)
    mode = "rwc" if writes else "ro"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=WAIT_S)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        found = connection.execute(_RUN).fetchone()
        if found is not None:
            raise RecordError(f"{shown_path(path)}: has a {found[0]} called {str(found[1])[:80]!r}; needs plain tables")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_files(path: Path, *, writes: bool) -> None:
    where = shown_path(path)
    for end in _BESIDE:
        place = path.with_name(f"{path.name}{end}")
        named = shown_path(place)
        try:
            status = place.lstat() if writes or end else place.stat()
        except FileNotFoundError:
            if end or writes:
                continue
            raise RecordError(f"{named}: no such file or directory") from None
        except OSError as error:
            raise RecordError(f"{named}: {reason_of(error)}") from error
        if stat.S_ISLNK(status.st_mode):
            raise RecordError(f"{named}: is a symbolic link, and what it points to is not written to; remove it")
        if not stat.S_ISREG(status.st_mode):
            raise RecordError(f"{named}: is not a regular file; needs a database")
        if writes and status.st_nlink > 1:
            raise RecordError(f"{named}: has a second name (a hard link), which is not written to; copy it")
        if status.st_size > LARGEST_FILE_BYTES:
            raise RecordError(f"{where}: has {status.st_size} B; at most {LARGEST_FILE_BYTES} are read")


def in_words(path: Path, error: Exception, remedy: str) -> str:
    """Return a message on an error of SQLite: whether the disk, another process or the file is at fault.

    ``remedy`` says what to do about a damaged file.
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    code = sqlite3.SQLITE_CORRUPT if code == sqlite3.SQLITE_IOERR_SHORT_READ else code & _PRIMARY
    where = shown_path(path)
    if code in _OF_DISK:
        return f"{where}: {_OF_DISK[code]} ({error}); what was stored before is kept"
    if code in _OF_PEERS:
        return f"{where}: another process has been writing in it for {WAIT_S:g} s ({error}); wait for its end"
    return f"{where}: cannot be used, as it is damaged or no such file ({error}); {remedy}"
