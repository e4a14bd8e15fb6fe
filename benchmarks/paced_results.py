"""Tables of what ``benchmarks.paced_bundle`` has measured, beside predictions: for ``measured_page`` and accuracy.

``python -m benchmarks.paced_results MACHINE.yaml BUILT_FOR.yaml TABLES NETWORKS RESULTS.json...``: schedules are those
of the policies for the machine ``BUILT_FOR.yaml``, on as many threads as the bundles were built for; they are predicted
on ``MACHINE.yaml`` for the threads that ran them. ``NETWORKS`` is the folder of ``benchmarks.further_networks``.
``measured_s`` is the median, ``pace`` how much longer arithmetic took at that moment than the machine's file says, and
``paced_s`` the median of times divided by the pace beside each.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.paced_bundle import UPDATES
from dsascape.experiments.point.replay import write_schedule
from dsascape.experiments.real.accuracy import kendall, mape, spearman
from dsascape.experiments.real.on_processor import Prepared, prepared
from dsascape.experiments.shell.cli import parser
from dsascape.experiments.shell.measure import requested_point
from dsascape.hw_models import Cpu, load_hardware
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.tuner.measure import BUNDLE, Budget


def _ready(model: Path, decided: Sequence[str], machine: str, threads: int) -> Prepared:
    command = ["bundle", "build", str(model), *decided, "--hardware", machine, "--threads", str(threads)]
    arguments = parser().parse_args([*command, "--out", "unused.tar.xz"])
    arguments.schedule = None if arguments.schedule is None else Path(arguments.schedule)
    return prepared(requested_point(arguments, BUNDLE), Budget())


@cache
def _schedule(model: Path, policy: str, machine: str, threads: int) -> str:
    """Return a policy's schedule as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.json"
        ready = _ready(model, ["--policy", policy], machine, threads)
        write_schedule(ready.outcome.schedule, load_hardware(machine), path)
        return path.read_text(encoding="utf-8")


def predicted(model: Path, policy: str, built_for: str, built_threads: int, machine: str, threads: int) -> Prepared:
    """Return the simulation of a schedule for ``built_threads`` on another machine and on fewer threads."""
    document = json.loads(_schedule(model, policy, built_for, built_threads))
    for kernel in document["kernels"]:
        kernel["threads"] = min(kernel["threads"], threads)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return _ready(model, ["--schedule", str(path)], machine, threads)


def pace(spec: Cpu, threads: int) -> float:
    """Return the seconds of one of the probe's updates that the machine's file lets expect."""
    core = spec.kinds[0]
    update_s = 1 / core.fma_pipes / core.clock_hz / spec.active_share(threads)
    return update_s + spec.region_ps(threads) / PS_PER_S / UPDATES


def tables(results: Sequence[dict[str, Any]], networks: Path, built_for: str, machine: str) -> list[pd.DataFrame]:
    """Return the rows of networks and of kernels."""
    points, kernels, spec = [], [], load_hardware(machine, Cpu)
    for result in results:
        model, policy, threads = result["model"], result["policy"], result["threads"]
        ready = predicted(networks / f"{model}.onnx", policy, built_for, result["built_threads"], machine, threads)
        expected = pace(spec, threads)

        def medians(samples: Sequence[Sequence[float]], by: float = expected) -> dict[str, float]:
            paces = [(before + behind) / 2 / by for _, before, behind in samples]
            return {
                "measured_s": statistics.median(sample[0] for sample in samples), "pace": statistics.median(paces),
                "paced_s": statistics.median(sample[0] / each for sample, each in zip(samples, paces, strict=True)),
            }  # fmt: skip

        same = {
            "model": model, "hardware": spec.name, "policy": policy, "batch": 1, "dtype": "fp32",
            "tuning.threads": threads,
        }  # fmt: skip
        rows = [
            {
                **same, "kernel": name, "layer": ready.layers.get(name, name),
                "operators": ", ".join(result["operators"][name]), **medians(samples),
                "predicted_s": ready.kernels[name].seconds, "threads": ready.kernels[name].threads,
                **{f"predicted_parts_s.{part}": taken for part, taken in ready.kernels[name].parts_s.items()},
            }
            for name, samples in result["kernels"].items()
        ]  # fmt: skip
        kernels += rows
        ours, theirs = [row["predicted_s"] for row in rows], [row["measured_s"] for row in rows]
        points.append({
            **same, "latency_s": ready.outcome.record.latency_s, **medians(result["network"]),
            "mape": mape(ours, theirs), "spearman": spearman(ours, theirs), "kendall": kendall(ours, theirs),
            "is_correct": int(not result["wrong"]), "target": result["target"],
            "built_threads": result["built_threads"], "device_facts": json.dumps(result["device"], sort_keys=True),
            "measured_at": result["measured_at"], "warnings": "",
        })  # fmt: skip
    return [pd.DataFrame(points), pd.DataFrame(kernels)]


def main(arguments: Sequence[str]) -> None:
    """Write the tables."""
    machine, built_for, out, networks, *files = arguments
    results = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    results.sort(key=lambda result: (result["model"], result["policy"], result["threads"]))
    for name, frame in zip(("results", "kernels"), tables(results, Path(networks), built_for, machine), strict=True):
        frame.to_csv(Path(out) / f"{name}.csv", index=False)


if __name__ == "__main__":
    main(sys.argv[1:])
