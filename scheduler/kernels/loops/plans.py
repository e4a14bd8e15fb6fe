"""Steps sorted by stage, and the elements that stages need of each other inside of loops."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar, cast

from dsascape.scheduler.kernels.loops.affine import Range, Ranges, joined_ranges, loop_ranges, read_ranges
from dsascape.scheduler.kernels.loops.checks import SketchError, StepError, check_name, check_rows, check_step
from dsascape.scheduler.kernels.loops.naive import NaiveProgram, copy_order
from dsascape.scheduler.kernels.loops.nodes import BLOCKS, FACTOR, SHARES, SUMS, Stage, reads_of
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Inline,
    Layout,
    Parallel,
    PartialSums,
    Running,
    ShareReduction,
    Step,
    Steps,
)
from dsascape.scheduler.kernels.streaming import Softmax, softmax_of
from dsascape.wording import count
from dsascape.workloads.loopnest import Extents

_StepT = TypeVar("_StepT")


@dataclass
class StagePlan:
    """One stage with its steps."""

    stage: Stage
    steps: dict[type[Step], Step] = field(default_factory=dict)
    """Steps of the stage, one of each kind: the last where there are several."""
    copies: dict[str, str] = field(default_factory=dict)
    """Copies that it reads in place of tensors."""
    is_handed_over: bool = False
    """Whether it is where others hand over their sums, computed with these."""

    def get(self, kind: type[_StepT]) -> _StepT | None:
        """Return the stage's step of that kind; None if it has none."""
        found: Any = self.steps.get(cast(Any, kind))
        return cast("_StepT | None", found)

    @property
    def at(self) -> ComputeAt | None:
        """Step that computes it inside of another stage's loops, if there is one."""
        return self.get(ComputeAt)

    @property
    def is_inlined(self) -> bool:
        """Whether its elements are computed where they are read."""
        return Inline in self.steps

    @property
    def parallel(self) -> int:
        """Number of its outermost loops that are fused into one, split over threads."""
        step = self.get(Parallel)
        return 0 if step is None else step.loops

    @property
    def groups(self) -> tuple[int, ...]:
        """Numbers of its outermost loops that are fused with each other, group by group."""
        bind = self.get(Bind)
        return (self.parallel,) if bind is None else (bind.blocks, *(1,) * bind.serial, bind.threads)

    def rounded(self, box: Ranges, extents: Mapping[str, int]) -> Ranges:
        """Return the elements that are computed where ``box`` is needed; ``extents``: iterations of loops."""
        if self.at is not None and self.at.scope == "shared" and self.stage.kind != "copy":
            return tuple([
                each.inside(size, extents).or_whole(size, each.extent >= size)
                for each, size in zip(box, self.stage.shape, strict=True)
            ])  # fmt: skip
        if self.at is None or self.at.rounded is None:
            return box
        return tuple([each.rounded(part) for each, part in zip(box, self.at.rounded, strict=True)])


_NO_LOOPS: Mapping[int, Range] = MappingProxyType({})
_STAGES_OF_EACH, _STAGES_BESIDE = 8, 64
"""Stages that steps may make for each of the kernel's, and besides: copies for a few readers, in two memories."""


class Plans:
    """The stages of a naive program with what steps say about each of them, producers first."""

    def __init__(self, naive: NaiveProgram, steps: Steps) -> None:
        self.naive = naive
        self.by_stage = {name: StagePlan(stage) for name, stage in naive.stages.items()}
        self.layouts: list[Layout] = []
        self.running: dict[str, Softmax] = {}
        """The softmax whose statistics run along with the sums of a stage."""
        graph = naive.layer.graph
        self._weights = [name for name in naive.layer.inputs if graph.tensors[name].role == "weight"]
        most = _STAGES_OF_EACH * len(self.by_stage) + _STAGES_BESIDE
        for step in steps:
            self._take(step)
            if len(self.by_stage) > most:
                raise StepError(f"{type(step).__name__}: there are more than {count(most, 'stage')} with their copies")
        placed = [(name, plan.at) for name, plan in self.by_stage.items() if plan.at is not None]
        for name, at in placed:
            self._check_consumer(name, at)
        for name, at in placed:
            if not self.by_stage[name].is_inlined:  # else it is computed anew where it is read
                self._check_readers(name, at)

    def _check_consumer(self, name: str, at: ComputeAt) -> None:
        """Raise ``StepError`` for a stage that is computed inside of one that does not come after it."""
        names = list(self.by_stage)
        is_behind = names.index(at.consumer) > names.index(name) or (name in self.naive.results and name != at.consumer)
        if not is_behind or not self.has_loops(at.consumer):
            raise StepError(f"ComputeAt: {name!r} is computed inside of {at.consumer!r}, which has no loops behind it")

    def _check_readers(self, name: str, at: ComputeAt) -> None:
        """Raise ``StepError`` for a stage that is read outside of the loops that it is computed in."""
        depth = self.depth_of(at)
        for reader in self._readers(name):
            if reader != at.consumer and not self.is_inside(reader, at.consumer, depth):
                raise StepError(f"ComputeAt: {name!r} is computed inside of {at.consumer!r}; {reader!r} reads it, too")

    def _readers(self, name: str) -> set[str]:
        """Return the stages with loops that read one, also by what is inlined into them."""
        found: set[str] = set()
        for reader in self._direct_readers.get(name, ()):
            found |= self._readers(reader) if self.by_stage[reader].is_inlined else set()
            found |= {reader} if self.has_loops(reader) else set()
        return found

    @cached_property
    def _direct_readers(self) -> Mapping[str, tuple[str, ...]]:
        """Stages that read each stage or tensor themselves; asked for when all steps are known."""
        found: dict[str, dict[str, None]] = {}
        for reader, plan in self.by_stage.items():
            stage = plan.stage
            sources = [stage.source] if stage.kind == "copy" else [
                plan.copies.get(read.tensor, read.tensor) for read in reads_of(stage, stage.nests)
            ]  # fmt: skip
            for source in sources:
                if source != reader and not plan.is_handed_over:
                    found.setdefault(source, {})[reader] = None
        return {source: tuple(readers) for source, readers in found.items()}

    def has_loops(self, name: str) -> bool:
        """Whether a stage has loops of its own: it is not inlined, or is a result, which is stored anyhow."""
        return not self.by_stage[name].is_inlined or name in self.naive.results

    def _take(self, step: Step) -> None:
        if isinstance(step, CacheRead):
            self._take_copy(step)
        elif isinstance(step, CacheWrite):
            self._take_write(step)
        else:
            plan = self._plan(step, step.stage)
            check_step(step, plan.stage, self.naive.results, self._weights)
            plan.steps[type(step)] = step
            if isinstance(step, ComputeAt):
                self._plan(step, step.consumer)
            elif isinstance(step, PartialSums):
                plan.stage = replace(plan.stage, run=step.loops)
            elif isinstance(step, ShareReduction):
                self._take_shared(step, plan)
            elif isinstance(step, Running):
                self._take_running(step, plan)
            elif isinstance(step, Layout):
                self.layouts.append(step)

    def _plan(self, step: Step, name: str) -> StagePlan:
        """Return what is known of a stage so far."""
        try:
            return self.by_stage[name]
        except KeyError:
            raise StepError(f"{type(step).__name__}: the kernel has no stage {name!r}") from None

    def _take_copy(self, step: CacheRead) -> None:
        check_name(step, step.stage, (*self.by_stage, *self.naive.layer.graph.tensors))
        reader = self._plan(step, step.reader)
        reads = [read for read in reads_of(reader.stage, reader.stage.nests) if read.tensor == step.tensor]
        if not reads:
            raise StepError(f"CacheRead: {step.reader!r} does not read {step.tensor!r}")
        shape = reads[0].shape
        order = self.naive.order_of(step.tensor, len(shape))
        if step.scope == "stack":
            order = copy_order(reader.stage.nests[0], reads[0], order, reader.stage.order)
        check_rows(step, len(shape))
        copy = Stage(step.stage, "copy", step.tensor, shape, order, (), source=step.tensor)
        if step.tensor in reader.copies:
            raise StepError(f"CacheRead: {step.reader!r} has a copy of {step.tensor!r}, {reader.copies[step.tensor]!r}")
        reader.copies[step.tensor] = step.stage
        self._insert(StagePlan(copy, {CacheRead: step}), before=step.reader)

    def _take_write(self, step: CacheWrite) -> None:
        check_name(step, step.stage, (*self.by_stage, *self.naive.layer.graph.tensors))
        result = self._plan(step, step.result)
        if result.stage.kind != "map":
            raise StepError(f"CacheWrite: {step.result!r} is no map from element to element")
        computing = replace(result.stage, name=step.stage)
        result.stage = replace(result.stage, kind="copy", nests=(), source=step.stage)
        self._insert(StagePlan(computing, copies=result.copies), before=step.result)

    def _take_shared(self, step: ShareReduction, plan: StagePlan) -> None:
        check_name(step, step.stage + SHARES, (*self.by_stage, *self.naive.layer.graph.tensors))
        if len(step.loops) > 1:
            plan.stage = replace(plan.stage, run=step.loops)
        for name in (step.stage, *([step.stage + BLOCKS] if step.threads > 1 else [])):
            over = replace(plan.stage, name=name + SHARES, kind="copy", nests=(), source=step.stage, run=())
            names = list(self.by_stage)
            self._insert(StagePlan(over, is_handed_over=True), before=names[names.index(step.stage) + 1])

    def _take_running(self, step: Running, plan: StagePlan) -> None:
        producer = self.naive.layer.graph.producer.get(step.tensor, -1)
        op = self.naive.layer.graph.ops[producer] if producer in self.naive.layer.ops else None
        softmax = None if op is None else softmax_of(op)
        reads = [read.tensor for read in reads_of(plan.stage, plan.stage.nests)]
        if softmax is None or plan.stage.kind != "sum" or step.tensor not in reads:
            raise StepError(f"Running: {step.stage!r} is no sum of products with a softmax {step.tensor!r}")
        names = softmax.exponentials, softmax.maximum, softmax.total
        if names != (step.exponentials, step.maximum, step.total):
            raise StepError(f"Running: {step.tensor!r} has exponentials, a maximum and a sum in {', '.join(names)}")
        maximum = self._plan(step, softmax.maximum).stage
        factor = Stage(softmax.maximum + FACTOR, "copy", maximum.tensor, maximum.shape, maximum.order, (), maximum.name)
        self.running[step.stage] = softmax
        plan.copies[softmax.rows] = softmax.exponentials
        self._insert(StagePlan(factor, is_handed_over=True), before=softmax.exponentials)

    def statistic(self, name: str) -> Softmax | None:
        """Return the softmax whose running maximum or sum a stage is; None for any other stage."""
        return next((each for each in self.running.values() if name in (each.maximum, each.total)), None)

    def _insert(self, plan: StagePlan, before: str) -> None:
        """Put a stage in front of another one."""
        rest: dict[str, StagePlan] = {}
        for name, each in self.by_stage.items():
            if name == before:
                rest[plan.stage.name] = plan
            rest[name] = each
        self.by_stage = rest

    def parts(self, shape: Extents, dim: int) -> tuple[int, ...]:
        """Return the elements of the parts that a dimension of a tensor of ``shape`` consists of, longest first.

        Of a dimension that several loops of a nest write, such as channels in groups: what one iteration of each but
        the innermost writes.
        """
        return self._parts.get((shape, dim), ())

    @cached_property
    def _parts(self) -> Mapping[tuple[Extents, int], tuple[int, ...]]:
        found: dict[tuple[Extents, int], set[int]] = {}
        for plan in self.by_stage.values():
            for nest in plan.stage.nests:
                for dim, index in enumerate(nest.write.indices):
                    own = {stride for loop, stride in index.terms if stride > 1 and nest.loops[loop].extent > 1}
                    found.setdefault((nest.write.shape, dim), set()).update(own)
        return {key: tuple(sorted(own, reverse=True)) for key, own in found.items() if own}

    def whole(self, plan: StagePlan) -> Ranges:
        """Return the elements that a stage computes by itself: all of its tensor; of a copy, what is read of it."""
        stage = plan.stage
        found: Ranges | None = None
        for reader in self.by_stage.values():
            if reader.copies.get(stage.tensor) == stage.name:
                for nest in reader.stage.nests:
                    loops = [Range.whole(loop.extent) for loop in nest.loops]
                    for read in reads_of(reader.stage, (nest,)):
                        if read.tensor == stage.tensor:
                            own = read_ranges(read, loops, {})
                            found = own if found is None else joined_ranges(found, own, stage.shape, {})
        return tuple(map(Range.whole, stage.shape)) if found is None else found

    def needs_of(
        self, plan: StagePlan, box: Ranges, extents: Mapping[str, int], reduced: Mapping[int, Range],
        wanted: Collection[str],
    ) -> Iterator[tuple[str, Ranges, Sequence[int]]]:  # fmt: skip
        """Yield what a stage reads to write ``box`` of what is ``wanted``: tensor or stage, ranges, shape."""
        stage = plan.stage
        if stage.kind == "copy":
            if stage.source not in wanted:
                return
            is_result = stage.name == stage.tensor
            inside = box if is_result else tuple([
                each.inside(size, extents) for each, size in zip(box, stage.shape, strict=True)
            ])  # fmt: skip
            yield stage.source, inside, stage.shape
            return
        for nest in stage.nests:
            reads = [
                (read, name) for read in reads_of(stage, (nest,)) for name in self._names_read(plan, read.tensor)
                if name in wanted
            ]  # fmt: skip
            if reads:
                loops = loop_ranges(nest, box, extents)
                for loop, each in reduced.items():
                    loops[loop] = each
                for read, name in reads:
                    yield name, read_ranges(read, loops, extents), read.shape

    def _names_read(self, plan: StagePlan, tensor: str) -> tuple[str, ...]:
        """Return what a stage reads in place of a tensor: a copy; of a softmax in pieces, itself for the statistics."""
        own = plan.copies.get(tensor, tensor)
        running = self.running.get(plan.stage.name)
        return (own,) if running is None or tensor != running.rows else (own, tensor)

    def _leading_to(self, goals: Iterable[str]) -> set[str]:
        """Return the stages that need some of ``goals``, by themselves or by others, and ``goals``."""
        found, waiting = set(goals), list(goals)
        while waiting:
            name = waiting.pop()
            of_statistics = [stage for stage, softmax in self.running.items() if softmax.rows == name]
            for reader in (*self._direct_readers.get(name, ()), *of_statistics):
                if reader not in found:
                    found.add(reader)
                    waiting.append(reader)
        return found

    def demanded(
        self, consumer: str, depth: int, box: Ranges, reduced: Mapping[int, Range], extents: Mapping[str, int],
        goals: Iterable[str],
    ) -> Mapping[str, Ranges]:  # fmt: skip
        """Return what one iteration of the outermost ``depth`` loops of ``consumer`` needs of ``goals``.

        These are stages inside; the answer has those in between, too. ``extents``: iterations of the loops that the
        ``box`` moves with.
        """
        found: dict[str, Ranges] = {}
        softmaxes = [softmax.exponentials for softmax in self.running.values()]  # which say how far statistics go
        wanted = self._leading_to([*goals, *softmaxes])

        def add(plan: StagePlan, own: Ranges, loops: Mapping[int, Range] = _NO_LOOPS) -> None:
            for name, ranges, shape in self.needs_of(plan, own, extents, loops, wanted):
                known = found.get(name)
                found[name] = ranges if known is None else joined_ranges(known, ranges, shape, extents)

        names = list(self.by_stage)
        add(self.by_stage[consumer], box, reduced)
        for name in self.naive.results:
            if self.is_inside(name, consumer, depth):
                own = self.beside(name, consumer, box)
                shape = self.by_stage[name].stage.shape
                if own is not None and name in wanted:
                    found[name] = joined_ranges(found[name], own, shape, extents) if name in found else own
                    add(self.by_stage[name], found[name])
        for name in reversed(names[: names.index(consumer)]):
            plan = self.by_stage[name]
            if name in found and (plan.is_inlined or self.is_inside(name, consumer, depth)):
                found[name] = plan.rounded(found[name], extents)
                add(plan, found[name], self._part(plan.stage, {consumer: box, **found}))
        return found

    def _part(self, stage: Stage, found: Mapping[str, Ranges]) -> Mapping[int, Range]:
        """Return the iterations of a running statistic's reduction that parts of the exponentials need, if any do."""
        softmax = self.statistic(stage.name.removesuffix(SUMS)) if stage.kind == "sum" else None
        part = None if softmax is None else found.get(softmax.exponentials)
        return {} if softmax is None or part is None else {softmax.loop: part[softmax.columns]}

    def is_inside(self, name: str, consumer: str, depth: int) -> bool:
        """Whether a stage is computed inside of the outermost ``depth`` loops of ``consumer``, or of what is there."""
        at = self.by_stage[name].at
        if at is None:
            return False
        if at.consumer == consumer:
            return self.depth_of(at) >= depth
        return self.is_inside(at.consumer, consumer, depth)

    def depth_of(self, at: ComputeAt) -> int:
        """Return how many loops of its consumer a stage is computed inside of; fused loops are one."""
        begin = 0
        for group in self.by_stage[at.consumer].groups:
            if begin < at.loops <= begin + group:
                return begin + group
            begin += group
        return at.loops

    def beside(self, name: str, consumer: str, box: Ranges) -> Ranges | None:
        """Return the elements of a result that belong to ``box`` of the ``consumer`` that it is stored along with.

        Along a dimension of equal size they are the same; where either has one element only, they are all. None where
        its dimensions are others, and all of it is read for the consumer: it is stored where it is computed for that.

        Raises ``SketchError`` where neither holds.
        """
        own, other = self.by_stage[name].stage.shape, self.by_stage[consumer].stage.shape
        fits = len(own) == len(other) and all(a == b or 1 in (a, b) for a, b in zip(own, other, strict=True))
        if fits:
            return tuple([
                each if size == whole else Range.whole(size) for each, size, whole in zip(box, own, other, strict=True)
            ])  # fmt: skip
        if not self.naive.is_read_whole(name, consumer):
            raise SketchError(f"ComputeAt: {name!r} of {list(own)} is no result along with one of {list(other)}")
        return None

    def attached(self, consumer: str, depth: int) -> list[StagePlan]:
        """Return the stages that are computed right inside of the outermost ``depth`` loops of ``consumer``."""
        return self._attached.get((consumer, depth), [])

    @cached_property
    def _attached(self) -> Mapping[tuple[str, int], list[StagePlan]]:
        """Stages by what they are computed inside of; asked for when all steps are known."""
        found: dict[tuple[str, int], list[StagePlan]] = {}
        for plan in self.by_stage.values():
            at = plan.at
            if at is not None:
                found.setdefault((at.consumer, self.depth_of(at)), []).append(plan)
        return found
