"""The statements of a tree with the loops and conditions around them, and the bands that they run in.

A band is one iteration of all loops that are neither written out nor lanes: what compilers keep registers for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dsascape.scheduler.kernels.cost.trips import Limit, Within
from dsascape.scheduler.kernels.loops.affine import Affine
from dsascape.scheduler.kernels.loops.columns import Size, alike
from dsascape.scheduler.kernels.loops.nodes import (
    Ahead,
    Condition,
    Guard,
    Loop,
    LoopKind,
    Nodes,
    Outlined,
    Reach,
    Statement,
)

LANES = frozenset[LoopKind]({"vector", "thread"})
"""Kinds of loops whose iterations run at once."""
_AT_ONCE = frozenset[LoopKind]({"vector", "thread", "unrolled", "tensor"})
"""Kinds of loops whose iterations belong to one band."""


@dataclass(frozen=True, slots=True)
class Around:
    """One loop around a statement."""

    name: str
    extent: Size
    kind: LoopKind
    is_in_band: bool
    """Whether its iterations are of one band."""
    width: int = 1
    """Threads that run one of its iterations together."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A statement in its place."""

    statement: Statement
    around: tuple[Around, ...]
    """Loops around it, outermost first; of fused loops, those that they stand for."""
    conditions: tuple[Limit, ...]
    band: int
    """Number of the band that the statement runs in; statements of one band share it."""
    bounds: tuple[Limit, ...] = ()
    """Conditions, also among ``conditions``, that bounded loops set on their own iterations."""

    @property
    def part(self) -> tuple[str, str]:
        """Stage and role."""
        return self.statement.stage, self.statement.role


def placed_in(nodes: Nodes) -> tuple[Placed, ...]:
    """Return the statements of a tree, in the order in which they stand."""
    return tuple(_Walk().statements(nodes, (), (), ()))


class _Walk:
    """A walk through a tree that numbers the bands."""

    def __init__(self) -> None:
        self._band = 0

    def statements(
        self, nodes: Nodes, around: tuple[Around, ...], conditions: tuple[Limit, ...], bounds: tuple[Limit, ...]
    ) -> Iterator[Placed]:  # fmt: skip
        """Yield the statements of ``nodes``, with what is around them."""
        for node in nodes:
            if isinstance(node, Statement):
                yield Placed(node, around, (*conditions, *bounds), self._band, bounds)
            elif isinstance(node, Loop):
                yield from self._of_loop(node, around, conditions, bounds, is_alone=len(nodes) == 1)
            elif isinstance(node, Guard):
                yield from self.statements(node.body, around, (*conditions, *node.conditions), bounds)
            else:
                assert isinstance(node, Outlined | Ahead)
                yield from self.statements(node.body, around, conditions, bounds)

    def _of_loop(
        self, node: Loop, around: tuple[Around, ...], conditions: tuple[Limit, ...], bounds: tuple[Limit, ...], *,
        is_alone: bool,
    ) -> Iterator[Placed]:  # fmt: skip
        is_in_band = is_at_once(node)
        if node.kind == "thread":  # shared out anew among all threads
            around = tuple([each for each in around if each.kind != "thread"])
        loops = node.fused or ((node.name, node.extent),)
        own = [Around(name, extent, node.kind, is_in_band, node.width) for name, extent in loops]
        if not is_in_band:
            is_alone = is_alone or alike(node.extent > 1)  # else what stands beside it may be of its band
            around = tuple([
                each if each.kind in LANES else replace(each, is_in_band=False)
                for each in around
            ])  # fmt: skip
            self._band += 1
        yield from self.statements(node.body, (*around, *own), conditions, (*bounds, *bounds_of(node)))
        self._band += 0 if is_in_band else 1


def is_at_once(loop: Loop) -> bool:
    """Whether all iterations of a loop, and of what is inside of it, belong to one band."""
    return loop.kind in LANES or (loop.kind in _AT_ONCE and not has_bands(loop.body))


def has_bands(nodes: Nodes) -> bool:
    """Whether there is a loop inside of ``nodes`` that runs one iteration after the other."""
    for node in nodes:
        if isinstance(node, Loop) and node.kind not in _AT_ONCE and alike(node.extent > 1):
            return True
        if not isinstance(node, Statement) and has_bands(node.body):
            return True
    return False


def bounds_of(loop: Loop) -> tuple[Limit, ...]:
    """Return the conditions that a loop's reach sets on its iterations."""
    reach: Reach | None = loop.reach
    if reach is None:
        return ()
    if reach.part in ("before", "behind"):
        return (Within(loop.name, reach),)
    is_whole, step = reach.part == "whole", reach.step
    own = Affine(0, ((loop.name, step),))
    found: list[Limit] = []
    if reach.first is not None:
        found.append(Condition(reach.first + own * -1, 1 if is_whole else step))
    ends = [end for end in (reach.end, reach.stop) if end is not None]
    # A step is touched where it begins before the end, and whole where it ends before it.
    found += [Condition(own + end * -1, 1 - step if is_whole else 0) for end in ends]
    return tuple(found)
