"""Figures of design points as objectives see them, and those of one design over several networks."""

from collections.abc import Mapping, Sequence
from math import exp, fsum, isfinite, log
from typing import Literal

MAXIMISED = frozenset({"throughput_per_s"})
"""Figures of which more is better."""
GEOMETRIC, SUM = "geometric_mean", "weighted_sum"
Combination = Literal["geometric_mean", "weighted_sum"]
"""``geometric_mean``: weighted geometric mean of each figure. ``weighted_sum``: sum of weight times figure, the figures
of a mix that runs every network as often as its weight says; throughput is that of the mix."""
WORDS: Mapping[str, str] = {GEOMETRIC: "weighted geometric mean", SUM: "weighted sum"}
"""Names of the combinations in sentences."""
_SHARED = ("area_mm2",)
"""Figures of the machine, the same for all networks."""


def figures_of(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row with the figures that objectives and constraints compare.

    A measured point has its measured latency and throughput. Power is the mean over the simulated run: energy by
    latency.
    """
    figures = dict(row)
    power = power_w(row)
    if power is not None:
        figures["power_w"] = power
    measured_s, batch = row.get("measured_s"), row.get("batch")
    if isinstance(measured_s, float) and isfinite(measured_s) and isinstance(batch, int):
        figures |= {"latency_s": measured_s, "throughput_per_s": batch / measured_s}
    return figures


def power_w(row: Mapping[str, object]) -> float | None:
    """Return the mean power of a simulated run in watts; None for a row without energy or latency."""
    energy_j, latency_s = row.get("energy_j"), row.get("latency_s")
    if not isinstance(energy_j, int | float) or not isinstance(latency_s, int | float) or latency_s <= 0:
        return None
    return float(energy_j / latency_s)


def combined(
    rows: Sequence[Mapping[str, object]], weights: Sequence[float], how: Combination, names: Sequence[str]
) -> dict[str, float | None]:
    """Return the figures ``names`` of one design over its networks, given in the order of their weights.

    A figure that one network lacks is None. Power is combined energy by combined latency.
    """
    return {name: _figure(rows, weights, how, name) for name in names}


def _figure(
    rows: Sequence[Mapping[str, object]], weights: Sequence[float], how: Combination, name: str
) -> float | None:
    if name == "power_w":
        energy, latency = (_figure(rows, weights, how, each) for each in ("energy_j", "latency_s"))
        return None if energy is None or not latency else energy / latency
    values = [row.get(name) for row in rows]
    known = [float(value) for value in values if isinstance(value, int | float) and isfinite(value) and value >= 0]
    if not known or len(known) < len(values):
        return None
    return known[0] if name in _SHARED else _mean(known, weights, how, name)


def _mean(values: Sequence[float], weights: Sequence[float], how: Combination, name: str) -> float:
    pairs = list(zip(weights, values, strict=True))
    if how == SUM and name not in MAXIMISED:
        return fsum(weight * value for weight, value in pairs)
    if min(values) == 0:
        return 0.0
    if how == SUM:
        return fsum(weights) / fsum(weight / value for weight, value in pairs)
    return exp(fsum(weight * log(value) for weight, value in pairs) / fsum(weights))
