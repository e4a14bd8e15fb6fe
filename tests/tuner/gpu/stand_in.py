"""Builds the CUDA driver of driver_stand_in.cpp, and kernels for it out of their CUDA source."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
NVCC = shutil.which("nvcc")
_FUNCTION = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(([^)]*)\) \{')
_ASKED_FOR = re.compile(r"extern __shared__ __align__\(\d+\) (\w+) (\w+)\[\];")
"""Shared memory that a block asks for when it is launched."""


def driver_in(folder: Path) -> Path:
    """Return the folder in which there is a ``libcuda.so.1`` now."""
    assert NVCC is not None
    for_host = ["-x", "c++", "-cudart", "none", "-Xcompiler", "-fPIC,-Wall,-Werror"]  # with its toolkit's cuda.h
    _compiled([NVCC, *for_host], HERE / "driver_stand_in.cpp", folder / "libcuda.so.1")
    return folder


def nvcc_in(folder: Path) -> Path:
    """Return the folder in which there is an ``nvcc`` now that makes kernels for the driver."""
    script = folder / "nvcc"
    command = f"PYTHONPATH={HERE.parents[2]} exec {sys.executable} -m tests.tuner.gpu.nvcc_stand_in"
    script.write_text(f'#!/bin/sh\n{command} "$@"\n')
    script.chmod(0o755)
    return folder


def kernels_of(source: str, library: Path) -> None:
    """Compile CUDA ``source`` to a ``library`` that the driver runs; equal sources are compiled once."""
    if source not in _COMPILED:
        _COMPILED[source] = _kernels_of(source, library)
    library.write_bytes(_COMPILED[source])


_COMPILED: dict[str, bytes] = {}


def _kernels_of(source: str, library: Path) -> bytes:
    counts = [
        f'extern "C" {{ int {name}_parameters = {len(parameters.split(","))}; }}'
        for name, parameters in _FUNCTION.findall(source)
    ]
    assert counts
    text = _ASKED_FOR.sub(r"\1 *\2 = reinterpret_cast<\1 *>(asked_for);", source.replace("#include <cuda.h>", ""))
    written = library.with_suffix(".cpp")
    written.write_text("\n".join([text, *counts]))
    _compiled(["g++", "-fPIC", "-include", str(HERE / "kernels_stand_in.h")], written, library)
    return library.read_bytes()


def environment(driver: Path, source: str, folder: Path, fails: str = "") -> Mapping[str, str]:
    """Return what a process needs around it to run the kernels of ``source``; ``fails``: a function of the driver."""
    kernels = folder / "stand_in_kernels.so"
    kernels_of(source, kernels)
    return {
        "PATH": os.defpath, "LD_LIBRARY_PATH": str(driver), "STAND_IN_KERNELS": str(kernels), "STAND_IN_FAILS": fails,
    }  # fmt: skip


def _compiled(compiler: Sequence[str], source: Path, library: Path) -> None:
    command = [*compiler, "-std=c++17", "-O1", "-shared", "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
