"""The naive program of a layer: one stage for each tensor that its nests write, in full loops one after the other.

A nest with reduction loops makes two stages: its sums, and what becomes of them (a mean, a root, a bias), which reads
the sums element by element.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.affine import covers
from dsascape.scheduler.kernels.loops.nodes import SUMS, Stage, reads_of, reduction_loops
from dsascape.workloads.loopnest import Access, LoopNest
from dsascape.workloads.spaced import executed_extents


class NaiveProgram:
    """The stages of one layer, producers first, and who reads what."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.stages: dict[str, Stage] = {stage.name: stage for stage in _stages(layer)}
        self._read_whole: dict[str, frozenset[str]] = {}
        """Tensors all of whose elements are read for a consumer, by consumer, as far as they have been asked for."""

    @property
    def results(self) -> tuple[str, ...]:
        """Tensors that are read outside of the kernel, the sink first."""
        return self.layer.outputs

    @cached_property
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """The stages that read each tensor, sums of it among them."""
        found: dict[str, list[str]] = {}
        for stage in self.stages.values():
            for read in reads_of(stage, stage.nests):
                found.setdefault(read.tensor, []).append(stage.name)
        return {name: tuple(dict.fromkeys(each)) for name, each in found.items()}

    @cached_property
    def numbers(self) -> Mapping[str, str]:
        """Tensors by the order in which the stages meet them: t0, t1 and so on, by name."""
        accesses = [
            access
            for stage in self.stages.values()
            for nest in stage.nests
            for access in (*nest.reads, nest.write)
        ]
        return {name: f"t{number}" for number, name in enumerate(dict.fromkeys([each.tensor for each in accesses]))}

    def is_read_whole(self, name: str, consumer: str) -> bool:
        """Whether all elements of a tensor are read for those of ``consumer``, by affine accesses without gaps."""
        if consumer not in self._read_whole:
            self._read_whole[consumer] = self._all_read_whole(consumer)
        return name in self._read_whole[consumer]

    def _all_read_whole(self, consumer: str) -> frozenset[str]:
        """Return the tensors all of whose elements are read for ``consumer``, that among them: consumers come last."""
        found = {consumer}
        for stage in reversed(self.stages.values()):
            if stage.tensor in found:
                found |= {read.tensor for nest in stage.nests for read in nest.reads if covers(nest, read)}
        return frozenset(found)

    def element_bytes(self, tensor: str) -> int:
        """Return the bytes of an element of a tensor in generated code: one at least, as it addresses bytes."""
        return math.ceil(self.layer.described(tensor).element_bytes)

    def order_of(self, tensor: str, rank: int) -> tuple[int, ...]:
        """Return the dimensions of a tensor as they lie in memory, outermost first."""
        described = self.layer.graph.tensors.get(tensor)
        return tuple(range(rank)) if described is None else tuple(described.order)

    def key(self, dtype: str, machine_kind: str) -> str:
        """Return a digest of what is computed, in which dtype, on which kind of machine: equal for equal tasks.

        It does not depend on the names of tensors, and is the same in every process.
        """
        def numbered(access: Access) -> str:
            number = self.numbers[access.tensor]
            order = self.order_of(access.tensor, len(access.shape))
            described = self.layer.graph.tensors.get(access.tensor)
            is_weight = described is not None and described.role == "weight"
            return f"{number}:{is_weight}{list(access.shape)}{list(order)}{access.indices}"

        lines = [dtype, machine_kind]
        for stage in self.stages.values():
            lines.append(stage.kind)
            for nest in stage.nests:
                loops = [(loop.extent, loop.reduction) for loop in nest.loops]
                carried = None if nest.carried is None else nest.carried.indices
                maps = [numbered(access) for access in (*nest.reads, nest.write)]
                bound = "" if nest.bound is None else f" {nest.bound}"
                lines.append(f"{loops} {maps} {nest.per_iteration} {nest.per_output} {carried}{bound}")
        lines += [str(compiled.dtypes) for compiled in self.layer.nests if compiled.dtypes is not None]
        results = [self.numbers.get(name, "") for name in self.results]
        return hashlib.sha256("\n".join([*lines, str(results)]).encode()).hexdigest()[:16]


def copy_order(nest: LoopNest, read: Access, own: Sequence[int], written: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions of a thread's copy of what ``nest`` reads, as they lie in memory, outermost first.

    It lies as its tensor does (``own``); as the results do (``written``) where neighbours among these come from
    neighbours of the tensor that lie apart, as channels of a depthwise convolution: so vectors load whole vectors.
    """
    shape = nest.write.shape
    if len(own) != len(written):
        return tuple(own)
    inner = next((dim for dim in reversed(written) if shape[dim] > 1), None)
    if inner is None or own[-1] == inner:
        return tuple(own)
    along = [term for term in nest.moving(nest.write.indices[inner]).terms if term[1] == 1]
    return tuple(written) if set(along) & set(read.indices[inner].terms) else tuple(own)


def reduction_extents(nest: LoopNest) -> dict[int, int]:
    """Return the iterations of each reduction loop that one element goes through: those that compute."""
    executed = executed_extents(nest)
    return {loop: executed[loop] for loop in reduction_loops(nest)}


def _stages(layer: Layer) -> Iterator[Stage]:
    written: dict[str, list[LoopNest]] = {}
    for compiled in reversed(layer.nests):
        written.setdefault(compiled.nest.write.tensor, []).append(compiled.nest)
    for name, nests in written.items():
        tensor = layer.graph.tensors.get(name)
        shape = nests[0].write.shape
        order = tuple(range(len(shape))) if tensor is None else tuple(tensor.order)
        if len(nests) == 1 and reduction_loops(nests[0]):
            yield Stage(name + SUMS, "sum", name, shape, order, tuple(nests))
        yield Stage(name, "map", name, shape, order, tuple(nests))
