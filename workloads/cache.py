"""Imported networks kept on disk by the content of their file, so that many processes need not import them.

An entry is plain JSON, compressed, behind a check sum: a damaged or foreign one is read over, never
evaluated. The folder is ``$DSASCAPE_CACHE`` if that is set (empty: keep nothing), else ``dsascape`` in the
user's cache folder.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import onnx

from workloads.graph import Graph
from workloads.graph_json import from_plain, to_plain
from workloads.onnx_import import ImportOptions, Reimport

_VARIABLE = "DSASCAPE_CACHE"
_LARGEST_BYTES = 256 * 2**20
"""Of an entry when decompressed; more is not written by us."""
_DIGEST_BYTES = 32
_LENGTH_BYTES = 8


def cache_folder() -> Path | None:
    """Return where imported networks are kept, None if they are not to be."""
    chosen = os.environ.get(_VARIABLE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "dsascape"


def cached(content: bytes, name: str, options: ImportOptions, make: Callable[[], Graph]) -> Graph:
    """Return what ``make`` imports from a file of ``content``, from the cache if that was done before."""
    folder = cache_folder()
    if folder is None:
        return make()
    identity = repr((name, options, source_digest(), hashlib.sha256(content).hexdigest()))
    path = folder / f"{hashlib.sha256(identity.encode()).hexdigest()}.graph"
    known = _read(path)
    if known is not None:
        return known
    graph = make()
    if isinstance(graph.rebuild, Reimport) and not any("::" in op.kind for op in graph.ops):
        _write(path, graph, graph.rebuild)
    return graph


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Return a digest of this package's code and of the ONNX version: another importer makes other graphs."""
    digest = hashlib.sha256(onnx.__version__.encode())
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *here.glob("operators/*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _write(path: Path, graph: Graph, rebuild: Reimport) -> None:
    """Write an entry, all or nothing; a folder that cannot be written to is left alone."""
    source = [
        rebuild.where,
        rebuild.name,
        rebuild.options.batch,
        rebuild.options.sequence,
        rebuild.options.simplify,
    ]
    text = json.dumps([to_plain(graph), source], separators=(",", ":"), check_circular=False)
    packed = zlib.compress(text.encode(), 1)
    body = len(packed).to_bytes(_LENGTH_BYTES) + packed + rebuild.packed
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            file.write(hashlib.sha256(body).digest() + body)
        Path(file.name).replace(path)


def _read(path: Path) -> Graph | None:
    """Return the graph in an entry, None if there is none or it is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        return None
    try:
        length = int.from_bytes(body[:_LENGTH_BYTES])
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(body[_LENGTH_BYTES : _LENGTH_BYTES + length], _LARGEST_BYTES)
        plain, (where, name, batch, sequence, simplify) = json.loads(text)
        packed = body[_LENGTH_BYTES + length :]
        return from_plain(plain, Reimport(packed, where, name, ImportOptions(batch, sequence, simplify)))
    except (ValueError, LookupError, TypeError, zlib.error):
        return None
