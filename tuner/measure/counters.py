"""Energy counters of processors as Linux shows them (powercap, Intel's and AMD's RAPL): joules of a run.

A counter covers a whole package (cores, caches, uncore) or its DRAM, whatever runs there, idle power included. Files
are readable by the superuser alone on many systems; then, as where there are none, nothing is reported.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
"""Folder of the system's energy counters."""
_LEAST_S = 0.25
"""Seconds of repeated runs between two readings; counters advance about every millisecond."""
_MOST_RUNS = 10_000
_MICRO = 1e-6


@dataclass(frozen=True, slots=True)
class EnergyCounter:
    """Counter of one package or of its DRAM, in microjoules."""

    name: str
    """As the system calls it, such as ``package-0`` or ``dram``."""
    path: Path
    range_uj: int
    """Value at which it begins again at zero."""

    def read_uj(self) -> int:
        """Return its value; raise ``OSError`` or ``ValueError`` where it cannot be read."""
        return int(self.path.read_text(encoding="ascii"))

    def joules(self, before_uj: int, after_uj: int) -> float:
        """Return the joules between two values, of which the later may have begun at zero again once."""
        return (after_uj - before_uj + (self.range_uj + 1 if after_uj < before_uj else 0)) * _MICRO


def energy_counters(folder: Path = POWERCAP) -> tuple[EnergyCounter, ...]:
    """Return the readable counters of packages and of their DRAM, by name of their folder.

    Others are parts of a package (cores, graphics) or contain it (``psys``), and would count twice.
    """
    found = []
    for zone in sorted(folder.glob("intel-rapl:*")):
        is_part = zone.name.count(":") > 1
        try:
            name = (zone / "name").read_text(encoding="ascii").strip()
            counter = EnergyCounter(name, zone / "energy_uj", int((zone / "max_energy_range_uj").read_text()))
            counter.read_uj()
        except (OSError, ValueError):
            continue
        if name == "dram" if is_part else name.startswith("package"):
            found.append(counter)
    return tuple(found)


def joules_of_run(run: Callable[[], object], run_s: float, counters: Sequence[EnergyCounter]) -> float | None:
    """Return the joules of one ``run``, which takes ``run_s`` seconds, by all counters; None without counters.

    It is repeated for a quarter of a second at least, and the joules are divided by the number of runs.
    """
    if not counters:
        return None
    runs = min(max(int(_LEAST_S / max(run_s, 1e-9)) + 1, 1), _MOST_RUNS)
    before = [counter.read_uj() for counter in counters]
    for _ in range(runs):
        run()
    pairs = zip(counters, before, [counter.read_uj() for counter in counters], strict=True)
    return sum([counter.joules(*values) for counter, *values in pairs]) / runs
