"""Utilisation of the engines in each stage of ResNet-50 (GraphTurbo's Fig. 17).

``python -m dsascape.experiments.papers.graphturbo_stages [OUT.md]`` runs ResNet-50 at batch 64 as the paper's Table 2
does, under TVM's schedule and under GraphTurbo's, and attributes every moment of the trace to a stage: that of the
layer whose computation ends next. A stage is the layers whose feature maps have one size (Fig. 3a).
"""

import sys
from collections.abc import Mapping
from itertools import chain

from dsascape.experiments.papers.graphturbo_tables import FOLDER, markdown
from dsascape.experiments.papers.pages import write_page
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import Compute, load_hardware
from dsascape.scheduler import Policy, make_policy

MODEL, BATCH = "resnet50", 64
MACHINE_NAMES = ("stcp920",)
STAGES = {56: "stage 1", 28: "stage 2", 14: "stage 3", 7: "stage 4"}
"""Names of the stages by the height of their layers' outputs, in pixels."""
UNITS = {"vector": "VME", "matrix": "MME"}
_IMAGE_RANK = 4
Usage = Mapping[str, Mapping[str, float]]
"""Utilisation (0..1) by stage and unit."""


def usage(outcome: Outcome) -> Usage:
    """Return the utilisation of each unit in each stage: its computing time per core divided by the stage's time."""
    graph, trace, program = outcome.schedule.graph, outcome.result.trace, outcome.program
    jobs = []
    for instruction, start_ps, end_ps in zip(trace.instructions, trace.start_ps, trace.end_ps, strict=True):
        if isinstance(instruction.payload, Compute):
            shape = graph.tensors[instruction.label].shape
            stage = STAGES.get(shape[2], "") if len(shape) == _IMAGE_RANK else ""
            share = program.executions(instruction) / program.multiplicity(instruction.unit)
            jobs.append((end_ps, stage, instruction.unit, (end_ps - start_ps) * share))
    spent: dict[str, float] = {}
    busy: dict[tuple[str, str], float] = {}
    before_ps = 0
    for end_ps, stage, unit, worked_ps in sorted(jobs):
        spent[stage] = spent.get(stage, 0.0) + end_ps - before_ps
        busy[stage, unit] = busy.get((stage, unit), 0.0) + worked_ps
        before_ps = end_ps
    return {
        stage: {unit: busy.get((stage, unit), 0.0) / spent[stage] for unit in UNITS}
        for stage in STAGES.values()
        if stage in spent
    }


def outcomes(machine: str) -> dict[str, Outcome]:
    """Return the simulated ResNet-50 by policy: TVM's at the paper's batches per cluster, GraphTurbo at the best."""
    policies: dict[str, Policy] = {
        "fixed-pattern": make_policy("fixed-pattern", {"batches_per_cluster": 2}),
        "graphturbo": make_policy("graphturbo", {"batches_per_cluster": "best"}),
    }
    hardware = load_hardware(machine)
    return {name: evaluate(DesignPoint(Workload(MODEL, BATCH), hardware, p)) for name, p in policies.items()}


def table(machine: str) -> str:
    """Return Fig. 17 for one machine as a Markdown table, in per cent."""
    usages = {name: usage(outcome) for name, outcome in outcomes(machine).items()}
    rows = [
        (stage, *(100 * used[stage][unit] for unit in UNITS for used in usages.values())) for stage in STAGES.values()
    ]
    columns = ("", *(f"{short}, {name} [%]" for short in UNITS.values() for name in usages))
    return markdown(columns, rows)


def sub_graphs(outcome: Outcome) -> list[tuple[int, int, int, str]]:
    """Return per sub-graph: instances, operators, convolutions, and the shape of one image of its last output."""
    graph = outcome.schedule.graph
    rows = []
    for group in outcome.schedule.plan.groups:
        kinds = [graph.ops[number].kind for number in group.ops]
        last = graph.tensors[graph.ops[max(group.ops)].outputs[0]].shape
        rows.append((group.instances, len(kinds), kinds.count("Conv"), " x ".join(map(str, last[1:]))))
    return rows


def readings(machine: str) -> str:
    """Return a table of the sub-graphs under both readings of section 3.1's working set, with the speed-up over TVM."""
    hardware, workload = load_hardware(machine), Workload(MODEL, BATCH)
    plain = make_policy("fixed-pattern", {"batches_per_cluster": 2})
    tvm_per_s = evaluate(DesignPoint(workload, hardware, plain)).record.throughput_per_s
    rows = []
    for footprint in ("made", "all"):
        outcome = evaluate(DesignPoint(workload, hardware, make_policy("graphturbo", {"footprint": footprint})))
        counts = zip(*sub_graphs(outcome), strict=True)
        listed = ["; ".join(map(str, count)) for count in counts]
        rows.append((footprint, *listed, outcome.record.throughput_per_s / tvm_per_s))
    columns = ("`footprint`", "instances", "operators", "convolutions", "an image leaves as", "÷ fixed-pattern")
    return markdown(columns, rows)


def page() -> str:
    """Return the page on the stages as Markdown: the introduction, then utilisation and sub-graphs per machine."""
    introduction = (FOLDER / "stages.md").read_text(encoding="utf-8").rstrip()
    tables = [(f"## {name}", table(name), "### Sub-graphs", readings(name)) for name in MACHINE_NAMES]
    return "\n\n".join([introduction, *chain.from_iterable(tables)]) + "\n"


if __name__ == "__main__":
    sys.exit(write_page(page, __doc__))
