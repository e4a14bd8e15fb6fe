"""Comparison of two sets of stored points: what got slower, faster or lost, and which layer and resource explain it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dsascape.experiments.results.snapshot import CompareError, KeptLayer, KeptPoint, Snapshot
from dsascape.wording import count

TIMES = ("measured_s", "latency_s")
"""Columns of the time that points are compared by; the first that both have."""
_ENERGY = "energy_j"
_RESOURCES = "critical."
_NOT_COMPARED = ("wall_s", "batch", "throughput_per_s", "is_base")
_NOT_COMPARED_GROUPS = ("critical.", "utilisation.")
_SMALLEST = 1e-6
"""Smallest relative change that is not one of rounding."""
_MOST_EXPLAINED = 50
_MOST_NAMED = 3
_LEAST_SHARE = 0.05
"""Smallest part of a point's change with which a layer or resource explains it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A layer or resource that explains a change: its seconds before and after."""

    name: str
    before_s: float
    after_s: float
    limited_by: str = ""
    """Limiting resource of a layer afterwards, with the one before if it differs; empty for a resource."""
    layer: str = ""
    """Name of a layer in its plan, such as ``#41 Conv+Relu 512x7x7``, before and after if it differs; empty for a
    resource, and where names are not stored."""

    @property
    def change_s(self) -> float:
        """Seconds that it takes more than before."""
        return self.after_s - self.before_s


@dataclass(frozen=True)
class Change:
    """One point before and after."""

    before: KeptPoint
    after: KeptPoint
    time: str
    """Column of the compared time; empty where one of both has none."""
    resources: tuple[Moved, ...] = ()
    """Resources of the critical path whose time moved most."""
    layers: tuple[Moved, ...] = ()
    """Layers whose time moved most; empty where layers are not stored."""

    def relative(self, column: str) -> float | None:
        """Return the relative change of a figure: 0.1 is ten per cent more; None where one of both is missing or 0."""
        before, after = self.before.figures.get(column), self.after.figures.get(column)
        return None if before is None or after is None or before == 0 else after / before - 1

    @property
    def slower(self) -> float | None:
        """Relative change of the time; None where one of both has none."""
        return self.relative(self.time) if self.time else None

    @property
    def has_moved(self) -> bool:
        """Whether time or energy differ."""
        return any(abs(self.relative(name) or 0.0) > _SMALLEST for name in (self.time, _ENERGY))

    @property
    def others(self) -> dict[str, tuple[float, float]]:
        """Further figures that differ, as (before, after) by column."""
        both = sorted(self.before.figures.keys() & self.after.figures.keys())
        skipped = (*TIMES, _ENERGY, *_NOT_COMPARED)
        values = {name: (self.before.figures[name], self.after.figures[name]) for name in both if name not in skipped}
        return {
            name: (before, after)
            for name, (before, after) in values.items()
            if not name.startswith(_NOT_COMPARED_GROUPS) and abs(after - before) > _SMALLEST * abs(before)
        }


@dataclass(frozen=True, slots=True)
class Flip:
    """Two policies whose order by time has changed at one place."""

    place: str
    """Point without its policy."""
    faster_before: str
    faster_after: str
    before: float
    """Time of ``faster_after`` by that of ``faster_before``, before; more than 1."""
    after: float
    """Ratio of the same times, after; less than 1."""


@dataclass(frozen=True)
class Comparison:
    """Everything that differs between two sets of points."""

    before: Snapshot
    after: Snapshot
    changes: tuple[Change, ...]
    """Points of both, those that got slower most first."""
    new: tuple[KeptPoint, ...]
    missing: tuple[KeptPoint, ...]
    flips: tuple[Flip, ...]

    @property
    def moved(self) -> tuple[Change, ...]:
        """Points whose time or energy differ."""
        return tuple(change for change in self.changes if change.has_moved)

    @property
    def failing(self) -> tuple[Change, ...]:
        """Points that had figures and have none any more."""
        return tuple(each for each in self.changes if each.after.error and not each.before.error)

    @property
    def repaired(self) -> tuple[Change, ...]:
        """Points that had no figures and have some now."""
        return tuple(each for each in self.changes if each.before.error and not each.after.error)

    def slower_than(self, limit: float) -> tuple[Change, ...]:
        """Return the points whose time grew by more than the fraction ``limit``, and those that no longer run."""
        slower = [each for each in self.changes if (each.slower or 0.0) > limit]
        return (*slower, *self.failing)


def compared(before: Snapshot, after: Snapshot) -> Comparison:
    """Compare two sets of points, matched by network, machine, policy, sizes and swept values.

    Raises ``CompareError`` if no point is in both.
    """
    pairs = _pairs(before, after)
    if not pairs:
        raise CompareError(_nothing_common(before, after))
    changes = [Change(old, new, _common_time(old, new)) for old, new in pairs]
    changes.sort(key=lambda change: -(change.slower or 0.0))
    largest = sorted(changes, key=lambda change: -abs(change.slower or 0.0))[:_MOST_EXPLAINED]
    explained = {id(each) for each in largest if each.has_moved}
    told = [_explained(each, before, after) if id(each) in explained else each for each in changes]
    old_points, new_points = ({id(pair[side]) for pair in pairs} for side in (0, 1))
    return Comparison(
        before, after, tuple(told),
        new=tuple(point for point in after.points if id(point) not in new_points),
        missing=tuple(point for point in before.points if id(point) not in old_points),
        flips=tuple(_flips(changes)),
    )  # fmt: skip


def _common_time(old: KeptPoint, new: KeptPoint) -> str:
    return next((name for name in TIMES if name in old.figures and name in new.figures), "")


def _pairs(before: Snapshot, after: Snapshot) -> list[tuple[KeptPoint, KeptPoint]]:
    """Return the points of both; a failed one may lack the batch, which only a run states."""
    old, new = _by_names(before.points), _by_names(after.points)
    pairs = [(point, new[names]) for names, point in old.items() if names in new]
    left = {_key(_without_batch(point).names): point for names, point in old.items() if names not in new}
    for names, point in new.items():
        other = None if names in old else left.get(_key(_without_batch(point).names))
        if other is not None and (other.error or point.error):
            pairs.append((left.pop(_key(_without_batch(point).names)), point))
    return pairs


def _key(names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(names.items()))


def _by_names(points: Sequence[KeptPoint]) -> dict[tuple[tuple[str, str], ...], KeptPoint]:
    return {_key(point.names): point for point in points}


def _without_batch(point: KeptPoint) -> KeptPoint:
    return replace(point, names={name: value for name, value in point.names.items() if name != "batch"})


def _nothing_common(before: Snapshot, after: Snapshot) -> str:
    """Return the message for inputs without a common point, with the columns in which they differ."""
    old, new = _values(before), _values(after)
    differ = [name for name in sorted({*old, *new}) if not old.get(name, {""}) & new.get(name, {""})]
    told = [f"; {name}: {_some(old.get(name, set()))} and {_some(new.get(name, set()))}" for name in differ]
    may = differ and "model" not in differ
    hint = f"; compared with --ignore {','.join(differ)}, they may differ in that" if may else ""
    return (
        f"{before.place} ({count(len(before.points), 'point')}) and {after.place}"
        f" ({count(len(after.points), 'point')}) have no point in common{''.join(told[:_MOST_NAMED])}{hint}"
    )


def _values(snapshot: Snapshot) -> dict[str, set[str]]:
    """Return the values of each column that identifies points; an empty text where a point has none."""
    names = {name for point in snapshot.points for name in point.names}
    return {name: {point.names.get(name, "") for point in snapshot.points} for name in names}


def _some(values: set[str]) -> str:
    shown = sorted(values)[:_MOST_NAMED]
    return ", ".join(shown) + (", ..." if len(values) > len(shown) else "") if shown else "none"


def _explained(change: Change, before: Snapshot, after: Snapshot) -> Change:
    """Return the change with the resources and layers that moved most."""
    old, new = change.before, change.after
    total_s = (new.figures.get("latency_s", 0.0)) - old.figures.get("latency_s", 0.0)
    resources = {
        name.removeprefix(_RESOURCES): (_resource_s(old, name), _resource_s(new, name))
        for name in sorted({*old.figures, *new.figures})
        if name.startswith(_RESOURCES)
    }
    old_layers, new_layers = _by_layer(before.layers_of(old)), _by_layer(after.layers_of(new))
    layers = []
    if old_layers and new_layers:
        for name in sorted({*old_layers, *new_layers}):
            a, b = old_layers.get(name), new_layers.get(name)
            limits = [each.limited_by for each in (a, b) if each is not None and each.limited_by]
            seconds = a.critical_s if a else 0.0, b.critical_s if b else 0.0
            shown = " -> ".join(dict.fromkeys(each.shown for each in (a, b) if each is not None and each.name))
            layers.append(Moved(name, *seconds, " -> ".join(dict.fromkeys(limits)), shown))
    moved = [Moved(name, *seconds) for name, seconds in resources.items()]
    return replace(change, resources=_largest(moved, total_s), layers=_largest(layers, total_s))


def _resource_s(point: KeptPoint, column: str) -> float:
    return point.figures.get(column, 0.0) * point.figures.get("latency_s", 0.0)


def _by_layer(layers: Sequence[KeptLayer]) -> dict[str, KeptLayer]:
    return {each.layer: each for each in layers}


def _largest(moved: Sequence[Moved], total_s: float) -> tuple[Moved, ...]:
    """Return the parts that explain most of a change of ``total_s``, those in its direction first."""
    sign = 1 if total_s >= 0 else -1
    telling = [each for each in moved if abs(each.change_s) > max(_LEAST_SHARE * abs(total_s), 0.0)]
    return tuple(sorted(telling, key=lambda each: (-sign * each.change_s, each.name))[:_MOST_NAMED])


def _flips(changes: Sequence[Change]) -> Iterator[Flip]:
    """Yield the pairs of policies that changed their order by time, place by place."""
    places: dict[tuple[tuple[str, str], ...], list[Change]] = {}
    for change in changes:
        if change.time:
            rest = {name: value for name, value in change.before.names.items() if name != "policy"}
            places.setdefault((*_key(rest), ("time", change.time)), []).append(change)
    for several in places.values():
        ranked = sorted(several, key=lambda each: (each.before.figures[each.time], each.before.names.get("policy", "")))
        for number, first in enumerate(ranked):
            for second in ranked[number + 1 :]:
                before = second.before.figures[second.time] / first.before.figures[first.time]
                after = second.after.figures[second.time] / first.after.figures[first.time]
                if before > 1 + _SMALLEST and after < 1 - _SMALLEST:
                    fast, slow = (each.before.names.get("policy", "") for each in (first, second))
                    place = replace(first.before, names={n: v for n, v in first.before.names.items() if n != "policy"})
                    yield Flip(place.label, fast, slow, before, after)
