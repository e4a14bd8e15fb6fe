"""Algorithm 1 and equation (1): split dimension and number of instances of a sub-graph.

Interpretations where the paper's text is open: ``sizeof(LB)`` is the local buffers of all cores of a cluster, since an
instance is spread over all of them, less the window for weights. ``v`` runs over the divisors of the extent among 1, 2,
4, 8, 9, ..., so that instances are equal, as the text says. ``n_d`` counts the operators whose tensors match the
dimension and are divisible by ``f_d`` (line 9 as printed counts all). The "simple cost model to prevent excessive
recomputations" is a bound on repeated operations (``most_recompute``). An instance's footprint is ``peak / v`` for the
tensors that the dimension reaches; others, which every instance needs whole, count in full. ``peak`` is the peak of
live bytes, with the sub-graph's inputs or (``counts_inputs=False``) without: section 3.1 speaks of the output and
intermediates, from which inputs follow; but inputs are in the local buffers too.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from dsascape.fusion.plan import Split
from dsascape.scheduler.graphturbo.local_capacity import LocalCapacity
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.parts import divisors
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Extents, LoopNest
from dsascape.workloads.memo import memoized_in_process
from dsascape.workloads.subgraph import PlacedNest, Subgraph, follow_back

_SMALL_FACTORS = (1, 2, 4, 8)
"""Splitting factors that Algorithm 1 tries first, before every larger integer."""
Match = tuple[int | None, bool]
"""(Dimension of a tensor that moves with the split one, or None if all instances need it whole; whether instances do
not overlap on it)."""


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """Entry of SplitInfo: ``factor`` instances along ``dim`` of the output, splitting ``ops`` operators."""

    ops: int
    factor: int
    dim: int
    depth: int
    """Position of the dimension from the outermost in memory."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sort key, GraphTurbo's equation (1): more operators split, then fewer instances, then the outer dimension."""
        return self.ops, -self.factor, -self.depth

    @property
    def split(self) -> Split:
        """Split as recorded in a plan."""
        return Split(self.dim, self.factor)


class Divisible(Protocol):
    """Sub-graph properties for Algorithm 1. Instances are parts of the sink, the last operator's first output."""

    @property
    def sink(self) -> Tensor: ...

    @property
    def has_single_output(self) -> bool: ...

    @property
    def size(self) -> int:
        """Number of operators."""

    def alive_bytes(self, dim: int | None = None, factor: int = 1) -> int:
        """Return the peak of live bytes of one of ``factor`` instances along ``dim``; by default, of the whole."""

    def operators_split(self, dim: int, factor: int) -> int:
        """Return the number of operators whose outputs are cut ``factor`` times when the sink is cut along ``dim``."""

    def recompute_share(self, dim: int, factor: int) -> float:
        """Return the operations that the instances repeat, as a fraction of those of the whole."""


class Life(NamedTuple):
    """Live range of a stored activation in a sub-graph, as indices into ``ops``."""

    root: str
    size_bytes: int
    begin: int
    end: int


@dataclass(frozen=True)
class Splittable(Subgraph):
    """Sub-graph with the properties that Algorithm 1 needs, computed by walks over all operators.

    This is the definition of these properties, used directly for small sub-graphs.
    """

    analysis: Analysis = field(repr=False, compare=False)
    fused: frozenset[str] = frozenset()
    """Tensors that exist one tile at a time, inside a fused loop nest: they take no space."""
    counts_inputs: bool = True
    """Whether the footprint includes activations read from outside, or only output and intermediates."""

    @cached_property
    def produced(self) -> tuple[str, ...]:
        """Stored tensors that operators inside write, views included, without those that exist one tile at a time."""
        written = {self.graph.storage[name] for name in self.written} - self.fused
        return tuple(sorted(name for name in written if name in self.graph.producer))

    @cached_property
    def inner_bytes(self) -> int:
        """Bytes of the intermediates, stored tensors written and consumed inside: grouping keeps them on chip."""
        sink = self.graph.storage[self.sink.name]
        return sum(self.graph.tensors[name].size_bytes for name in self.produced if name != sink)

    @property
    def size(self) -> int:
        return len(self.ops)

    @cached_property
    def lives(self) -> list[Life]:
        """Live ranges of activations that take space; weights pass through another buffer."""
        graph = self.graph
        storage = graph.storage
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for step, position in enumerate(self.ops):
            op = graph.ops[position]
            for name in op.inputs:
                root = storage[name]
                if graph.tensors[root].role != "weight":
                    first.setdefault(root, 0)
                    last[root] = step
            for name in op.outputs:
                root = storage[name]
                first.setdefault(root, step)
                last[root] = max(last.get(root, step), step)
        last[storage[self.sink.name]] = len(self.ops) - 1
        return [
            Life(root, graph.tensors[root].size_bytes, begin, last[root])
            for root, begin in first.items()
            if root not in self.fused
        ]

    def is_from_outside(self, life: Life) -> bool:
        """Return whether an activation comes from outside the sub-graph; views of weights are made inside."""
        is_weight = self.graph.tensors[life.root].role == "weight"
        return not is_weight and self.graph.producer.get(life.root, -1) not in self.ops

    def peak_bytes(self, matched: Mapping[str, Match] | None = None, factor: int = 1) -> int:
        """Return the peak of live bytes while one of ``factor`` instances runs its operators in order.

        The output is included, inputs if ``counts_inputs``. Tensors that the split dimension does not reach
        (``matched``) stay whole.
        """
        change = [0] * (len(self.ops) + 1)
        for life in self.lives:
            if not self.counts_inputs and self.is_from_outside(life):
                continue
            root, size, begin, end = life
            reached = factor > 1 and matched is not None and matched.get(root, (None, False))[0] is not None
            held = instance_bytes(size, factor) if reached else size
            change[begin] += held
            change[end + 1] -= held
        most = alive = 0
        for step in change:
            alive += step
            most = max(most, alive)
        return most

    def matches(self, dim: int | None) -> Mapping[str, Match]:
        """Return per tensor which of its dimensions moves with ``dim`` of the output, and whether without overlap.

        Two instances overlap on a tensor when a window (a halo) reaches over the cut; None: no dimension moves, every
        instance needs the whole tensor.
        """
        return tensor_matches(self.analysis, self.ops, dim)

    def alive_bytes(self, dim: int | None = None, factor: int = 1) -> int:
        return self.peak_bytes(None if dim is None else self.matches(dim), factor)

    def operators_split(self, dim: int, factor: int) -> int:
        return _operators_split(self, self.matches(dim), factor)

    def recompute_share(self, dim: int, factor: int) -> float:
        return recompute_share(self, self.matches(dim), dim, factor)


def instance_bytes(size_bytes: int, factor: int) -> int:
    """Return the bytes that one of ``factor`` instances holds of a cut tensor."""
    return -(-size_bytes // factor)


def tensor_matches(analysis: Analysis, ops: tuple[int, ...], dim: int | None) -> Mapping[str, Match]:
    """Return `Splittable.matches` for the operators ``ops``."""
    return analysis.of(_matches, ops, dim)


def _matches(analysis: Analysis, ops: tuple[int, ...], dim: int | None) -> Mapping[str, Match]:
    subgraph = Subgraph(analysis.graph, ops)

    def operands(placed: PlacedNest, match: Match) -> list[tuple[str, Match]]:
        return analysis.of(_followed_at, placed.op, placed.number, match)

    sink, outputs = subgraph.sink, analysis.graph.ops[ops[-1]].outputs
    shapes = {name: analysis.graph.tensors[name].shape for name in outputs}
    wanted = {
        name: (dim if dim is not None and shape[dim : dim + 1] == sink.shape[dim : dim + 1] else None, True)
        for name, shape in shapes.items()
    }
    return follow_back(subgraph.nests_backwards(), wanted, operands, both_matches)


def _followed_at(analysis: Analysis, op: int, number: int, match: Match) -> list[tuple[str, Match]]:
    nests = analysis.graph.ops[op].nests
    followed = _followed(nests[number], match)
    if len(analysis.graph.ops[op].outputs) == 1:
        return followed
    return [(name, cut if _is_in_step(nests, name, cut[0]) else (None, False)) for name, cut in followed]


def _is_in_step(nests: Sequence[LoopNest], name: str, dim: int | None) -> bool:
    """Return whether all nests of an operator read ``dim`` of a tensor from the same offset, unlike halves of it."""
    if dim is None:
        return True
    begins = {read.indices[dim].offset for nest in nests for read in nest.reads if read.tensor == name}
    return len(begins) == 1


def both_matches(one: Match, other: Match) -> Match:
    """Return the match of a tensor that is read twice: cut along a dimension only if both reads are."""
    return one[0] if one[0] == other[0] else None, one[1] and other[1]


def _followed(nest: LoopNest, match: Match) -> list[tuple[str, Match]]:
    """Return for each read (tensor, match): the dimension that follows the written one, and whether cuts stay clean."""
    dim, clean = match
    result: list[tuple[str, Match]] = []
    for read in nest.reads:
        matched = None if dim is None else nest.matched_dim(read, dim)
        if dim is None or matched is None:
            result.append((read.tensor, (None, False)))  # every instance needs it whole
            continue
        index = read.indices[matched]
        written = nest.write.indices[dim]
        outermost = max(written.terms, key=lambda term: term[1])
        plain = index.divisor == 1 and index.window == 1
        leading = max(index.terms, key=lambda term: abs(term[1]))
        alone = all(not nest.loops[loop].reduction or nest.loops[loop].extent == 1 for loop, _ in index.terms)
        result.append((read.tensor, (matched, clean and plain and alone and leading[0] == outermost[0])))
    return result


def split_factors(extent: int) -> list[int]:
    """Return Algorithm 1's values of v for one dimension: divisors of ``extent`` among 1, 2, 4, 8, 9, 10, ..."""
    return [v for v in reversed(divisors(extent)) if v in _SMALL_FACTORS or v > max(_SMALL_FACTORS)]


_known_factors = memoized_in_process(1024)(split_factors)


def fitting_splits(sub: Divisible, room: LocalCapacity) -> list[SplitChoice]:
    """Return SplitInfo of a sub-graph for the capacity ``room`` (Algorithm 1), without a limit on recomputation."""
    output = sub.sink
    if room.holds(sub.alive_bytes()):  # l. 4-6 with v = 1
        return [SplitChoice(sub.size, 1, output.order[0] if output.order else 0, 0)]
    splits = []
    for depth, dim in enumerate(output.order):  # l. 2: from the outermost dimension inwards
        if output.shape[dim] == 1 or (depth > 0 and not sub.has_single_output):
            continue
        factors = _known_factors(output.shape[dim])
        if not room.holds(sub.alive_bytes(dim, factors[-1])):
            continue
        factor = _least_that_fits(sub, dim, factors, room)  # l. 4-6
        ops = sub.operators_split(dim, factor)  # l. 7-11
        if ops:
            splits.append(SplitChoice(ops, factor, dim, depth))
    return splits


def _least_that_fits(sub: Divisible, dim: int, factors: Sequence[int], room: LocalCapacity) -> int:
    """Return the first of ``factors`` that fits; the last one must fit. More instances never hold more each.

    The search is galloping, as the result is mostly small.
    """

    def fits(factor: int) -> bool:
        return room.holds(sub.alive_bytes(dim, factor))

    last = len(factors) - 1
    tried = 1
    while tried < last and not fits(factors[tried]):
        tried *= 2
    return factors[bisect_left(factors, True, tried // 2, min(tried, last), key=fits)]


def repeats_little(sub: Divisible, split: SplitChoice, most_recompute: float) -> bool:
    """Return whether the instances repeat at most ``most_recompute`` of the operations."""
    return split.factor == 1 or sub.recompute_share(split.dim, split.factor) <= most_recompute


def _operators_split(sub: Splittable, matched: Mapping[str, Match], factor: int) -> int:
    count = 0
    for position in sub.ops:
        for name in sub.graph.ops[position].outputs:
            dim, _ = matched.get(name, (None, False))
            if dim is not None and sub.graph.tensors[name].shape[dim] % factor == 0:
                count += 1
                break
    return count


def best_split(
    splits: Sequence[SplitChoice], allowed: Callable[[SplitChoice], bool] = lambda _: True
) -> SplitChoice | None:
    """Return the lexicographic maximum of equation (1) among the allowed splits; None if there is none.

    ``allowed`` is evaluated lazily, from the best split on.
    """
    return next((split for split in sorted(splits, key=lambda split: split.rank, reverse=True) if allowed(split)), None)


def recompute_share(sub: Splittable, matched: Mapping[str, Match], dim: int, factor: int) -> float:
    """Return the operations that ``factor`` instances repeat, as a fraction of those of the whole.

    Zero if every tensor is cut cleanly; otherwise counted for an inner instance through the access maps.
    """
    if is_clean(sub, matched):
        return 0.0
    return sub.analysis.of(_recomputed, sub.ops, dim, factor)


def is_clean(sub: Subgraph, matched: Mapping[str, Match]) -> bool:
    """Return whether instances do not overlap on anything computed inside."""
    written = (placed.target for placed in sub.nests_backwards())
    return all(matched[name][1] for name in written if name in matched)


def instance_tile(shape: Extents, dim: int, factor: int) -> Extents:
    """Return the extents of one of ``factor`` instances along ``dim``."""
    return tuple(-(-size // factor) if d == dim else size for d, size in enumerate(shape))


def _recomputed(analysis: Analysis, ops: tuple[int, ...], dim: int, factor: int) -> float:
    sink = Subgraph(analysis.graph, ops).sink
    work = instance_work(analysis, ops, instance_tile(sink.shape, dim, factor))
    return repeated(work.once_flops, work.tile_flops, factor)


def repeated(once_flops: int, tile_flops: int, factor: int) -> float:
    """Return the fraction of operations that ``factor`` tiles repeat, relative to the whole."""
    return tile_flops * factor / once_flops - 1.0 if once_flops else 0.0


class InstanceWork(NamedTuple):
    """Operations of a whole sub-graph and of one tile of its sink, and what the tile needs of the inputs."""

    once_flops: int
    tile_flops: int
    needs: Mapping[str, Extents]
    """Elements per dimension of each input, by name."""


def instance_work(analysis: Analysis, ops: tuple[int, ...], tile: Extents) -> InstanceWork:
    """Return the work for an inner tile of the sink of the sub-graph ``ops``.

    Of the other outputs of the last operator, the tile has the same extents where these have as many dimensions.
    """
    layer = analysis.of(_as_layer, ops)
    shapes = {name: layer.graph.tensors[name].shape for name in layer.graph.ops[ops[-1]].outputs}
    work = layer.work_for({
        name: tuple(map(min, tile, shape)) if len(shape) == len(tile) else shape for name, shape in shapes.items()
    })  # fmt: skip
    return InstanceWork(sum([each.nest.operations().flops for each in work.nests]), work.flops, work.operand_extents)


def _as_layer(analysis: Analysis, ops: tuple[int, ...]) -> Layer:
    """Return ``ops`` as one layer, views behind its last operator included; without these it is the kernel's."""
    layer = layer_of(analysis, ops)
    return layer if layer is not None and layer.ops == ops else Layer(analysis.graph, ops, analysis)
