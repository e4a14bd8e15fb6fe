"""Number of processors that this process may use, by its affinity and the quota of its control groups.

Supports both versions of control groups (Linux, Documentation/admin-guide/cgroup-v2.rst, ``cpu.max``, and
Documentation/scheduler/sched-bwc.rst, ``cpu.cfs_quota_us``), as set by containers, batch systems and services.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_GROUPS = "proc/self/cgroup"
_MOUNTS = "proc/self/mountinfo"
_MOUNT_FIELDS = 6
"""Number of a mount's fields before the optional ones, which end with a dash."""


def usable_cores() -> int:
    """Return the number of processors that this process may use, at least one."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = processors_of_group(Path("/"))
    return allowed if share is None else max(1, min(allowed, int(share)))


def processors_of_group(root: Path) -> float | None:
    """Return the processors' worth of time that this process' control groups allow; None if unlimited.

    ``root`` is the root of the file system.
    """
    shares = [share for folder in _folders(root) if (share := _share(folder)) is not None]
    return min(shares, default=None)


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that limit this process: its own, and the visible groups around it."""
    groups = [line.split(":", 2)[1:] for line in _lines(root / _GROUPS) if line.count(":") > 1]
    for line in _lines(root / _MOUNTS):
        fields = line.split(" ")
        if "-" not in fields[_MOUNT_FIELDS:-3]:
            continue
        kind, _, options = fields[fields.index("-", _MOUNT_FIELDS) + 1 :][:3]
        if kind not in ("cgroup", "cgroup2") or (kind == "cgroup" and "cpu" not in options.split(",")):
            continue
        wanted = "" if kind == "cgroup2" else "cpu"
        own = PurePosixPath(next((path for controllers, path in groups if wanted in controllers.split(",")), "/"))
        top, mount = PurePosixPath(_written_out(fields[3])), root / _written_out(fields[4]).lstrip("/")
        within = own.relative_to(top) if own.is_relative_to(top) else PurePosixPath()
        yield from (mount / place for place in (within, *within.parents))


def _share(folder: Path) -> float | None:
    """Return a group's quota divided by its period; None if it has none."""
    numbers = _numbers(folder / "cpu.max") or [
        *_numbers(folder / "cpu.cfs_quota_us"), *_numbers(folder / "cpu.cfs_period_us"),
    ]  # fmt: skip
    if len(numbers) < len(("quota", "period")) or min(numbers[:2]) <= 0:
        return None
    return numbers[0] / numbers[1]


def _numbers(path: Path) -> list[int]:
    """Return the integers in a group's file, -1 for ``max``; empty if there is no such file."""
    words = " ".join(_lines(path)).replace("max", "-1").split()
    return [int(word) for word in words] if all(word.removeprefix("-").isdigit() for word in words) else []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def _written_out(place: str) -> str:
    """Return a path of the mount table with its octal escapes decoded."""
    for code in ("\\040", "\\011", "\\012", "\\134"):
        place = place.replace(code, chr(int(code[1:], 8)))
    return place
