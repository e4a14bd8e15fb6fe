"""Costs of one network's kernels on a GPU (`fusion.costs.KernelCosts`), and what its scheduler needs."""

import math
from collections.abc import Sequence

from fusion.costs import OnChipMemory
from hw_models.gpu.sm import SHARED
from hw_models.quantities import PS_PER_S
from scheduler.gpu.residency import Found
from scheduler.gpu.tiling import KnownTiles, Tiling, choose_tiling, least_ps, most_ps
from scheduler.gpu.view import GpuView
from scheduler.kernels.cut import layer_of
from scheduler.kernels.layer import Layer
from workloads.analysis import Analysis


class GpuCosts:
    """One network's kernels on a GPU; ``known`` keeps tiles for other networks and policies on the same machine."""

    def __init__(self, view: GpuView, analysis: Analysis, known: KnownTiles | None = None) -> None:
        self.view = view
        self.analysis = analysis
        self.known = KnownTiles() if known is None else known

    def with_network(self, analysis: Analysis) -> "GpuCosts":
        """Return the costs of another network on the same machine."""
        return GpuCosts(self.view, analysis, self.known)

    @property
    def dtype(self) -> str:
        return self.view.dtype

    @property
    def cores(self) -> int:
        return self.view.spec.sms.count

    @property
    def on_chip(self) -> tuple[OnChipMemory, ...]:
        """Shared memory, which lasts as long as a block; the L2 decides by itself what stays."""
        spec = self.view.spec
        bytes_per_s = spec.sms.count * spec.sms.shared.bytes_per_cycle * spec.clock_hz
        return (OnChipMemory(SHARED, spec.sms.shared.per_block_bytes, spec.sms.count, bytes_per_s, 0),)

    @property
    def off_chip_bytes_per_s(self) -> float:
        return float(self.view.spec.dram.sustained_bytes_per_s)

    @property
    def launch_s(self) -> float:
        return self.view.spec.launch_ps / PS_PER_S

    def tiling_of(self, layer: Layer, found: Found | None = None) -> Tiling | None:
        """Return the tiles of ``layer``, of which the L2 has so much; None if no block of it fits into an SM.

        Equal layers get the same.
        """
        return choose_tiling(layer, found or Found(), self.view, self.known)

    def kernel_s(self, ops: Sequence[int]) -> float:
        """Return the estimate of the tiles that the operators get as one layer, with an empty L2."""
        layer = layer_of(self.analysis, ops)
        if layer is None:
            return 0.0
        tiling = self.tiling_of(layer)
        return math.inf if tiling is None else tiling.estimate_ps / PS_PER_S

    def least_s(self, ops: Sequence[int]) -> float:
        """Return what the data and the arithmetic of the operators take anyhow."""
        layer = layer_of(self.analysis, ops)
        return 0.0 if layer is None else least_ps(layer, self.view) / PS_PER_S

    def most_s(self, ops: Sequence[int]) -> float:
        """Return what a few tiles take, with an empty L2."""
        layer = layer_of(self.analysis, ops)
        return 0.0 if layer is None else most_ps(layer, self.view, self.known) / PS_PER_S
