"""Functions of a policy by machine kind: a policy that schedules has one for each kind, in files of their own."""

from collections.abc import Mapping
from typing import Any, TypeVar

from dsascape.scheduler.errors import ScheduleError

_T = TypeVar("_T")


def way_on(costs: Any, policy: str, ways: Mapping[str, _T]) -> _T:
    """Return the entry of ``ways`` for the kind of machine that ``costs`` is the cost model of.

    Raises ``ScheduleError`` for a kind that has none.
    """
    spec = costs.view.spec
    check_kind(policy, ways, spec)
    return ways[spec.kind]


def check_kind(policy: str, kinds: Mapping[str, Any] | tuple[str, ...], spec: Any) -> None:
    """Raise ``ScheduleError`` if the machine ``spec`` is of none of the kinds that a policy schedules."""
    if spec.kind not in kinds:
        raise ScheduleError(f"policy {policy} schedules {', '.join(kinds)}; {spec.name} is a {spec.kind}")
