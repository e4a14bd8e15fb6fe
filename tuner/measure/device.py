"""Descriptions of the machine that runs the code, from its system."""

import platform
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.records import Device


class DeviceError(RuntimeError):
    """A failed call of a device's runtime; ``is_last`` if all later calls of this process would fail too."""

    is_last = False


_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "onnxruntime", "numpy")


def local_device(load: float | None = None) -> Device:
    """Describe this machine; ``load`` is the number of cores that other processes keep busy."""
    information = fields(_text(Path("/proc/cpuinfo")))
    memory = fields(_text(Path("/proc/meminfo"))).get("MemTotal", "").split()
    clock = information.get("cpu MHz")
    return Device(
        name="local",
        processor=information.get("model name") or platform.processor() or platform.machine(),
        architecture=platform.machine(),
        cores=usable_cores(),
        clock_hz=float(clock) * 1e6 if clock else None,
        caches=_caches(Path("/sys/devices/system/cpu/cpu0/cache")),
        memory_bytes=int(memory[0]) * 1024 if memory else None,
        load=load,
        versions=versions(),
    )


def remote_device(address: str, architecture: str, threads: int) -> Device:
    """Describe the device at ``address`` before it has been contacted."""
    return Device(address, "not told", architecture, threads, None, {}, None, None, versions())


def now() -> str:
    """Return the current date and time: ISO, UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def fields(text: str) -> dict[str, str]:
    """Return the first value of each name in ``name: value`` lines."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, sign, value = line.partition(":")
        if sign:
            values.setdefault(name.strip(), value.strip())
    return values


def _caches(folder: Path) -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for cache in sorted(folder.glob("index*")):
        try:
            level, kind, size = (
                (cache / name).read_text(encoding="ascii").strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and size[:-1].isdigit() and size[-1] in _UNITS:
            sizes[f"l{level}{'d' if kind == 'Data' else ''}"] = int(size[:-1]) * _UNITS[size[-1]]
    return sizes


def versions() -> dict[str, str]:
    """Return the versions of Python, the system and the packages that generate and check code."""
    listed = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for package in _PACKAGES:
        try:
            listed[package] = version(package)
        except PackageNotFoundError:
            continue
    return listed
