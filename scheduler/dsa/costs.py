"""Cost model of one network's kernels on a clustered DSA: `fusion.costs.KernelCosts`, and data for its scheduler."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from dsascape.fusion.costs import OnChipMemory
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.dsa.deciding.unit_choice import Units, computing_ps, units_of
from dsascape.scheduler.dsa.pins import DsaPin, DsaPins
from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.placing.core_choice import BoundLayer, LayerThroughDdr, LoadedTogether, bound_layer
from dsascape.scheduler.dsa.placing.division import DividedLayer, divided_layer
from dsascape.scheduler.dsa.tiling.choice import TilingCache
from dsascape.scheduler.dsa.view import GLOBAL, LOCAL, DsaView
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.pins.pins import Pinned
from dsascape.scheduler.product_rates import macs_by_product
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import Memos


class DsaCosts:
    """Cost model of one network's kernels on one cluster of a machine; all clusters in use run the same program.

    ``tiling_cache`` is the cache of tilings, shared with other networks and policies on the same machine. ``pins``:
    decisions that schedules of the network have; costs of single kernels do not depend on them.

    Functions whose results are stored take one with a part of the machine, `timing`, `apart_from_ddr` or `binding`,
    as their first argument.
    """

    def __init__(
        self, view: DsaView, analysis: Analysis, dtype: str, tiling_cache: TilingCache | None = None,
        pins: DsaPins | None = None,
    ) -> None:  # fmt: skip
        self.view = view
        self.pins = pins
        self.analysis = analysis
        self.dtype = dtype
        self.tiling_cache = TilingCache() if tiling_cache is None else tiling_cache

    @property
    def memos(self) -> Memos:
        """Tables of the network's memoized functions."""
        return self.analysis.memos

    @property
    def memo_key(self) -> tuple[DsaView, str]:
        """Key of memoized results; a network with pins has an analysis of its own (`with_pins`)."""
        return self.view, self.dtype

    memo_identity = memo_key

    @cached_property
    def timing(self) -> "DsaCosts":
        """The cost model that reads `DsaView.timing` alone."""
        return self._on(self.view.timing)

    @cached_property
    def apart_from_ddr(self) -> "DsaCosts":
        """The cost model that reads `DsaView.apart_from_ddr` alone."""
        return self._on(self.view.apart_from_ddr)

    @cached_property
    def binding(self) -> "DsaCosts":
        """The cost model that reads `DsaView.cores_alone`; with pins also the memories that they name."""
        return self._on(self.view.cores_alone if self.pins is None else self.view.timing)

    def _on(self, view: DsaView) -> "DsaCosts":
        return DsaCosts(view, self.analysis, self.dtype, self.tiling_cache, self.pins)

    def with_local_buffer(self, capacity_bytes: int) -> "DsaCosts":
        """Return the cost model of the same machine with local buffers of ``capacity_bytes``."""
        view = self.view
        buffer = view.spec.local_buffer.model_copy(update={"capacity_bytes": capacity_bytes})
        spec = view.spec.model_copy(update={"local_buffer": buffer})
        return self._on(replace(view, spec=spec))

    def with_cores(self, number: int) -> "DsaCosts":
        """Return the cost model of the same machine with ``number`` cores per cluster."""
        spec = self.view.spec.model_copy(update={"cores_per_cluster": number})
        return self._on(replace(self.view, spec=spec))

    def without_further_levels(self) -> "DsaCosts":
        """Return the cost model of the same machine without memories between its global buffer and DDR."""
        spec = self.view.spec.model_copy(update={"further_levels": {}})
        return DsaCosts(replace(self.view, spec=spec), self.analysis, self.dtype, self.tiling_cache, self.pins)

    def with_network(self, analysis: Analysis) -> "DsaCosts":
        """Return the cost model of another network on the same machine."""
        return DsaCosts(self.view, analysis, self.dtype, self.tiling_cache, self.pins)

    def with_pins(self, pins: DsaPins) -> "DsaCosts":
        """Return the cost model with which schedules have ``pins``.

        Its analysis is a new one: layouts and decisions that are kept with the other know no pins.
        """
        return DsaCosts(self.view, Analysis(self.analysis.graph), self.dtype, self.tiling_cache, pins)

    def pin_of(self, layer: Layer) -> Pinned[DsaPin] | None:
        """Return what is fixed for ``layer``; None if nothing is."""
        return None if self.pins is None else self.pins.of(layer)

    @cached_property
    def most_off_chip_bytes_per_s(self) -> float:
        """Upper bound on one cluster's off-chip bandwidth in bytes/s, loading and storing at the same time."""
        spec = self.view.spec
        load, store = spec.dma.load, spec.dma.store
        channels = load.bandwidth_bytes_per_s * spec.dma.load_channels
        channels += store.bandwidth_bytes_per_s * spec.dma.store_channels
        return min(spec.ddr.sustained_bytes_per_s / spec.ddr_parts(self.view.clusters), channels)

    @cached_property
    def arithmetic_s(self) -> float:
        """Seconds of a cluster's multiply-accumulates at its peak rates; 0 for an unsupported dtype."""
        spec = self.view.spec
        sharing = self.view.clusters if self.view.divides_kernels else 1
        return sum([
            macs / (spec.peak_macs_per_s(product) / spec.clusters * sharing)
            for product, macs in macs_by_product(self.analysis.graph, spec, self.dtype).items()
            if spec.peak_macs_per_s(product)
        ])  # fmt: skip

    @property
    def cores(self) -> int:
        return self.view.cores_per_cluster

    @cached_property
    def on_chip(self) -> tuple[OnChipMemory, ...]:
        """On-chip memories for tensors: local buffers less their weight window, the global one's output share, others.

        Innermost first; of further levels a cluster has all of its own, or its part of a shared one.
        """
        view, spec = self.view, self.view.spec
        compute_bytes_per_s = spec.local_buffer.bandwidth_bytes_per_s * self.cores
        local_bytes = view.local_buffer_bytes - view.weight_window_bytes
        local = OnChipMemory(LOCAL, local_bytes, self.cores, compute_bytes_per_s, view.path_startup_bytes)
        if not view.has_global_buffer:
            return (local,)
        tuning = view.tuning
        share = min(tuning.outputs_share_of_global_buffer, 1 - tuning.prefetch_share_of_global_buffer)
        global_bytes = int(view.global_buffer_bytes * share)
        dma_bytes = int(view.dma_startup_ps * view.ddr_bytes_per_ps)
        shared = OnChipMemory(GLOBAL, global_bytes, 1, view.path_bytes_per_ps * PS_PER_S, dma_bytes)
        further = (
            OnChipMemory(
                level.name, view.room_bytes[level.name], 1, view.bytes_per_ps(level) * PS_PER_S,
                int(level.load.channel.startup_ps * view.bytes_per_ps(level)),
            )
            for level in view.outer[:-1]
        )
        return local, shared, *further

    @property
    def off_chip_bytes_per_s(self) -> float:
        return self.view.ddr_bytes_per_ps * PS_PER_S

    @property
    def launch_s(self) -> float:
        return self.view.spec.launch_ps / PS_PER_S

    def units_of(self, layer: Layer, part: Extents) -> Units:
        """Return the unit of each nest of ``layer`` for a core's ``part`` of it; equal layers get equal units."""
        return units_of(layer, part, self.view, self.dtype)

    def computing_ps(self, layer: Layer, part: Extents) -> int:
        """Return the time in ps of the busiest unit of a core for ``part`` of ``layer`` as one tile."""
        return computing_ps(layer, part, self.view, self.dtype)

    def kernel_s(self, ops: Sequence[int]) -> float:
        """Return the estimated seconds of the operators as one layer with all buffers to itself, launch included.

        Where clusters share every kernel, that of one cluster's part in the fastest division. Infinite if not even the
        smallest tile fits.
        """
        layer = layer_of(self.analysis, ops)
        if layer is None:
            return 0.0
        try:
            if self.view.divides_kernels:
                divided = self._divided(layer, saves_weights=False, links=self.view.exchanges_over_link)
                return self.launch_s + divided.estimate_ps / PS_PER_S
            return self.launch_s + self.layer_ps(layer, layer.sink.shape) / PS_PER_S
        except ScheduleError:  # not even the smallest tile fits
            return math.inf

    def fits(self, ops: Sequence[int]) -> bool:
        """Return whether some tile of the operators as one layer fits the buffers."""
        layer = layer_of(self.analysis, ops)
        if layer is None:
            return True
        # two buffers for all that a tile of single elements takes, for every core
        most_bytes, view = 2 * layer.smallest_bytes, self.view
        has_room = not view.has_global_buffer or 2 * most_bytes * self.cores <= view.global_buffer_bytes
        if most_bytes <= view.local_buffer_bytes and has_room:
            return True
        return self.kernel_s(ops) < math.inf

    def least_s(self, ops: Sequence[int]) -> float:
        """Return the trivial lower bound 0: `kernel_s` is fast to evaluate here."""
        del ops
        return 0.0

    def most_s(self, ops: Sequence[int]) -> float:
        """Return the trivial upper bound infinity: `kernel_s` is fast to evaluate here."""
        del ops
        return math.inf

    def layer_ps(self, layer: Layer, extents: Extents) -> float:
        """Return the estimated time in ps of ``extents`` elements of a layer's output on one cluster, through DDR.

        Its cores are bound as `binding_of` says. Raises ``ScheduleError`` if not even the smallest tile fits.
        """
        return self._bound(layer, extents).estimate_ps

    def division_of(self, layer: Layer, *, saves_weights: bool = False, links: bool = False) -> DividedLayer:
        """Return the division of a layer among the clusters with the shortest estimated time, as `divided_layer` does.

        Every cluster computes all of it if it cannot be divided, or no tiles fit, which is refused when tiles are
        chosen.
        """
        try:
            return self._divided(layer, saves_weights=saves_weights, links=links)
        except ScheduleError:
            return DividedLayer(None, math.inf)

    def binding_of(self, layer: Layer, extents: Extents, together: LoadedTogether = ()) -> Binding:
        """Return the binding to cores of ``extents`` elements of a layer's output that runs by itself through DDR.

        ``together``: operands that clusters load together. The plain one where no tiles fit, which is refused when
        tiles are chosen.
        """
        try:
            return self._bound(layer, extents, together).binding
        except ScheduleError:
            return self._alone(layer, extents).plain

    def _divided(self, layer: Layer, *, saves_weights: bool, links: bool) -> DividedLayer:
        return divided_layer(layer, self.view.timing, self.dtype, self.tiling_cache, saves_weights, links)

    def _bound(self, layer: Layer, extents: Extents, together: LoadedTogether = ()) -> BoundLayer:
        return bound_layer(layer, extents, self.view.timing, self.dtype, self.tiling_cache, together)

    def _alone(self, layer: Layer, extents: Extents) -> LayerThroughDdr:
        return LayerThroughDdr(layer, extents, self.view, self.dtype, self.tiling_cache)
