"""What the functions of a plan are called."""

from collections.abc import Sequence

from dsascape.fusion.layer_names import kernel_layer_name
from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.layer_names import layer_names

_MOST_NAMED = 4
"""Operators that the name of a function has."""


def kernel_name(plan: FusionPlan, position: int) -> str:
    """Return a name for the group's function: its place, and what its operators are."""
    kinds = [plan.graph.ops[op].kind for op in plan.groups[position].ops if not plan.graph.ops[op].is_view]
    shown = "_".join(kinds[:_MOST_NAMED]).lower() + ("_more" if len(kinds) > _MOST_NAMED else "")
    return f"kernel{position}_" + "".join(c if c.isalnum() else "_" for c in shown)


def launch_names(plan: FusionPlan, groups: Sequence[int]) -> list[str]:
    """Return a name for each launch; ``groups`` says of which group it computes a part, or all."""
    found: list[str] = []
    for number, group in enumerate(groups):
        part = groups[:number].count(group)
        found.append(kernel_name(plan, group) + (f"_part{part}" if part else ""))
    return found


def layers_of_kernels(plan: FusionPlan) -> dict[str, str]:
    """Return the name of the layer that each function of a CPU's code computes, one for each kernel of the plan."""
    return {kernel_name(plan, group): kernel_layer_name(plan, group) for group in range(len(plan.groups))}


def layers_of_launches(schedule: GpuSchedule) -> dict[str, str]:
    """Return the name of the layer that each function of a GPU's code computes, one for each launch."""
    names = layer_names(schedule)
    functions = launch_names(schedule.plan, [kernel.group for kernel in schedule.runs])
    return dict(zip(functions, [names[kernel.layer.sink.name] for kernel in schedule.runs], strict=True))
