"""Start of a run: creates the workers that execute each unit's queue."""

from collections import deque

from dsascape.hw_models.simulation.dispatching import BlockScheduler
from dsascape.hw_models.simulation.instructions import ProgramError, base_name
from dsascape.hw_models.simulation.pipelining import PipelinedServer
from dsascape.hw_models.simulation.running import Running
from dsascape.hw_models.simulation.units import Server, Worker


def start_units(running: Running) -> list[Worker]:
    """Return the workers of all units of the program, each started on the first instruction of its queue.

    Raises ``ProgramError`` for a queue that mixes bound and dispatched work.
    """
    queues: dict[str, deque[int]] = {}
    dispatched: dict[str, bool] = {}
    table = running.table
    queue_of = [(queues.setdefault(work.unit, deque()), work.unit, work.blocks > 0) for work in table.works]
    for position, number in enumerate(table.work_of):
        queue, unit_name, is_dispatched = queue_of[number]
        queue.append(position)
        if dispatched.setdefault(unit_name, is_dispatched) != is_dispatched:
            raise ProgramError(f"{table.labels[position]}: the queue of {unit_name} mixes bound and dispatched work")
    workers: list[Worker] = []
    for number, (name, queue) in enumerate(queues.items()):
        unit = running.machine.units[base_name(name)]
        line = number if unit.servers > 1 else -1
        if dispatched[name]:
            workers.append(BlockScheduler(running, name, queue))
        elif unit.in_flight > 1:
            workers.append(PipelinedServer(running, name, queue, line))
        else:
            workers += [Server(running, name, queue, line) for _ in range(unit.servers)]
    for worker in workers:
        worker.take()
    return workers
