"""An ONNX file before it is parsed: its bytes, the import options, and how its network is imported again.

The ONNX package is imported only when a file is parsed: networks in the disk cache are loaded without it.
"""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypedDict

from dsascape.wording import did_you_mean
from dsascape.workloads.graph import Graph, WorkloadError
from dsascape.workloads.index import is_count

if TYPE_CHECKING:
    from dsascape.workloads.edits import Edit

LARGEST_FILE_BYTES = 2**31 - 1
"""Bytes of the largest file that protobuf reads."""
_COPIES = 2
"""Copies of a file's bytes that an import holds in memory: as read, and parsed."""


Dims = tuple[tuple[str, int], ...]
"""Inputs of a network, each with one of its dimensions."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Sizes and switches that the user may set when a network is imported."""

    batch: int | None = None
    sequence: int | None = None
    simplify: bool = False
    dims: tuple[tuple[str, int], ...] = ()
    """Sizes of dimensions that the file leaves open, by their names."""
    image: int | None = None
    """Pixels along each side of square images."""
    batch_dims: Dims | None = None
    """Inputs that have the batch, each with its dimension; empty: no batch; None: found by analysis."""

    def __post_init__(self) -> None:
        given = [("batch", self.batch), ("sequence", self.sequence), ("image", self.image)]
        needs = [(option, size, 1) for option, size in given] + [(f"dim {name}", n, 0) for name, n in self.dims]
        for option, size, least in needs:
            if size is not None and (not is_count(size) or size < least):
                raise WorkloadError(f"{option} has {size!r}; needs a whole number from {least}")


@dataclass(frozen=True, slots=True)
class Reimport:
    """Rebuilds the network from its file at another batch size; pickles as the bytes of the stripped file."""

    packed: bytes
    """The file without the values of its large weights, compressed."""
    where: str
    name: str
    options: ImportOptions
    rounds: tuple[tuple["Edit", ...], ...] = ()
    """Edits applied after the import, round by round."""

    def __call__(self, batch: int) -> Graph:
        content = self.content()
        with naming(self.where):
            options = replace(self.options, batch=batch)
            return read_network(content, self.where, self.name, options, self.rounds, stripped=True)

    def content(self) -> bytes:
        """Return the stripped file; raise ``WorkloadError`` if the stored copy is damaged."""
        try:
            return zlib.decompressobj().decompress(self.packed, LARGEST_FILE_BYTES)
        except zlib.error as error:
            raise WorkloadError(f"{self.where}: its stored copy is damaged ({error})") from error


class Sizes(TypedDict, total=False):
    """Import options as keyword arguments; those left out stay as the file has them."""

    batch: int | None
    sequence: int | None
    """Length of sequences of tokens."""
    simplify: bool
    """Whether operators without effect are dropped (see ``workloads/simplify.py``)."""
    dims: Mapping[str, int] | None
    """Sizes of dimensions that the file leaves open, by their names."""
    image: int | None
    """Pixels along each side of square images."""
    batch_dims: Mapping[str, int] | None
    """Batch dimension of each input that has one; empty: no batch; None: found by analysis."""


def options_of(where: str, sizes: Sizes) -> ImportOptions:
    """Return the options for the network that messages call ``where``; raise ``WorkloadError`` for a bad size."""
    if unknown := [name for name in sizes if name not in Sizes.__annotations__]:
        raise TypeError(f"there is no argument {unknown[0]!r}; needs one of {', '.join(Sizes.__annotations__)}")
    dims, batch_dims = sizes.get("dims"), sizes.get("batch_dims")
    for option, given in (("dims", dims), ("batch_dims", batch_dims)):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"{option}: has a {type(given).__name__}; needs a mapping of names to whole numbers")
    if not isinstance(simplify := sizes.get("simplify", False), bool):
        raise TypeError(f"simplify: has {simplify!r}; needs True or False")
    try:
        return ImportOptions(
            batch=sizes.get("batch"),
            sequence=sizes.get("sequence"),
            simplify=simplify,
            dims=tuple(sorted((dims or {}).items())),
            image=sizes.get("image"),
            batch_dims=None if batch_dims is None else tuple(batch_dims.items()),
        )
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}") from None


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Turn lack of memory, and names that are not UTF-8, into a ``WorkloadError`` that names the file ``where``."""
    try:
        yield
    except MemoryError:
        raise WorkloadError(f"{where}: needs more memory to import than there is") from None
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{where}: is malformed: a name is not UTF-8 ({error.reason})") from None


def read_bytes(path: Path) -> bytes:
    """Return the content of the file ``path``; raise ``WorkloadError`` if it cannot be read."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise WorkloadError(f"{path}: is not a file")
        if size > LARGEST_FILE_BYTES:
            raise WorkloadError(f"{path}: has {size} B; an ONNX file holds at most {LARGEST_FILE_BYTES}")
        free = _free_bytes()
        if free is not None and _COPIES * size > free:
            raise WorkloadError(
                f"{path}: has {size} B; needs more memory to import than there is: about {_COPIES * size} B,"
                f" and {free} are free; weights kept outside the file need none"
            )
        return path.read_bytes()
    except OSError as error:
        beside = [each.name for each in path.parent.glob("*.onnx")] if isinstance(error, FileNotFoundError) else []
        raise WorkloadError(f"{path}: {error.strerror or error}{did_you_mean(path.name, beside)}") from error


def _free_bytes() -> int | None:
    """Return the memory available on the system, in bytes; None where that is unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    amounts = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return next((int(amount) * 1024 for amount in amounts if amount.isdigit()), None)


def read_network(
    content: bytes, where: str, name: str, options: ImportOptions, rounds: tuple[tuple["Edit", ...], ...] = (), *,
    stripped: bool = False,
) -> Graph:  # fmt: skip
    """Return the network called ``name`` in an ONNX file of ``content``, which messages call ``where``.

    ``stripped``: see `parse_onnx`.
    """
    file = resolve_name("dsascape.workloads.onnx_file:parse_onnx")(content, where, stripped=stripped)
    graph: Graph = resolve_name("dsascape.workloads.onnx_import:graph_from_file")(file, name, options, rounds)
    return graph
