"""The base design of an experiment, which the best machine for a set of networks is compared with."""

from dsascape.experiments.question.grid import Grid, Machines
from dsascape.experiments.question.points import TUNING, DesignPoint, Origin, split_tuning
from dsascape.hw_models.machine_files.overrides import value_at
from dsascape.hw_models.text.quantities import readable
from dsascape.scheduler import make_tuning


def base_design(grid: Grid) -> list[DesignPoint]:
    """Return the points of the base design, one per workload: the first machine as it is, under the first policy.

    It need not be in the grid. There, the values of its swept paths are those of the machine.
    """
    machines = grid.machines[0]
    if all(machines.unchanged):
        return grid.design(grid.number(0, 0, 0, [min(same) for same in machines.unchanged]))
    deciding = grid.policies[0]
    values = {path: _value(machines, path) for path in machines.sweep}
    origin = Origin(machines.source, machines.values, is_base=True)
    tuning = split_tuning(machines.tuning)[1]
    return [
        DesignPoint(
            workload, machines.base, deciding.policy, {**sizes, **values, **deciding.named}, deciding.file, tuning,
            origin, grid.measured_on, deciding.schedule, grid.kernels, grid.pins,
        )
        for workload, sizes in grid.workloads
    ]  # fmt: skip


def _value(machines: Machines, path: str) -> str:
    """Return a value of the base machine, or of its scheduler's tuning, as text."""
    if path.startswith(TUNING):
        own = make_tuning(machines.base, split_tuning(machines.tuning)[1])
        return str(getattr(own, path.removeprefix(TUNING)))
    value = value_at(machines.base.model_dump(by_alias=True), path)
    return "null" if value is None else readable(str(value))
