"""Plans of reuse: which operator is tuned from nothing, which from which, and by which bridges (ETO, section 6)."""

import json
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic
from pydantic import TypeAdapter

from dsascape.tuner.search.reuse.bridges import bridges
from dsascape.tuner.search.reuse.choices import (
    FROM_NOTHING,
    ROOT,
    Choices,
    Parents,
    ReuseCost,
    arborescence,
    choices_of,
)
from dsascape.tuner.search.reuse.operators import Operator, ReuseError, is_reuse_pair
from dsascape.tuner.search.reuse.sketch_sets import SketchesOf, gpu_sketches
from dsascape.tuner.search.reuse.steiner import greedy_flac, improved
from dsascape.wording import count


@dataclass(frozen=True, slots=True)
class Tuning:
    """One operator of a plan, and what it is tuned from."""

    operator: Operator
    reuses: int | None
    """Number, in the plan, of the operator whose program it is tuned from; None: it is tuned from nothing."""
    cost: float
    """Expected trials."""
    is_bridge: bool = False
    """Whether it is tuned only for others to reuse."""


@dataclass(frozen=True, slots=True)
class ReusePlan:
    """Operators in an order in which they can be tuned: each behind the one whose program it reuses."""

    tunings: tuple[Tuning, ...]

    def __post_init__(self) -> None:
        reused = {each.reuses for each in self.tunings}
        for number, each in enumerate(self.tunings):
            where = f"tunings.{number}: {each.operator}"
            if not 0 < each.cost < math.inf:
                raise ReuseError(f"{where}: has the cost {each.cost}; needs a positive number of trials")
            if each.is_bridge and number not in reused:
                raise ReuseError(f"{where}: is a bridge that nothing is tuned from")
            if each.reuses is None:
                continue
            if not 0 <= each.reuses < number:
                raise ReuseError(f"{where}: reuses number {each.reuses}; needs one before it")
            if not is_reuse_pair(each.operator, self.tunings[each.reuses].operator):
                raise ReuseError(f"{where}: cannot reuse {self.tunings[each.reuses].operator}: they are no reuse pair")

    @property
    def cost(self) -> float:
        """Expected trials of all tunings together."""
        return sum([each.cost for each in self.tunings])

    @property
    def from_nothing(self) -> tuple[Operator, ...]:
        """Operators, bridges among them, that are tuned from nothing."""
        return tuple([each.operator for each in self.tunings if each.reuses is None])

    @property
    def bridges(self) -> tuple[Operator, ...]:
        """Bridges that are tuned."""
        return tuple([each.operator for each in self.tunings if each.is_bridge])

    def __str__(self) -> str:
        wanted = len(self.tunings) - len(self.bridges)
        lines = [
            f"{count(wanted, 'operator')} and {count(len(self.bridges), 'bridge')}: trials: {self.cost:,.1f},"
            f" {len(self.from_nothing)} tuned from nothing"
        ]
        for number, each in enumerate(self.tunings):
            source = "nothing" if each.reuses is None else f"number {each.reuses}"
            bridge = "bridge " if each.is_bridge else ""
            lines.append(f"  {number}: {bridge}{each.operator} from {source}, trials: {each.cost:,.1f}")
        return "\n".join(lines)


_ADAPTER = TypeAdapter(ReusePlan)


def plan_json(plan: ReusePlan) -> dict[str, Any]:
    """Return a plan as JSON, an object with the list ``tunings``."""
    written: dict[str, Any] = _ADAPTER.dump_python(plan, mode="json")
    return written


def read_plan(data: object, where: str = "plan") -> ReusePlan:
    """Return a plan of JSON; raise ``ReuseError`` with the first mistake in it, behind ``where``."""
    if not isinstance(data, Mapping):
        raise ReuseError(f"{where}: has {data!r}; needs an object with tunings")
    try:
        plan = _ADAPTER.validate_json(json.dumps(data), strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise ReuseError(f"{'.'.join([where, *map(str, first['loc'])])}: {first['msg']}") from error
    except ValueError as error:
        raise ReuseError(f"{where}: {error}") from error
    for unknown in _unknown(data, plan_json(plan), where):
        raise ReuseError(f"{unknown}: is unknown")
    return plan


def _unknown(data: object, known: object, where: str) -> Iterator[str]:
    """Yield the places of keys that a plan does not have."""
    if isinstance(data, Mapping) and isinstance(known, Mapping):
        for key, value in data.items():
            if key in known:
                yield from _unknown(value, known[key], f"{where}.{key}")
            else:
                yield f"{where}.{key}"
    elif isinstance(data, list) and isinstance(known, list):
        for number, (value, own) in enumerate(zip(data, known, strict=False)):
            yield from _unknown(value, own, f"{where}.{number}")


def plan_reuse(
    operators: Sequence[Operator],
    reuse_cost: ReuseCost,
    *,
    hops: int | None = 1,
    sketches_of: SketchesOf = gpu_sketches,
    from_nothing: float = FROM_NOTHING,
) -> ReusePlan:
    """Return the plan of least expected trials that is found for distinct operators.

    ``hops``: how far away bridges may be; 0: there are none; None: all there are. The paper takes 1.
    """
    extra = bridges(operators, hops, sketches_of)
    return plan_of(choices_of(operators, reuse_cost, extra, from_nothing))


def plan_of(choices: Choices) -> ReusePlan:
    """Return the plan of the cheapest tree that is found in a graph.

    Without bridges it is the least there is, with them that of the greedy algorithm; going beyond the paper, this is
    improved by an exact tree over the same nodes, and is never dearer than the least without bridges.
    """
    plain = arborescence(choices, range(choices.wanted)) if choices.wanted else {}
    if choices.wanted == len(choices.operators):
        return _written(choices, plain)
    greedy = improved(choices, greedy_flac(choices))
    return _written(choices, min(plain, greedy, key=choices.cost))


def _written(choices: Choices, tree: Parents) -> ReusePlan:
    """Return a tree as a plan: breadth first from the root, operators of one source in their order."""
    below: dict[int, list[int]] = {}
    for target, source in sorted(tree.items()):
        below.setdefault(source, []).append(target)
    numbers: dict[int, int | None] = {ROOT: None}
    tunings: list[Tuning] = []
    queue = deque([ROOT])
    while queue:
        source = queue.popleft()
        for target in below.get(source, ()):
            cost = choices.costs[source, target]
            tunings.append(Tuning(choices.operators[target], numbers[source], cost, target >= choices.wanted))
            numbers[target] = len(tunings) - 1
            queue.append(target)
    return ReusePlan(tuple(tunings))
