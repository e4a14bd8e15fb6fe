"""What an ONNX file is before it is parsed: its bytes, what may be asked of its network, how that is imported again.

The ONNX package is imported when a file is parsed: networks that are kept on disk are loaded without it.
"""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypedDict

from dsascape.workloads.graph import Graph, WorkloadError
from dsascape.workloads.index import is_count

if TYPE_CHECKING:
    from dsascape.workloads.edits import Edit

LARGEST_FILE_BYTES = 2**31 - 1
"""The most that protobuf reads."""
_COPIES = 2
"""Of a file's bytes that an import holds: as read, and parsed."""


Dims = tuple[tuple[str, int], ...]
"""Inputs of a network, each with one of its dimensions."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user may change about a network while it is read."""

    batch: int | None = None
    sequence: int | None = None
    simplify: bool = False
    dims: tuple[tuple[str, int], ...] = ()
    """Sizes of dimensions that the file leaves open, by their names."""
    image: int | None = None
    """Pixels along each side of square images."""
    batch_dims: Dims | None = None
    """The inputs that have the batch, each with its dimension; none: it has no batch; None: to be found out."""

    def __post_init__(self) -> None:
        given = [("batch", self.batch), ("sequence", self.sequence), ("image", self.image)]
        needs = [(option, size, 1) for option, size in given] + [(f"dim {name}", n, 0) for name, n in self.dims]
        for option, size, least in needs:
            if size is not None and (not is_count(size) or size < least):
                raise WorkloadError(f"{option} has {size!r}; needs at least {least}")


@dataclass(frozen=True, slots=True)
class Reimport:
    """Rebuilds the network from its file at another batch size; pickles as the bytes of the stripped file."""

    packed: bytes
    """The file without the values of its large weights, compressed."""
    where: str
    name: str
    options: ImportOptions
    rounds: tuple[tuple["Edit", ...], ...] = ()
    """What has been edited since, one round after the other."""

    def __call__(self, batch: int) -> Graph:
        content = self.content()
        with naming(self.where):
            options = replace(self.options, batch=batch)
            return read_network(content, self.where, self.name, options, self.rounds, stripped=True)

    def content(self) -> bytes:
        """Return the stripped file; raise ``WorkloadError`` if what was kept of it is damaged."""
        try:
            return zlib.decompressobj().decompress(self.packed, LARGEST_FILE_BYTES)
        except zlib.error as error:
            raise WorkloadError(f"{self.where}: what was kept of it is damaged ({error})") from error


class Sizes(TypedDict, total=False):
    """What may be asked of a network while it is read; what is left out stays as the file has it."""

    batch: int | None
    sequence: int | None
    """Length of sequences of tokens."""
    simplify: bool
    """Whether what does nothing is dropped (see ``workloads/simplify.py``)."""
    dims: Mapping[str, int] | None
    """Sizes of dimensions that the file leaves open, by their names."""
    image: int | None
    """Pixels along each side of square images."""
    batch_dims: Mapping[str, int] | None
    """The dimension of each input that is the batch; empty: the network has none; None: found from how it flows."""


def options_of(where: str, sizes: Sizes) -> ImportOptions:
    """Return the options for the network that messages call ``where``; raise ``WorkloadError`` for a bad size."""
    dims, batch_dims = sizes.get("dims"), sizes.get("batch_dims")
    try:
        return ImportOptions(
            batch=sizes.get("batch"),
            sequence=sizes.get("sequence"),
            simplify=sizes.get("simplify", False),
            dims=tuple(sorted((dims or {}).items())),
            image=sizes.get("image"),
            batch_dims=None if batch_dims is None else tuple(batch_dims.items()),
        )
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}") from None


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Say which network it is that needs more memory than there is, or holds text that is none."""
    try:
        yield
    except MemoryError:
        raise WorkloadError(f"{where}: needs more memory to import than there is") from None
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{where}: is malformed: a name is not UTF-8 ({error.reason})") from None


def read_bytes(path: Path) -> bytes:
    """Return the content of the file ``path``; raise ``WorkloadError`` if it cannot be had."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise WorkloadError(f"{path}: is not a file")
        if size > LARGEST_FILE_BYTES:
            raise WorkloadError(f"{path}: has {size} bytes; an ONNX file holds at most {LARGEST_FILE_BYTES}")
        free = _free_bytes()
        if free is not None and _COPIES * size > free:
            raise WorkloadError(
                f"{path}: has {size} bytes; needs more memory to import than there is: about {_COPIES * size} bytes,"
                f" and {free} are free; weights kept outside the file need none"
            )
        return path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from error


def _free_bytes() -> int | None:
    """Return the memory that the system can still give, None where it does not say."""
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
