"""Names of a schedule's layers and launches, in the words of its plan (`fusion.layer_names`)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from dsascape.fusion.layer_names import kernel_layer_name, layer_name
from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kinds.schedule import MachineSchedule


@runtime_checkable
class CutsKernels(Protocol):
    """A cost model of a machine that runs the operators of a kernel as one layer or several, whatever their tiles."""

    def layers_of(self, ops: Sequence[int]) -> Sequence[Layer]:
        """Return the layers that the operators run as; none for views."""
        ...


def layer_names(schedule: MachineSchedule) -> dict[str, str]:
    """Return the name of each layer by the tensor that it writes.

    A layer that is all of its kernel has the kernel's name; one of several has a number of its own behind a dot, and
    its own operators and output.
    """
    return {output: name for names in layers_of_kernels(schedule).values() for output, name in names.items()}


def layers_of_kernels(schedule: MachineSchedule) -> dict[int, dict[str, str]]:
    """Return what `layer_names` returns, by the number of the kernel in the plan."""
    return _by_kernel(schedule.plan, schedule.placed_layers)


def layers_of_plan(plan: FusionPlan, costs: object = None) -> dict[int, dict[str, str]]:
    """Return the names that layers will have once the plan is scheduled kernel by kernel, by the kernel's number.

    ``costs`` is the machine's cost model for the plan's network. A kernel is one layer where the model says no more, or
    is not given.
    """
    groups = [number for number in range(len(plan.groups)) if plan.is_kernel(number)]
    if isinstance(costs, CutsKernels):
        return _by_kernel(plan, [(each, layer) for each in groups for layer in costs.layers_of(plan.groups[each].ops)])
    return {each: {plan.subgraphs[each].sink.name: kernel_layer_name(plan, each)} for each in groups}


def _by_kernel(plan: FusionPlan, placed: Iterable[tuple[int, Layer]]) -> dict[int, dict[str, str]]:
    """Return the names of layers by the tensors that they write, by kernel; ``placed`` has a layer's kernel and it."""
    layers_of: dict[int, dict[str, Layer]] = {}
    seen: set[str] = set()
    for group, layer in placed:
        output = layer.sink.name
        if output not in seen:
            seen.add(output)
            layers_of.setdefault(group, {})[output] = layer
    names: dict[int, dict[str, str]] = {}
    for group, layers in layers_of.items():
        names[group] = {
            output: layer_name(f"{group}.{number}", layer.graph, layer.ops, output)
            for number, (output, layer) in enumerate(layers.items())
        }
        if len(layers) == 1:
            names[group] = dict.fromkeys(layers, kernel_layer_name(plan, group))
    return names


def launch_names(schedule: MachineSchedule) -> dict[str, str]:
    """Return the name of each launch by its label: the kernel's, with the number of the instance where it has several.

    Empty for machines whose launches are layers.
    """
    several = Counter(group for _, group in schedule.launches)
    done: Counter[int] = Counter()
    names = {}
    for label, group in schedule.launches:
        part = f", instance {done[group]}" if several[group] > 1 else ""
        names[label] = f"{kernel_layer_name(schedule.plan, group)}{part}"
        done[group] += 1
    return names
