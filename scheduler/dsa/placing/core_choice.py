"""Choice of a layer's binding to cores by estimated time, where the layer runs by itself through DDR.

The plain binding cuts the outermost dimensions, mostly rows, so that every core needs all weights. Where one read of
the global buffer fills all local buffers, that costs nothing more, and it is kept. Without such broadcasts each core
reads the weights for itself. Cutting output channels or heads, or rows and channels in a grid, then moves fewer bytes,
and is done where it is estimated to be clearly faster (``tuning.rebound``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dsascape.scheduler.dsa.deciding.unit_choice import computing_ps, units_of
from dsascape.scheduler.dsa.placing.binding import Binding, all_bindings, cores_sharing, plain_binding
from dsascape.scheduler.dsa.tiling.choice import TileChooser, TilingCache
from dsascape.scheduler.dsa.tiling.tiling import Route, TileRequest, Tiling
from dsascape.scheduler.dsa.view import DDR, DsaView
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized


@dataclass(frozen=True)
class BoundLayer:
    """A layer's binding to the cores of one cluster, and its estimated time in ps through DDR."""

    binding: Binding
    estimate_ps: float


LoadedTogether = tuple[tuple[int, int], ...]
"""Operands that clusters load together, each a part, exchanged over their link: (position among the layer's inputs,
number of clusters). Equal layers differ in names."""


@memoized
def bound_layer(
    layer: Layer, extents: Extents, view: DsaView, dtype: str, tiling_cache: TilingCache,
    together: LoadedTogether,
) -> BoundLayer:  # fmt: skip
    """Return `LayerThroughDdr.bound`; raise ``ScheduleError`` if not even its smallest tile fits."""
    return LayerThroughDdr(layer, extents, view, dtype, tiling_cache, together).bound()


@dataclass(frozen=True)
class LayerThroughDdr:
    """A layer that runs by itself on one cluster, ``extents`` elements of its output, operands and results in DDR."""

    layer: Layer
    extents: Extents
    view: DsaView
    dtype: str
    tiling_cache: TilingCache = field(compare=False)
    together: LoadedTogether = ()

    def bound(self) -> BoundLayer:
        """Return the fastest binding by estimate; the plain one unless another is clearly faster.

        The plain one as well where off-chip memory takes longer than the cores do, as others move no less there; and
        where the global buffer broadcasts. Without a global buffer, a core reads its part of the operands from DDR as
        often as its tiles need them, each read serving all cores that share it: with fewer bytes of its own, it needs
        them less often. Raises ``ScheduleError`` if not even the smallest tile of the plain one fits.
        """
        view, tuning, layer, plain = self.view, self.view.tuning, self.layer, self.plain
        tiling = self._tiling(plain)
        best = BoundLayer(plain, tiling.estimate_ps)
        if tuning.cores_bound == "plain" or (view.broadcasts and view.has_global_buffer):
            return best
        operands = layer.operand_bytes(self.extents).items()
        moved_bytes = sum([size // self._clusters.get(name, 1) for name, size in operands])
        moved_bytes += layer.tile_work(self.extents).output_bytes
        off_chip_ps = moved_bytes / view.ddr_bytes_per_ps
        if self._on_chip_ps(plain, tiling) <= off_chip_ps:
            return best
        limit_ps = tuning.rebound * best.estimate_ps
        computing = computing_ps(layer, self.extents, view, self.dtype)
        all_ps = max(off_chip_ps, computing / view.cores_per_cluster)
        for least_ps, binding in self._others(all_ps) if all_ps < limit_ps else ():
            if least_ps >= limit_ps:
                break
            try:
                estimate_ps = self._tiling(binding).estimate_ps
            except ScheduleError:  # not even the smallest tile fits
                continue
            if estimate_ps < limit_ps:
                best, limit_ps = BoundLayer(binding, estimate_ps), estimate_ps
        return best

    @cached_property
    def plain(self) -> Binding:
        """The plain binding (GraphTurbo, section 3.4)."""
        layer, tuning = self.layer, self.view.tuning
        cores = self.view.cores_per_cluster
        return plain_binding(self.extents, layer.sink.order, cores, layer.together, tuning.most_padding)

    @cached_property
    def _clusters(self) -> Mapping[str, int]:
        """Number of clusters that load an operand together, by its name."""
        return {self.layer.inputs[position]: clusters for position, clusters in self.together}

    def _others(self, least_ps: float) -> Iterable[tuple[float, Binding]]:
        """Return the bindings with the least lower bounds, (ps, binding), in increasing order, without the plain one.

        They use no fewer cores than the plain one: each brings bandwidth of its own. ``least_ps``: lower bound of all.
        On a tie, fewer bytes of operands per core come first.
        """
        layer, tuning, cores, plain = self.layer, self.view.tuning, self.view.cores_per_cluster, self.plain
        every = all_bindings(self.extents, layer.sink.order, cores, layer.together, tuning.most_padding)
        others = (each for each in every if each != plain and each.cores >= plain.cores)
        bounds = sorted([(max(least_ps, self._on_chip_ps(each)), self._core_bytes(each), each) for each in others])
        return [(bound_ps, each) for bound_ps, _, each in bounds[: tuning.most_bindings]]

    def _core_bytes(self, binding: Binding) -> int:
        """Return the bytes of operands from which one core computes its part."""
        return sum(self.layer.operand_bytes(binding.part_extents(self.extents)).values())

    def _tiling(self, binding: Binding) -> Tiling:
        """Return the layer's tiles if bound by ``binding``; raise ``ScheduleError`` if not even the smallest fits."""
        layer, view, part = self.layer, self.view, binding.part_extents(self.extents)
        routes = {}
        for name in layer.operand_bytes(self.extents):
            sharing = cores_sharing(layer, name, binding)
            routes[name] = Route(1.0, 0.0, sharing, view.broadcasts and sharing > 1)
            if name in self._clusters:
                routes[name] = routes[name].loaded_together(self._clusters[name])
        room = (view.local_buffer_bytes,), (view.global_buffer_bytes,)
        units = units_of(layer, part, view, self.dtype)
        request = TileRequest(
            layer, self.extents, part, binding.cores, units, routes, DDR, *room, self.dtype,
            reloads=view.spec.local_buffer.reloads,
        )  # fmt: skip
        return TileChooser(view, room[0][0], room[1][0], self.tiling_cache).choose(request)

    def _on_chip_ps(self, binding: Binding, tiling: Tiling | None = None) -> float:
        """Return the time in ps of the arithmetic, or of bringing operands to the cores if that is longer.

        With ``tiling`` as often as its tiles need them, else once; without a global buffer from DDR, one read for all
        cores that share an operand. Start-ups, halos and outputs are left out.
        """
        layer, part = self.layer, binding.part_extents(self.extents)
        tile, depth = (part, None) if tiling is None else (tiling.tile, tiling.depth)
        loads = {} if tiling is None else tiling.loads
        sizes, view = layer.tile_work(tile, depth).operand_bytes, self.view
        if view.has_global_buffer:
            moving_ps = sum([size * loads.get(name, 1) for name, size in sizes.items()]) / view.path_bytes_per_ps
        else:
            shared = {name: size / cores_sharing(layer, name, binding) for name, size in sizes.items()}
            moving_ps = sum([size * loads.get(name, 1) for name, size in shared.items()]) / view.ddr_bytes_per_ps
        moving_ps *= binding.cores
        return max(moving_ps, computing_ps(layer, part, self.view, self.dtype))
