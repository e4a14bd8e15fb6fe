"""What a system tells of its processor; what it does not tell is assumed, and said to be.

A bundle carries this module, so it needs nothing but Python's own library.
"""

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.device import fields

_PROCESSOR, _MEMORY = "/proc/cpuinfo", "/proc/meminfo"
_STATUS = "/proc/self/status"
_CORE = "/sys/devices/system/cpu/cpu0"
_MOST_CACHES = 8
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_VECTORS = (("avx512f", 64, 32), ("avx2", 32, 16), ("avx", 32, 16), ("sse2", 16, 16), ("asimd", 16, 32))
"""Instruction sets, the widest first: bytes of a vector register, and how many there are."""
_SMALLEST = (16, 16)
_COMMON = {1: (32 * 2**10, 8), 2: (2**20, 16)}
"""Bytes and ways of caches that the system says nothing of."""
_USUAL_CLOCK_HZ = 2.5e9
_USUAL_MEMORY_BYTES = 8 * 2**30
_USUAL_LINE_BYTES = 64
TOLD, ASSUMED = "the system", "assumed"
"""Where a value comes from."""

Told = Callable[[str], str]
"""Returns the text of a file of the system, nothing of one that is not there."""


@dataclass(frozen=True, slots=True)
class CacheFact:
    """A data cache."""

    level: int
    size_bytes: int
    ways: int
    shared_by: int
    """Processors of those that the system has."""
    source: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A machine before anything is measured."""

    processor: str
    architecture: str
    cores: int
    """That the process may use that runs kernels."""
    clock_hz: float
    memory_bytes: int
    register_bytes: int
    registers: int
    line_bytes: int
    caches: tuple[CacheFact, ...]
    """The first two, and the third where there is one."""
    multiplies_by_lane: bool
    assumed: tuple[str, ...] = ()
    """Which of these the system does not tell, caches aside: names of fields."""

    @property
    def lanes(self) -> int:
        """Numbers of single precision in a vector register."""
        return self.register_bytes // 4

    def cache(self, level: int) -> CacheFact | None:
        return next((cache for cache in self.caches if cache.level == level), None)

    def source(self, name: str) -> str:
        """Return where the field ``name`` comes from."""
        return ASSUMED if name in self.assumed else TOLD

    def on_threads(self, most: int) -> "HostFacts":
        """Return the machine as a process sees it that runs no more than so many threads."""
        cores = min(self.cores, most)
        caches = tuple(replace(cache, shared_by=min(cache.shared_by, cores)) for cache in self.caches)
        return replace(self, cores=cores, caches=caches)


def local_facts() -> HostFacts:
    """Return the facts of the machine that this runs on."""
    return facts_told(_local, platform.machine(), usable_cores())


def facts_told(told: Told, architecture: str, usable: int = 0) -> HostFacts:
    """Return the facts of the machine whose system ``told`` asks; ``architecture`` is what its code is for.

    ``usable``: how many cores the process may use; 0: the system has to tell.
    """
    information = fields(told(_PROCESSOR))
    flags = (information.get("flags") or information.get("Features") or "").split()
    vectors = next(((width, count) for name, width, count in _VECTORS if name in flags), None)
    memory = fields(told(_MEMORY)).get("MemTotal", "").split()
    allowed = usable or _listed(fields(told(_STATUS)).get("Cpus_allowed_list", ""))
    clock_hz = _clock_hz(told, information.get("cpu MHz", ""))
    line = told(f"{_CORE}/cache/index0/coherency_line_size").strip()
    known = {
        "cores": allowed > 0, "clock_hz": clock_hz is not None, "memory_bytes": bool(memory),
        "register_bytes": vectors is not None, "line_bytes": line.isdigit() and int(line) > 0,
    }  # fmt: skip
    cores = max(allowed, 1)
    found = _caches(told, cores)
    width, count = vectors or _SMALLEST
    return HostFacts(
        processor=information.get("model name") or information.get("Hardware") or "processor without a name",
        architecture=architecture,
        cores=cores,
        clock_hz=clock_hz or _USUAL_CLOCK_HZ,
        memory_bytes=int(memory[0]) * 1024 if memory else _USUAL_MEMORY_BYTES,
        register_bytes=width,
        registers=count,
        line_bytes=int(line) if known["line_bytes"] else _USUAL_LINE_BYTES,
        caches=tuple(found[level] for level in sorted(found)),
        multiplies_by_lane=architecture.startswith(("aarch64", "arm")),
        assumed=tuple(name for name, is_told in known.items() if not is_told),
    )


def _local(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _clock_hz(told: Told, megahertz: str) -> float | None:
    """Return the clock at the moment, or else the highest that there is."""
    try:
        return float(megahertz) * 1e6
    except ValueError:
        kilohertz = told(f"{_CORE}/cpufreq/cpuinfo_max_freq").strip()
        return float(kilohertz) * 1e3 if kilohertz.isdigit() else None


def _caches(told: Told, cores: int) -> dict[int, CacheFact]:
    found = {level: CacheFact(level, size, ways, 1, ASSUMED) for level, (size, ways) in _COMMON.items()}
    for number in range(_MOST_CACHES):
        folder = f"{_CORE}/cache/index{number}"
        level, kind, size = (told(f"{folder}/{name}").strip() for name in ("level", "type", "size"))
        if kind == "Instruction" or not level.isdigit() or not size[:-1].isdigit() or size[-1] not in _UNITS:
            continue
        ways = told(f"{folder}/ways_of_associativity").strip()
        sharing = min(_listed(told(f"{folder}/shared_cpu_list")), cores)
        size_bytes = int(size[:-1]) * _UNITS[size[-1]]
        usual = _COMMON.get(int(level), (0, 16))[1]
        ways_read = int(ways) if ways.isdigit() and int(ways) else usual
        found[int(level)] = CacheFact(int(level), size_bytes, ways_read, max(sharing, 1), TOLD)
    return found


def _listed(text: str) -> int:
    """Return how many numbers a list such as ``0-3,8`` names."""
    count = 0
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count
