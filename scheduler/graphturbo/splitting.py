"""Algorithm 1 and equation (1): along which dimension a sub-graph may be split, and into how many instances.

Readings of the paper where its text leaves room: ``sizeof(LB)`` is the local buffers of all cores of a cluster, since
an instance is spread over all of them, less the window for weights. ``v`` runs over the divisors of the extent among
1, 2, 4, 8, 9, ..., so that instances are alike, as the text says they are. ``n_d`` counts the operators whose tensors
match the dimension and divide by ``f_d`` (line 9 as printed counts all). The "simple cost model to prevent excessive
recomputations" is a bound on operations done more than once (``most_recompute``). An instance's footprint is
``peak / v`` for the tensors that the dimension reaches; others, which every instance needs whole, count whole.
``peak`` is the most that is alive at once, with what the sub-graph reads from outside or (``counts_inputs=False``)
without: section 3.1 speaks of the output and intermediates, and leaves inputs to follow from these; but inputs
lie in the local buffers too.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

from dsascape.fusion.plan import Split
from dsascape.scheduler.graphturbo.room import Room
from dsascape.scheduler.parts import divisors
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Extents, LoopNest, widest
from dsascape.workloads.subgraph import PlacedNest, Subgraph, follow_back

_SMALL_FACTORS = (1, 2, 4, 8)
"""Algorithm 1 tries these, and then every integer beyond."""
Match = tuple[int | None, bool]
"""Which dimension of a tensor moves with the split one (None: all instances need it whole), whether without overlap."""


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """One tuple of SplitInfo: ``factor`` instances along ``dim`` of the output, splitting ``ops`` operators."""

    ops: int
    factor: int
    dim: int
    depth: int
    """Position of the dimension from the outermost in memory."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Equation (1): more operators split, then fewer instances, then the outer dimension."""
        return self.ops, -self.factor, -self.depth

    @property
    def split(self) -> Split:
        """What a plan records of it."""
        return Split(self.dim, self.factor)


class Divisible(Protocol):
    """All that Algorithm 1 asks of a sub-graph. Instances are parts of the sink, its last operator's first output."""

    @property
    def sink(self) -> Tensor: ...

    @property
    def has_single_output(self) -> bool: ...

    @property
    def size(self) -> int:
        """Operators."""

    def alive_bytes(self, dim: int | None = None, factor: int = 1) -> int:
        """Return the most bytes alive at once while one of ``factor`` instances along ``dim`` runs; by default, all."""

    def operators_split(self, dim: int, factor: int) -> int:
        """Return the operators whose outputs are cut ``factor`` times when the sink is cut along ``dim``."""

    def recompute_share(self, dim: int, factor: int) -> float:
        """Return the operations that the instances do beyond those of the whole, as a share of the latter."""


class Life(NamedTuple):
    """A stored activation and the steps, places in ``ops``, during which a sub-graph has it alive."""

    root: str
    size_bytes: int
    begin: int
    end: int


@dataclass(frozen=True)
class Splittable(Subgraph):
    """A sub-graph of the paper: operators that are to share kernels, with what Algorithm 1 knows about them.

    What it knows comes from walks over all operators: this is the definition, and what small sub-graphs use.
    """

    analysis: Analysis = field(repr=False, compare=False)
    fused: frozenset[str] = frozenset()
    """Tensors that exist one tile at a time, inside a fused loop nest: they take no room."""
    counts_inputs: bool = True
    """Whether activations that are read from outside belong to the footprint, or the output and intermediates alone."""

    @cached_property
    def made(self) -> tuple[str, ...]:
        """Stored tensors that operators inside write, if only as views; not those that exist one tile at a time."""
        made = {self.graph.storage[name] for name in self.written} - self.fused
        return tuple(sorted(name for name in made if name in self.graph.producer))

    @cached_property
    def inner_bytes(self) -> int:
        """Bytes of the stored tensors that are made and used up inside: what stays on chip thanks to the grouping."""
        sink = self.graph.storage[self.sink.name]
        return sum(self.graph.tensors[name].size_bytes for name in self.made if name != sink)

    @property
    def size(self) -> int:
        return len(self.ops)

    @cached_property
    def lives(self) -> list[Life]:
        """Activations that take room; weights pass through another buffer."""
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
        """Return whether an activation is there when the first operator runs; views of weights are made inside."""
        is_weight = self.graph.tensors[life.root].role == "weight"
        return not is_weight and self.graph.producer.get(life.root, -1) not in self.ops

    def peak_bytes(self, matched: Mapping[str, Match] | None = None, factor: int = 1) -> int:
        """Return the most bytes alive at once while one of ``factor`` instances runs its operators in order.

        The output is included, inputs if they count. Tensors that the split dimension does not reach (``matched``) stay
        whole.
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
    """Return what one of ``factor`` instances holds of a tensor that is cut."""
    return -(-size_bytes // factor)


def tensor_matches(analysis: Analysis, ops: tuple[int, ...], dim: int | None) -> Mapping[str, Match]:
    """Return `Splittable.matches` of the operators ``ops``."""
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
    found = _followed(nests[number], match)
    if len(analysis.graph.ops[op].outputs) == 1:
        return found
    return [(name, cut if _is_in_step(nests, name, cut[0]) else (None, False)) for name, cut in found]


def _is_in_step(nests: Sequence[LoopNest], name: str, dim: int | None) -> bool:
    """Whether all nests of an operator read ``dim`` of a tensor from the same element on: those of halves do not."""
    if dim is None:
        return True
    begins = {read.indices[dim].offset for nest in nests for read in nest.reads if read.tensor == name}
    return len(begins) == 1


def both_matches(known: Match, further: Match) -> Match:
    """Return how a tensor is cut that is read twice: along a dimension only if both reads are cut along it."""
    return known[0] if known[0] == further[0] else None, known[1] and further[1]


def _followed(nest: LoopNest, match: Match) -> list[tuple[str, Match]]:
    """Return for each read which dimension follows that of the write, and whether cuts stay clean."""
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
    """Return Algorithm 1's values of v for one dimension: 1, 2, 4, then 8 and every integer, where they divide."""
    return [v for v in reversed(divisors(extent)) if v in _SMALL_FACTORS or v > max(_SMALL_FACTORS)]


_known_factors = lru_cache(maxsize=1024)(split_factors)


def fitting_splits(sub: Divisible, room: Room) -> list[SplitChoice]:
    """Return SplitInfo of a sub-graph for the ``room`` in the local buffers (Algorithm 1), whatever it repeats."""
    output = sub.sink
    if room.holds(sub.alive_bytes()):  # l. 4-6 with v = 1
        return [SplitChoice(sub.size, 1, output.order[0] if output.order else 0, 0)]
    found = []
    for depth, dim in enumerate(output.order):  # l. 2: from the outermost dimension inwards
        if output.shape[dim] == 1 or (depth > 0 and not sub.has_single_output):
            continue
        factors = _known_factors(output.shape[dim])
        if not room.holds(sub.alive_bytes(dim, factors[-1])):
            continue
        factor = _least_that_fits(sub, dim, factors, room)  # l. 4-6
        ops = sub.operators_split(dim, factor)  # l. 7-11
        if ops:
            found.append(SplitChoice(ops, factor, dim, depth))
    return found


def _least_that_fits(sub: Divisible, dim: int, factors: Sequence[int], room: Room) -> int:
    """Return the first of ``factors`` that fits, of which the last one does: more instances never hold more each.

    It is mostly a small one, and looked for among twice as many each time.
    """

    def fits(factor: int) -> bool:
        return room.holds(sub.alive_bytes(dim, factor))

    last = len(factors) - 1
    tried = 1
    while tried < last and not fits(factors[tried]):
        tried *= 2
    return factors[bisect_left(factors, True, tried // 2, min(tried, last), key=fits)]


def repeats_little(sub: Divisible, split: SplitChoice, most_recompute: float) -> bool:
    """Whether the instances repeat no more operations than allowed."""
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
    """Return the lexicographic maximum of equation (1) among those allowed; None if there is none.

    Whether one is allowed is asked from the best on, as far as need be.
    """
    return next((split for split in sorted(splits, key=lambda split: split.rank, reverse=True) if allowed(split)), None)


def recompute_share(sub: Splittable, matched: Mapping[str, Match], dim: int, factor: int) -> float:
    """Return the operations that ``factor`` instances do beyond those of the whole, as a share of the latter.

    Zero at once where every tensor is cut cleanly; else counted for an inner instance through the access maps.
    """
    if is_clean(sub, matched):
        return 0.0
    return sub.analysis.of(_recomputed, sub.ops, dim, factor)


def is_clean(sub: Subgraph, matched: Mapping[str, Match]) -> bool:
    """Whether instances overlap on nothing that is computed inside."""
    written = (placed.target for placed in sub.nests_backwards())
    return all(matched[name][1] for name in written if name in matched)


def instance_tile(shape: Extents, dim: int, factor: int) -> Extents:
    """Return how large one of ``factor`` instances along ``dim`` is."""
    return tuple(-(-size // factor) if d == dim else size for d, size in enumerate(shape))


def _recomputed(analysis: Analysis, ops: tuple[int, ...], dim: int, factor: int) -> float:
    sub = Subgraph(analysis.graph, ops)
    once, tile, _ = tile_flops(sub, instance_tile(sub.sink.shape, dim, factor))
    return repeated(once, tile, factor)


def repeated(once_flops: int, tile_flops: int, factor: int) -> float:
    """Return the share that ``factor`` tiles compute beyond the whole."""
    return tile_flops * factor / once_flops - 1.0 if once_flops else 0.0


def _wanted(sub: Subgraph, tile: Extents) -> dict[str, Extents]:
    """Return the outputs of the last operator, as much of each as goes with a tile of the sink."""
    found = {}
    for name in sub.graph.ops[sub.ops[-1]].outputs:
        shape = sub.graph.tensors[name].shape
        found[name] = tuple(map(min, tile, shape)) if len(shape) == len(tile) else shape
    return found


def tile_flops(sub: Subgraph, tile: Extents) -> tuple[int, int, Mapping[str, Extents]]:
    """Return the operations of the whole and of one inner tile of the sink, and what the tile needs of every tensor."""
    done: list[tuple[LoopNest, list[int]]] = []

    def operands(placed: PlacedNest, written: Extents) -> list[tuple[str, Extents]]:
        extents = placed.nest.loop_extents_for(written)
        done.append((placed.nest, extents))
        return [(read.tensor, read.extents(extents)) for read in placed.nest.reads]

    needs = follow_back(sub.nests_backwards(), _wanted(sub, tile), operands, widest)
    once = sum(nest.operations().flops for nest, _ in done)
    return once, sum(nest.operations(extents).flops for nest, extents in done), needs
