"""Probe plans: vector shapes and array sizes for calibrating a processor."""

from collections.abc import Mapping
from dataclasses import dataclass

from dsascape.tuner.calibrate.facts import HostFacts

PROBE_S = 0.6
"""Time for repeating one probe, in seconds."""
_FLOAT_BYTES = 4
_SHARE_OF_MEMORY = 8
"""Fraction of memory (its inverse) that arrays larger than all caches may take."""
_TIMES_NEARER = 4
"""Size of the shared cache's array relative to the second cache, and inverse fraction of the second cache that its own
array takes."""
_TIMES_LAST = 2
"""Size of the array in memory relative to the last cache, where there is room."""


@dataclass(frozen=True, slots=True)
class ProbeShape:
    """Vector shape that probes are compiled for; array sizes are free."""

    lanes: int
    """Single-precision lanes of a vector."""
    registers: int
    """Number of vector registers."""

    @staticmethod
    def of(register_bytes: int, registers: int) -> "ProbeShape":
        """Return the shape of ``registers`` vectors of ``register_bytes`` each."""
        return ProbeShape(register_bytes // _FLOAT_BYTES, registers)


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """Vector shape, and the sizes of arrays that fit one memory each."""

    shape: ProbeShape
    threads: int
    line_bytes: int
    sizes_bytes: Mapping[str, int]
    """Array size per thread, by the fastest memory that holds it."""
    growing_bytes: tuple[int, ...]
    """Array sizes that show how much of a shared cache is available."""
    probe_s: float = PROBE_S
    """Time for repeating one probe, in seconds."""


def probe_plan(
    facts: HostFacts, most_bytes: int | None = None, probe_s: float = PROBE_S, shape: ProbeShape | None = None
) -> ProbePlan:
    """Return the plan for the machine of ``facts``; ``shape`` overrides its vectors, for code already compiled.

    No array is larger than ``most_bytes``, if given.
    """
    sizes = {name: min(size, most_bytes or size) for name, size in sizes_bytes(facts).items()}
    shape = shape or ProbeShape.of(facts.register_bytes, facts.registers)
    return ProbePlan(shape, facts.cores, facts.line_bytes, sizes, growing_bytes(sizes), probe_s)


def sizes_bytes(facts: HostFacts) -> dict[str, int]:
    """Return the array size per memory: too large for every faster memory, and no larger than needed."""
    held = {f"l{cache.level}": cache.size_bytes for cache in facts.caches}
    sizes = {"l1": held["l1"] // 2}
    if "l2" in held:
        sizes["l2"] = max(held["l2"] // _TIMES_NEARER, held["l1"])  # pages may lie unevenly in half of it
    last = max(held.values())
    if "l3" in held:
        sizes["l3"] = min(held["l3"] // 2, _TIMES_NEARER * held.get("l2", held["l1"]))
    sizes["dram"] = max(min(_TIMES_LAST * last, facts.memory_bytes // _SHARE_OF_MEMORY // facts.cores), last // 2)
    return sizes


def growing_bytes(sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return array sizes that double between those of the shared cache and of DRAM, both excluded."""
    between = []
    size = 2 * sizes.get("l3", sizes["dram"])
    while size < sizes["dram"]:
        between.append(size)
        size *= 2
    return tuple(between)
