"""The command ``measure``: generates code for a plan and measures it."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from dsascape.experiments.engine.run import computed_of, measured
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.question.config import Measuring
from dsascape.experiments.question.pinned import pins_named
from dsascape.experiments.question.points import TUNING, DesignPoint, WrittenSchedule
from dsascape.experiments.question.schedules import written_schedule
from dsascape.experiments.real.compared import WITH_LOOPS, Comparison, with_layers, worst
from dsascape.experiments.real.measured_kind import Asked
from dsascape.experiments.real.measured_kinds import kind_of_target, measured_kind
from dsascape.experiments.results.store import StoreError
from dsascape.experiments.shell.answers import POINTS_FAILED, Answer, Console, shown_text, table, unwritten_told
from dsascape.experiments.shell.common_options import sizes_given
from dsascape.experiments.shell.simulate import (
    requested_kernels,
    requested_pins,
    requested_policy,
    requested_workload,
)
from dsascape.hw_models.text.folder_lock import FolderLock
from dsascape.hw_models.text.quantities import PS_PER_S, format_bytes, format_ps
from dsascape.hw_models.text.whole_file import DiskError, write_whole
from dsascape.scheduler import Policy, ScheduleError
from dsascape.tuner.measure import (
    Budget,
    MeasureError,
    Measurement,
    check_installed,
    remote_address,
)
from dsascape.wording import count

_MOST_KERNELS = 20
"""Largest number of kernels shown without ``--json``."""


def measure(arguments: argparse.Namespace) -> Answer:
    """Measure one network under one policy on a device, or all points of an experiment file."""
    remote_address(arguments.device)  # a malformed address is a mistake whatever is measured
    check_installed()
    if arguments.model.endswith((".yaml", ".yml")):
        return _experiment(arguments)
    if arguments.out is None:
        return _measured(arguments, None)
    with FolderLock(arguments.out) as lock:
        return _measured(arguments, lock)


def _measured(arguments: argparse.Namespace, lock: FolderLock | None) -> Answer:
    """Measure one network; ``lock`` is that of the folder in which it is kept, None where it is not."""
    point = requested_point(arguments, arguments.device)
    label, target = point.workload.label, arguments.target
    policy = point.decided_by
    outcome: Outcome | None = None
    comparison: Comparison | None = None
    kind = measured_kind(point.hardware)
    if kind.is_only_written(point, target, arguments.device, arguments.out):
        path = arguments.out / file_name(label, policy, target)
        written = kind.written(point, target, path)
        result, data = written.measurement, written.data | {"model": label, "object": f"{path}.o"}
    else:
        budget = Budget(limit_s=arguments.kernel_timeout)
        outcome, comparison = measured(point, budget)
        result = comparison.measurement
        data = comparison.as_json() if arguments.hardware else with_layers(result.as_json(), comparison.layers)
        data |= {"model": label}
    unwritten: list[str] = []
    if lock is not None:
        said = "measured", label, policy, target, str(result.threads), *(["flushed"] if result.flushed else [])
        place = arguments.out / f"{file_name(*said)}.json"
        with unwritten_told(unwritten):
            write_whole(place, json.dumps(data, indent=1) + "\n")
            data |= {"file": str(place)}
        if outcome is not None and comparison is not None:
            keep = resolve_name("dsascape.experiments.shell.keep_measured:keep")  # with all that draws a report
            try:
                kept = keep(arguments.out, point.key, computed_of(point, outcome, comparison), lock)
                data |= {"key": point.key, "stored": kept[0], "report": str(kept[1].path)}
            except (DiskError, StoreError) as error:  # the figures are there, and are shown
                unwritten.append(str(error))
    shown = comparison if arguments.hardware else None
    code = POINTS_FAILED if result.correct is False else 0
    return Answer(data, lambda: show_measurement(result, data, shown), code, tuple(unwritten))


def requested_point(arguments: argparse.Namespace, device: str) -> DesignPoint:
    """Return the design point of the arguments, on the machine that tiles are chosen for.

    It is measured on ``device``; if that is this machine and it has no such GPU, the code is only compiled.
    """
    asked = Asked(arguments.hardware, arguments.target, device, arguments.threads, arguments.flush_caches)
    setting = kind_of_target(arguments.target).setting(asked)
    policy, schedule = _decided_by(arguments)
    machine = setting.hardware
    pins = requested_pins(arguments, machine)
    swept = {f"{TUNING}{name}": str(value) for name, value in setting.tuning.items()}
    return DesignPoint(
        requested_workload(arguments), machine, policy, swept=swept | ({} if pins is None else pins_named(pins)),
        tuning=setting.tuning, measured_on=setting.measured_on, schedule=schedule,
        kernels=requested_kernels(arguments, machine), pins=pins,
    )  # fmt: skip


def _decided_by(arguments: argparse.Namespace) -> tuple[Policy, WrittenSchedule | None]:
    """Return the policy of ``--policy``, or the policy and schedule of ``--schedule``."""
    if arguments.policy is None and arguments.schedule is None:
        raise MeasureError("--policy is missing: needs a policy, or a --schedule")
    if arguments.schedule is None:
        return requested_policy(arguments), None
    if arguments.kernels is not None:
        raise ScheduleError("--kernels does not go with --schedule, which has its own kernels")
    if arguments.pins is not None:
        raise ScheduleError("--pins does not go with --schedule, which has decided everything")
    if arguments.policy is not None or arguments.option:
        given = "--option" if arguments.policy is None else "--policy"
        raise ScheduleError(f"{given} does not go with --schedule, which replaces the policy")
    return written_schedule(arguments.schedule)


def _experiment(arguments: argparse.Namespace) -> Answer:
    """Run an experiment file with all its points measured."""
    names = "policy", "schedule", "hardware", "threads", "dtype"
    given = [*(f"--{name}" for name in names if getattr(arguments, name) is not None), *sizes_given(arguments)]
    if given:
        raise MeasureError(f"{given[0]} does not go with an experiment file, which says what is measured")
    options = argparse.Namespace(
        experiment=Path(arguments.model), out=arguments.out, workers=0, engine="processes", scheduler=None,
        point_timeout=None, point_memory=None, retry_failed=False, kernels=arguments.kernels, pins=arguments.pins,
        profile=False, command_line=arguments.command_line, written=arguments.written,
    )  # fmt: skip
    way = Measuring(target=arguments.target, device=arguments.device, flush_caches=arguments.flush_caches)
    answer: Answer = resolve_name("dsascape.experiments.shell.run:run")(options, way)
    return answer


def file_name(*parts: str) -> str:
    """Return a file name made of ``parts``, with other characters replaced by underscores."""
    return "".join(c if c.isalnum() or c in "-." else "_" for c in "-".join(parts))


def show_measurement(measurement: Measurement, data: dict[str, Any], comparison: Comparison | None = None) -> None:
    """Print a measurement with its prediction, if any; ``data`` has the network's label and its kernels' layers."""
    console = Console()
    whole = measurement.network
    ran = whole.timing is not None or bool(whole.error)
    model = f"[bold]{shown_text(data['model'])}[/bold]"
    where = (
        f"under {shown_text(measurement.policy)} for {shown_text(measurement.target)}"
        f"{f' on {_device(measurement)}' if ran else ''}"
    )
    if whole.timing is None:
        console.print(f"{model} {where}")
        console.print(f"  no time: {shown_text(whole.error)}" if whole.error else "  no time, as nothing has run")
    else:
        flushed = ", caches flushed before it" if measurement.flushed else ""
        predicted = "" if comparison is None else _predicted(comparison)
        console.print(f"{model} takes [bold]{_time(whole.timing.seconds)}[/bold], measured{predicted}")
        console.print(f"  {where}")
        console.print(
            f"  {count(len(measurement.kernels), 'kernel')} in a row{flushed}, spread {whole.timing.spread:.1%};"
            f" outputs differ from onnxruntime's by {whole.deviation or 0:.1g}"
        )
    if whole.joules is not None:
        console.print(f"  {whole.joules:.3g} J a run by the processor's energy counters, all that runs there included")
    if comparison is not None:
        _show_prediction(comparison, data)
    for warning in measurement.warnings:
        console.print(f"  {shown_text(warning)}")
    layers = {entry["name"]: str(entry.get("layer", entry["name"])) for entry in data["kernels"]}
    failed = [kernel for kernel in measurement.kernels if kernel.error]
    if failed:
        several = f"{len(failed)} of {count(len(measurement.kernels), 'kernel')}"
        console.print(f"  [bold]{several} failed[/bold]; figures of the others hold")
        rows: Sequence[Sequence[object]] = [(layers[k.name], ", ".join(k.operators), k.error or "") for k in failed]
        table("Kernels that failed", ("kernel", "operators", "why"), rows)()
    if comparison is not None:
        _show_worst(comparison)
        return
    timed = sorted(
        ((kernel.timing, kernel.name) for kernel in measurement.kernels if kernel.timing is not None),
        key=lambda pair: -pair[0].seconds,
    )
    if not timed:
        return
    total = sum(timing.seconds for timing, _ in timed)
    rows = [
        (layers[name], _time(timing.seconds), f"{timing.seconds / total:.1%}", f"{timing.spread:.1%}")
        for timing, name in timed[:_MOST_KERNELS]
    ]
    some = f", the {_MOST_KERNELS} longest of {len(timed)} (--json has all)" if len(timed) > _MOST_KERNELS else ""
    table(f"Kernels by themselves{some}", ("kernel", "time", "share", "spread"), rows)()


def _device(measurement: Measurement) -> str:
    """Return in words what ran the code: the processor with its caches and as many threads, or the GPU with its SMs."""
    device = measurement.device
    caches = ", ".join(f"{name} {format_bytes(size)}" for name, size in device.caches.items())
    is_gpu = device.architecture.startswith("sm_")
    workers = count(device.cores, "SM") if is_gpu else count(measurement.threads, "thread")
    return f"{shown_text(device.processor)} ({caches}), {workers}"


def _predicted(comparison: Comparison) -> str:
    """Return the network's prediction beside its measured time, if both are there; else an empty text."""
    whole = comparison.measurement.network.timing
    if comparison.network_s is None or whole is None:
        return ""
    error = comparison.network_s / whole.seconds - 1
    return f"; {shown_text(comparison.hardware)} predicts {_time(comparison.network_s)} ({error:+.1%})"


def _show_prediction(comparison: Comparison, data: dict[str, Any]) -> None:
    """Print a prediction without a measured time, and the accuracy of the kernels' predictions."""
    if comparison.network_s is None:
        return
    console = Console()
    if not _predicted(comparison):
        console.print(f"  predicted on {shown_text(comparison.hardware)}: {_time(comparison.network_s)}")
    if data["spearman"] is not None:
        console.print(
            f"  kernels: mean error {data['mape']:.1%}, rank correlation {data['spearman']:.3f} (Spearman),"
            f" {data['kendall']:.3f} (Kendall)"
        )


def _show_worst(comparison: Comparison) -> None:
    rows = []
    for kernel, simulated in worst(comparison.pairs)[:_MOST_KERNELS]:
        if kernel.timing is not None:
            parts = ", ".join(f"{name} {_time(seconds)}" for name, seconds in simulated.parts_s.items())
            error = simulated.seconds / kernel.timing.seconds - 1
            times = _time(kernel.timing.seconds), _time(simulated.seconds)
            rows.append((comparison.layer(kernel), *times, f"{error:+.0%}", parts))
    headings = ("kernel", "measured", "predicted", "error", "what each thing takes alone")
    table("Kernels by themselves, the largest differences first (--json has all)", headings, rows)()
    for kernel, simulated in worst(comparison.pairs)[:WITH_LOOPS]:
        if simulated.loops:
            sys.stdout.write(f"\n{comparison.layer(kernel)}: {', '.join(kernel.operators)}\n{simulated.loops}\n")


def _time(seconds: float) -> str:
    return format_ps(round(seconds * PS_PER_S))
