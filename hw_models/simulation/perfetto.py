"""Traces as Chrome trace events: JSON for the Perfetto UI.

There is one process for the critical path, one for each level of the machine that has units, and one for memory
occupancy. A unit is a thread; one that executes two instructions at a time is two. ``ts`` and ``dur`` are microseconds
rounded to nanoseconds: viewers keep nothing finer and round start and length independently, so that adjacent events
would overlap there. The exact picoseconds are among the arguments of an event.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dsascape.hw_models.simulation.instructions import Compute, Payload, Transfer, base_name
from dsascape.hw_models.simulation.trace import NO_CAUSE, SimulationResult, Trace

Event = dict[str, Any]

_CRITICAL_PATH = 1
_MEMORIES = 2
_FIRST_LEVEL = 3


def perfetto_json(
    run: Trace | SimulationResult, machine_name: str, names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the trace events of ``run`` as a JSON object, with the names of processes and threads.

    ``names`` has a name for each instruction, to show in place of its label, which then is among its arguments.
    """
    trace = run.trace if isinstance(run, SimulationResult) else run
    events = [
        *_process_names(trace, machine_name),
        *_critical_path(trace, names),
        *_instructions(trace, names),
        *_occupancy(trace),
    ]
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"makespan_ps": trace.makespan_ps}}


def write_perfetto(
    run: Trace | SimulationResult, path: Path, machine_name: str = "machine", names: Sequence[str] | None = None
) -> None:
    """Write the trace events of ``run`` to the JSON file ``path``; ``names`` as in `perfetto_json`."""
    path.write_text(json.dumps(perfetto_json(run, machine_name, names), separators=(",", ":")), encoding="utf-8")


def _processes(trace: Trace) -> dict[str, int]:
    """Return the process number by name of each level that has units."""
    return {level: _FIRST_LEVEL + number for number, level in enumerate(sorted(set(trace.levels.values())))}


def _process_names(trace: Trace, machine_name: str) -> Iterator[Event]:
    """Yield the names and the order of the processes; memories come last."""
    named = {_CRITICAL_PATH: "critical path"}
    named |= {process: f"units of a {level}" for level, process in _processes(trace).items()}
    named[_MEMORIES] = "memories"
    for place, (process, name) in enumerate(named.items()):
        yield _metadata("process_name", process, name=f"{machine_name}: {name}")
        yield _metadata("process_sort_index", process, sort_index=place)


def _critical_path(trace: Trace, names: Sequence[str] | None) -> Iterator[Event]:
    """Yield one thread that shows the limiting resource from zero to the makespan."""
    yield from _thread_names(_CRITICAL_PATH, 1, "paced by")
    for step in trace.critical_steps:
        instruction = trace.instructions[step.position]
        args = {"label": instruction.label, "unit": instruction.unit, "position": step.position}
        if names is not None:
            args["name"] = names[step.position]
        yield _complete(step.paced_by, "critical", (_CRITICAL_PATH, 1), (step.start_ps, step.end_ps), args)


def _instructions(trace: Trace, names: Sequence[str] | None) -> Iterator[Event]:
    """Yield one complete event per instruction; threads are in the order of their first instruction."""
    lanes = _lanes(trace)
    used = sorted(set(lanes))
    units = dict.fromkeys(instruction.unit for instruction in trace.instructions)
    threads: dict[tuple[str, int], tuple[int, int]] = {}
    processes = _processes(trace)
    for unit in units:
        alike = f", {trace.members[unit]} alike" if trace.members.get(unit, 1) > 1 else ""
        channels = [lane for name, lane in used if name == unit]
        for lane in channels:
            threads[unit, lane] = processes[trace.levels[unit]], len(threads) + 1
            channel = f", channel {lane + 1}" if len(channels) > 1 else ""
            yield from _thread_names(*threads[unit, lane], f"{unit}{channel}{alike}")
    for position, instruction in enumerate(trace.instructions):
        told = _arguments(trace, position)
        if names is not None:
            told["label"] = instruction.label
            if trace.released_by[position] != NO_CAUSE:
                told["released_by"] = names[trace.released_by[position]]
        yield _complete(
            (instruction.label if names is None else names[position]) or instruction.unit,
            type(instruction.payload).__name__,
            threads[lanes[position]],
            (trace.start_ps[position], trace.end_ps[position]),
            told,
        )


def _lanes(trace: Trace) -> list[tuple[str, int]]:
    """Return per instruction its unit and the first free lane of that unit."""
    free_at: dict[str, list[int]] = {}
    lanes = [("", 0)] * len(trace.instructions)
    in_time = sorted(range(len(lanes)), key=lambda i: (trace.start_ps[i], trace.end_ps[i], i))
    for position in in_time:
        unit = trace.instructions[position].unit
        ends = free_at.setdefault(unit, [])
        start = trace.start_ps[position]
        lane = next((lane for lane, end in enumerate(ends) if end <= start), len(ends))
        ends[lane : lane + 1] = [trace.end_ps[position]]
        lanes[position] = unit, lane
    return lanes


def _arguments(trace: Trace, position: int) -> dict[str, Any]:
    """Return the details of one instruction: payload, what released it, limiting resource, times."""
    released_by = trace.released_by[position]
    start = "the start" if released_by == NO_CAUSE else trace.instructions[released_by].label
    return {
        "position": position,
        **_work(trace.instructions[position].payload),
        "released_by": start,
        "released_by_position": released_by,
        "paced_by": base_name(trace.limits[position]),
        "issued_ps": trace.issued_ps[position],
        "start_ps": trace.start_ps[position],
        "duration_ps": trace.end_ps[position] - trace.start_ps[position],
        "startup_ps": trace.startup_ps[position],
    }


def _work(payload: Payload) -> dict[str, Any]:
    """Return the sizes of a payload, for one member and one execution."""
    if isinstance(payload, Transfer):
        path = {"source": payload.source, "destination": payload.destination}
        path |= {"link": payload.link} if payload.link else {}
        return {**path, "size_bytes": payload.size_bytes, "fan_out": payload.fan_out}
    if isinstance(payload, Compute):
        sizes: dict[str, Any] = {"dtype": payload.dtype, "macs": payload.macs}
        sizes |= {"simple": payload.simple, "special": payload.special}
        if payload.shape is not None:
            shape = payload.shape
            sizes["shape"] = f"{shape.count} x {shape.rows} x {shape.columns} x {shape.depth}"
        return sizes | {f"{memory}_bytes": size for memory, size in payload.traffic}
    return {}


def _occupancy(trace: Trace) -> Iterator[Event]:
    """Yield counter events per memory: bytes held by one copy."""
    for memory, changes in trace.occupancy_bytes.items():
        for time_ps, used_bytes in changes.items():
            yield {
                "name": memory, "cat": "occupancy", "ph": "C", "ts": time_ps // 1000 / 1000,
                "pid": _MEMORIES, "tid": 0, "args": {"bytes": used_bytes},
            }  # fmt: skip


def _complete(
    name: str, category: str, place: tuple[int, int], span_ps: tuple[int, int], args: dict[str, Any]
) -> Event:
    """Return an event from start to end, both rounded down to nanoseconds so that adjacent events still touch."""
    start_ns, end_ns = (time_ps // 1000 for time_ps in span_ps)
    return {
        "name": name, "cat": category, "ph": "X", "ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000,
        "pid": place[0], "tid": place[1], "args": args,
    }  # fmt: skip


def _thread_names(process: int, thread: int, name: str) -> Iterator[Event]:
    yield _metadata("thread_name", process, thread, name=name)
    yield _metadata("thread_sort_index", process, thread, sort_index=thread)


def _metadata(kind: str, process: int, thread: int = 0, **args: str | int) -> Event:
    return {"name": kind, "ph": "M", "ts": 0, "pid": process, "tid": thread, "args": args}
