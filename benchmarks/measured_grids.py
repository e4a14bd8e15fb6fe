"""Kernels that a GPU has run, predicted anew in the loops that ran: ``python -m benchmarks.measured_grids [--write]``.

The loops are those of ``experiments/measured/gpu/steps.jsonl``, the times those of ``kernels.csv`` beside it, of
generated code on an H100. Printed are mean error, bias and rank correlation (Spearman) by network and for all but the
one that a number of the model was set by, then the mean error by kinds of operators. ``--write`` puts the predictions
into ``kernels.csv`` and ``results.csv``; ``--set tuning.NAME=VALUE`` predicts with another number.
"""

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import pandas as pd

from dsascape.experiments.real.accuracy import kendall, mape, spearman
from dsascape.experiments.real.on_gpu import GPUS
from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, gpu_energy, gpu_machine, load_hardware, simulate
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.kind import GPU
from dsascape.scheduler.gpu.lower import lower
from dsascape.scheduler.gpu.repeated import repeated_kernels
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.files import read_steps
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kernels.repeated import RepeatedKernel
from dsascape.scheduler.kinds.table import tuning_with
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis

FOLDER = Path(__file__).parent.parent / "experiments" / "measured" / "gpu"
CALIBRATED_ON = "squeezenet"
_PARTS = "predicted_parts_s."


@dataclass(frozen=True)
class Ran:
    """The kernels of a network as they ran, with what is predicted of each now."""

    model: str
    kernels: Mapping[str, RepeatedKernel]
    """By operators."""
    network_s: float


def ran(model: str, steps: Mapping[str, Steps], settings: Mapping[str, object]) -> Ran:
    """Return the kernels of a network in the loops ``steps``, by operators, under the tuning of generated code."""
    spec = load_hardware("h100", Gpu)
    tuning = tuning_with(GpuTuning, {**GPUS.of_code(spec), **settings})
    graph = load_network(model).with_dtype("fp32")
    costs = GPU.costs(spec, 1, "fp32", tuning, None, Analysis(graph))
    chosen = GPU.schedule(fixed_pattern_plan(graph), costs, "fixed-pattern")
    runs = tuple([replace(kernel, steps=steps[operators(kernel.layer)]) for kernel in chosen.runs])
    schedule = replace(chosen, runs=runs)
    found = zip(runs, repeated_kernels(schedule, costs), strict=True)
    return Ran(model, {operators(kernel.layer): each for kernel, each in found}, _seconds(schedule, costs))


def _seconds(schedule: GpuSchedule, costs: GpuCosts) -> float:
    spec = costs.view.spec
    return simulate(lower(schedule, costs), gpu_machine(spec), gpu_energy(spec)).makespan_ps / PS_PER_S


def operators(layer: Layer) -> str:
    """Return the names of a layer's operators, as the tables have them."""
    return ", ".join(layer.analysis.graph.ops[op].name for op in layer.ops)


def steps_that_ran(path: Path = FOLDER / "steps.jsonl") -> dict[str, dict[str, Steps]]:
    """Return the steps of each kernel by its operators, by network."""
    found: dict[str, dict[str, Steps]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        found.setdefault(each["model"], {})[each["operators"]] = read_steps(each["steps"], each["operators"])
    return found


def summary(kernels: pd.DataFrame) -> Iterator[str]:
    """Yield error, bias and rank correlation by network, of all but the calibrated one, and error by kinds."""
    blind = kernels[kernels["model"] != CALIBRATED_ON]
    for name, own in [*kernels.groupby("model"), (f"all but {CALIBRATED_ON}", blind)]:
        measured, predicted = own["measured_s"].tolist(), own["predicted_s"].tolist()
        bias = statistics.mean([ours / own_s - 1 for ours, own_s in zip(predicted, measured, strict=True)])
        yield (
            f"{name}: {len(own)} kernels, error {mape(predicted, measured):.1%}, bias {bias:+.1%},"
            f" rank correlation {spearman(predicted, measured):.3f}"
        )
    ratios = sorted(zip(blind["layer"].map(_kinds), blind["predicted_s"] / blind["measured_s"], strict=True))
    for kinds, of_kind in groupby(ratios, key=lambda pair: pair[0]):
        every = [ratio for _, ratio in of_kind]
        yield f"  {len(every)} x {kinds}: {sum(every) / len(every):.2f} times what is measured"


def _kinds(layer: str) -> str:
    return layer.split(" ")[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print, and write where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="tuning.NAME=VALUE")
    asked = parser.parse_args(arguments)
    pairs = [each.removeprefix("tuning.").split("=", 1) for each in asked.set]
    settings = {name: json.loads(value) for name, value in pairs}
    found = {model: ran(model, steps, settings) for model, steps in steps_that_ran().items()}
    kernels, results = pd.read_csv(FOLDER / "kernels.csv"), pd.read_csv(FOLDER / "results.csv")
    own = [found[row["model"]].kernels[row["operators"]] for _, row in kernels.iterrows()]
    kernels["predicted_s"] = [each.seconds for each in own]
    for name in [each for each in kernels.columns if each.startswith(_PARTS)]:
        kernels[name] = [each.parts_s.get(name.removeprefix(_PARTS)) for each in own]
    results["latency_s"] = [
        found[row["model"]].network_s if row["model"] in found else row["latency_s"] for _, row in results.iterrows()
    ]
    for name, figure in (("mape", mape), ("spearman", spearman), ("kendall", kendall)):
        by_model = {
            model: figure(own["predicted_s"].tolist(), own["measured_s"].tolist())
            for model, own in kernels.groupby("model")
        }
        results[name] = [by_model[model] for model in results["model"]]
    print(*summary(kernels), sep="\n")
    if asked.write:
        kernels.to_csv(FOLDER / "kernels.csv", index=False)
        results.to_csv(FOLDER / "results.csv", index=False)


if __name__ == "__main__":
    main()
