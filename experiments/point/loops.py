"""The loops of one kernel of a schedule, as text."""

from collections.abc import Mapping, Sequence

from dsascape.hw_models import AnyHardware
from dsascape.scheduler import MachineSchedule, ScheduleError, kind_of
from dsascape.scheduler.layer_names import layer_names


def loops_text(schedule: MachineSchedule, hardware: AnyHardware, name: str) -> str:
    """Return the loop program of the kernel ``name`` as text.

    The name is that of its tensor or of its layer, its number in the order of runs, or ``#41``, its number in the plan.

    Raises ``ScheduleError`` for a machine whose kernels are no loop programs, and for a kernel that is not there.
    """
    kind = kind_of(hardware)
    if not kind.has_loops:
        raise ScheduleError(f"--loops prints kernels of a CPU or a GPU; {hardware.name} is neither")
    sinks = [layer.sink.name for _, layer in schedule.placed_layers]
    return kind.loops_text(schedule, hardware, _number(sinks, name, layer_names(schedule)))


def _number(sinks: Sequence[str], name: str, layers: Mapping[str, str]) -> int:
    """Return the number of a kernel, given the tensors that kernels write and the names of their layers."""
    found = [number for number, sink in enumerate(sinks) if sink == name]
    if name.startswith("#"):
        called = [(layers.get(sink, ""), number) for number, sink in enumerate(sinks)]
        found = [number for layer, number in called if name in (layer, layer.partition(" ")[0])]
    if not found and name.isdecimal() and int(name) < len(sinks):
        return int(name)
    if not found:
        raise ScheduleError(
            f"--loops: no kernel is called {name!r}; there are {len(sinks)}, numbered from 0; or named as in the"
            f" plan, as {next(iter(layers.values()), '#0')!r}"
        )
    return found[0]
