"""Device side of a bundle of probes: system facts, and small kernels run in a separate process."""

import ctypes
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from dsascape.tuner.bundle.contents import CALIBRATION, CODE, GPU_CALIBRATION, RUNTIME, START, BundleError, Manifest
from dsascape.tuner.bundle.native import Runtime, Tensor, tensor
from dsascape.tuner.calibrate.facts import local_facts
from dsascape.tuner.calibrate.plan import ProbeShape, probe_plan
from dsascape.tuner.calibrate.probing import probed
from dsascape.tuner.measure.device import now
from dsascape.tuner.measure.timing import measured_in_parts

_LIMIT_S = 600.0
_BEHIND_BYTES = 1024
"""Readable bytes after an array, for vectors that extend beyond it."""
_SIZES = {"float32": 4, "int32": 4}
"""Bytes of an element by dtype."""
_WIDTH = 0.01


@dataclass(frozen=True)
class _Held:
    """An array with the memory that it lies in."""

    tensor: Tensor
    memory: mmap.mmap


class NativeBench:
    """Probes of a bundle's code, run through the runtime's C interface."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def array(self, shape: tuple[int, ...], dtype: str) -> _Held:
        """Return new memory for an array, in large pages where the system has them, like other large arrays."""
        memory = mmap.mmap(-1, prod(shape) * _SIZES[dtype] + _BEHIND_BYTES)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # the system has none
                memory.madvise(mmap.MADV_HUGEPAGE)
        return _Held(tensor(ctypes.addressof(ctypes.c_char.from_buffer(memory)), dtype, shape), memory)

    def use_threads(self, count: int) -> None:
        """Run loops that are split on ``count`` threads from now on."""
        self._runtime.use_threads(count)

    def run(self, probe: str, arguments: Sequence[_Held]) -> None:
        """Run a probe once."""
        self._runtime.run(self._runtime.function(probe), _tensors(arguments))

    def clock(self, probe: str, arguments: Sequence[_Held], number: int) -> Callable[[], float]:
        """Return a function that times ``number`` runs by the runtime's clock."""
        return partial(self._runtime.seconds, self._runtime.evaluator(probe, number), _tensors(arguments))

    def after_waits(self, probe: str, arguments: Sequence[_Held], wait_ms: int, tries: int) -> list[float]:
        """Return the seconds of ``tries`` runs by the runtime's clock, each after a pause."""
        evaluator = self._runtime.evaluator(probe, 1, repeat=tries, cooldown_ms=wait_ms)
        return self._runtime.samples(evaluator, _tensors(arguments))

    def row(self, calls: Sequence[tuple[str, Sequence[_Held]]]) -> Callable[[float], float]:
        """Return a function of a time to spend: the seconds of a sequence of calls, made as for a bundle's kernels."""

        def seconds(budget_s: float) -> float:
            parts = [partial(self._runtime.run, self._runtime.function(probe), _tensors(held)) for probe, held in calls]
            return measured_in_parts(parts, budget_s, _WIDTH).seconds

        return seconds  # which keeps the arrays' memory


def _tensors(arguments: Sequence[_Held]) -> list[Tensor]:
    return [each.tensor for each in arguments]


def main(folder: Path, manifest: Manifest, probe_s: float, most_bytes: int | None) -> int:
    """Probe this machine's processor and print facts and figures as one JSON object; return 0."""
    runtime = Runtime([folder / "lib" / name for name in RUNTIME], folder / CODE)
    threads = int(os.environ["TVM_NUM_THREADS"])
    facts = local_facts().on_threads(threads)
    plan = probe_plan(facts, most_bytes, probe_s, ProbeShape(manifest.lanes, manifest.registers))
    figures = probed(plan, NativeBench(runtime))
    sys.stdout.write(json.dumps({"facts": asdict(facts), "figures": asdict(figures)}) + "\n")
    return 0


def calibrated_bundle(
    folder: Path, manifest: Manifest, threads: int, probe_s: float, most_bytes: int
) -> dict[str, Any]:
    """Probe the machine in a child process; return the contents of ``results.json`` or raise ``BundleError``."""
    command = [sys.executable, "-I", "-S", str(folder / START), "--child", "--folder", str(folder)]
    command += ["--probe-seconds", str(probe_s), "--most-bytes", str(most_bytes)]
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads), "TVM_BIND_THREADS": "0"}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise BundleError(f"probing took longer than {_LIMIT_S:.0f} s") from error
    if done.returncode:
        raise BundleError(f"probing fails with code {done.returncode}: {done.stderr.strip()[-300:]}")
    try:
        found = dict(json.loads(done.stdout))
    except (ValueError, TypeError, RecursionError) as error:
        raise BundleError(f"probing says what are no figures: {done.stdout[:80]!a}") from error
    return {"format": GPU_CALIBRATION if manifest.gpu else CALIBRATION, "measured_at": now(), **found}
