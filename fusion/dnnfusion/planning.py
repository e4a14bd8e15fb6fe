"""Fusion plans as DNNFusion explores them (Listing 1): a block grows from a seed to its successors, then predecessors.

The seed is the One-to-One operator with the smallest intermediate result that is in no block yet, the first in the
graph among equals. An operator joins if the mapping types allow it (Table 3), the constraints hold, and, where the
table wants a profile, the block with it is not slower than the two separately. Choices that the listing leaves open:

- The mapping type that is checked is the block's, not the neighbour's: in the paper's Fig. 3 Add takes Conv, and then
  cannot take the GEMM before it, "because both are many-to-one".
- Constraints (step 2.2, "an empirically determined threshold" against register spills): a block has at most
  ``most_operands`` tensors that go in or come out; all results that leave it fit one iteration space, as a kernel is
  one loop nest: as many dimensions, of equal size or one; no path over other blocks leads out of it and back; and the
  machine runs it as one kernel in no more than ``most_slowdown`` times the time of the block and the operator
  separately: where a product loses its register tiles, because of a second result or a view, it takes a multiple. That
  is checked at every step; no profile is made where bounds on it decide.
- "Step III and Step II can be swapped", the text says: on request both orders are explored, and the plan taken whose
  kernels the machine runs faster. Successors first, an activation joins the convolution behind it instead of the one
  that it follows.
- Operators that no seed reaches stay alone; the views among them join the producer of their tensor.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from dsascape.fusion.costs import KernelSeconds
from dsascape.fusion.dnnfusion.combination import Relation, combined, relation
from dsascape.fusion.dnnfusion.extended import mapping_types
from dsascape.fusion.dnnfusion.mapping import MappingType
from dsascape.fusion.partition import AcyclicPartition
from dsascape.fusion.plan import FusionPlan, Group, plan_from_groups
from dsascape.wording import count
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.subgraph import Subgraph

Direction = Literal["successors", "predecessors"]
Order = Literal["successors", "predecessors", "faster"]
MOST_SLOWDOWN = 1.0
"""Slowdown by fusion up to which Table 3, made for other machines, is followed. With more than 1 a machine that is a
little faster may run a block that a slower one refuses, and take up to that multiple of the time."""
MOST_OPERANDS = 32
"""Tensors that a block reads or writes at most: a vector register each; AArch64 (the paper's phones) has 32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """Parameters of Listing 1."""

    kernel_s: KernelSeconds | None
    """Cost model that decides the yellow cases of Table 3 (`Relation.DEPEND`); None: they are fused unprofiled."""
    least_s: KernelSeconds | None = None
    """Lower bound of ``kernel_s``, which is not evaluated where bounds on it decide; None: there is none."""
    most_s: KernelSeconds | None = None
    """Function that returns an upper bound of ``kernel_s``; None if there is none."""
    fuses_depend: bool = True
    """Whether yellow cases are fused at all."""
    most_operands: int = MOST_OPERANDS
    most_slowdown: float = MOST_SLOWDOWN
    """Slowdown over its parts at most of a block that Table 3 fuses without a profile."""
    first: Order = "successors"
    """Direction in which a block grows first: the listing's step II, step III as the text allows, or the faster of both
    by ``kernel_s``; the listing's if there is no cost model."""


def dnnfusion_plan(analysis: Analysis, how: Exploration) -> FusionPlan:
    """Return the blocks of Listing 1 for the network of ``analysis``."""
    kernel_s = how.kernel_s
    if how.first != "faster":
        groups = list(_Explorer(analysis, how, how.first).groups())
    elif kernel_s is None:
        groups = list(_Explorer(analysis, how, "successors").groups())
    else:
        orders = [list(_Explorer(analysis, how, first).groups()) for first in get_args(Direction)]
        groups = min(orders, key=lambda blocks: math.fsum(kernel_s(group.ops) for group in blocks))
    return plan_from_groups(analysis.graph, groups)


def rewriting_gains(plain: FusionPlan, rewritten: FusionPlan, longer_s: float | None = None) -> bool:
    """Return whether the plan of the rewritten network is no worse than that of the original one.

    It has no more kernels, and takes no longer if the difference in seconds, ``longer_s``, is known; otherwise it has
    no more bytes of intermediate results.
    """
    if rewritten.kernels > plain.kernels:
        return False
    return rewritten.intermediate_bytes <= plain.intermediate_bytes if longer_s is None else longer_s <= 0


def _is_within(how: Exploration, ops: Sequence[int], parts: Sequence[Sequence[int]]) -> bool:
    """Whether bounds alone show that ``ops`` as one kernel take no more than ``most_slowdown`` times their parts."""
    if how.least_s is None or how.most_s is None:
        return False
    most_s = how.most_s(ops)
    return not math.isinf(most_s) and most_s <= how.most_slowdown * math.fsum(map(how.least_s, parts))


@dataclass(slots=True)
class _Block:
    """A block that is being grown."""

    part: int
    type: MappingType
    refusals: dict[str, None]
    """Reasons why neighbours were refused, in order of occurrence."""


class _Explorer:
    def __init__(self, analysis: Analysis, how: Exploration, first: Direction) -> None:
        self._graph = analysis.graph
        self._first = first
        self._how = how
        self._types = analysis.of(mapping_types)
        self._partition = AcyclicPartition(self._graph)
        self._taken: set[int] = set()
        self._readers: list[list[int]] = []
        self._producers: list[list[int]] = []
        for op in self._graph.ops:
            readers = {reader: None for name in op.outputs for reader in self._graph.consumers[name]}
            producers = {self._graph.producer[name]: None for name in op.inputs if name in self._graph.producer}
            self._readers.append(sorted(readers))
            self._producers.append(sorted(producers))

    def groups(self) -> Iterator[Group]:
        """Yield the blocks, and operators that no seed reached as groups of their own."""
        reasons = {}
        for seed in self._seeds():
            if seed not in self._taken:
                block = self._grown(seed)
                self._taken.update(self._partition.members(block.part))
                reasons[block.part] = "; ".join(block.refusals) or "no neighbour is left"
        self._merge_views()
        for part in self._partition.parts:
            lone = f"{self._types[part]} operator that no seed reached"
            yield Group(self._partition.members(part), reasons.get(part, lone))

    def _seeds(self) -> list[int]:
        """Return the One-to-One operators, smallest intermediate result first (l. 1 to 5)."""
        tensors = self._graph.tensors
        sizes = [sum(tensors[name].size_bytes for name in op.outputs) for op in self._graph.ops]
        seeds = [op for op, kind in enumerate(self._types) if kind is MappingType.ONE_TO_ONE]
        return sorted(seeds, key=lambda op: (sizes[op], op))

    def _grown(self, seed: int) -> _Block:
        block = _Block(seed, self._types[seed], {})
        edges = {"successors": self._readers, "predecessors": self._producers}
        second = "predecessors" if self._first == "successors" else "successors"
        for direction in (self._first, second):
            self._explore(block, seed, edges[direction], forwards=direction == "successors")
        return block

    def _explore(self, block: _Block, seed: int, edges: Sequence[Sequence[int]], *, forwards: bool) -> None:
        """Add operators that may join, depth first as in the recursion of l. 7 to 28."""
        waiting = list(reversed(edges[seed]))
        while waiting:
            op = waiting.pop()
            if self._partition.part_of(op) != block.part and self._joins(block, op, forwards=forwards):
                waiting.extend(reversed(edges[op]))

    def _joins(self, block: _Block, op: int, *, forwards: bool) -> bool:
        refusal = self._refusal(block, op, forwards=forwards)
        if refusal is not None:
            block.refusals[refusal] = None
            return False
        block.part = self._partition.merge(block.part, op)
        pair = (block.type, self._types[op]) if forwards else (self._types[op], block.type)
        block.type = combined(*pair)
        return True

    def _refusal(self, block: _Block, op: int, *, forwards: bool) -> str | None:
        """Return why ``op`` does not join ``block``, None if it does."""
        name = self._graph.ops[op].name
        if op in self._taken:
            return f"{name} is in another block"
        pair = (block.type, self._types[op]) if forwards else (self._types[op], block.type)
        verdict = relation(*pair)
        if verdict is Relation.BREAK or (verdict is Relation.DEPEND and not self._how.fuses_depend):
            return f"{verdict.value}: {pair[0]} before {pair[1]} ({name})"
        if self._partition.closes_circle(block.part, op):
            return f"{name} also waits for other blocks that wait for this one"
        inside = self._partition.members(block.part)
        together = tuple(sorted((*inside, op)))
        both = Subgraph(self._graph, together)
        operands = len(both.stored_inputs) + len(both.stored_outputs)
        if operands > self._how.most_operands:
            return f"{count(operands, 'operand')} with {name}, more than {self._how.most_operands}"
        if not _share_loops([self._graph.tensors[result].shape for result in both.computed_outputs]):
            return f"results of other sizes would leave the block with {name}"
        return self._too_slow(verdict, inside, together, name)

    def _too_slow(self, verdict: Relation, inside: Sequence[int], together: Sequence[int], name: str) -> str | None:
        """Return why the machine refuses ``together`` (``inside`` and one more operator); None if it does not."""
        how, kernel_s = self._how, self._how.kernel_s
        is_profiled = verdict is Relation.DEPEND
        if kernel_s is None:
            return None
        alone = tuple(op for op in together if op not in inside)
        if not is_profiled and _is_within(how, together, [inside, alone]):
            return None
        apart_s = kernel_s(inside)
        if not is_profiled and _is_within(how, together, [inside]):
            return None
        fused_s = kernel_s(together)
        if math.isinf(fused_s):
            return f"the machine cannot run {name} in the same kernel"
        slowdown = 1.0 if is_profiled else max(how.most_slowdown, 1.0)
        if fused_s > slowdown * apart_s:  # otherwise the operator alone need not be evaluated
            apart_s += kernel_s(alone)
        if fused_s <= slowdown * apart_s:
            return None
        return f"{verdict.value}: {fused_s * 1e6:.3g} us with {name}, {apart_s * 1e6:.3g} us apart"

    def _merge_views(self) -> None:
        """Merge views that are alone in their group into the group that produces their tensor."""
        for position, op in enumerate(self._graph.ops):
            part = self._partition.part_of(position)
            alone = op.is_view and self._partition.members(part) == (position,)
            producer = self._graph.producer.get(op.inputs[0]) if alone else None
            if producer is not None:
                maker = self._partition.part_of(producer)
                if not self._partition.closes_circle(maker, part):
                    self._partition.merge(maker, part)


def _share_loops(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether tensors fit one iteration space: equal ranks, and in each dimension equal sizes or one element."""
    if len({len(shape) for shape in shapes}) > 1:
        return False
    return all(len({size for size in sizes if size > 1}) <= 1 for sizes in zip(*shapes, strict=True))
