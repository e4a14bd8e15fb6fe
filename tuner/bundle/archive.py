"""Bundles as files: a compressed archive, of which only the files listed in its manifest are unpacked."""

import hashlib
import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path

from dsascape.hw_models.text.whole_file import write_with
from dsascape.tuner.bundle.contents import BUNDLE, DATA, MANIFEST, START, BundledArray, BundleError, Manifest
from dsascape.tuner.bundle.foreign_json import validated
from dsascape.tuner.bundle.plain_tar import ArchiveError, Member, PlainTar, is_plain_name
from dsascape.tuner.measure.soundness import COUNT, Ranges, unsound

_MOST_BYTES = 8 * 2**30
"""Largest size of a bundle's files together, in bytes."""
_MOST_TIMES, _FREE_BYTES = 64, 256 * 2**20
"""Bounds on unpacked size: a multiple of the compressed size, and bytes in addition to it. Weights hardly compress."""
_MOST_MANIFEST_BYTES = 32 * 2**20
_MOST_FILES = 256
_RANGES: Ranges = {
    (BundledArray, "buffer"): (-1, 2**31), (BundledArray, "largest"): (0, float("inf")), (Manifest, "batch"): COUNT,
}  # fmt: skip
_EXECUTABLE, _PLAIN = 0o755, 0o644


def packed(path: Path, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Write a bundle as plain ustar, atomically; equal contents give equal bytes."""

    def write(place: Path) -> None:
        with lzma.open(place, "wb", preset=1) as compressed:
            _pack(compressed, manifest, files)

    write_with(path, write)


def _pack(compressed: lzma.LZMAFile, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    with tarfile.open(fileobj=compressed, mode="w|", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in {MANIFEST: manifest.to_json().encode(), **files}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = _EXECUTABLE if name == START else _PLAIN
            archive.addfile(entry, io.BytesIO(content))


def unpacked(path: Path, folder: Path) -> Manifest:
    """Unpack the bundle ``path`` into ``folder``, which must not have its files yet; runs nothing.

    The archive is read to its end before anything is written. The manifest is written as it was parsed. Raises
    ``BundleError`` for a file that is not a bundle, is damaged, or has files that its manifest does not list.
    """
    if not path.is_file():
        raise BundleError(f"{path} cannot be read: there is no such file")
    try:
        _read(path, None)
        return _read(path, folder)
    except BundleError as error:
        raise BundleError(f"{path}: {error}") from error
    except ArchiveError as error:
        raise BundleError(f"{path} is not a bundle, or is damaged: it {error}") from error
    except OSError as error:
        raise BundleError(f"{path} cannot be unpacked: {error.strerror or error}") from error


def _read(path: Path, folder: Path | None) -> Manifest:
    """Check the files of a bundle against its manifest and return it; write them to ``folder``, if given."""
    with path.open("rb") as file:
        most_bytes = min(_MOST_BYTES, _FREE_BYTES + _MOST_TIMES * path.stat().st_size)
        archive = PlainTar(file, most_bytes)
        manifest = _manifest(archive)
        if folder is not None:
            (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
        left = dict(manifest.files)
        while (entry := archive.next()) is not None:
            if entry.name not in left:
                raise ArchiveError(f"has {entry.name!r}, which its manifest does not list, or has it twice")
            if _checksum(archive, entry, folder) != left.pop(entry.name):
                raise ArchiveError(f"has {entry.name!r} damaged: its checksum is not that of the manifest")
    if left:
        raise ArchiveError(f"lacks {', '.join(sorted(left)[:3])}")
    return manifest


def _checksum(archive: PlainTar, entry: Member, folder: Path | None) -> str:
    """Return the SHA-256 of a file's content, and write it below ``folder``, if given."""
    digest = hashlib.sha256()
    if folder is None:
        archive.content(entry, digest.update)
        return digest.hexdigest()
    place = folder / entry.name
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as file:

        def take(piece: bytes) -> None:
            digest.update(piece)
            file.write(piece)

        archive.content(entry, take)
    return digest.hexdigest()


def _manifest(archive: PlainTar) -> Manifest:
    """Read the manifest at the start of an archive and check all its fields."""
    first = archive.next()
    if first is None or first.name != MANIFEST or first.size_bytes > _MOST_MANIFEST_BYTES:
        begins = "is empty" if first is None else f"begins with {first.name!r} of {first.size_bytes} B"
        raise ArchiveError(f"{begins}; a bundle begins with {MANIFEST}, at most {_MOST_MANIFEST_BYTES} bytes")
    pieces: list[bytes] = []
    archive.content(first, pieces.append)
    manifest = validated(Manifest, b"".join(pieces), f"{MANIFEST} is not a valid manifest")
    if manifest.format != BUNDLE:
        raise ArchiveError(f"has a {MANIFEST} of the format {manifest.format[:40]!r}; needs {BUNDLE!r}")
    wrong = unsound(manifest, _RANGES, opaque="origin")
    if wrong:
        raise ArchiveError(f"has a {MANIFEST} in which {wrong}")
    _check_names(manifest)
    return manifest


def _check_names(manifest: Manifest) -> None:
    """Raise ``ArchiveError`` unless the listed names are valid and distinct on any file system."""
    names = [MANIFEST, *manifest.files]
    wrong = next((name for name in names if not is_plain_name(name)), None)
    if wrong is not None:
        raise ArchiveError(f"has a {MANIFEST} that lists {wrong[:80]!r}, which is not a valid name of a bundle's file")
    folded = {name.casefold() for name in names}
    folders = {name[: place] for name in folded for place, each in enumerate(name) if each == "/"}
    if len(names) > _MOST_FILES or len(folded) < len(names) or folded & folders:
        raise ArchiveError(f"has a {MANIFEST} that lists too many files, or two under one name")
    lacking = sorted({manifest.code, DATA, START} - manifest.files.keys())
    if lacking:
        raise ArchiveError(f"lacks {', '.join(lacking)}")
