"""The start of a run: every unit of the program gets the workers that take its queue."""

from collections import deque

from hw_models.dispatching import BlockScheduler
from hw_models.instructions import ProgramError, base_name
from hw_models.pipelining import PipelinedServer
from hw_models.running import Running
from hw_models.units import Server


def start_units(running: Running) -> None:
    """Let every unit of the program take the first instruction of its queue."""
    queues: dict[str, deque[int]] = {}
    dispatched: dict[str, bool] = {}
    table = running.table
    queue_of = [(queues.setdefault(work.unit, deque()), work.unit, work.blocks > 0) for work in table.works]
    for position, number in enumerate(table.work_of):
        queue, unit_name, is_dispatched = queue_of[number]
        queue.append(position)
        if dispatched.setdefault(unit_name, is_dispatched) != is_dispatched:
            raise ProgramError(f"{table.labels[position]}: the queue of {unit_name} mixes bound and dispatched work")
    for name, queue in queues.items():
        running.busy_ps.setdefault(base_name(name), 0)
        if dispatched[name]:
            BlockScheduler(running, name, queue).take()
            continue
        unit = running.machine.units[base_name(name)]
        if unit.in_flight > 1:
            PipelinedServer(running, name, queue).take()
        else:
            for _ in range(unit.servers):
                Server(running, name, queue).take()
