"""Disk cache of imported networks, keyed by the content of their file, so that other processes need not import them.

An entry is a line that names its format, a checksum over the content and over the entry's identity, and the network as
compressed plain JSON. An entry that is damaged, of another format or of another network is replaced; nothing in it is
evaluated, and its content is checked like any other graph. The folder is ``$DSASCAPE_CACHE`` if that is set
(empty: keep nothing), else ``dsascape`` in the user's cache folder; a user without a home keeps nothing.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from dsascape.workloads.graph import Graph
from dsascape.workloads.graph_json import from_plain, to_plain
from dsascape.workloads.reimport import ImportOptions, Reimport

_VARIABLE = "DSASCAPE_CACHE"
_LARGEST_BYTES = 256 * 2**20
"""Bytes of a decompressed entry at most; more is never written."""
_HEADER = b"dsascape imported network, form 3\n"
_OWN = "dsascape::"
"""Beginning of the kinds of operators that this package has; those of others may change without its code."""
_LENGTH_BYTES = 8
_BODY = len(_HEADER) + hashlib.sha256().digest_size


def cache_folder() -> Path | None:
    """Return the cache folder; None if caching is off, or no folder can be determined."""
    chosen = os.environ.get(_VARIABLE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path("~/.cache").expanduser()) / "dsascape"
    except RuntimeError:
        return None


def cached(content: bytes, name: str, options: ImportOptions, make: Callable[[], Graph]) -> Graph:
    """Return the graph that ``make`` imports from a file of ``content``, from the cache if it is there."""
    folder = cache_folder()
    if folder is None:
        return make()
    identity = repr((name, options, source_digest(), hashlib.sha256(content).hexdigest())).encode()
    path = folder / f"{hashlib.sha256(identity).hexdigest()}.graph"
    stored = _read(path, identity)
    if stored is not None:
        return stored
    graph = make()
    is_ours = all("::" not in op.kind or op.kind.startswith(_OWN) for op in graph.ops)
    if isinstance(graph.rebuild, Reimport) and is_ours:
        _write(path, identity, graph, graph.rebuild)
    return graph


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Return a digest of this package's code and of the ONNX version: another importer builds other graphs."""
    digest = hashlib.sha256(version("onnx").encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _write(path: Path, identity: bytes, graph: Graph, rebuild: Reimport) -> None:
    """Write an entry atomically; nothing is written where the folder is read-only."""
    options = rebuild.options
    sizes = options.batch, options.sequence, options.simplify, options.dims, options.image, options.batch_dims
    source = [rebuild.where, rebuild.name, *sizes]
    text = json.dumps([to_plain(graph), source], separators=(",", ":"), check_circular=False)
    packed = zlib.compress(text.encode(), 1)
    body = len(packed).to_bytes(_LENGTH_BYTES) + packed + rebuild.packed
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            part = Path(file.name)
            try:
                file.write(_HEADER + _check_sum(identity, body) + body)
                file.flush()
                part.replace(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise


def _check_sum(identity: bytes, body: bytes) -> bytes:
    return hashlib.sha256(len(identity).to_bytes(_LENGTH_BYTES) + identity + body).digest()


def _read(path: Path, identity: bytes) -> Graph | None:
    """Return the graph in an entry, None if there is none or it is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, body = content[len(_HEADER) : _BODY], content[_BODY:]
    if not content.startswith(_HEADER) or _check_sum(identity, body) != digest:
        return None
    length = int.from_bytes(body[:_LENGTH_BYTES])
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(body[_LENGTH_BYTES : _LENGTH_BYTES + length], _LARGEST_BYTES)
        plain, (where, name, batch, sequence, simplify, dims, image, batch_dims) = json.loads(text)
        places = None if batch_dims is None else tuple((input_name, dim) for input_name, dim in batch_dims)
        options = ImportOptions(batch, sequence, simplify, tuple((dim, size) for dim, size in dims), image, places)
        return from_plain(plain, Reimport(body[_LENGTH_BYTES + length :], where, name, options))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, zlib.error):
        return None
