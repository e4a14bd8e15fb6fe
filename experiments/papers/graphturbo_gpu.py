"""Stitching layers on a GPU (GraphTurbo's section 5.6 and Table 5).

``python -m dsascape.experiments.papers.graphturbo_gpu [OUT.md]`` runs ResNet18-Tailor on an A100: layer by layer (the
paper's TVM), with the eight layers joined two by two (its CUTLASS), and under GraphTurbo, at several batches; then the
same with the DRAM bandwidth of an STCP920, to which the paper traces how little a GPU gains.
"""

import sys
from collections.abc import Iterator

from dsascape.experiments.papers.graphturbo_tables import FOLDER, markdown
from dsascape.experiments.papers.pages import write_page
from dsascape.experiments.question.network import network
from dsascape.experiments.question.points import Workload
from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.hw_models import Gpu, gpu_energy, gpu_machine, load_hardware, simulate, with_values
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.lower import lower
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.policies.graphturbo import GraphTurbo

MODEL, MACHINE, DTYPE = "resnet18-tailor", "a100", "fp16"
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
BANDWIDTHS = ("1555 GB/s", "136 GB/s")
_BEFORE, _PAIRED = 2, 8
"""Layers before the ones that the paper schedules (a convolution and a pooling), and how many it schedules."""


def pairs(layers: FusionPlan) -> FusionPlan:
    """Return the plan in which the eight layers are joined two by two (Fig. 18b)."""
    groups = list(layers.groups)
    joined = [
        Group(first.ops + second.ops, "two convolutions at most")
        for first, second in zip(groups[_BEFORE : _BEFORE + _PAIRED : 2], groups[_BEFORE + 1 :: 2], strict=False)
    ]
    return FusionPlan(layers.graph, (*groups[:_BEFORE], *joined, *groups[_BEFORE + _PAIRED :]))


def schedules(spec: Gpu, batch: int) -> Iterator[tuple[str, GpuSchedule, float]]:
    """Yield the name of each way of scheduling the network, its schedule, and its simulated time in milliseconds."""
    costs = GpuCosts(GpuView(spec, DTYPE), network(Workload(MODEL), batch, DTYPE))
    layers = costs.analysis.of(fixed_pattern_of)
    by_name = {
        "layers": kernel_by_kernel(layers, costs),
        "pairs": kernel_by_kernel(pairs(layers), costs),
        "graphturbo": GraphTurbo().evaluate(costs).schedule,
    }
    for name, schedule in by_name.items():
        result = simulate(lower(schedule, costs), gpu_machine(spec), gpu_energy(spec))
        yield name, schedule, result.makespan_ps / 1e9


def table(bandwidth: str) -> str:
    """Return the latencies and speed-ups at one DRAM bandwidth as a Markdown table, one row per batch."""
    spec = with_values(load_hardware(MACHINE, Gpu), {"dram.bandwidth": bandwidth})
    rows = []
    for batch in BATCHES:
        (_, _, layers_ms), (_, _, pairs_ms), (_, schedule, turbo_ms) = schedules(spec, batch)
        rows.append((batch, layers_ms, pairs_ms, turbo_ms, schedule.kernels, layers_ms / turbo_ms, pairs_ms / turbo_ms))
    columns = (
        "batch", "layers [ms]", "pairs [ms]", "graphturbo [ms]", "its kernels", "speed-up over layers", "over pairs",
    )  # fmt: skip
    return markdown(columns, rows)


def page() -> str:
    """Return the page on GPUs as Markdown: the introduction and one table per DRAM bandwidth."""
    introduction = (FOLDER / "gpu.md").read_text(encoding="utf-8").rstrip()
    return "\n\n".join([introduction, *(f"## DRAM of {each}\n\n{table(each)}" for each in BANDWIDTHS)]) + "\n"


if __name__ == "__main__":
    sys.exit(write_page(page, __doc__))
