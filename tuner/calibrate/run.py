"""Calibrating: a process with as many threads as there are cores probes them, this one writes what it finds."""

import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection

from tuner.calibrate.facts import HostFacts, local_facts
from tuner.calibrate.figures import Figures
from tuner.calibrate.plan import ProbePlan
from tuner.late import late
from tuner.measure.run import MeasureError, check_installed
from tuner.measure.targets import target_description
from tuner.measure.worker import FAILURES, reason

_LIMIT_S = 300.0
_SHARE_OF_MEMORY = 8
"""Arrays that no cache holds are no larger than this part of the memory."""
_TIMES_NEARER = 4
"""Arrays in the shared cache are so many times as large as the cache in front of it."""
_TIMES_LAST = 2
"""Arrays in memory are so many times as large as the last cache, if there is room."""


def calibrate() -> tuple[HostFacts, Figures]:
    """Return what the system tells of this machine and what was measured; raise ``MeasureError`` if that fails."""
    check_installed()
    facts = local_facts()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, facts), daemon=True)
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(_LIMIT_S) else f"took longer than {_LIMIT_S:.0f} s"
    except EOFError:
        found = "its process ended"
    finally:
        process.kill()
        process.join()
    if not isinstance(found, Figures):
        raise MeasureError(f"calibrating failed: {found}")
    return facts, found


def sizes_bytes(facts: HostFacts) -> dict[str, int]:
    """Return the arrays to read for each memory: too large for every faster one, and no larger than needed."""
    held = {f"l{cache.level}": cache.size_bytes for cache in facts.caches}
    found = {"l1": held["l1"] // 2}
    if "l2" in held:
        found["l2"] = held["l2"] // 2
    last = max(held.values())
    if "l3" in held:
        found["l3"] = min(held["l3"] // 2, _TIMES_NEARER * held.get("l2", held["l1"]))
    found["dram"] = max(min(_TIMES_LAST * last, facts.memory_bytes // _SHARE_OF_MEMORY // facts.cores), last // 2)
    return found


def growing_bytes(sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return arrays that double from that in the shared cache to that in DRAM, both left out."""
    found = []
    size = 2 * sizes.get("l3", sizes["dram"])
    while size < sizes["dram"]:
        found.append(size)
        size *= 2
    return tuple(found)


def _work(connection: Connection, facts: HostFacts) -> None:
    os.environ["TVM_NUM_THREADS"] = str(facts.cores)
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    try:
        own = late("session").own_processor()  # TVM reads the number of threads when it is imported
        target = target_description("llvm", facts.cores, own)
        sizes = sizes_bytes(facts)
        plan = ProbePlan(
            target, facts.lanes, facts.registers, facts.cores, facts.line_bytes, sizes, growing_bytes(sizes)
        )
        connection.send(late("probes").probe(plan))
    except FAILURES as error:
        connection.send(reason(error))
