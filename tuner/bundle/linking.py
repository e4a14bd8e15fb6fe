"""Linking of object code into a shared library for the device's architecture."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsascape.tuner.bundle.contents import BundleError

_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64", 0x28: "armv7l", 0xF3: "riscv64"}
"""Architectures as Python names them, by ELF machine number (System V ABI, e_machine)."""
_HEADER_BYTES = 20
_LIMIT_S = 300


def architecture_of(path: Path) -> str:
    """Return the architecture of an ELF file as Python names it, or its machine number if unknown."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or header[:4] != b"\x7fELF":
        raise BundleError(f"{path.name} is no ELF file")
    number = int.from_bytes(header[18:20], "little")
    return _MACHINES.get(number, f"machine {number:#x}")


def linked(module: Any, path: Path, architecture: str) -> Path:
    """Link a compiled module into the shared library ``path``; raise ``BundleError`` where no linker works."""
    objects = path.with_suffix(".o")
    module.write_to_file(str(objects), "o")
    return linked_objects([objects], path, architecture)


def linked_objects(objects: Sequence[Path], path: Path, architecture: str) -> Path:
    """Link object files, listed in a file beside ``path``, into the shared library ``path``.

    Raises ``BundleError`` where no linker works.
    """
    command = _linker(architecture)
    listed = path.with_suffix(".objects")
    listed.write_text("".join([f'"{each}"\n' for each in objects]), encoding="utf-8")
    try:
        done = subprocess.run(
            [*command, "-shared", "-fPIC", "-o", str(path), f"@{listed}"], capture_output=True, text=True,
            timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BundleError(f"linking for {architecture} with {command[0]} fails: {error}") from error
    if done.returncode:
        raise BundleError(f"linking for {architecture} with {command[0]} fails: {done.stderr.strip()[-300:]}")
    return path


def _linker(architecture: str) -> list[str]:
    """Return the command of a compiler that links for ``architecture``: GNU's for it, or zig's, which links for all."""
    names = [f"{architecture}-linux-gnu-gcc", *(["gcc", "cc"] if architecture == _own() else [])]
    for name in names:
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{architecture}-linux-gnu"]
    raise BundleError(f"nothing here links for {architecture}: needs {names[0]}, or pip install ziglang")


def _own() -> str:
    return architecture_of(Path(sys.executable).resolve())
