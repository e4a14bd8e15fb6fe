"""Costs of one network's kernels on a CPU (`fusion.costs.KernelCosts`), and what its scheduler needs."""

import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import NamedTuple

from dsascape.fusion.costs import OnChipMemory
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.cpu.cost.estimate import among_others_ps
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.pins import CpuPins, fixed_tiles
from dsascape.scheduler.cpu.schedule.checked import checked_steps
from dsascape.scheduler.cpu.search.tiling import KnownTiles, Tiling, choose_tiling
from dsascape.scheduler.cpu.search.time_bounds import beside_products, least_time_of_ps, most_time_of_ps
from dsascape.scheduler.cpu.view import CpuView
from dsascape.scheduler.kernels.cut import layers_in_order, only_convolution
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.files import read_steps
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import KernelSource, named
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.nest_by_nest import PATCHES, Algorithms, algorithms_of, has_algorithm, may_transpose


class Convolved(NamedTuple):
    """How a convolution is computed that is not computed directly."""

    op: int
    """Position of its operator."""
    algorithm: int
    """See `workloads.nest_by_nest.Algorithms`."""
    in_phases: bool
    """Whether its transforms and products are kernels for the whole image, rather than one that goes tile by tile."""

    @property
    def phased(self) -> frozenset[int]:
        """Its operator if it is computed in phases."""
        return frozenset((self.op,)) if self.in_phases else frozenset()


class CpuCosts:
    """One network's kernels on a CPU; ``known`` keeps tiles for other networks and policies on the same machine."""

    def __init__(
        self, view: CpuView, analysis: Analysis, dtype: str, known: KnownTiles | None = None,
        kernels: KernelSource | None = None, pins: CpuPins | None = None,
    ) -> None:  # fmt: skip
        self.view = view
        self.analysis = analysis
        self.dtype = dtype
        self.known = KnownTiles() if known is None else known
        self.kernels = kernels
        self.pins = pins

    def with_network(self, analysis: Analysis) -> "CpuCosts":
        """Return the costs of another network on the same machine."""
        return CpuCosts(self.view, analysis, self.dtype, self.known, self.kernels, self.pins)

    def with_kernels(self, kernels: KernelSource) -> "CpuCosts":
        """Return the same with steps of kernels from a source; kernels that it has not get the built-in choice."""
        return CpuCosts(self.view, self.analysis, self.dtype, self.known, kernels, self.pins)

    def with_pins(self, pins: CpuPins) -> "CpuCosts":
        """Return the same, with which schedules have ``pins``; costs of single kernels do not depend on them."""
        return CpuCosts(self.view, self.analysis, self.dtype, self.known, self.kernels, pins)

    def decided(self, layer: Layer) -> tuple[Tiling, Steps, int]:
        """Return the tiles of ``layer`` in a schedule, and its steps and their threads where these are given.

        What the user fixes for a layer comes before steps from a source. Raises ``PinError`` for what it cannot have.
        """
        pinned = None if self.pins is None else self.pins.of(layer)
        if pinned is None:
            return self.tiling_of(layer), *self.chosen_steps(layer)
        fixed = fixed_tiles(pinned, layer, self.view)
        steps: Steps = ()
        if pinned.pin.steps is not None:
            where = pinned.at("steps")
            steps = checked_steps(where, layer, read_steps(pinned.pin.steps, where), self.view)
        tiling = choose_tiling(layer, self.view.dtype_of(layer, self.dtype), self.view, self.known, fixed)
        return tiling, steps, tiling.threads

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

    def convolved(self, ops: Sequence[int], *, may_be_phases: bool = True) -> Convolved | None:
        """Return how the one convolution of a kernel is computed faster than directly; None if it is not.

        ``may_be_phases``: whether it may be several kernels. It is decided for each convolution by itself. Kernels that
        a source has steps for stay as these compute them, and a convolution whose operands are dequantised in layers
        before it is direct.
        """
        op = only_convolution(self.analysis, ops)
        if op is None:
            return None
        direct, *others = layers_in_order(self.analysis, (op,), self.transposed)
        if others:
            return None
        key = direct.signature, self.dtype, self.view.timing
        algorithm, phases = self.known.algorithms.get(key, partial(self._fastest, op, direct))
        in_phases = may_be_phases and phases > 0
        algorithm = phases if in_phases else algorithm
        if self.kernels is not None and algorithm:
            own = layers_in_order(self.analysis, ops, self.transposed)
            if any(self.kernels.chosen(NaiveProgram(each).key(self.dtype, self.view.spec.kind)) for each in own):
                return None
        return Convolved(op, algorithm, in_phases) if algorithm else None

    def _fastest(self, op: int, direct: Layer) -> tuple[int, int]:
        """Return the algorithm that is estimated to be fastest as one kernel, and the size of phases that are faster.

        The best tiles of Winograd's algorithm, and the largest, are tried in phases, too: what tiles read again of the
        weights, these read once, and what tiles keep in caches, these write.
        """
        graph, dtype = self.analysis.graph, self.view.dtype_of(direct, self.dtype)
        tuning, simd = self.view.tuning, self.view.spec.simd
        most: int = tuning.winograd
        if dtype == "int8" and simd.instructions_of(dtype) <= 1:
            most = min(most, PATCHES)  # dot products are faster than products of 16 bits in tiles
        others = algorithms_of(graph.ops[op], graph.tensors, dtype, most, is_coarse=tuning.coarse_winograd)
        best, algorithm, phases = self._time_ps(direct) if others else 0.0, 0, 0
        sizes = [each for each in others if each != PATCHES]
        tried = [*others]
        if PATCHES in tried and beside_products(direct, self.tiling_of(direct), dtype, self.view) * _WORTH_COPIES <= 1:
            tried.remove(PATCHES)
        for each in tried:
            worth = _WORTH_COPIES if each == PATCHES else 1.0
            time_ps = self._time_by_ps(op, direct, each, in_phases=False)
            if time_ps < best * worth:
                best, algorithm = time_ps, each
        for each in sorted({algorithm, *sizes[-1:]} & {*sizes}):
            time_ps = self._time_by_ps(op, direct, each, in_phases=True)
            if time_ps < best:
                best, phases = time_ps, each
        return algorithm, phases

    def _time_by_ps(self, op: int, direct: Layer, algorithm: int, *, in_phases: bool) -> float:
        """Return the time of a convolution by an algorithm; infinite for tiles that do not save multiplications."""
        every = self.analysis.of(_convolutions, algorithm)
        phased = frozenset((op,)) if in_phases else frozenset[int]()
        layers = layers_in_order(self.analysis, (op,), self.transposed, every, phased)
        if algorithm != PATCHES and sum([layer.whole_macs for layer in layers]) >= direct.whole_macs:
            return math.inf
        return sum(map(self._time_ps, layers))

    def layers_of(self, ops: Sequence[int]) -> tuple[Layer, ...]:
        """Return the layers of a kernel as they are computed, in the order in which they run."""
        convolved = self.convolved(ops)
        if convolved is None:
            return layers_in_order(self.analysis, ops, self.transposed)
        every = self.analysis.of(_convolutions, convolved.algorithm)
        return layers_in_order(self.analysis, ops, self.transposed, every, convolved.phased)

    def _time_ps(self, layer: Layer) -> float:
        tiling, dtype = self.tiling_of(layer), self.view.dtype_of(layer, self.dtype)
        return among_others_ps(kernel_of(layer, tiling.tiles, tiling.threads, dtype, self.view))


_WORTH_COPIES = 0.97
"""Share of a direct convolution's time below which it is computed over patches: what these save are instructions beside
products, and predictions of smaller gains are no surer than that."""


def _convolutions(analysis: Analysis, algorithm: int) -> Algorithms:
    """Return all convolutions that ``algorithm`` can compute."""
    graph = analysis.graph
    return frozenset([
        (place, algorithm) for place, op in enumerate(graph.ops) if has_algorithm(op, graph.tensors, algorithm)
    ])  # fmt: skip
