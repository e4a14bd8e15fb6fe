"""Reader of untrusted archives: an xz stream of plain ustar headers and files, within bounds.

The library's reader of tar supports every dialect (pax, GNU, sparse files), and each has made it hang, fill memory or a
disk, or fail with an error of its own. This one reads what `tuner.bundle.archive` writes: POSIX.1-1988 headers of
512 bytes, one per regular file, the name in its first 100 bytes.
"""

import lzma
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

_BLOCK = 512
_PIECE_BYTES = 2**20
_MOST_MEMORY_BYTES = 256 * 2**20
"""Most memory for unpacking xz, in bytes; its strongest usual setting, -9, takes 65 MiB."""
_MOST_END_BYTES = 2**16
"""Most zero bytes after the last file; tar pads its last record."""
_MOST_FOLDERS = 8
"""Deepest nesting of a file's folders."""
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
"""Pattern of one part of a file's path."""
_OCTAL = re.compile(rb"([0-7]{1,11})[ \0]+")


class ArchiveError(ValueError):
    """An archive that is refused; the message says what is wrong, without the file's name."""


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file of an archive, before its content is read."""

    name: str
    """Relative ASCII path without ``.``, ``..`` or hidden parts."""
    size_bytes: int


class PlainTar:
    """A compressed archive, read once from start to end."""

    def __init__(self, file: IO[bytes], most_bytes: int) -> None:
        """Read ``file``, which may unpack to at most ``most_bytes``, headers and padding included."""
        self._stream = _Unpacked(file, most_bytes)
        self._behind = 0
        """Padding after the file read last, in bytes."""

    def next(self) -> Member | None:
        """Return the next file, or None at the end; read its `content` before calling `next` again.

        Raises ``ArchiveError`` for anything but a regular file, and for a malformed end.
        """
        if any(self._stream.exactly(self._behind)):
            raise ArchiveError("has data between its files")
        block = self._stream.exactly(_BLOCK)
        if any(block):
            member = _member(block)
            self._behind = -member.size_bytes % _BLOCK
            return member
        rest = self._stream.read(_MOST_END_BYTES)
        if len(rest) < _BLOCK or any(rest) or self._stream.read(1):
            raise ArchiveError("does not end where its files end")
        return None

    def content(self, member: Member, take: Callable[[bytes], object]) -> None:
        """Pass the content of ``member``, the file returned last, to ``take`` in pieces."""
        left = member.size_bytes
        while left:
            piece = self._stream.exactly(min(left, _PIECE_BYTES))
            left -= len(piece)
            take(piece)


def _member(block: bytes) -> Member:
    """Return the file described by a header of 512 bytes."""
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
        raise ArchiveError(f"has {said}, which is not a valid name of a bundle's file")
    size_bytes = _number(block[_SIZE])
    if size_bytes is None:
        raise ArchiveError(f"has {said} without a size")
    return Member(name, size_bytes)


def is_plain_name(name: str) -> bool:
    """Return whether a bundle's file may have this name: a short relative path of letters, digits and ``_.+-``."""
    parts = name.split("/")
    return len(name) < _NAME.stop and len(parts) <= _MOST_FOLDERS and all(map(_PART.fullmatch, parts))


def _number(field: bytes) -> int | None:
    """Return the octal number of a header field; None if it has none, such as a size in base 256."""
    octal = _OCTAL.fullmatch(field)
    return None if octal is None else int(octal[1], 8)


class _Unpacked:
    """Unpacked contents of an xz stream, with no more of them in memory than requested."""

    def __init__(self, file: IO[bytes], most_bytes: int) -> None:
        self._file, self._left = file, most_bytes
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY_BYTES)

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end."""
        pieces = []
        while size and not self._xz.eof:
            packed = self._file.read(_PIECE_BYTES) if self._xz.needs_input else b""
            if self._xz.needs_input and not packed:
                raise ArchiveError("is cut off")
            try:
                piece = self._xz.decompress(packed, size)
            except lzma.LZMAError as error:
                raise ArchiveError(f"is not xz-compressed, or damaged: {error}") from error
            size -= len(piece)
            self._left -= len(piece)
            if self._left < 0:
                raise ArchiveError("is too large unpacked, or for its compressed size")
            pieces.append(piece)
        if self._xz.eof and (self._xz.unused_data or self._file.read(1)):
            raise ArchiveError("has data after its end")
        return b"".join(pieces)

    def exactly(self, size: int) -> bytes:
        """Return exactly ``size`` bytes; raise ``ArchiveError`` where there are fewer."""
        content = self.read(size)
        if len(content) < size:
            raise ArchiveError("is cut off")
        return content
