"""Costs of one network's kernels on a GPU (`fusion.costs.KernelCosts`), and what its scheduler needs."""

import math
from collections.abc import Sequence

from dsascape.fusion.costs import OnChipMemory
from dsascape.hw_models.gpu.sm import SHARED
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.gpu.checked import checked_steps
from dsascape.scheduler.gpu.layers import layers_of
from dsascape.scheduler.gpu.pins import GpuPins, fixed_tiles
from dsascape.scheduler.gpu.residency import Found
from dsascape.scheduler.gpu.tiling import KnownTiles, Tiling, choose_tiling, least_ps
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cut import single_layer
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.files import read_steps
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import KernelSource, named
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.workloads.analysis import Analysis


class GpuCosts:
    """One network's kernels on a GPU; ``known`` keeps tiles for other networks and policies on the same machine."""

    def __init__(
        self, view: GpuView, analysis: Analysis, known: KnownTiles | None = None, kernels: KernelSource | None = None,
        pins: GpuPins | None = None,
    ) -> None:  # fmt: skip
        self.view = view
        self.analysis = analysis
        self.known = KnownTiles() if known is None else known
        self.kernels = kernels
        self.pins = pins

    def with_network(self, analysis: Analysis) -> "GpuCosts":
        """Return the costs of another network on the same machine."""
        return GpuCosts(self.view, analysis, self.known, self.kernels, self.pins)

    def with_kernels(self, kernels: KernelSource) -> "GpuCosts":
        """Return the same with steps of kernels from a source; kernels that it has not get the built-in choice."""
        return GpuCosts(self.view, self.analysis, self.known, kernels, self.pins)

    def with_pins(self, pins: GpuPins) -> "GpuCosts":
        """Return the same, with which schedules have ``pins``; costs of single kernels do not depend on them."""
        return GpuCosts(self.view, self.analysis, self.known, self.kernels, pins)

    def decided(self, layer: Layer, found: Found) -> Steps | None:
        """Return the steps of ``layer`` in a schedule; None if no block fits.

        What the user fixes for a layer comes before steps from a source. Raises ``PinError`` for what it cannot have.
        """
        pinned = None if self.pins is None else self.pins.of(layer)
        if pinned is None:
            chosen = self.chosen(layer)
            tiling = self.tiling_of(layer, found) if chosen is None else None
            return chosen if tiling is None else tiling.steps_of(layer)
        view = self.view.of(layer)
        if pinned.pin.steps is not None:
            where, others = pinned.at("steps"), [name for name in pinned.pin.decided if name != "steps"]
            if others:
                raise PinError(f"{where}: do not go with {others[0]}, which the steps say")
            return checked_steps(where, layer, read_steps(pinned.pin.steps, where), view)
        tiling = choose_tiling(layer, found, view, self.known, fixed_tiles(pinned, layer, view))
        return None if tiling is None else tiling.steps_of(layer)

    def chosen(self, layer: Layer) -> Steps | None:
        """Return the steps that the source has for ``layer``; None where it has none.

        Raises ``ScheduleError`` for steps that make no program which this GPU runs.
        """
        if self.kernels is None:
            return None
        naive = NaiveProgram(layer)
        found = self.kernels.chosen(naive.key(self.dtype, self.view.spec.kind))
        if found is None:
            return None
        return checked_steps(f"kernels: {layer.sink.name}", layer, named(naive, found.steps), self.view.of(layer))

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
        return max(self.view.spec.launch_ps, self.view.issuing_ps(is_first=True)) / PS_PER_S

    def tiling_of(self, layer: Layer, found: Found | None = None) -> Tiling | None:
        """Return the steps of ``layer``, of which the L2 has so much; None if no block of it fits into an SM.

        Equal layers get the same.
        """
        return choose_tiling(layer, found or Found(), self.view.of(layer), self.known)

    def layers_of(self, ops: Sequence[int]) -> tuple[Layer, ...]:
        """Return the layers that the operators run as."""
        return layers_of(self.analysis, ops, self.view)

    def kernel_s(self, ops: Sequence[int]) -> float:
        """Return the estimate of the tiles that the operators get, with an empty L2: as one layer, if they can be one.

        Infinite where they cannot, but for steps that always are kernels by themselves.
        """
        tilings = [self.tiling_of(layer) for layer in self._as_one(ops)]
        return self._in_turn_s([math.inf if tiling is None else tiling.estimate_ps for tiling in tilings])

    def _as_one(self, ops: Sequence[int]) -> tuple[Layer, ...]:
        if any(nest.exchanged for op in ops for nest in self.analysis.graph.ops[op].nests):
            return self.layers_of(ops)
        return single_layer(self.analysis, ops)

    def least_s(self, ops: Sequence[int]) -> float:
        """Return what the data and the arithmetic of the operators take anyhow."""
        return self._in_turn_s([least_ps(layer, self.view.of(layer)) for layer in self._as_one(ops)])

    def most_s(self, ops: Sequence[int]) -> float:
        """Return what they take, as `kernel_s`: all candidates are costed at once."""
        return self.kernel_s(ops)

    def _in_turn_s(self, kernels_ps: Sequence[float]) -> float:
        """Return the seconds of a group's kernels, none of which takes less than the host does for it."""
        issuing = (self.view.issuing_ps(is_first=not number) for number in range(len(kernels_ps)))
        return sum(map(max, kernels_ps, issuing)) / PS_PER_S
