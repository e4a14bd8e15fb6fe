"""What is to be probed, as it is handed to whatever does it."""

from collections.abc import Mapping
from dataclasses import dataclass

from dsascape.tuner.calibrate.facts import HostFacts

PROBE_S = 0.6
"""Of repeating one probe."""
_FLOAT_BYTES = 4
_SHARE_OF_MEMORY = 8
"""Arrays that no cache holds are no larger than this part of the memory."""
_TIMES_NEARER = 4
"""Arrays in the shared cache are so many times as large as the cache in front of it; those in the second cache are
this part of it."""
_TIMES_LAST = 2
"""Arrays in memory are so many times as large as the last cache, if there is room."""


@dataclass(frozen=True, slots=True)
class ProbeShape:
    """What probes are compiled for: arrays of any size, but vectors of one."""

    lanes: int
    """Of single precision in a vector."""
    registers: int
    """Vector registers."""

    @staticmethod
    def of(register_bytes: int, registers: int) -> "ProbeShape":
        """Return the shape of so many vectors of ``register_bytes``."""
        return ProbeShape(register_bytes // _FLOAT_BYTES, registers)


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """The shape of the vectors, and arrays that lie in one memory each."""

    shape: ProbeShape
    threads: int
    line_bytes: int
    sizes_bytes: Mapping[str, int]
    """Of arrays by the memory that holds them and no faster one does, for each thread."""
    growing_bytes: tuple[int, ...]
    """Of arrays that tell how much of a cache shared with others there really is."""
    probe_s: float = PROBE_S
    """Of repeating one probe."""


def probe_plan(
    facts: HostFacts, most_bytes: int | None = None, probe_s: float = PROBE_S, shape: ProbeShape | None = None
) -> ProbePlan:
    """Return how the machine of ``facts`` is probed; ``shape`` is that of code which is compiled already.

    No array is larger than ``most_bytes``, if given.
    """
    sizes = {name: min(size, most_bytes or size) for name, size in sizes_bytes(facts).items()}
    shape = shape or ProbeShape.of(facts.register_bytes, facts.registers)
    return ProbePlan(shape, facts.cores, facts.line_bytes, sizes, growing_bytes(sizes), probe_s)


def sizes_bytes(facts: HostFacts) -> dict[str, int]:
    """Return the arrays to read for each memory: too large for every faster one, and no larger than needed."""
    held = {f"l{cache.level}": cache.size_bytes for cache in facts.caches}
    found = {"l1": held["l1"] // 2}
    if "l2" in held:
        found["l2"] = max(held["l2"] // _TIMES_NEARER, held["l1"])  # pages may lie unevenly in half of it
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
