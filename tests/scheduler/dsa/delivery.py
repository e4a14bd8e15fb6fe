"""Check that every byte a core computes with has been delivered: streamed, kept where written, or exchanged.

What is needed is traced back by `tests.scheduler.dsa.products`, which shares nothing with the scheduler; what comes is
read off the schedule's slices and the program.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dsascape.hw_models import Program
from dsascape.scheduler import LayerRun, Schedule
from dsascape.workloads.loopnest import Access, Box, LoopNest
from tests.scheduler.dsa.products import Traced, count_outside, trace

LOCAL = "local_buffer"


@dataclass
class Needs:
    """Needs of layers, traced once for all with the same loop nests, and the number of nests skipped.

    Layers share an answer if their nests are equal but for the names of tensors: these are all that tracing reads. What
    the scheduler takes for equal plays no part, and what has come to a core is looked at in every layer run.
    """

    nests: int = 0
    """Number of nests to trace, one per distinct part."""
    skipped: int = 0
    """Number of nests not traced, because a group of loops is too long: less is checked than is needed."""
    _layers: dict[tuple[LoopNest, ...], int] = field(default_factory=dict)
    _traced: dict[tuple[int, str, Box], Traced] = field(default_factory=dict)
    _counted: dict[tuple[int, str, Box, str, tuple[Box, ...]], int] = field(default_factory=dict)

    def layer(self, nests: Sequence[LoopNest], sink: str) -> "LayerNeeds":
        """Return the needs of a layer that computes ``nests`` in this order and whose output is ``sink``."""
        names: dict[str, str] = {}

        def renamed(access: Access) -> Access:
            return replace(access, tensor=names.setdefault(access.tensor, str(len(names))))

        anonymous = tuple(
            LoopNest("", nest.loops, tuple(map(renamed, nest.reads)), renamed(nest.write), nest.per_iteration)
            for nest in nests
        )
        return LayerNeeds(self, self._layers.setdefault(anonymous, len(self._layers)), anonymous, names, sink)

    def count(self, layer: "LayerNeeds", part: Box, name: str, held: tuple[Box, ...]) -> int:
        """Return how many elements of tensor ``name`` outside the boxes ``held`` it takes to compute ``part``."""
        sink, known = layer.names[layer.sink], layer.names.get(name)
        if known is None:
            return 0
        tracing = layer.number, sink, part
        if tracing not in self._traced:
            self._traced[tracing] = traced = trace(layer.nests, sink, part)
            self.nests += len(layer.nests)
            self.skipped += traced.skipped
        counting = *tracing, known, held
        if counting not in self._counted:
            traced = self._traced[tracing]
            products, shape = traced.products.get(known, ()), traced.shapes[known]
            self._counted[counting] = count_outside(products, held, shape)
        return self._counted[counting]


@dataclass(frozen=True)
class LayerNeeds:
    """One layer among the `Needs` of all."""

    known: Needs
    number: int
    """Index of its nests among the distinct ones."""
    nests: tuple[LoopNest, ...]
    """Its nests, with tensors renamed so that equal nests of different layers are equal."""
    names: Mapping[str, str]
    """Replacement names by original name."""
    sink: str

    def count(self, part: Box, name: str, held: Sequence[Box] = ()) -> int:
        """Return how many elements of tensor ``name`` outside the boxes ``held`` it takes to compute ``part``."""
        return self.known.count(self, part, name, tuple(held))


def streamed_bytes(program: Program) -> Mapping[tuple[int, str], int]:
    """Return by layer run and operand the bytes that came into each core's local buffer, from the program alone."""
    total: Counter[tuple[int, str]] = Counter()
    for layer_run, places in zip(program.instructions.layer_runs, program.instructions.allocates, strict=True):
        for buffer in (program.buffers[place] for place in places):
            if buffer.memory == LOCAL:
                total[layer_run, buffer.label] += buffer.size_bytes
    return total


def check_delivery(schedule: Schedule, program: Program, needs: Needs, *, all_cores: bool = False) -> None:
    """Fail for a core that needs more of its operands than it holds, gets streamed and fetches from other cores.

    Where cores have equal parts, a few stand for all unless ``all_cores``.
    """
    streamed = streamed_bytes(program)
    for number, run in enumerate(schedule.runs):
        nests = [nest for op in run.layer.ops for nest in schedule.graph.ops[op].nests]
        layer = needs.layer(nests, run.layer.sink.name)
        fetched = schedule.executions[number].exchange.core_bytes
        for core in range(run.binding.cores) if all_cores else _cores(run):
            part = run.binding.part(run.box, core)
            if all(lo < hi for lo, hi in part):
                lacking = {}
                for name in run.layer.inputs:
                    elements = layer.count(part, name, _held(schedule, run, name, core))
                    needed = elements * schedule.graph.tensors[name].element_bytes
                    if needed > streamed[number, name]:
                        lacking[name] = needed - streamed[number, name]
                assert sum(lacking.values()) <= fetched, (
                    f"{run.layer.sink.name}: core {core} lacks {lacking} bytes and fetches {fetched}"
                )


def _cores(run: LayerRun) -> Iterable[int]:
    """Return the first two cores, one in the middle and the last; all where their parts are not equal."""
    count = run.binding.cores
    if any(size % factor for size, factor in zip(run.extents, run.binding.factors, strict=True)):
        return range(count)
    return sorted({0, min(1, count - 1), count // 2, count - 1})


def _held(schedule: Schedule, run: LayerRun, name: str, core: int) -> list[Box]:
    """Return the boxes of an operand that lie in the local buffer of ``core``."""
    slices = [schedule.slices[place] for place in run.reads.get(name, ())]
    assert all(held.tensor == name for held in slices)
    return [held.binding.part(held.box, core) for held in slices if held.memory == LOCAL and core < held.binding.cores]
