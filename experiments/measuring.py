"""The command that generates real code for a plan and measures it."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.answers import POINTS_FAILED, Answer, Console, shown_text, table
from experiments.commands import policy_asked_for, workload_asked_for
from experiments.evaluate import load
from experiments.files import FileError, write_whole
from experiments.plain_plans import plan_without_machine
from experiments.report.words import count
from hw_models.quantities import PS_PER_S, format_bytes, format_ps
from scheduler import policy_label
from tuner.measure import (
    Budget,
    Job,
    MeasureError,
    Measurement,
    check_installed,
    compile_plan,
    measure_plan,
    runs_here,
    usable_cores,
)

_MOST_KERNELS = 20
"""That a person is shown."""


def measure(arguments: argparse.Namespace) -> Answer:
    """Measure one network under one policy on this machine."""
    if arguments.device != "local":
        raise MeasureError(f"device has {arguments.device!r}; needs local: other machines are not reached yet")
    check_installed()
    check_folder(arguments.out)
    workload = workload_asked_for(arguments)
    if workload.dtype not in (None, "fp32"):
        raise MeasureError(f"dtype has {workload.dtype!r}; code is measured in fp32")
    policy = policy_asked_for(arguments)
    plan = plan_without_machine(policy, load(workload, workload.batch))
    label = policy_label(policy)
    if arguments.out is not None and not runs_here(arguments.target):
        path = arguments.out / f"{file_name(workload.label, label, arguments.target)}.o"
        found = compile_plan(plan, label, arguments.target, arguments.threads or 1, path)
        data = found.as_json() | {"model": workload.label, "object": str(path)}
    else:
        budget = Budget(limit_s=arguments.kernel_timeout)
        threads = arguments.threads or usable_cores()
        found = measure_plan(Job(plan, threads, arguments.target, budget), label)
        data = found.as_json() | {"model": workload.label}
    if arguments.out is not None:
        name = file_name("measured", workload.label, label, arguments.target, str(found.threads))
        place = arguments.out / f"{name}.json"
        write_whole(place, json.dumps(data, indent=1) + "\n")
        data |= {"file": str(place)}
    return Answer(data, lambda: show_measurement(found, data), POINTS_FAILED if found.correct is False else 0)


def file_name(*parts: str) -> str:
    """Return a file's name that says all of ``parts``."""
    return "".join(c if c.isalnum() or c in "-." else "_" for c in "-".join(parts))


def check_folder(folder: Path | None) -> None:
    """Make the folder of ``--out``, if there is to be one; raise ``FileError`` where none can be made."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"--out has {folder}, where no folder can be made: {error.strerror or error}") from error


def show_measurement(found: Measurement, data: dict[str, Any]) -> None:
    """Print a measurement for people; ``data`` names the network as the user did."""
    console = Console()
    device = found.device
    caches = ", ".join(f"{name} {format_bytes(size)}" for name, size in device.caches.items())
    console.print(
        f"[bold]{shown_text(data['model'])}[/bold] under {shown_text(found.policy)} for {shown_text(found.target)}"
        f" on {shown_text(device.processor)} ({caches}), {count(found.threads, 'thread')}"
    )
    whole = found.network
    if whole.timing is None:
        console.print(f"  no time: {shown_text(whole.error or 'not run')}")
    else:
        console.print(
            f"  {_time(whole.timing.seconds)} for {count(len(found.kernels), 'kernel')} in a row, spread"
            f" {whole.timing.spread:.1%}; outputs differ from onnxruntime's by {whole.deviation or 0:.1g}"
        )
    for warning in found.warnings:
        console.print(f"  {shown_text(warning)}")
    failed = [kernel for kernel in found.kernels if kernel.error]
    if failed:
        rows: Sequence[Sequence[object]] = [(k.name, ", ".join(k.operators), k.error or "") for k in failed]
        table("Kernels that failed", ("kernel", "operators", "why"), rows)()
    timed = sorted(
        ((kernel.timing, kernel.name) for kernel in found.kernels if kernel.timing is not None),
        key=lambda pair: -pair[0].seconds,
    )
    if not timed:
        return
    total = sum(timing.seconds for timing, _ in timed)
    rows = [
        (name, _time(timing.seconds), f"{timing.seconds / total:.1%}", f"{timing.spread:.1%}")
        for timing, name in timed[:_MOST_KERNELS]
    ]
    some = f", the {_MOST_KERNELS} longest of {len(timed)} (--json has all)" if len(timed) > _MOST_KERNELS else ""
    table(f"Kernels by themselves{some}", ("kernel", "time", "share", "spread"), rows)()


def _time(seconds: float) -> str:
    return format_ps(round(seconds * PS_PER_S))
