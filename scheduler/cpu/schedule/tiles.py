"""How one layer is computed on the cores of a CPU: the tiled loops that are simulated, and that generated code has."""

from dataclasses import dataclass

from dsascape.scheduler.kernels.lanes import dividing
from dsascape.wording import count
from dsascape.workloads.loopnest import Extents


@dataclass(frozen=True, slots=True)
class UpstreamTiles:
    """How what an anchor reads is computed in front of it, for one tile at a time, where it has an anchor of its own.

    Its dimensions are numbered as stored. What follows that anchor is computed per register tile, too.
    """

    order: tuple[int, ...]
    """The dimensions, outermost loop over register tiles first."""
    register: Extents
    """Elements of each dimension that are held in registers."""
    vector_dim: int
    """The dimension along which register tiles are vectors."""

    def __post_init__(self) -> None:
        dims = len(self.register)
        if sorted(self.order) != list(range(dims)) or not 0 <= self.vector_dim < dims:
            raise ValueError(
                f"register tile {self.register} has order {self.order}, vectors along {self.vector_dim}"
            )


@dataclass(frozen=True, slots=True)
class Span:
    """Elements of one dimension of a tensor that belong to a tile of the sink; they may reach beyond the tensor."""

    first: int
    """Where those of the first tile begin."""
    extent: int
    steps: tuple[tuple[int, int], ...] = ()
    """Dimensions of the sink with several tiles, or ``DEPTH`` for its steps, and how much further those of the next
    tile or step begin."""

    def rounded(self, register: int) -> "Span":
        """Return it with whole register tiles."""
        return Span(self.first, -(-self.extent // register) * register, self.steps)


Spans = tuple[Span, ...]
"""By dimension of a tensor."""


@dataclass(frozen=True, slots=True)
class LoopTiles:
    """The loops around a layer's sink, the last output of its fused operators; its dimensions are numbered as stored.

    From outside: loops over tiles, the first ``parallel`` of them fused and split over threads in equal contiguous
    chunks; inside one tile the loop over steps of the anchor's depth; inside that the loops over register tiles; inside
    these the depth loop of one step, and in it the register tile, unrolled and vectorised. What the layer computes
    before its anchor (padding, a producer) is computed per tile, what follows (bias, activation) per register tile.
    A layer without an anchor (`scheduler.cpu.structure.anchors`) has no depth, and its register tile is one vector.

    Anchors in front of the last are computed inside the parallel loop, and inside the innermost loop over tiles that
    chooses which part of them is needed: loops further in go on with what there is.

    Register tiles, and with them tiles, may stick out of the sink: what is computed there is dropped.
    """

    tile: Extents
    """Elements of each dimension of the sink that are computed at once; the last tiles may be smaller."""
    order: tuple[int, ...]
    """The dimensions, outermost loop over tiles first."""
    parallel: int
    """How many of the loops over tiles, from the outermost, are fused into the one that is split over threads."""
    register: Extents
    """Elements of each dimension that are held in registers: accumulators of the anchor."""
    vector_dim: int
    """The dimension along which register tiles are vectors; -1 where nothing is vectorised."""
    depth_step: int | None
    """Iterations of the anchor's depth loop (`Layer.depth_loop`) before the next register tile; None: all of them."""
    upstream: tuple[UpstreamTiles, ...] = ()
    """Tiles of the anchors before the layer's last one (`scheduler.cpu.structure.chains`), the nearest first."""
    streamed: bool = False
    """Whether a softmax in front of the last anchor is computed for one step of the depth at a time, with running
    statistics (`scheduler.kernels.streaming`), and what is in front of it, too."""

    def __post_init__(self) -> None:
        dims = len(self.tile)
        if sorted(self.order) != list(range(dims)) or len(self.register) != dims:
            raise ValueError(
                f"tiles of {count(dims, 'dimension')} have order {self.order}, register tile {self.register}"
            )
        if not 0 <= self.parallel <= dims or not -1 <= self.vector_dim < dims:
            raise ValueError(
                f"{count(self.parallel, 'parallel loop')}, vectors along {self.vector_dim}, of"
                f" {count(dims, 'dimension')}"
            )
        if self.streamed and (self.depth_step is None or self.depth_step == 1):
            raise ValueError("running statistics need steps of the depth, of two iterations at least")
        if any(small > large for small, large in zip(self.register, self.tile, strict=True)):
            raise ValueError(f"register tile {self.register} is larger than tile {self.tile}")

    @property
    def whole_registers(self) -> Extents:
        """The elements of each dimension of a tile that its register tiles cover."""
        return tuple([-(-size // part) * part for size, part in zip(self.tile, self.register, strict=True)])

    def lanes(self, most: int) -> int:
        """Return the lanes of a register tile's vectors, on a machine that has ``most``: as many as divide it."""
        return 1 if self.vector_dim < 0 else dividing(self.register[self.vector_dim], most)

    def padded(self, shape: Extents) -> Extents:
        """Return the elements of each dimension that whole register tiles have."""
        return tuple([-(-size // part) * part for size, part in zip(shape, self.register, strict=True)])

    def within(self, shape: Extents) -> Extents:
        """Return the part of a tile that lies in a sink of ``shape``."""
        return tuple(map(min, self.tile, shape))

