"""Hashes of the source files that figures depend on; they are part of a design point's key.

All files of the packages count except kinds that cannot affect a run, so that a new kind of source file counts from
the start. Files whose content is in a point's key anyway (its network, the machine's values) are not counted twice.
"""

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

FIGURES = ("workloads", "fusion", "hw_models", "scheduler")
MEASUREMENTS = ("tuner",)
FIGURES_HERE = (
    "point", "question/combined.py", "question/network.py", "question/pinned.py", "question/points.py",
    "question/schedules.py", "results/computed.py", "engine/run.py",
)  # fmt: skip
"""Files and folders of `experiments` that affect simulated figures."""
MEASUREMENTS_HERE = ("real",)
DATA_IN_KEYS = ("workloads/zoo", "hw_models/presets")
"""Data folders whose content is in the key anyway: the network's file and the machine's values."""
IGNORED_SUFFIXES = (".md", ".o", ".pyc", ".pyd", ".pyi", ".so", ".typed", "~")
"""Suffixes of files that no run reads, and of compiled modules, whose sources count instead."""
_COMPILED = (".pyd", ".so")
_OURS = __name__.partition(".")[0]
_MOST_READ = 2**20
"""Largest file of a policy's package that is hashed by content, in bytes; a larger one counts by its size."""


@cache
def code_hash() -> str:
    """Return a hash of the code that computes simulated figures."""
    return _hash_of(FIGURES, FIGURES_HERE)


@cache
def measuring_hash() -> str:
    """Return a hash of the code that generates, runs and times kernels and compares them with simulated times."""
    return _hash_of(MEASUREMENTS, MEASUREMENTS_HERE)


@cache
def policy_hash(module: str) -> str:
    """Return a hash of the package or file that defines the policy ``module``; empty for built-in policies."""
    package = module.partition(".")[0]
    if package == _OURS:
        return ""
    loaded = sys.modules.get(package)
    places = [Path(place) for place in getattr(loaded, "__path__", ()) if Path(place).is_dir()]
    file = Path(getattr(loaded, "__file__", None) or "")
    digest = hashlib.sha256()
    for folder in places:
        for name, path in folder_contents(folder):
            size = path.stat().st_size
            digest.update(f"{name}\0".encode() + (path.read_bytes() if size <= _MOST_READ else str(size).encode()))
    if not places and file.is_file():
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _hash_of(packages: tuple[str, ...], here: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for package in packages:
        folder = _folder_of(package)
        for name, path in folder_contents(folder, package):
            digest.update(f"{name}\0".encode() + path.read_bytes())
        for name, sources in _compiled_elsewhere(folder, f"{_OURS}.{package}"):
            digest.update(f"{name}\0{sources}".encode())
    for name in here:
        place = Path(__file__).parents[1] / name
        for path in (place,) if place.is_file() else sorted(place.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _folder_of(package: str) -> Path:
    spec = find_spec(f"{_OURS}.{package}")
    return Path(spec.origin).parent if spec is not None and spec.origin else Path()


def folder_contents(folder: Path, name: str = "") -> Iterator[tuple[str, Path]]:
    """Yield (name, path) of a folder's files that count, recursively and sorted; names begin with ``name``."""
    for path in sorted(folder.iterdir()):
        own = f"{name}/{path.name}" if name else path.name
        if path.name.startswith(".") or path.name == "__pycache__" or own in DATA_IN_KEYS:
            continue
        if path.is_dir():
            yield from folder_contents(path, own)
        elif path.is_file() and not path.name.endswith(IGNORED_SUFFIXES):
            yield own, path


def _compiled_elsewhere(folder: Path, package: str) -> Iterator[tuple[str, str]]:
    """Yield (name, hash of its sources) of each compiled module that was installed without its sources."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _COMPILED or any(path.parent.glob("*.c")):
            continue
        stem = path.name.partition(".")[0]
        name = ".".join((package, *path.parent.relative_to(folder).parts, stem))
        if find_spec(name) is not None:
            yield name, str(getattr(import_module(name), "sources", ""))
