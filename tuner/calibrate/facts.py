"""Facts about a processor from its system; missing ones are assumed, and marked as such.

A bundle carries this module, so it uses the standard library only.
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
"""Instruction sets, widest first, with the bytes of a vector register and the number of registers."""
_IN_HALVES = ("AuthenticAMD", "25")
"""Vendor and family of cores that take registers of 64 bytes in halves (Zen 4); Zen 5, which has whole paths, is 26."""
_SMALLEST = (16, 16)
_COMMON = {1: (32 * 2**10, 8), 2: (2**20, 16)}
"""Assumed size in bytes and ways of caches that the system does not describe."""
_USUAL_CLOCK_HZ = 2.5e9
_USUAL_MEMORY_BYTES = 8 * 2**30
_USUAL_LINE_BYTES = 64
TOLD, ASSUMED = "the system", "assumed"
"""Sources of a fact: read from the system, or assumed."""

FileReader = Callable[[str], str]
"""Function that returns the text of a system file, empty if it does not exist."""


@dataclass(frozen=True, slots=True)
class CacheFact:
    """A data cache."""

    level: int
    size_bytes: int
    ways: int
    shared_by: int
    """Number of the system's processors that share it."""
    source: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts about a machine before anything is measured."""

    processor: str
    architecture: str
    cores: int
    """Number of processors that the process running kernels may use."""
    clock_hz: float
    memory_bytes: int
    register_bytes: int
    registers: int
    line_bytes: int
    caches: tuple[CacheFact, ...]
    """The first two levels, and the third where there is one."""
    multiplies_by_lane: bool
    path_bytes: int | None = None
    """Bytes of a register that the core takes in one pass; None: all of it."""
    assumed: tuple[str, ...] = ()
    """Names of the fields that are assumed, caches aside."""

    @property
    def lanes(self) -> int:
        """Single-precision lanes of a vector register."""
        return self.register_bytes // 4

    def cache(self, level: int) -> CacheFact | None:
        return next((cache for cache in self.caches if cache.level == level), None)

    def source(self, name: str) -> str:
        """Return the source of the field ``name``: the system, or assumed."""
        return ASSUMED if name in self.assumed else TOLD

    def on_threads(self, most: int) -> "HostFacts":
        """Return the facts for a process limited to ``most`` threads."""
        cores = min(self.cores, most)
        caches = tuple(replace(cache, shared_by=min(cache.shared_by, cores)) for cache in self.caches)
        return replace(self, cores=cores, caches=caches)


def local_facts() -> HostFacts:
    """Return the facts of this machine."""
    return facts_from(_local, platform.machine(), usable_cores())


def facts_from(read_file: FileReader, architecture: str, usable: int = 0) -> HostFacts:
    """Return the facts of the machine whose system files ``read_file`` reads; ``architecture`` is that of its code.

    ``usable`` is the number of cores that the process may use; 0: read from the system.
    """
    information = fields(read_file(_PROCESSOR))
    flags = (information.get("flags") or information.get("Features") or "").split()
    vectors = next(((width, count) for name, width, count in _VECTORS if name in flags), None)
    memory = fields(read_file(_MEMORY)).get("MemTotal", "").split()
    allowed = usable or _listed(fields(read_file(_STATUS)).get("Cpus_allowed_list", ""))
    clock_hz = _clock_hz(read_file, information.get("cpu MHz", ""))
    line = read_file(f"{_CORE}/cache/index0/coherency_line_size").strip()
    is_told = {
        "cores": allowed > 0, "clock_hz": clock_hz is not None, "memory_bytes": bool(memory),
        "register_bytes": vectors is not None, "line_bytes": line.isdigit() and int(line) > 0,
    }  # fmt: skip
    cores = max(allowed, 1)
    caches = _caches(read_file, cores)
    width, count = vectors or _SMALLEST
    maker = information.get("vendor_id"), information.get("cpu family")
    return HostFacts(
        processor=information.get("model name") or information.get("Hardware") or "processor without a name",
        architecture=architecture,
        cores=cores,
        clock_hz=clock_hz or _USUAL_CLOCK_HZ,
        memory_bytes=int(memory[0]) * 1024 if memory else _USUAL_MEMORY_BYTES,
        register_bytes=width,
        registers=count,
        line_bytes=int(line) if is_told["line_bytes"] else _USUAL_LINE_BYTES,
        caches=tuple(caches[level] for level in sorted(caches)),
        multiplies_by_lane=architecture.startswith(("aarch64", "arm")),
        path_bytes=width // 2 if width == _VECTORS[0][1] and maker == _IN_HALVES else None,
        assumed=tuple(name for name, known in is_told.items() if not known),
    )


def _local(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _clock_hz(read_file: FileReader, megahertz: str) -> float | None:
    """Return the current clock, or else the highest; None if the system tells neither."""
    try:
        return float(megahertz) * 1e6
    except ValueError:
        kilohertz = read_file(f"{_CORE}/cpufreq/cpuinfo_max_freq").strip()
        return float(kilohertz) * 1e3 if kilohertz.isdigit() else None


def _caches(read_file: FileReader, cores: int) -> dict[int, CacheFact]:
    caches = {level: CacheFact(level, size, ways, 1, ASSUMED) for level, (size, ways) in _COMMON.items()}
    for number in range(_MOST_CACHES):
        folder = f"{_CORE}/cache/index{number}"
        level, kind, size = (read_file(f"{folder}/{name}").strip() for name in ("level", "type", "size"))
        if kind == "Instruction" or not level.isdigit() or not size[:-1].isdigit() or size[-1] not in _UNITS:
            continue
        ways = read_file(f"{folder}/ways_of_associativity").strip()
        sharing = min(_listed(read_file(f"{folder}/shared_cpu_list")), cores)
        size_bytes = int(size[:-1]) * _UNITS[size[-1]]
        usual = _COMMON.get(int(level), (0, 16))[1]
        ways_read = int(ways) if ways.isdigit() and int(ways) else usual
        caches[int(level)] = CacheFact(int(level), size_bytes, ways_read, max(sharing, 1), TOLD)
    return caches


def _listed(text: str) -> int:
    """Return the number of integers in a list such as ``0-3,8``."""
    count = 0
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count
