"""Costs of one network's kernels on a CPU (`fusion.costs.KernelCosts`), and what its scheduler needs."""

from collections.abc import Sequence
from functools import cached_property

from dsascape.fusion.costs import OnChipMemory
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.cost.estimate import among_others_ps
from dsascape.scheduler.cpu.schedule.checked import checked_steps
from dsascape.scheduler.cpu.search.tiling import KnownTiles, Tiling, choose_tiling
from dsascape.scheduler.cpu.search.time_bounds import least_time_of_ps, most_time_of_ps
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layers_in_order
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import KernelSource, named
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nest_by_nest import may_transpose


class CpuCosts:
    """One network's kernels on a CPU; ``known`` keeps tiles for other networks and policies on the same machine."""

    def __init__(
        self, view: CpuView, analysis: Analysis, dtype: str, known: KnownTiles | None = None,
        kernels: KernelSource | None = None,
    ) -> None:  # fmt: skip
        self.view = view
        self.analysis = analysis
        self.dtype = dtype
        self.known = KnownTiles() if known is None else known
        self.kernels = kernels

    def with_network(self, analysis: Analysis) -> "CpuCosts":
        """Return the costs of another network on the same machine."""
        return CpuCosts(self.view, analysis, self.dtype, self.known, self.kernels)

    def with_kernels(self, kernels: KernelSource) -> "CpuCosts":
        """Return the same with steps of kernels from a source; kernels that it has not get the built-in choice."""
        return CpuCosts(self.view, self.analysis, self.dtype, self.known, kernels)

    def chosen_steps(self, layer: Layer) -> tuple[Steps, int]:
        """Return the steps that the source has for ``layer``, and their threads; no steps where it has none.

        Raises ``ScheduleError`` for steps that make no program which this CPU runs.
        """
        if self.kernels is None:
            return (), 0
        naive = NaiveProgram(layer)
        chosen = self.kernels.chosen(naive.key(self.dtype, self.view.spec.kind))
        if chosen is None:
            return (), 0
        steps = checked_steps(f"kernels: {layer.sink.name}", layer, named(naive, chosen.steps), self.view)
        return steps, min(chosen.threads, max(self.view.thread_counts))

    @property
    def cores(self) -> int:
        return self.view.spec.core_count

    @property
    def on_chip(self) -> tuple[OnChipMemory, ...]:
        """None: caches decide by themselves what stays."""
        return ()

    @property
    def off_chip_bytes_per_s(self) -> float:
        return float(self.view.spec.dram.sustained_bytes_per_s)

    @property
    def launch_s(self) -> float:
        return self.view.spec.kernel_call_ps / PS_PER_S

    def tiling_of(self, layer: Layer) -> Tiling:
        """Return the tiles of ``layer``; equal layers get the same."""
        return choose_tiling(layer, self.view.dtype_of(layer, self.dtype), self.view, self.known)

    @cached_property
    def transposed(self) -> frozenset[int]:
        """Operators, by position, that are faster with transpositions in front of their products (`written_out`)."""
        found = set()
        for op in self.analysis.of(may_transpose):
            plain, turned = [
                sum(map(self._time_ps, layers_in_order(self.analysis, (op,), each)))
                for each in (frozenset[int](), frozenset((op,)))
            ]
            if turned < plain:
                found.add(op)
        return frozenset(found)

    def layers_of(self, ops: Sequence[int]) -> tuple[Layer, ...]:
        """Return the layers that the operators run as."""
        return layers_in_order(self.analysis, ops, self.transposed)

    def kernel_s(self, ops: Sequence[int]) -> float:
        """Return the estimate of the tiles that the operators get as one layer, as one kernel of many.

        What it reads, and what it writes, is in caches as far as it fits; weights are not.
        """
        return sum(map(self._time_ps, self.layers_of(ops))) / PS_PER_S

    def least_s(self, ops: Sequence[int]) -> float:
        """Return what the arithmetic of the operators takes anyhow."""
        layers = self.layers_of(ops)
        return sum([
            least_time_of_ps(layer, self.view.dtype_of(layer, self.dtype), self.view) for layer in layers
        ]) / PS_PER_S  # fmt: skip

    def most_s(self, ops: Sequence[int]) -> float:
        """Return what a few tiles take with empty caches, where the operators have one anchor."""
        layers = self.layers_of(ops)
        return sum([
            most_time_of_ps(layer, self.view.dtype_of(layer, self.dtype), self.view, self.known) for layer in layers
        ]) / PS_PER_S  # fmt: skip

    def _time_ps(self, layer: Layer) -> float:
        tiling, dtype = self.tiling_of(layer), self.view.dtype_of(layer, self.dtype)
        return among_others_ps(layer, tiling.tiles.tiled, tiling.threads, dtype, self.view)
