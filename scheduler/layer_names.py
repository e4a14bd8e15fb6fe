"""Names of a schedule's layers and launches, in the words of its plan (`fusion.layer_names`)."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from dsascape.fusion.layer_names import kernel_layer_name, layer_name
from dsascape.scheduler.dsa.schedule.schedule import Schedule as DsaSchedule
from dsascape.scheduler.kernels.layer import Layer


@runtime_checkable
class HasLayers(Protocol):
    """A schedule that lists its layers."""

    @property
    def placed_layers(self) -> Sequence[tuple[int, Layer]]:
        """Pairs (number of the plan's group, layer) in the order of their runs; a layer may occur several times."""
        ...


def layer_names(schedule: Any) -> dict[str, str]:
    """Return the name of each layer by the tensor that it writes; empty for a schedule that does not list its layers.

    A layer that is all of its kernel has the kernel's name; one of several has a number of its own behind a dot, and
    its own operators and output.
    """
    return {output: name for names in layers_of_kernels(schedule).values() for output, name in names.items()}


def layers_of_kernels(schedule: Any) -> dict[int, dict[str, str]]:
    """Return what `layer_names` returns, by the number of the kernel in the plan."""
    layers_of: dict[int, dict[str, Layer]] = {}
    seen: set[str] = set()
    for group, layer in schedule.placed_layers if isinstance(schedule, HasLayers) else ():
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
            names[group] = dict.fromkeys(layers, kernel_layer_name(schedule.plan, group))
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
