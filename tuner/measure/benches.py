"""Benches: where candidates for a target run, found at one place."""

from typing import Any, Protocol

from dsascape.tuner.late import late
from dsascape.tuner.measure.address import BUNDLE, LOCAL
from dsascape.tuner.measure.run import check_device
from dsascape.tuner.measure.targets import TargetError, check_cpu_target, check_target, is_gpu_target


class Bench(Protocol):
    """Place where candidates run, for a device, a target and a number of threads."""

    def check(self, device: str, target: str, threads: int) -> None:
        """Raise ``TargetError`` or ``MeasureError`` where candidates cannot run."""

    def opened(self, device: str, target: str, threads: int) -> Any:
        """Return the bench, with TVM imported, in the process that runs candidates."""


class _Processor:
    """Processor of this machine, of one behind RPC, or of one that runs bundles."""

    def check(self, device: str, target: str, threads: int) -> None:
        """Raise ``TargetError`` for an unknown target, and what `check_device` raises."""
        check_cpu_target(target)
        if device != BUNDLE:
            check_device(device, target, threads)

    def opened(self, device: str, target: str, threads: int) -> Any:
        """Return the bench; TVM reads the number of threads on import."""
        if device == BUNDLE:
            return late("bundle_bench").BundleBench(target, threads)
        return late("candidate_bench").Bench(device, target, threads)


class _Gpu:
    """GPU of this machine."""

    def check(self, device: str, target: str, threads: int) -> None:
        """Raise ``TargetError`` for a target that no GPU of this machine has, and for another device."""
        check_target(target)
        if device != LOCAL:
            raise TargetError(f"candidates for {target} run on this machine's GPU only, not on {device}")

    def opened(self, device: str, target: str, threads: int) -> Any:
        """Return the bench."""
        return late("grid_bench").GridBench(target)


def bench_for(target: str) -> Bench:
    """Return the bench for code of ``target``."""
    return _Gpu() if is_gpu_target(target) else _Processor()
