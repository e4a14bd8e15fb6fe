"""The nodes of a kernel and what Ansor's derivation rules ask of them, by analysis of the loop nests.

A node is a tensor: one that the kernel reads, or one that it computes. A reduction has two stages in the naive program,
its sums and what becomes of them, and is one node.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dsascape.scheduler.cpu.schedule.steps import cpu_limits
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.gpu.checked import gpu_limits
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.loops.illegal import Limits
from dsascape.scheduler.kernels.loops.naive import NaiveProgram, reduction_extents
from dsascape.scheduler.kernels.loops.nodes import SUMS, Stage, reads_of
from dsascape.scheduler.kernels.loops.steps import CacheRead, Steps
from dsascape.workloads.loopnest import Access, Extents, LoopNest

_MISSED = 2
"""Operands that have to miss a loop for a node without reductions to use data again."""
_SPACE_PER_CORE = 16
"""Elements per core from which on a reduction that uses data again has enough parallelism without partial sums."""


@dataclass(frozen=True)
class SearchMachine:
    """Properties of a machine that sketches and annotations depend on."""

    kind: str
    """Kind of the machine, such as "cpu": rules may ask for it."""
    cores: int
    """Cores that threads run on."""
    lanes: int
    """Elements of the task's dtype in a vector."""
    limits: Limits
    """Limits of legal programs."""
    line_bytes: int = 64
    """Bytes of a cache line; on a GPU, of a sector of the L2."""
    gpu: GpuView | None = None
    """The machine as its scheduler sees it, where it is a GPU."""
    cpu: CpuView | None = None
    """The machine as its scheduler sees it, where it is a CPU."""

    @property
    def grid(self) -> GpuView:
        """The GPU."""
        assert self.gpu is not None
        return self.gpu

    @property
    def warp(self) -> int:
        """Threads of a warp."""
        return self.grid.spec.sms.warp

    @staticmethod
    def of_cpu(view: CpuView, dtype: str) -> "SearchMachine":
        """Return what the search needs of a CPU."""
        cores, lanes = max(view.thread_counts), view.lanes(dtype)
        return SearchMachine("cpu", cores, lanes, cpu_limits(view), view.spec.line_bytes, cpu=view)

    @staticmethod
    def of_gpu(view: GpuView) -> "SearchMachine":
        """Return what the search needs of a GPU, for the dtype of ``view``."""
        return SearchMachine("gpu", view.spec.sms.count, 1, gpu_limits(view), view.spec.l2.sector_bytes, view)


@dataclass(frozen=True)
class Node:
    """One tensor of a kernel."""

    name: str
    stage: Stage | None
    """The stage that stores it; None for a tensor that the kernel reads."""
    sums: Stage | None
    """The stage of its sums, if it is a reduction."""
    is_result: bool

    @property
    def nest(self) -> LoopNest:
        """The nest that computes it, the first where several write its parts."""
        assert self.stage is not None
        return self.stage.nests[0]


class KernelNodes:
    """The nodes of a naive program, in topological order, operands of a node in front of it."""

    def __init__(self, naive: NaiveProgram) -> None:
        self.naive = naive
        self.by_name: Mapping[str, Node] = {name: self._node(name) for name in self._order()}
        self.names: tuple[str, ...] = tuple(self.by_name)

    def _node(self, name: str) -> Node:
        stages = self.naive.stages
        return Node(name, stages.get(name), stages.get(name + SUMS), name in self.naive.results)

    def _order(self) -> list[str]:
        """Return the tensors from inputs to results: each behind all that it is computed from."""
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            for operand in dict.fromkeys(self.operands(name)):
                if operand not in found:
                    visit(operand)
            found[name] = None

        for result in reversed(self.naive.results):
            if result not in found:
                visit(result)
        for name in self.naive.stages:
            tensor = name.removesuffix(SUMS)
            if tensor not in found:
                visit(tensor)
        return list(found)

    def operands(self, name: str) -> Iterator[str]:
        """Yield the tensors that a node is computed from."""
        for each in (name + SUMS, name):
            stage = self.naive.stages.get(each)
            if stage is not None:
                yield from [read.tensor for read in reads_of(stage, stage.nests) if read.tensor != name + SUMS]

    @cached_property
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that read each node."""
        found: dict[str, list[str]] = {name: [] for name in self.by_name}
        for name in self.by_name:
            for operand in dict.fromkeys(self.operands(name)):
                found[operand].append(name)
        return {name: tuple(each) for name, each in found.items()}

    def shape_of_copy(self, steps: Steps, copy: str) -> Extents:
        """Return the shape of what a copy is of."""
        step = next(each for each in steps if isinstance(each, CacheRead) and each.stage == copy)
        reader = self.naive.stages[step.reader]
        return next(read.shape for read in reads_of(reader, reader.nests) if read.tensor == step.tensor)

    def is_strictly_inlinable(self, name: str) -> bool:
        """Whether a node is computed element by element, so cheaply that it can always be inlined: IsStrictInlinable.

        It has no branches, and no expensive functions unless its only reader asks for each element once. Results of a
        reduction that uses data again are not computed again in another such reduction, which would do so for each use:
        the paper would inline them there.
        """
        node = self.by_name[name]
        if node.stage is None or node.sums is not None or node.is_result or len(node.stage.nests) != 1:
            return False
        nest, readers = node.nest, self.readers[name]
        if any(loop.reduction for loop in nest.loops) or nest.carried is not None:
            return False
        if nest.per_output.special and not (len(readers) == 1 and self.matches(name, readers[0])):
            return False
        is_between = self._follows_reuse(name) and any(
            self.by_name[each].sums is not None and self.has_data_reuse(each) for each in readers
        )
        return not is_between and not any(_branches(nest, read) for read in nest.reads)

    def _follows_reuse(self, name: str) -> bool:
        """Whether a node is made of a reduction that uses data again, by whatever works element by element on that."""
        return any(
            self.has_data_reuse(each) or (self.by_name[each].stage is not None and self.by_name[each].sums is None
                                          and self._follows_reuse(each))
            for each in self.operands(name)
        )  # fmt: skip

    def has_data_reuse(self, name: str) -> bool:
        """Whether a node uses elements of its operands again: HasDataReuse.

        A loop over its elements that does not move an operand uses that again. One such operand is enough for a
        reduction; without one, two have to be.
        """
        node = self.by_name[name]
        if node.stage is None or len(node.stage.nests) != 1:
            return False
        nest = node.nest
        space = [number for number, loop in enumerate(nest.loops) if not loop.reduction and loop.extent > 1]
        own = nest.reads if node.sums is None else [r for r in reads_of(node.sums, (nest,)) if r.tensor != name]
        missed = sum([any(not read.uses(loop) for loop in space) for read in own])
        return missed >= (_MISSED if node.sums is None else 1)

    def has_more_reduction_parallel(self, name: str, cores: int) -> bool:
        """Whether a node has few elements and long reductions: HasMoreReductionParallel.

        Where data is used again: no more elements than iterations of the reduction, and than 16 a core (TVM's
        defaults); else more iterations than cores.
        """
        node = self.by_name[name]
        if node.sums is None:
            return False
        space, reduced = math.prod(node.sums.shape), math.prod(reduction_extents(node.nest).values())
        if self.has_data_reuse(name):
            return space <= reduced and space <= _SPACE_PER_CORE * cores
        return reduced > cores

    def has_reduction_for_threads(self, name: str, threads: int, warp: int) -> bool:
        """Whether threads of a block should share a reduction: few elements, long reductions.

        Where data is used again: fewer elements than iterations, and no more than a block has threads; else more
        iterations than a warp has threads (TVM's conditions).
        """
        node = self.by_name[name]
        if node.sums is None:
            return False
        space, reduced = math.prod(node.sums.shape), math.prod(reduction_extents(node.nest).values())
        if self.has_data_reuse(name):
            return space < reduced and space <= threads
        return reduced > warp

    def matches(self, name: str, reader: str) -> bool:
        """Whether ``reader`` computes each of its elements from the same element of ``name``, laid out alike."""
        own, other = self.by_name[name], self.by_name[reader]
        if own.stage is None or other.stage is None or other.sums is not None or len(other.stage.nests) != 1:
            return False
        nest = other.nest
        reads = [read for read in nest.reads if read.tensor == name]
        is_alike = own.stage.shape == other.stage.shape and own.stage.order == other.stage.order
        return is_alike and all(read.indices == nest.write.indices for read in reads)


def _branches(nest: LoopNest, read: Access) -> bool:
    """Whether an access needs more than an address: borders, or elements that data or tables choose."""
    whole = [(0, loop.extent) for loop in nest.loops]
    for index, size in zip(read.indices, read.shape, strict=True):
        if index.opaque or index.clamp or index.table or index.window != 1 or index.divisor != 1:
            return True
        low, high = index.span(whole)
        if low < 0 or high > size:
            return True
    return not _fills(nest)


def _fills(nest: LoopNest) -> bool:
    """Whether a nest writes every element of its tensor: where not, the rest is padding."""
    written: Extents = tuple([
        sum([stride * (nest.loops[loop].extent - 1) for loop, stride in index.terms]) + 1
        for index in nest.write.indices
    ])  # fmt: skip
    return written == nest.write.shape
