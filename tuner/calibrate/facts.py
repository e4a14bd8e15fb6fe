"""What the system tells of its processor; what it does not tell is assumed, and said to be."""

import platform
from dataclasses import dataclass
from pathlib import Path

from tuner.measure.device import local_device, processor_flags

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_VECTORS = (("avx512f", 64, 32), ("avx2", 32, 16), ("avx", 32, 16), ("sse2", 16, 16), ("asimd", 16, 32))
"""Instruction sets, the widest first: bytes of a vector register, and how many there are."""
_SMALLEST = (16, 16)
_COMMON = {1: (32 * 2**10, 8), 2: (2**20, 16)}
"""Bytes and ways of caches that the system says nothing of."""
_USUAL_CLOCK_HZ = 2.5e9
_USUAL_MEMORY_BYTES = 8 * 2**30
_USUAL_LINE_BYTES = 64


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
    """That this process may use."""
    clock_hz: float
    memory_bytes: int
    register_bytes: int
    registers: int
    line_bytes: int
    caches: tuple[CacheFact, ...]
    """The first two, and the third where there is one."""
    multiplies_by_lane: bool

    @property
    def lanes(self) -> int:
        """Numbers of single precision in a vector register."""
        return self.register_bytes // 4

    def cache(self, level: int) -> CacheFact | None:
        return next((cache for cache in self.caches if cache.level == level), None)


def local_facts() -> HostFacts:
    """Return the facts of the machine that this runs on."""
    device, flags = local_device(), processor_flags()
    register_bytes, registers = next(((width, count) for name, width, count in _VECTORS if name in flags), _SMALLEST)
    found = _caches(device.cores)
    return HostFacts(
        processor=device.processor,
        architecture=device.architecture,
        cores=device.cores,
        clock_hz=device.clock_hz or _USUAL_CLOCK_HZ,
        memory_bytes=device.memory_bytes or _USUAL_MEMORY_BYTES,
        register_bytes=register_bytes,
        registers=registers,
        line_bytes=_line_bytes(),
        caches=tuple(found[level] for level in sorted(found)),
        multiplies_by_lane=platform.machine().startswith(("aarch64", "arm")),
    )


def _caches(cores: int) -> dict[int, CacheFact]:
    found = {level: CacheFact(level, size, ways, 1, "assumed") for level, (size, ways) in _COMMON.items()}
    for folder in sorted(_CACHES.glob("index*")):
        level, kind, size = (_told(folder / name) for name in ("level", "type", "size"))
        if kind == "Instruction" or not level.isdigit() or not size[:-1].isdigit() or size[-1] not in _UNITS:
            continue
        ways = _told(folder / "ways_of_associativity")
        sharing = min(_listed(_told(folder / "shared_cpu_list")), cores)
        size_bytes = int(size[:-1]) * _UNITS[size[-1]]
        usual = _COMMON.get(int(level), (0, 16))[1]
        ways_read = int(ways) if ways.isdigit() and int(ways) else usual
        found[int(level)] = CacheFact(int(level), size_bytes, ways_read, max(sharing, 1), "the system")
    return found


def _told(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _listed(text: str) -> int:
    """Return how many numbers a list such as ``0-3,8`` names."""
    count = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _line_bytes() -> int:
    told = _told(_CACHES / "index0" / "coherency_line_size")
    return int(told) if told.isdigit() and int(told) else _USUAL_LINE_BYTES
