"""Limits that an experiment's points have to keep, such as ``area_mm2 <= 20``: parsed, never evaluated."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from dsascape.hw_models.text.messages import nearest, shown
from dsascape.hw_models.text.quantities import NUMBER, SQUARE_MM, WATTS, normal_form, parse_quantity

UNITS: Mapping[str, dict[str, float]] = {
    "latency_s": {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0},
    "energy_j": {"pJ": 1e-12, "nJ": 1e-9, "uJ": 1e-6, "µJ": 1e-6, "mJ": 1e-3, "J": 1.0},
    "power_w": {**WATTS, "kW": 1e3},
    "area_mm2": SQUARE_MM,
    "throughput_per_s": {},
}
"""Figures that can be limited, each with the units that a limit may be written in; without a unit, it is in the unit
that the figure's name states."""
_FORM = re.compile(r"\s*(\w+)\s*(<=|>=)\s*([^<>=]+?)\s*", re.ASCII)
_UNITLESS = re.compile(NUMBER, re.ASCII)
_LONGEST = 80
_EXAMPLE = "area_mm2 <= 20 or latency_s <= 5 ms"


class ConstraintError(ValueError):
    """A constraint that cannot be parsed, or that no point can keep; the message says what it needs."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """Limit of one figure: at most, or at least."""

    figure: str
    at_most: bool
    limit: float
    """Limit in the unit that the figure's name states."""
    text: str
    """Constraint as written in the file, with single spaces."""

    def excess(self, figures: Mapping[str, object]) -> float:
        """Return how far a point is beyond the limit, as a fraction of it: 0 or less if kept, infinite if unknown."""
        value = figures.get(self.figure)
        if not isinstance(value, int | float) or not isfinite(value):
            return inf
        beyond = value - self.limit if self.at_most else self.limit - value
        return float(beyond / self.limit)


def read_constraints(texts: Sequence[object]) -> tuple[Constraint, ...]:
    """Parse constraints; raise ``ConstraintError`` for one that is malformed, repeated or contradicts another."""
    found = [_constraint(text) for text in texts]
    for position, one in enumerate(found):
        for other in found[:position]:
            if one.figure != other.figure:
                continue
            if one.at_most == other.at_most:
                raise ConstraintError(f"has {one.text!r} and {other.text!r}; needs one limit of a kind per figure")
            least, most = (other, one) if one.at_most else (one, other)
            if least.limit > most.limit:
                raise ConstraintError(f"has {least.text!r} and {most.text!r}, which no point can keep together")
    return tuple(found)


def _constraint(text: object) -> Constraint:
    needs = f"needs FIGURE <= VALUE or FIGURE >= VALUE, such as {_EXAMPLE}"
    match = _FORM.fullmatch(normal_form(text)) if isinstance(text, str) and len(text) <= _LONGEST else None
    if match is None:
        raise ConstraintError(f"has {shown(text)}; {needs}")
    figure, sign, value = match.groups()
    if figure not in UNITS:
        raise ConstraintError(f"has {figure!r}{nearest(figure, UNITS)}; needs one of: {', '.join(UNITS)}")
    limit = _limit(figure, value)
    if limit <= 0:
        raise ConstraintError(f"has {' '.join(match[0].split())!r}; needs a limit above zero")
    return Constraint(figure, sign == "<=", limit, f"{figure} {sign} {' '.join(value.split())}")


def _limit(figure: str, value: str) -> float:
    units = UNITS[figure]
    accepted = f", or with one of: {', '.join(units)}" if units else ""
    if _UNITLESS.fullmatch(value):
        number = float(value.replace("_", ""))
    elif not units:
        raise ConstraintError(f"has {value!r} for {figure}; needs a number")
    else:
        try:
            number = parse_quantity(value, units)
        except ValueError as error:
            raise ConstraintError(f"{figure} {error}; or none of them, for the unit in its name") from error
    if not isfinite(number):
        raise ConstraintError(f"has {value!r} for {figure}; needs a finite number{accepted}")
    return number


def violated(figures: Mapping[str, object], constraints: Sequence[Constraint]) -> str:
    """Return the constraints that a point does not keep, as text separated by commas; empty if it keeps all.

    A figure that is unknown keeps no limit.
    """
    return ", ".join([each.text for each in constraints if each.excess(figures) > 0])
