"""The command ``fuse``: plans a network without scheduling it, and shows its kernels and what they save."""

import argparse

from dsascape.experiments.point.evaluate import job_of
from dsascape.experiments.point.job import Job
from dsascape.experiments.point.pipeline import names_by_group, plan_and_layers
from dsascape.experiments.point.replay import UnusableScheduleError, schedule_in
from dsascape.experiments.question.schedules import read_document
from dsascape.experiments.report.plan_picture import plan_picture
from dsascape.experiments.shell.answers import Answer, Console, shown_text, table, unwritten_told
from dsascape.experiments.shell.simulate import requested_policy, requested_workload, show_origin
from dsascape.fusion import FusionPlan, unfused_intermediate_bytes
from dsascape.fusion.layer_names import kernel_layer_name
from dsascape.hw_models import load_hardware
from dsascape.hw_models.text.quantities import format_bytes
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.scheduler import ScheduleError, policy_label, simulated_network
from dsascape.scheduler.graphturbo.instances import operations_of, split_into_instances
from dsascape.wording import count
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis


def _planned(arguments: argparse.Namespace) -> tuple[str, Graph, FusionPlan, list[list[str]], Job]:
    """Return the policy's label, the network before it, the plan, its groups' layer names, and a cluster's job."""
    workload, machine = requested_workload(arguments), load_hardware(arguments.hardware)
    if arguments.schedule is not None:
        if arguments.option:
            raise ScheduleError("--option does not go with --schedule, which replaces the policy")
        try:
            schedule, network, job = schedule_in(read_document(arguments.schedule), workload, machine, {})
        except UnusableScheduleError as error:
            raise ScheduleError(f"{arguments.schedule}: {error}") from error
        label = schedule.policy or str(arguments.schedule)
        return label, network.graph, schedule.plan, names_by_group(schedule), job
    policy = requested_policy(arguments)
    analysis, job = job_of(workload, machine, {})
    graph = simulated_network(policy, analysis, job.placing).graph
    plan, layers = plan_and_layers(analysis, policy, job.placing)
    return policy_label(policy), graph, plan, layers, job


def fuse(arguments: argparse.Namespace) -> Answer:
    """Show the plan of one cluster's network, as ``simulate`` makes it for the same options; draw it on request."""
    label, graph, plan, layers, job = _planned(arguments)
    after = operations_of(split_into_instances(Analysis(plan.graph), plan).instances)
    planned = plan.graph.ops
    groups = [[planned[position].name for position in group.ops] for group in plan.groups]
    before = unfused_intermediate_bytes(graph)
    data = {
        "model": graph.name, "policy": label, "operators": len(graph.ops),
        "kernels": plan.kernels, "intermediate_bytes_before": before,
        "intermediate_bytes_after": plan.intermediate_bytes,
        "flops_before": graph.operations.flops, "flops_after": after.flops, "groups": groups,
        "layers": layers,
    }  # fmt: skip

    unwritten: list[str] = []
    if arguments.picture is not None:
        kernels = f"{count(len(planned), 'operator')} in {count(plan.kernels, 'kernel')}"
        with unwritten_told(unwritten):
            write_whole(arguments.picture, plan_picture(f"{graph.name} under {label}: {kernels}", plan))

    def show() -> None:
        console = Console()
        console.print(
            f"[bold]{shown_text(graph.name)}[/bold] under {shown_text(label)}:"
            f" {count(len(graph.ops), 'operator')} in {count(plan.kernels, 'kernel')}; between kernels"
            f" {format_bytes(before)}"
            f" -> {format_bytes(plan.intermediate_bytes)}; {graph.operations.flops / 1e9:.4g} ->"
            f" {after.flops / 1e9:.4g} GFLOP; batch {graph.batch} of {job.batch}, {job.placing.dtype}"
        )
        show_origin(console, plan)
        rows = [
            (
                kernel_layer_name(plan, number),
                len(group.ops),
                group.boundary_reason,
                planned[group.ops[0]].name,
                planned[group.ops[-1]].name,
            )
            for number, group in enumerate(plan.groups)
            if plan.is_kernel(number)
        ]
        wide = "first", "last"
        table("Kernels", ("kernel", "operators", "why it ends", *wide), rows, wide)()
        inner = [(name,) for names in layers if len(names) > 1 for name in names]
        if inner:
            table("Layers of kernels that have several", ("layer",), inner)()

    return Answer(data, show, unwritten=tuple(unwritten))
