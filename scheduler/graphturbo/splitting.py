"""Algorithm 1 and equation (1): along which dimension a sub-graph may be split, and into how many instances.

Readings of the paper where its text leaves room: ``sizeof(LB)`` is the local buffers of all cores of a cluster, since
an instance is spread over all of them, less the window for weights. ``v`` runs over the divisors of the extent among
1, 2, 4, 8, 9, ..., so that instances are alike, as the text says they are. ``n_d`` counts the operators whose tensors
match the dimension and divide by ``f_d`` (line 9 as printed counts all). The "simple cost model to prevent excessive
recomputations" is a bound on operations done more than once (``most_recompute``). An instance's footprint is
``peak / v`` for the tensors that the dimension reaches; others, which every instance needs whole, count whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from workloads.graph import Graph
from workloads.loopnest import LoopNest


@dataclass(frozen=True, slots=True)
class Split:
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


@dataclass(frozen=True)
class SubGraph:
    """Operators that are to share kernels, with what Algorithm 1 knows about them."""

    graph: Graph
    ops: tuple[int, ...]
    """Ascending."""
    fused: frozenset[str] = frozenset()
    """Tensors that exist one tile at a time, inside a fused loop nest: they take no room."""

    @cached_property
    def output(self) -> str:
        """The output that drives the split: the last operator's first."""
        return self.graph.ops[self.ops[-1]].outputs[0]

    @cached_property
    def has_single_output(self) -> bool:
        graph, inside = self.graph, set(self.ops)
        leaving = [
            name for position in self.ops for name in graph.ops[position].outputs
            if name in graph.outputs or any(reader not in inside for reader in graph.consumers[name])
        ]  # fmt: skip
        return leaving == [self.output]

    @cached_property
    def weight_bytes(self) -> int:
        graph = self.graph
        names = {name for position in self.ops for name in graph.ops[position].inputs}
        return sum(graph.tensors[name].size_bytes for name in sorted(names) if graph.tensors[name].role == "weight")

    @cached_property
    def inner_bytes(self) -> int:
        """Bytes of the stored tensors that are made and used up inside: what stays on chip thanks to the grouping."""
        made = {self.graph.storage[name] for position in self.ops for name in self.graph.ops[position].outputs}
        inner = made - self.fused - {self.graph.storage[self.output]}
        return sum(self.graph.tensors[name].size_bytes for name in sorted(inner) if name in self.graph.producer)

    @cached_property
    def _lifetimes(self) -> list[tuple[str, int, int, int]]:
        """Activations as (stored tensor, bytes, first operator, last operator); weights pass through their window."""
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
        last[storage[self.output]] = len(self.ops) - 1
        return [
            (root, graph.tensors[root].size_bytes, begin, last[root])
            for root, begin in first.items()
            if root not in self.fused
        ]

    def peak_bytes(self, matched: Mapping[str, tuple[int | None, bool]] | None = None, factor: int = 1) -> int:
        """Return the most bytes alive at once while one of ``factor`` instances runs its operators in order.

        Inputs and output are included. Tensors that the split dimension does not reach (``matched``) stay whole.
        """
        change = [0] * (len(self.ops) + 1)
        for root, size, begin, end in self._lifetimes:
            reached = factor > 1 and matched is not None and matched.get(root, (None, False))[0] is not None
            held = -(-size // factor) if reached else size
            change[begin] += held
            change[end + 1] -= held
        most = alive = 0
        for step in change:
            alive += step
            most = max(most, alive)
        return most

    def matches(self, dim: int) -> Mapping[str, tuple[int | None, bool]]:
        """Return per tensor which of its dimensions moves with ``dim`` of the output, and whether without overlap.

        Two instances overlap on a tensor when a window (a halo) reaches over the cut; None: no dimension moves, every
        instance needs the whole tensor.
        """
        return self.graph.derived(("sub-graph matches", self.ops, dim), partial(self._matches, dim))

    def _matches(self, dim: int) -> dict[str, tuple[int | None, bool]]:
        found: dict[str, tuple[int | None, bool]] = {self.output: (dim, True)}
        for position in reversed(self.ops):
            op = self.graph.ops[position]
            for number, nest in enumerate(reversed(op.nests)):
                state = found.get(nest.write.tensor)
                if state is None:
                    continue
                followed = self.graph.derived(("followed", position, number, state), partial(_followed, nest, *state))
                for read, matched, clean in followed:
                    known = found.get(read, (matched, clean))
                    found[read] = (matched if known[0] == matched else None, clean and known[1])
        return found


def _followed(nest: LoopNest, dim: int | None, clean: bool) -> list[tuple[str, int | None, bool]]:
    """Return for each read which dimension follows ``dim`` of the write, and whether cuts stay clean."""
    result: list[tuple[str, int | None, bool]] = []
    for read in nest.reads:
        if dim is None:
            result.append((read.tensor, None, False))
            continue
        matched = nest.matched_dim(read, dim)
        if matched is None:
            result.append((read.tensor, None, False))  # every instance needs it whole
            continue
        index = read.indices[matched]
        written = nest.write.indices[dim]
        outermost = max(written.terms, key=lambda term: term[1])
        plain = index.divisor == 1 and index.window == 1
        leading = max(index.terms, key=lambda term: abs(term[1]))
        alone = all(not nest.loops[loop].reduction or nest.loops[loop].extent == 1 for loop, _ in index.terms)
        result.append((read.tensor, matched, clean and plain and alone and leading[0] == outermost[0]))
    return result


def split_factors(extent: int) -> list[int]:
    """Return Algorithm 1's values of v for one dimension: 1, 2, 4, then 8 and every integer, where they divide."""
    values = [1, 2, 4, *range(8, extent + 1)]
    return [v for v in dict.fromkeys(values) if v <= extent and extent % v == 0]


def split_info(sub: SubGraph, local_bytes: int, most_recompute: float) -> tuple[Split, ...]:
    """Return SplitInfo of a sub-graph for ``local_bytes`` of local buffers (Algorithm 1)."""
    output = sub.graph.tensors[sub.output]
    if sub.peak_bytes() <= local_bytes:  # l. 4-6 with v = 1
        return (Split(len(sub.ops), 1, output.order[0] if output.order else 0, 0),)
    found = []
    for depth, dim in enumerate(output.order):  # l. 2: from the outermost dimension inwards
        if output.shape[dim] == 1 or (depth > 0 and not sub.has_single_output):
            continue
        matched = sub.matches(dim)
        factors = split_factors(output.shape[dim])
        if sub.peak_bytes(matched, factors[-1]) > local_bytes:
            continue
        factor = next(v for v in factors if sub.peak_bytes(matched, v) <= local_bytes)  # l. 4-6
        ops = _operators_split(sub, matched, factor)  # l. 7-11
        if ops and recompute_share(sub, matched, dim, factor) <= most_recompute:
            found.append(Split(ops, factor, dim, depth))
    return tuple(found)


def _operators_split(sub: SubGraph, matched: Mapping[str, tuple[int | None, bool]], factor: int) -> int:
    count = 0
    for position in sub.ops:
        for name in sub.graph.ops[position].outputs:
            dim, _ = matched.get(name, (None, False))
            if dim is not None and sub.graph.tensors[name].shape[dim] % factor == 0:
                count += 1
                break
    return count


def best_split(splits: Sequence[Split]) -> Split | None:
    """Return the lexicographic maximum of equation (1), None if the sub-graph cannot be made to fit."""
    return max(splits, key=lambda split: split.rank, default=None)


def recompute_share(sub: SubGraph, matched: Mapping[str, tuple[int | None, bool]], dim: int, factor: int) -> float:
    """Return the operations that ``factor`` instances do beyond those of the whole, as a share of the latter.

    Zero at once where every tensor is cut cleanly; else counted for an inner instance through the access maps.
    """
    written = (nest.write.tensor for position in sub.ops for nest in sub.graph.ops[position].nests)
    if all(matched[name][1] for name in written if name in matched):
        return 0.0
    return sub.graph.derived(("recomputed", sub.ops, dim, factor), partial(_recomputed, sub, dim, factor))


def _recomputed(sub: SubGraph, dim: int, factor: int) -> float:
    graph = sub.graph
    output = graph.tensors[sub.output]
    tile = tuple(-(-size // factor) if d == dim else size for d, size in enumerate(output.shape))
    need: dict[str, tuple[int, ...]] = {sub.output: tile}
    once = split = 0
    for position in reversed(sub.ops):
        for nest in reversed(graph.ops[position].nests):
            wanted = need.get(nest.write.tensor)
            if wanted is None:
                continue
            extents = nest.loop_extents_for(wanted)
            once += nest.operations().flops
            split += nest.operations(extents).flops
            for read in nest.reads:
                touched = read.extents(extents)
                known = need.get(read.tensor)
                need[read.tensor] = touched if known is None else tuple(map(max, touched, known))
    return split * factor / once - 1.0 if once else 0.0
