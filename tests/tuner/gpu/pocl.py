"""Runs OpenCL kernels on this machine's processor through PoCL; in a process of its own, which holds no other LLVM.

``python -m tests.tuner.gpu.pocl FOLDER``: ``kernels.cl``, ``launches.json`` and the arrays of ``arrays.npz`` are there;
what the kernels leave in their buffers is written to ``left.npz``.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class OpenClLaunch:
    """One kernel with its buffers, each named by its place in the list of arrays."""

    kernel: str
    blocks: int
    threads: int
    buffers: tuple[int, ...]


def run_on_pocl(
    source: str, launches: Sequence[OpenClLaunch], arrays: Sequence[NDArray[np.generic]], folder: Path
) -> list[NDArray[np.generic]]:
    """Return the arrays as they are after ``launches``, one after the other; ``folder`` is empty."""
    done = _run(source, launches, arrays, folder)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "left.npz") as left:
        return [left[f"arr_{number}"] for number in range(len(arrays))]


def knows_processor(folder: Path) -> bool:
    """Return whether PoCL compiles for this processor: LLVM refuses those that came after it. ``folder`` is empty."""
    source = "__kernel void idle(__global float* numbers) { numbers[get_global_id(0)] += 1; }"
    done = _run(source, [OpenClLaunch("idle", 1, 1, (0,))], [np.zeros(1, np.float32)], folder)
    return "unknown target CPU" not in done.stderr


def _run(
    source: str, launches: Sequence[OpenClLaunch], arrays: Sequence[NDArray[np.generic]], folder: Path
) -> "subprocess.CompletedProcess[str]":
    (folder / "kernels.cl").write_text(source)
    (folder / "launches.json").write_text(json.dumps([asdict(launch) for launch in launches]))
    np.savez(folder / "arrays.npz", *arrays)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POCL_CACHE_DIR": str(folder), "PYOPENCL_NO_CACHE": "1"}
    command = [sys.executable, "-m", "tests.tuner.gpu.pocl", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def main(folder: Path) -> None:
    """Run what is in ``folder``."""
    cl = import_module("pyopencl")  # where it is not installed, tests that need it are skipped
    context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, (folder / "kernels.cl").read_text()).build()
    with np.load(folder / "arrays.npz") as stored:
        arrays = [np.ascontiguousarray(stored[f"arr_{number}"]) for number in range(len(stored))]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=array) for array in arrays]
    for given in json.loads((folder / "launches.json").read_text()):
        launch = OpenClLaunch(**given)
        arguments = [buffers[place] for place in launch.buffers]
        size = launch.blocks * launch.threads
        cl.Kernel(program, launch.kernel)(queue, (size,), (launch.threads,), *arguments)
    for array, buffer in zip(arrays, buffers, strict=True):
        cl.enqueue_copy(queue, array, buffer).wait()
    np.savez(folder / "left.npz", *arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
