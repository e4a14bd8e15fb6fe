"""Bundles as files: one compressed archive, of which nothing but what its manifest lists is ever unpacked."""

import hashlib
import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TypeVar

import pydantic

from tuner.bundle.contents import BUNDLE, DATA, MANIFEST, START, BundleError, Manifest

_Record = TypeVar("_Record")
_MOST_BYTES = 8 * 2**30
"""Of a bundle's files together."""
_MOST_MANIFEST_BYTES = 64 * 2**20
_EXECUTABLE, _PLAIN = 0o755, 0o644


def packed(path: Path, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Write a bundle; equal contents give equal bytes."""
    with lzma.open(path, "wb", preset=1) as compressed, tarfile.open(fileobj=compressed, mode="w|") as archive:
        for name, content in {MANIFEST: manifest.to_json().encode(), **files}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = _EXECUTABLE if name == START else _PLAIN
            archive.addfile(entry, io.BytesIO(content))


def unpacked(path: Path, folder: Path) -> Manifest:
    """Unpack the bundle ``path`` into ``folder``; nothing of it is run.

    Raises ``BundleError`` for a file that is no bundle, is damaged, or has what its manifest does not list.
    """
    try:
        with tarfile.open(path, mode="r|xz") as archive:
            return _checked(archive, folder)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise BundleError(f"{path} is no bundle, or damaged: {error}") from error
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror or error}") from error


def _checked(archive: tarfile.TarFile, folder: Path) -> Manifest:
    manifest: Manifest | None = None
    seen: set[str] = set()
    left = _MOST_BYTES
    for entry in archive:
        name = entry.name
        if not entry.isfile() or entry.size > left:
            raise BundleError(f"{name[:80]!r} is no plain file, or too large; a bundle has none such")
        left -= entry.size
        if manifest is None:
            if name != MANIFEST or entry.size > _MOST_MANIFEST_BYTES:
                raise BundleError(f"begins with {name[:80]!r}; a bundle begins with {MANIFEST}")
            content = _content(archive, entry)
            manifest = _manifest(content)
        else:
            if name not in manifest.files or name in seen or not _stays_inside(name):
                raise BundleError(f"has {name[:80]!r}, which its manifest does not list, or not there")
            content = _content(archive, entry)
            if hashlib.sha256(content).hexdigest() != manifest.files[name]:
                raise BundleError(f"{name} is damaged: its checksum is not that of the manifest")
        seen.add(name)
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    if manifest is None:
        raise BundleError(f"is empty; a bundle begins with {MANIFEST}")
    lacking = sorted(({*manifest.files, manifest.code, DATA, START}) - seen)
    if lacking:
        raise BundleError(f"lacks {', '.join(lacking[:3])}")
    return manifest


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    content = b"" if file is None else file.read()
    if len(content) != entry.size:
        raise BundleError(f"{entry.name[:80]!r} is cut off")
    return content


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def _manifest(content: bytes) -> Manifest:
    """Return a foreign manifest after checking every field of it."""
    found = validated(Manifest, content, MANIFEST)
    if found.format != BUNDLE:
        raise BundleError(f"{MANIFEST} has the format {found.format[:40]!r}; needs {BUNDLE!r}")
    return found


def validated(kind: type[_Record], content: bytes, what: str) -> _Record:
    """Return the record ``kind`` that foreign JSON holds; raise ``BundleError`` for anything else."""
    try:
        return pydantic.TypeAdapter(kind).validate_json(content)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "all of it"
        raise BundleError(f"{what} is not as a bundle has it: {place[:80]}: {first['msg'][:200]}") from error
