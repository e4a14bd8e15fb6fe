"""Warnings about answers far beyond what a machine needs at least, which name the layer and the cause.

Limits, each a hint at a form that a model or a schedule does badly with, or at a machine that does not fit the
network: a latency of many times the roofline, a layer of many times its own, and a layer that moves its operands many
times. Layers that only their start keeps from their rooflines are told apart: no schedule makes them faster, only fewer
of them.
"""

from collections.abc import Iterator, Mapping, Sequence

from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.layers import BETWEEN_LAYERS, LayerFigures
from dsascape.experiments.point.roofline import LayerBound, bounds_of_layers, roofline_s
from dsascape.hw_models import AnyHardware
from dsascape.hw_models.text.quantities import PS_PER_S, format_bytes, format_ps
from dsascape.scheduler import AnyKind, kind_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.wording import count

MOST_TIMES_ROOFLINE = 50
"""Time of an answer or a layer, in multiples of its roofline, above which there is a warning."""
MOST_READINGS = 100
"""How often a layer may move the bytes of its operands and results through a memory that limits it, beyond those of
single cores, without a warning."""
_LEAST_SHARE = 0.05
"""Share of the latency below which a layer is not worth a warning."""
_Bounds = Mapping[str, LayerBound]


def warnings_of(outcome: Outcome, layers: Sequence[LayerFigures], hardware: AnyHardware) -> tuple[str, ...]:
    """Return a sentence for a latency far beyond the roofline, and one for each layer that takes or moves too much.

    Layers that take long to start have one sentence together. ``hardware`` is the machine of the run.
    """
    bounds, kind = bounds_of_layers(outcome, layers, hardware), kind_of(hardware)
    worth = [figures for figures in layers if figures.critical_s >= _LEAST_SHARE * outcome.record.latency_s]
    least_s = roofline_s(outcome, hardware)
    beyond = tuple(_beyond_roofline(outcome, layers, bounds, kind, least_s))  # it names the longest layer
    others = sorted(worth, key=lambda figures: -figures.critical_s)[1 if beyond else 0 :]
    return (
        *beyond,
        *_layers_that_start(outcome, layers, bounds),
        *_layers_beyond(others, bounds, kind),
        *_moved_often(worth, bounds, kind),
    )


def is_far_beyond(figures: LayerFigures, bound: LayerBound) -> bool:
    """Return whether a layer takes far more than its roofline, the time left out that it takes to start."""
    return figures.critical_s - bound.starting_s > MOST_TIMES_ROOFLINE * bound.roofline_s


def memory_read_often(figures: LayerFigures, bound: LayerBound) -> str:
    """Return the memory that limits a layer and through which it moves its operands too often; empty if none does.

    A product that computes all the while may read its operands from a cluster's second cache a hundred times.
    """
    name, most = figures.limited_by, MOST_READINGS * bound.least_bytes
    return name if name in bound.outer and 0 < most < figures.traffic_bytes.get(name, 0) else ""


def _beyond_roofline(
    outcome: Outcome, layers: Sequence[LayerFigures], bounds: _Bounds, kind: AnyKind, least_s: float
) -> Iterator[str]:
    record = outcome.record
    if not least_s or record.latency_s <= MOST_TIMES_ROOFLINE * least_s or not layers:
        return
    worst = max(layers, key=lambda layer: layer.critical_s)
    waited, waiting = max(record.critical.items(), key=lambda item: item[1], default=("", 0.0))
    starting = outcome.result.trace.critical_start_ps() / outcome.result.makespan_ps
    yield (
        f"the latency is {record.latency_s / least_s:,.0f} times the roofline, {_time(least_s)}: {waiting:.0%} of it"
        f" waits for {waited}, and {starting:.0%} is launches and start-ups, without which it is"
        f" {(1 - starting) * record.latency_s / least_s:,.1f} times; longest is {_named(worst)} with"
        f" {worst.critical_s / record.latency_s:.0%}, {_cause(kind, worst, bounds.get(worst.layer))}"
    )


def _layers_that_start(outcome: Outcome, layers: Sequence[LayerFigures], bounds: _Bounds) -> Iterator[str]:
    """Yield a sentence if layers that only their start keeps from their rooflines take a good part of the latency."""
    starting = [
        figures for figures in layers
        if (bound := bounds.get(figures.layer)) and not is_far_beyond(figures, bound)
        and figures.critical_s > MOST_TIMES_ROOFLINE * bound.roofline_s
    ]  # fmt: skip
    spent_s, latency_s = sum([figures.critical_s for figures in starting]), outcome.record.latency_s
    if not starting or spent_s < _LEAST_SHARE * latency_s:
        return
    longest = max(starting, key=lambda figures: figures.critical_s)
    bound = bounds[longest.layer]
    yield (
        f"{count(len(starting), 'layer')}, {spent_s / latency_s:.0%} of the latency,"
        f" {'takes' if len(starting) == 1 else 'take'} more than {MOST_TIMES_ROOFLINE} times the roofline to start,"
        f" {_time(bound.starting_s)} each: fewer and larger layers have less of it; longest is {_named(longest)} with"
        f" {_time(longest.critical_s)}, limited by {longest.limited_by}, its roofline is {_time(bound.roofline_s)}"
    )


def _layers_beyond(layers: Sequence[LayerFigures], bounds: _Bounds, kind: AnyKind) -> Iterator[str]:
    for figures in layers:
        bound = bounds.get(figures.layer)
        if bound and bound.roofline_s and is_far_beyond(figures, bound):
            yield (
                f"{_named(figures)} takes {_time(figures.critical_s)},"
                f" {figures.critical_s / bound.roofline_s:,.0f} times its roofline of {_time(bound.roofline_s)};"
                f" {_cause(kind, figures, bound)}"
            )


def _moved_often(layers: Sequence[LayerFigures], bounds: _Bounds, kind: AnyKind) -> Iterator[str]:
    for figures in layers:
        bound = bounds.get(figures.layer)
        if bound and (memory := memory_read_often(figures, bound)):
            moved, least = figures.traffic_bytes[memory], bound.least_bytes
            yield (
                f"{_named(figures)} moves {format_bytes(moved)} at {memory}, {moved / least:,.0f} times its operands"
                f" and results of {format_bytes(round(least))}; {_cause(kind, figures, bound)}"
            )


def _named(figures: LayerFigures) -> str:
    return "the launching of kernels" if figures.layer == BETWEEN_LAYERS else f"layer {figures.shown}"


def _time(seconds: float) -> str:
    return format_ps(round(seconds * PS_PER_S))


def _cause(kind: AnyKind, figures: LayerFigures, bound: LayerBound | None) -> str:
    """Return why a layer takes long, as far as its loops say so; else the resource that limits it."""
    limited = f"limited by {figures.limited_by}"
    if bound is None:
        return limited
    layer: Layer = bound.layer
    steps = max([work.rounds for work in layer.tile_work(layer.sink.shape).nests], default=1)
    if steps > 1:
        return f"{limited}: its {count(steps, 'step')} follow each other, and each reads its operands"
    slow = kind.why_slow(layer)
    return f"{limited}: {slow}" if slow else limited
