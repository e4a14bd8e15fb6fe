"""Names of a schedule's layers and launches, in the words of its plan (`fusion.layer_names`)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from dsascape.fusion.layer_names import kernel_layer_name, layer_name
from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.dsa.schedule.schedule import Schedule as DsaSchedule
from dsascape.scheduler.kernels.layer import Layer


@runtime_checkable
class HasLayers(Protocol):
    """A schedule that lists its layers."""

    @property
    def plan(self) -> FusionPlan:
        """Plan that is scheduled."""
        ...

    @property
    def placed_layers(self) -> Sequence[tuple[int, Layer]]:
        """Pairs (number of the plan's group, layer) in the order of their runs; a layer may occur several times."""
        ...


@runtime_checkable
class CutsKernels(Protocol):
    """A cost model of a machine that runs the operators of a kernel as one layer or several, whatever their tiles."""

    def layers_of(self, ops: Sequence[int]) -> Sequence[Layer]:
        """Return the layers that the operators run as; none for views."""
        ...


def layer_names(schedule: Any) -> dict[str, str]:
    """Return the name of each layer by the tensor that it writes; empty for a schedule that does not list its layers.

    A layer that is all of its kernel has the kernel's name; one of several has a number of its own behind a dot, and
    its own operators and output.
    """
    return {output: name for names in layers_of_kernels(schedule).values() for output, name in names.items()}


def layers_of_kernels(schedule: Any) -> dict[int, dict[str, str]]:
    """Return what `layer_names` returns, by the number of the kernel in the plan."""
    listed: object = schedule
    return _by_kernel(listed.plan, listed.placed_layers) if isinstance(listed, HasLayers) else {}


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


def launch_names(schedule: Any) -> dict[str, str]:
    """Return the name of each launch of a DSA's schedule by its label: the kernel's, with the number of the instance.

    Empty for other machines, whose launches are layers.
    """
    if not isinstance(schedule, DsaSchedule):
        return {}
    several = Counter(instance.group for instance in schedule.instances)
    done: Counter[int] = Counter()
    names = {}
    for instance in schedule.instances:
        group = instance.group
        part = f", instance {done[group]}" if several[group] > 1 else ""
        names[instance.name] = f"{kernel_layer_name(schedule.plan, group)}{part}"
        done[group] += 1
    return names
