"""Bridge operators: extra ones that two operators can reuse which cannot reuse each other (ETO, section 6.2)."""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

from dsascape.tuner.search.reuse.operators import IterationSpace, Operator, OperatorKind, SketchSet, Window
from dsascape.tuner.search.reuse.sketch_sets import SketchesOf, gpu_sketches, with_sketches

_Place = tuple[OperatorKind, SketchSet, IterationSpace]
"""What tells bridges apart: they have no parameters of their own."""


def bridge_between(one: Operator, other: Operator, sketches_of: SketchesOf = gpu_sketches) -> Operator | None:
    """Return the bridge of two operators: each loop has the fewer iterations of both (definition 5).

    None for operators of different kinds or sketches, and where the bridge itself would have other sketches, so that
    neither could reuse it. Strides and dilations are 1, without padding. Groups are those that both can be split into:
    with one group only, a convolution in groups would be of another kind, and there is none.
    """
    if one.family != other.family or not one.loops.has_loops_of(other.loops):
        return None
    loops = one.loops.least(other.loops)
    groups = _groups(one, other, loops)
    if groups == 1 < one.groups:
        return None
    bridge = with_sketches(Operator(one.kind, loops, (), default_windows(one.windows, loops), groups), sketches_of)
    return bridge if bridge.sketches == one.sketches else None


def _groups(one: Operator, other: Operator, loops: IterationSpace) -> int:
    """Return the groups of a bridge: its channels if it is depthwise, so that nothing is reduced but taps."""
    if one.groups == 1:
        return 1
    channels = loops.space[1]
    if len(loops.reduction) == len(one.windows):
        return channels
    return math.gcd(one.groups, other.groups, channels)


def default_windows(windows: Sequence[Window], loops: IterationSpace) -> tuple[Window, ...]:
    """Return windows of stride and dilation 1 that do for the loops, with padding only where there is no other way."""
    return tuple([_default(window, loops.space[window.space], loops.reduction[window.tap]) for window in windows])


def _default(window: Window, elements: int, taps: int) -> Window:
    if not window.transposed:
        return Window(window.space, window.tap, elements + taps - 1)
    size = max(elements - taps + 1, 1)
    return Window(window.space, window.tap, size, padding=max(taps - elements, 0), transposed=True)


def bridges(
    operators: Sequence[Operator], hops: int | None = 1, sketches_of: SketchesOf = gpu_sketches
) -> tuple[Operator, ...]:
    """Return the bridges of operators that are at most so many hops away; ``hops`` None: all there are.

    Bridges of one hop are those of two operators, bridges of two those of one-hop bridges and operators, and so on;
    operators with m loops have none of more than m - 1 hops. They come hop by hop, in the order of the pairs. A bridge
    with the loops of an operator, of whatever stride, or of another bridge is none.
    """
    known = {_place(operator) for operator in operators}
    everything, fresh, found = list(operators), list(operators), list[Operator]()
    while fresh and (hops is None or hops > 0):
        hops = None if hops is None else hops - 1
        new: dict[_Place, Operator] = {}
        for one, other in _pairs(everything, fresh):
            bridge = bridge_between(one, other, sketches_of)
            if bridge is not None and _place(bridge) not in known:
                new.setdefault(_place(bridge), bridge)
        fresh = list(new.values())
        known |= new.keys()
        everything += fresh
        found += fresh
    return tuple(found)


def _place(operator: Operator) -> _Place:
    return operator.kind, operator.sketches, operator.loops


def _pairs(everything: Sequence[Operator], fresh: Sequence[Operator]) -> Iterable[tuple[Operator, Operator]]:
    """Return the pairs of which at least one is fresh; ``everything`` ends with the fresh ones."""
    old = len(everything) - len(fresh)
    for one, other in combinations(range(len(everything)), 2):
        if other >= old:
            yield everything[one], everything[other]
