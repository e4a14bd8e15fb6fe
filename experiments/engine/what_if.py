"""Sensitivity of one design point: latency and energy with one value of the machine changed at a time, simulated.

Besides the effect of each value, this compares the share that a resource has of the critical path with what a faster
resource gains. The two differ: a resource with half of the critical path gains little where others wait behind it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from dsascape.experiments.engine.failures import EXPECTED
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.replay import run_written, simulated
from dsascape.experiments.question.command_line import Plain
from dsascape.experiments.question.config import ScheduleMode
from dsascape.experiments.question.network import default_dtype
from dsascape.experiments.question.points import DesignPoint, RunRecord
from dsascape.experiments.question.variations import Variation, machine_with, variations
from dsascape.experiments.results.sensitivity import SMALLEST, TOLERANCE, Effect, Gain, Swing, WhatIf
from dsascape.hw_models import AnyHardware
from dsascape.hw_models.machine_files.load import plain
from dsascape.hw_models.machine_files.overrides import value_at
from dsascape.hw_models.machine_files.sources import CHANGED, Source, sources_of
from dsascape.hw_models.simulation.instructions import base_name
from dsascape.hw_models.text.messages import shown
from dsascape.hw_models.text.quantities import readable
from dsascape.scheduler import kind_of

_LEAST_SHARE = 0.05
_LIMIT = 100.0
"""Factor of the second, nearly unlimited improvement of a resource."""


def what_if_of(
    point: DesignPoint,
    requests: Mapping[str, Sequence[Plain]] | None = None,
    schedule: ScheduleMode = "anew",
    source: str = "",
    follow: Callable[[Sequence[Variation]], Iterable[Variation]] = iter,
) -> WhatIf:
    """Simulate ``point`` with each value of its machine changed, as `variations` lists them for ``requests``.

    ``source`` is the preset or file of the machine, whose comments state sources; ``follow`` passes the variations on,
    perhaps with a progress bar. The dtype stays that of the unchanged machine. Raises what `variations` and `evaluate`
    raise for the unchanged machine; a changed machine that cannot run has the reason in its effect.
    """
    chosen = variations(point.hardware, requests)
    base = simulated(point)
    run = _runner(point, base, schedule)
    effects = [(each, _effect(each, point.hardware, base.record, run)) for each in follow(chosen)]
    data, sources = plain(point.hardware), sources_of(point.hardware, source)
    swings = []
    for path, group in groupby(sorted(effects, key=lambda pair: pair[0].path), key=lambda pair: pair[0].path):
        value = value_at(data, path)
        text = readable(value) if isinstance(value, str) else shown(value)
        swings.append(Swing(path, text, sources.get(path, Source(CHANGED)), tuple(effect for _, effect in group)))
    swings.sort(key=lambda swing: (*swing.rank("latency_change"), *swing.rank("energy_change")))
    gains = tuple(_gains(base.record, swings, chosen, lambda each: _effect(each, point.hardware, base.record, run)))
    return WhatIf(base.record, schedule, tuple(swings), gains)


def _runner(point: DesignPoint, base: Outcome, schedule: ScheduleMode) -> Callable[[AnyHardware], RunRecord]:
    """Return the function that simulates the point on a changed machine, in the unchanged machine's dtype."""
    workload = replace(point.workload, dtype=point.workload.dtype or default_dtype(point.hardware))
    if schedule == "keep":
        written = kind_of(point.hardware).write(base.schedule)
        return lambda machine: run_written(written, workload, machine, point.tuning).record
    return lambda machine: simulated(replace(point, workload=workload, hardware=machine)).record


def _effect(
    variation: Variation, spec: AnyHardware, base: RunRecord, run: Callable[[AnyHardware], RunRecord]
) -> Effect:
    """Return the effect of one variation of ``spec``; a machine that is refused or cannot run gives the reason."""
    try:
        machine = machine_with(spec, variation)
        record = run(machine)
    except EXPECTED as error:
        reason = str(error).partition("\n")[0].removeprefix(f"{spec.name}: ").removeprefix(f"{variation.path}: ")
        return Effect(variation.text, variation.factor, refusal=reason)
    slower = record.latency_s / base.latency_s - 1
    number, factor = variation.number, variation.factor
    better = number.better * (1 if factor > 1 else -1) if number is not None and factor is not None else 0
    return Effect(
        variation.text, factor, record.latency_s, record.energy_j,
        latency_change=slower,
        energy_change=record.energy_j / base.energy_j - 1 if base.energy_j else 0.0,
        area_change=machine.area_mm2 / spec.area_mm2 - 1 if machine.area_mm2 and spec.area_mm2 else 0.0,
        bottleneck=record.bottleneck,
        resource=_moved_resource(base, record) if abs(slower) >= SMALLEST else "",
        is_anomaly=better * slower > TOLERANCE,
        is_less=number is not None and number.is_resource and factor is not None and factor < 1,
    )  # fmt: skip


def _moved_resource(base: RunRecord, record: RunRecord) -> str:
    """Return the resource whose time on the critical path changes most in the direction of the latency."""
    names = sorted({*base.critical, *record.critical})
    before = {name: base.critical.get(name, 0.0) * base.latency_s for name in names}
    after = {name: record.critical.get(name, 0.0) * record.latency_s for name in names}
    sign = 1 if record.latency_s > base.latency_s else -1
    return max(names, key=lambda name: sign * (after[name] - before[name]), default="")


def _gains(
    base: RunRecord,
    swings: Sequence[Swing],
    chosen: Sequence[Variation],
    effect_of: Callable[[Variation], Effect],
) -> Iterator[Gain]:
    """Yield the resources with a noteworthy share of the critical path, and what more of each gains."""
    varied = {(each.path, each.text): each for each in chosen}
    for resource, share in sorted(base.critical.items(), key=lambda item: -item[1]):
        if share < _LEAST_SHARE:
            break
        candidates = []
        for swing in swings:
            best = min(swing.effects, key=lambda each: each.latency_change)
            number = varied[swing.path, best.setting].number
            if swing.resource == resource and best.latency_change <= -SMALLEST and number is not None and best.factor:
                is_own = base_name(resource).partition("-")[0] in swing.path.split(".")
                candidates.append((not is_own, not number.is_rate, best.latency_change, swing.path, best, number))
        if not candidates:
            yield Gain(resource, share, "", None, None)
            continue
        is_foreign, is_no_rate, _, path, best, number = min(candidates, key=lambda each: each[:4])
        factor = _LIMIT if best.factor is None or best.factor > 1 else 1 / _LIMIT
        limited = is_foreign and is_no_rate
        limit = None if limited else effect_of(Variation(path, number.times(factor), factor, number))
        yield Gain(resource, share, path, best, limit)
