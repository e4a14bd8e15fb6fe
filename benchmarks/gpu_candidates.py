"""Programs that a search ran on a GPU, beside the machine model: ``python -m benchmarks.gpu_candidates TUNED FILE``.

TUNED is a folder of ``dsascape tune FILE.yaml --runner local --target cuda-...`` for single operators. Every program
with a time is predicted as generated code runs. ``--out CSV`` keeps both times of each.
"""

import argparse
import csv
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsascape.experiments.question.shapes import read_shapes
from dsascape.experiments.real.accuracy import mape, spearman
from dsascape.experiments.real.tuning import TunedOn, shape_tasks
from dsascape.hw_models import load_hardware
from dsascape.scheduler import make_policy
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.tuner.measure import LOCAL
from dsascape.tuner.search.database import DATABASE, own_steps
from dsascape.tuner.search.runners import Runner
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task

_DTYPE = "fp32"
_HEADINGS = (
    "operator", "programs", "no time", "first [us]", "fastest [us]", "mean error", "Spearman", "chosen / fastest",
)


@dataclass(frozen=True)
class Tried:
    """A program's time, and the one that the machine model gives it, in seconds."""

    operator: str
    measured_s: float
    predicted_s: float


def tried(task: Task, rows: Sequence[tuple[str, float]], model: Runner) -> Iterator[Tried]:
    """Yield the programs of a task, given as steps and seconds, that the model has a time for."""
    own = [own_steps(task.naive, steps) for steps, _ in rows]
    programs = [Program(steps, loop_program(task.naive, steps)) for steps in own]
    for (_, seconds), answer in zip(rows, model.answers(task, programs), strict=True):
        if answer.seconds is not None:
            yield Tried(task.name, seconds, answer.seconds)


def _rows(folder: Path, key: str) -> tuple[list[tuple[str, float]], int]:
    """Return steps and seconds of a task's programs in the order in which they ran, and how many have no time."""
    with sqlite3.connect(folder / DATABASE) as database:
        found = database.execute("SELECT steps, seconds FROM candidates WHERE task = ? ORDER BY id", (key,)).fetchall()
    timed = [(steps, seconds) for steps, seconds in found if seconds is not None]
    return timed, len(found) - len(timed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of the operators."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tuned", type=Path)
    parser.add_argument("operators", type=Path)
    parser.add_argument("--hardware", default="h100")
    parser.add_argument("--target", default="cuda-sm_90")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    on = TunedOn(load_hardware(asked.hardware), LOCAL, asked.target)
    tasks = shape_tasks(read_shapes(asked.operators), make_policy("fixed-pattern"), on, _DTYPE).tasks
    model, every = on.simulated(_DTYPE), list[Tried]()
    print("| " + " | ".join(_HEADINGS) + " |")
    print("|---" * len(_HEADINGS) + "|")
    for task in tasks:
        rows, failed = _rows(asked.tuned, task.key)
        found = list(tried(task, rows, model))
        if not found:
            continue
        every += found
        measured, predicted = [each.measured_s for each in found], [each.predicted_s for each in found]
        chosen = min(found, key=lambda each: each.predicted_s).measured_s / min(measured)
        print(
            f"| {task.name} | {len(found)} | {failed} | {rows[0][1] * 1e6:.2f} | {min(measured) * 1e6:.2f} |"
            f" {mape(predicted, measured) or 0:.0%} | {spearman(predicted, measured) or 0:.2f} | {chosen:.2f} |"
        )
    if asked.out is not None:
        with asked.out.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["operator", "measured_s", "predicted_s"])
            writer.writerows([[each.operator, each.measured_s, each.predicted_s] for each in every])


if __name__ == "__main__":
    main()
