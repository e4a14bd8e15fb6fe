"""Sketches of a kernel: the structures that derivation rules make of its naive program (Ansor, section 4.1).

A state is a partial sketch and the node that it works on, from output to input. Rules are applied to all states in a
queue until no node is left; what steps say then, without sizes, is a sketch.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dsascape.scheduler.gpu.held_stages import HeldStages
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.steps import ComputeAt, Inline, Level, Step, Steps, Tile, of_stage
from dsascape.tuner.search.analysis import KernelNodes, SearchMachine
from dsascape.workloads.loopnest import LoopNest


@dataclass(frozen=True)
class State:
    """A partial sketch and its working node."""

    steps: Steps
    position: int
    """Position of the working node among `KernelNodes.names`; below 0 when the sketch is finished."""
    cached: frozenset[str] = frozenset()
    """Nodes whose sums have a cache: the node itself copies them to where they belong."""
    derivation: tuple[str, ...] = ()
    """Names of the rules that have been applied, first to last."""

    def next(self, *steps: Step) -> "State":
        """Return the state with ``steps`` added, at the node in front of the working node."""
        return replace(self, steps=(*self.steps, *steps), position=self.position - 1)

    def without_tiles(self, stage: str) -> "State":
        """Return the state without the tiles of a stage."""
        kept = [step for step in self.steps if not (isinstance(step, Tile) and step.stage == stage)]
        return replace(self, steps=tuple(kept))


@dataclass(frozen=True)
class Derived:
    """States that a rule derives from one."""

    states: tuple[State, ...]
    is_last: bool = False
    """Whether the rules behind it are not tried."""


@dataclass(frozen=True)
class Context:
    """Input of the rules: the kernel's nodes and the machine."""

    nodes: KernelNodes
    machine: SearchMachine

    @cached_property
    def held(self) -> HeldStages:
        """Stages that threads of a GPU's block compute in loops of their own."""
        layer = self.nodes.naive.layer
        return HeldStages(self.nodes.naive, (1,) * len(layer.sink.shape))

    def working(self, state: State) -> str:
        """Return the name of the node that ``state`` works on."""
        return self.nodes.names[state.position]

    def is_inlined(self, state: State, name: str) -> bool:
        """Whether ``state`` has inlined a node."""
        return any(isinstance(step, Inline) for step in of_stage(state.steps, name))

    def readers(self, state: State, name: str) -> set[str]:
        """Return the nodes with loops of their own that read a node, also by what is inlined into them."""
        found: set[str] = set()
        for reader in self.nodes.readers[name]:
            found |= self.readers(state, reader) if self.is_inlined(state, reader) else {reader}
        return found

    def fusible_consumer(self, state: State, name: str) -> str | None:
        """Return the only reader of a node that computes each element from the same element: HasFusibleConsumer.

        A node whose sums have a cache copies them, and so is their consumer itself.
        """
        if name in state.cached:
            return name
        readers = self.readers(state, name)
        if self.nodes.by_name[name].is_result or len(readers) != 1 or not self._is_matched(state, name):
            return None
        (reader,) = readers
        is_taken = any(isinstance(step, ComputeAt) and step.consumer == reader for step in state.steps)
        return None if is_taken else reader

    def _is_matched(self, state: State, name: str) -> bool:
        return all(
            self.nodes.matches(name, reader) and (not self.is_inlined(state, reader) or self._is_matched(state, reader))
            for reader in self.nodes.readers[name]
        )

    def space(self, name: str) -> Level:
        """Return a level of tiles of all of a node's dimensions as they lie in memory, without sizes."""
        stage = self.nodes.by_name[name].stage
        assert stage is not None
        return Level("space", stage.order, None)

    def reductions(self, nest: LoopNest, without: Sequence[int] = ()) -> Level:
        """Return a level of the reduction loops of a nest, those of most iterations innermost, without sizes."""
        loops = [number for number, loop in enumerate(nest.loops) if loop.reduction and number not in without]
        return Level("reduction", tuple(sorted(loops, key=lambda number: nest.loops[number].extent)), None)


Rule = Callable[[Context, State], Derived | None]
"""A derivation rule: what it makes of a state, or None where its condition does not hold."""


@dataclass(frozen=True)
class Sketch:
    """The structure of a program: steps without sizes, and without annotations."""

    steps: Steps
    derivation: tuple[str, ...] = field(compare=False, default=())
    """Names of the rules that made it, first to last."""

    @property
    def tiled(self) -> tuple[str, ...]:
        """Stages of sums, or maps, that are tiled at several levels."""
        return tuple([step.stage for step in self.steps if isinstance(step, Tile) and is_multi_level(step)])


def is_multi_level(step: Tile) -> bool:
    """Whether tiles are those of "SSRSRS", or what of it is not part of a consumer."""
    reductions = sum([level.axes == "reduction" for level in step.levels])
    return reductions > 1 or (not step.stage.endswith(SUMS) and len(step.levels) > _FUSED_LEVELS)


_FUSED_LEVELS = 2
"""Most space levels that the consumer of a tiled node has."""


def sketches(context: Context, rules: Sequence[Rule]) -> tuple[Sketch, ...]:
    """Return all sketches that ``rules``, the first ones first, derive of a kernel, in a fixed order."""
    queue = deque([State((), len(context.nodes.names) - 1)])
    found: dict[Steps, Sketch] = {}
    while queue:
        state = queue.popleft()
        if state.position < 0:
            found.setdefault(state.steps, Sketch(state.steps, state.derivation))
            continue
        queue.extend(_derived(context, state, rules))
    return tuple(found.values())


def _derived(context: Context, state: State, rules: Sequence[Rule]) -> Iterator[State]:
    for rule in rules:
        derived = rule(context, state)
        if derived is None:
            continue
        for each in derived.states:
            yield replace(each, derivation=(*state.derivation, rule.__name__))
        if derived.is_last:
            return
