"""Reading archives of strangers: an xz stream of plain ustar headers and files, within bounds, and nothing else.

The library's reader of tar follows every dialect (pax, GNU, sparse files), and each has made it hang, fill memory or a
disk, or fail with an error of its own. What is read here is what `tuner.bundle.archive` writes: POSIX.1-1988 headers of
512 bytes, one per plain file, the name in its first 100 bytes.
"""

import lzma
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

_BLOCK = 512
_PIECE_BYTES = 2**20
_MOST_MEMORY_BYTES = 256 * 2**20
"""That unpacking xz may take: its strongest usual setting, -9, takes 65 MiB."""
_MOST_END_BYTES = 2**16
"""Of zeros behind the last file: tar fills up its last record."""
_MOST_FOLDERS = 8
"""In which a file may lie, one inside the other."""
_MAGIC = b"ustar\x0000"
_PLAIN = b"0"
_NAME = slice(0, 100)
_SIZE = slice(124, 136)
_CHECKSUM = slice(148, 156)
_KIND = slice(156, 157)
_LINK = slice(157, 257)
_DIALECT = slice(257, 265)
_PREFIX = slice(345, 500)
_PART = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*")
"""Of a file's path."""
_OCTAL = re.compile(rb"([0-7]{1,11})[ \0]+")


class ArchiveError(ValueError):
    """An archive that is not read any further; the message says what is wrong, not of which file."""


@dataclass(frozen=True, slots=True)
class Member:
    """A plain file of an archive, before its content is read."""

    name: str
    """Relative, of ASCII, without ``.``, ``..`` or a hidden part."""
    size_bytes: int


class PlainTar:
    """A compressed archive, read once from front to end."""

    def __init__(self, file: IO[bytes], most_bytes: int) -> None:
        """Read ``file``, of which no more than ``most_bytes`` may come out, headers and padding included."""
        self._stream = _Unpacked(file, most_bytes)
        self._behind = 0
        """Padding behind the file that was read last."""

    def next(self) -> Member | None:
        """Return the next file, of which `content` is to be called before the one after it; None at the end.

        Raises ``ArchiveError`` for anything but a plain file, and for an end that is none.
        """
        if any(self._stream.exactly(self._behind)):
            raise ArchiveError("has something between its files")
        block = self._stream.exactly(_BLOCK)
        if any(block):
            found = _member(block)
            self._behind = -found.size_bytes % _BLOCK
            return found
        rest = self._stream.read(_MOST_END_BYTES)
        if len(rest) < _BLOCK or any(rest) or self._stream.read(1):
            raise ArchiveError("does not end where its files end")
        return None

    def content(self, member: Member, take: Callable[[bytes], object]) -> None:
        """Hand the content of ``member``, which was returned last, to ``take`` piece by piece."""
        left = member.size_bytes
        while left:
            piece = self._stream.exactly(min(left, _PIECE_BYTES))
            left -= len(piece)
            take(piece)


def _member(block: bytes) -> Member:
    """Return the file that a header of 512 bytes announces."""
    raw, _, rest = block[_NAME].partition(b"\0")
    name = raw.decode("ascii", "backslashreplace")
    said = repr(name[:80])
    blank = b" " * len(block[_CHECKSUM])
    if _number(block[_CHECKSUM]) != sum(block) - sum(block[_CHECKSUM]) + sum(blank):
        raise ArchiveError(f"has {said} with a damaged header")
    if block[_DIALECT] != _MAGIC:
        raise ArchiveError(f"has {said} with a header of another dialect of tar; a bundle has plain ustar")
    if block[_KIND] != _PLAIN or any(block[_LINK]):
        raise ArchiveError(f"has {said}, which is not a regular file; a bundle has only these")
    if any(block[_PREFIX]) or any(rest) or not is_plain_name(name):
        raise ArchiveError(f"has {said}, no name that a bundle's files have")
    size_bytes = _number(block[_SIZE])
    if size_bytes is None:
        raise ArchiveError(f"has {said} without a size")
    return Member(name, size_bytes)


def is_plain_name(name: str) -> bool:
    """Whether a bundle's file may be called that: a short relative path of letters, digits and ``_.+-``."""
    parts = name.split("/")
    return len(name) < _NAME.stop and len(parts) <= _MOST_FOLDERS and all(map(_PART.fullmatch, parts))


def _number(field: bytes) -> int | None:
    """Return the octal number of a field; None of one that has none, such as a size in base 256."""
    found = _OCTAL.fullmatch(field)
    return None if found is None else int(found[1], 8)


class _Unpacked:
    """What an xz stream holds, never more of it in memory than is asked for."""

    def __init__(self, file: IO[bytes], most_bytes: int) -> None:
        self._file, self._left = file, most_bytes
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY_BYTES)

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end."""
        pieces = []
        while size and not self._xz.eof:
            packed = self._file.read(_PIECE_BYTES) if self._xz.needs_input else b""
            if self._xz.needs_input and not packed:
                raise ArchiveError("is cut off")
            try:
                piece = self._xz.decompress(packed, size)
            except lzma.LZMAError as error:
                raise ArchiveError(f"is not compressed as a bundle is, or damaged: {error}") from error
            size -= len(piece)
            self._left -= len(piece)
            if self._left < 0:
                raise ArchiveError("is too large unpacked, or for its compressed size")
            pieces.append(piece)
        if self._xz.eof and (self._xz.unused_data or self._file.read(1)):
            raise ArchiveError("goes on behind its end")
        return b"".join(pieces)

    def exactly(self, size: int) -> bytes:
        """Return so many bytes; raise ``ArchiveError`` where there are fewer."""
        found = self.read(size)
        if len(found) < size:
            raise ArchiveError("is cut off")
        return found
