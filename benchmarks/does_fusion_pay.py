"""Whether intensive fusion pays on this machine: ``python -m benchmarks.does_fusion_pay --hardware host.yaml``.

Pairs of complex operators (`benchmarks.operator_pairs`) run as one kernel and as two. Both sides are tuned with the
same number of trials in all, measured on this machine as ``dsascape tune --runner local`` does. What each side ends
with is timed by turns in one process: one run is one kernel, or both, with the caches as the run before has left them.
The least median of all turns counts: others on the machine only add to times. The file has a row for each pair: times,
steps of the kernels, date, processor, versions. Pairs that it has are not measured again.

``--again`` measures nothing: it predicts the programs of the file, and the model's own choice, with the model as it is
now, under the name that ``--label`` gives.
"""

import argparse
import csv
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.operator_pairs import SETS, Pair, drawn, in_one_kernel, in_two_kernels
from dsascape.experiments.real.search_options import search_options
from dsascape.experiments.real.tuning import TunedOn, TuningTasks, open_search
from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models import Cpu, cpu_energy, cpu_machine, load_hardware, simulate
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.lower import lower
from dsascape.scheduler.cpu.schedule.schedule import CpuKernel, CpuSchedule, kernel_by_kernel
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.late import late
from dsascape.tuner.measure import Budget
from dsascape.tuner.measure.device import local_device, now
from dsascape.tuner.measure.job import job_of_schedule
from dsascape.tuner.measure.timing import measured
from dsascape.tuner.search.database import own_steps, written
from dsascape.tuner.search.kinds.cpu import tasks_of
from dsascape.tuner.search.objectives import TotalLatency
from dsascape.tuner.search.runners import MeasuredRunner
from dsascape.tuner.search.tasks import joined
from dsascape.workloads.analysis import Analysis

DTYPE = "fp32"
ONE, TWO = "fused", "apart"
_PLANS = {ONE: in_one_kernel, TWO: in_two_kernels}
_UNIT, _POPULATION = 8, 32
_ROUNDS = 24
"""Times that each side has its turn."""
_TURN_S = 0.015
_WIDTH = 0.01
_SHORTEST_SAMPLE_S = 100e-6


@dataclass(frozen=True)
class Side:
    """A pair as one kernel, or as two, on this machine; the layers around it are left out."""

    schedule: CpuSchedule
    costs: CpuCosts

    @classmethod
    def of(cls, plan: FusionPlan, view: CpuView) -> "Side":
        """Return the side of ``plan`` with the built-in choice of its loops."""
        costs = CpuCosts(view, Analysis(plan.graph), DTYPE)
        return cls(kernel_by_kernel(plan, costs), costs)

    @property
    def kernels(self) -> tuple[CpuKernel, ...]:
        """The pair's kernels."""
        return self.schedule.runs[1:-1]

    @property
    def inner(self) -> CpuSchedule:
        """The schedule of the pair's kernels alone."""
        return replace(self.schedule, runs=self.kernels)

    def with_steps(self, steps: Sequence[Steps]) -> "Side":
        """Return the same with steps for each kernel."""
        first, *_, last = self.schedule.runs
        own = [replace(kernel, steps=each, threads=1) for kernel, each in zip(self.kernels, steps, strict=True)]
        return replace(self, schedule=replace(self.schedule, runs=(first, *own, last)))

    def naive(self, kernel: CpuKernel) -> NaiveProgram:
        """Return the program that a kernel's steps begin with."""
        return NaiveProgram(kernel.layer)

    def predicted_s(self) -> float:
        """Return the simulated seconds of one run, with the caches as the run before has left them."""
        spec = self.costs.view.spec
        return simulate(lower(self.inner, self.costs), cpu_machine(spec), cpu_energy(spec)).makespan_ps / PS_PER_S

    def tuned(self, on: TunedOn, runner: MeasuredRunner, trials: int, seed: int) -> "Side":
        """Return the fastest that a search over all its kernels finds with so many trials."""
        tasks = tasks_of(self.inner, self.costs.view)
        every = joined(tasks)
        weights = {number: task.weight for number, task in enumerate(every)}
        asked = TuningTasks(("pair",), every, (weights,), DTYPE)
        options = search_options(
            "ansor", (), trials=trials, seed=seed, unit=_UNIT, population=_POPULATION, is_measured=True
        )
        with tempfile.TemporaryDirectory() as folder:
            search, candidates = open_search(asked, on, runner, Path(folder), TotalLatency(), options)
            for _ in search.run():
                pass
            candidates.close()
        steps = []
        for kernel in self.kernels:
            key = self.naive(kernel).key(DTYPE, on.hardware.kind)
            best = next(each.best for each in search.tasks if each.task.key == key)
            if best is None:
                raise SystemExit(f"{kernel.name}: no candidate has a time")
            naive = next(task.naive for task in every if task.key == key)
            steps.append(own_steps(self.naive(kernel), written(naive, best[0].steps)))
        return self.with_steps(steps)

    def text(self) -> str:
        """Return the steps of its kernels as JSON."""
        return json.dumps([json.loads(written(self.naive(each), each.steps)) for each in self.kernels],
                          separators=(",", ":"))  # fmt: skip

    def read(self, text: str) -> "Side":
        """Return the same with steps as `text` writes them."""
        both = zip(self.kernels, json.loads(text), strict=True)
        return self.with_steps([own_steps(self.naive(kernel), json.dumps(each)) for kernel, each in both])


def timed_s(sides: Mapping[str, Side]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return by side the seconds of one run, for each of its turns, and those of each kernel run by itself.

    Raises ``SystemExit`` for a kernel whose results are wrong.
    """
    rows, alone = {}, dict[str, list[float]]()
    for name, side in sides.items():
        job = job_of_schedule(side.schedule, side.costs.view, "llvm", Budget(kernel_s=_TURN_S))
        session = late("session").Session(job)
        done = [session.kernel(place) for place in range(1, len(side.kernels) + 1)]
        if wrong := [f"{name}, {each.name}: {each.error}" for each in done if each.error]:
            raise SystemExit("\n".join(wrong))
        alone[name] = [each.timing.seconds for each in done]
        functions = [(module["main"], arguments) for module, arguments in session.calls]
        rows[name] = late("row").Row(functions, session.target), session
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(_ROUNDS):
        for name, (row, _) in rows.items():
            found[name].append(_turn_s(row))
    for row, _ in rows.values():
        row.close()
    return found, alone


def _turn_s(row: Any) -> float:
    """Return the median seconds of one run of ``row``, several a sample."""

    def sample(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            row.run()
        return (time.perf_counter() - begin) / count

    count = max(1, int(_SHORTEST_SAMPLE_S / max(min(sample(1) for _ in range(3)), 1e-9)))
    return measured(lambda: sample(count), _TURN_S, _WIDTH).seconds


def measure(pair: Pair, view: CpuView, on: TunedOn, runner: MeasuredRunner, trials: int, seed: int) -> dict[str, str]:
    """Return the row of a pair, without predictions."""
    graph, begin = pair.graph(), time.monotonic()
    sides = {name: Side.of(plan(graph), view).tuned(on, runner, trials, seed) for name, plan in _PLANS.items()}
    tuned_s = time.monotonic() - begin
    found, alone = timed_s(sides)
    least = {name: min(taken) for name, taken in found.items()}
    spread = max([sorted(taken)[_ROUNDS // 4] / least[name] - 1 for name, taken in found.items()])
    return {
        "pair": str(pair), "kind": pair.kind,
        **{f"{name}_s": f"{taken:.4g}" for name, taken in least.items()},
        **{f"{name}_alone_s": " ".join([f"{each:.4g}" for each in taken]) for name, taken in alone.items()},
        "ratio": f"{least[ONE] / least[TWO]:.4f}", "spread": f"{spread:.4f}",
        "tuning_s": f"{tuned_s:.1f}", "trials": str(trials), "seed": str(seed), "measured_at": now(),
        **{f"{name}_steps": side.text() for name, side in sides.items()},
    }  # fmt: skip


def predicted(pair: Pair, row: Mapping[str, str], view: CpuView, label: str) -> dict[str, str]:
    """Return the predictions of a row: of its programs, and of the built-in choice."""
    graph, found = pair.graph(), {}
    for name, plan in _PLANS.items():
        side = Side.of(plan(graph), view)
        found[f"{label}:{name}_s"] = f"{side.read(row[f'{name}_steps']).predicted_s():.6g}"
        found[f"{label}:{name}_built_in_s"] = f"{side.predicted_s():.6g}"
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure or predict, and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hardware", required=True, help="description of this machine (dsascape calibrate)")
    parser.add_argument("--pairs", choices=SETS, default=SETS[0])
    parser.add_argument("--per-kind", type=int, default=4)
    parser.add_argument("--only", default="", help="pairs whose kind or description has this text")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which no further pair is begun")
    parser.add_argument("--trials", type=int, default=16, help="of each side, in all")
    parser.add_argument("--threads", type=int, default=1, choices=(1,))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--label", default="now", help="name of the model that predicts")
    parser.add_argument("--again", action="store_true", help="predict the rows of the file, and measure nothing")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.csv")
    asked = parser.parse_args(arguments)
    os.environ["TVM_NUM_THREADS"] = "1"  # read when TVM is imported
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    spec = load_hardware(asked.hardware, Cpu)
    view = CpuView(spec, CpuTuning(threads=1, warm_caches=True))
    rows = read(asked.out)
    pairs = {str(each): each for each in drawn(asked.pairs, asked.per_kind, asked.seed)}
    if asked.again:
        write(asked.out, {
            name: row | predicted(pairs[name], row, view, asked.label) for name, row in rows.items()
        })  # fmt: skip
        return
    device = local_device()
    facts = {"processor": device.processor, "versions": json.dumps(dict(device.versions), sort_keys=True)}
    end = time.monotonic() + 60 * asked.minutes
    on, direct = TunedOn(spec, "local", "llvm", 1), CpuView(spec, CpuTuning(threads=1, winograd=0))
    with MeasuredRunner("local", "llvm", 1) as runner:
        for name, pair in pairs.items():
            if name in rows or asked.only not in f"{pair.kind} {name}":
                continue
            if time.monotonic() > end:
                break
            row = measure(pair, direct, on, runner, asked.trials, asked.seed) | facts
            row |= predicted(pair, row, view, asked.label)
            rows[name] = row
            write(asked.out, rows)
            said = [float(row[f"{asked.label}:{ONE}{of}_s"]) / float(row[f"{asked.label}:{TWO}{of}_s"])
                    for of in ("", "_built_in")]  # fmt: skip
            print(
                f"{name}: {row['ratio']} +- {row['spread']}, predicted {said[0]:.3f}, own choice {said[1]:.3f};"
                f" {row['tuning_s']} s",
                flush=True,
            )  # fmt: skip


def read(path: Path) -> dict[str, dict[str, str]]:
    """Return the rows of a file by pair; none where there is no file."""
    if not path.exists():
        return {}
    csv.field_size_limit(2**24)
    with path.open(encoding="utf-8", newline="") as file:
        return {row["pair"]: dict(row) for row in csv.DictReader(file)}


def write(path: Path, rows: Mapping[str, Mapping[str, str]]) -> None:
    """Write the rows."""
    columns = list(dict.fromkeys([name for row in rows.values() for name in row]))
    columns.sort(key=lambda name: name.endswith("_steps"))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


if __name__ == "__main__":
    main()
