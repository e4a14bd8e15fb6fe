"""Operators of networks and kernels, by their major loop nests."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.search.reuse.operators import IterationSpace, Operator, ReuseError
from dsascape.tuner.search.reuse.readings import Loops, read_nest
from dsascape.tuner.search.reuse.sketch_sets import SketchesOf, gpu_sketches, with_sketches
from dsascape.workloads.graph import Graph
from dsascape.workloads.loopnest import Extents, LoopNest


@dataclass(frozen=True, slots=True)
class Counted:
    """An operator, and how often it occurs."""

    operator: Operator
    count: int


def operators_of(graph: Graph, sketches_of: SketchesOf = gpu_sketches) -> tuple[Counted, ...]:
    """Return the distinct operators of a network that multiply and accumulate, in the order of their first."""
    nests = [(op.name, major_nest(op.nests)) for op in graph.ops if op.nests]
    return counted([
        Counted(operator_of_nest(nest, name, sketches_of), 1)
        for name, nest in nests
        if nest.per_iteration.macs
    ])  # fmt: skip


def counted(operators: Iterable[Counted]) -> tuple[Counted, ...]:
    """Return operators, perhaps of several networks, with equal ones as one, whose counts are added."""
    found: dict[Operator, Counted] = {}
    for each in operators:
        known = found.get(each.operator)
        found[each.operator] = each if known is None else Counted(known.operator, known.count + each.count)
    return tuple(found.values())


def operator_of(naive: NaiveProgram, sketches_of: SketchesOf = gpu_sketches) -> Operator:
    """Return the operator that a kernel is, by its major loop nest."""
    nest = major_nest([compiled.nest for compiled in naive.layer.nests])
    return operator_of_nest(nest, naive.layer.sink.name, sketches_of)


def major_nest(nests: Sequence[LoopNest]) -> LoopNest:
    """Return the nest that does most of the operations, the first where several do; raise ``ReuseError`` for none."""
    if not nests:
        raise ReuseError("a kernel without loop nests has nothing to tune")
    return max(nests, key=lambda nest: nest.operations().flops)


def operator_of_nest(nest: LoopNest, name: str = "", sketches_of: SketchesOf = gpu_sketches) -> Operator:
    """Return the operator whose major loop nest this is; raise ``ReuseError`` for loops without iterations."""
    if 0 in nest.extents:
        raise ReuseError(f"{name or nest.name}: has a loop without iterations: nothing to tune")
    read = read_nest(nest)
    loops = IterationSpace(_extents(nest, read.space), _extents(nest, read.reduction))
    return with_sketches(Operator(read.kind, loops, (), read.windows, read.groups, name), sketches_of)


def _extents(nest: LoopNest, loops: Loops) -> Extents:
    return tuple([math.prod([nest.loops[number].extent for number in each]) for each in loops])
