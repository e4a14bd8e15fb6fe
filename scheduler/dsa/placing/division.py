"""Division of layers among clusters that share every kernel, by the dimension that is fastest by estimate.

Each cluster computes an equal part of a layer's output, as one rank of a tensor-parallel network does: some output
channels, heads, rows or images. It stores that part in DDR, and reads there what the next layer needs, including what
other clusters have stored. Parts are equal, so all clusters stay in lockstep. Reductions are not divided: partial sums
would have to be exchanged and added up.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dsascape.scheduler.dsa.placing.binding import Binding
from dsascape.scheduler.dsa.placing.core_choice import LoadedTogether, bound_layer
from dsascape.scheduler.dsa.placing.exchanges import clusters_sharing
from dsascape.scheduler.dsa.tiling.choice import TilingCache
from dsascape.scheduler.dsa.view import DsaView
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.layer import Layer, layer_needs
from dsascape.scheduler.parts import divisors
from dsascape.workloads.loopnest import Box, box_volume, full_box
from dsascape.workloads.memo import memoized

_MOST_DIVISIONS = 16
"""Maximum number of divisions of a layer that are estimated, those that cut the fewest dimensions first; assumed."""


class DividedLayer(NamedTuple):
    """A layer's division among clusters, and the estimated time in ps of one cluster's part through DDR."""

    division: Binding | None
    """None for a layer that cannot be divided into equal parts: then every cluster computes and stores all of it."""
    estimate_ps: float
    together: LoadedTogether = ()
    """Operands that clusters load together and exchange over their link."""


@memoized
def divided_layer(
    layer: Layer, view: DsaView, dtype: str, tiling_cache: TilingCache, saves_weights: bool, links: bool
) -> DividedLayer:
    """Return the division of a layer's outputs among the clusters of ``view`` with the shortest estimated time.

    Of all divisions, grids over several dimensions included, those into the most parts are estimated.
    ``saves_weights``: the fastest of those with which a cluster reads the fewest bytes of weights. On a tie, the
    outermost dimension is cut. ``links``: operands that several clusters need alike are loaded together, where that is
    faster. Raises ``ScheduleError`` if the smallest tile does not fit, divided or not.
    """
    shape = layer.sink.shape
    for parts in divisors(view.clusters)[:-1]:
        timed: list[tuple[int, DividedLayer]] = []
        for division in itertools.islice(_divisions(layer, parts), _MOST_DIVISIONS):
            weights_bytes = _weight_bytes(layer, division.part(full_box(shape), 0)) if saves_weights else 0
            try:
                timed.append((weights_bytes, _timed(layer, division, view, dtype, tiling_cache, links=links)))
            except ScheduleError:  # not even the smallest tile fits
                continue
        if timed:
            return min(timed, key=lambda entry: (entry[0], entry[1].estimate_ps))[1]
    return _timed(layer, None, view, dtype, tiling_cache, links=links)


def _timed(
    layer: Layer, division: Binding | None, view: DsaView, dtype: str, tiling_cache: TilingCache, *, links: bool
) -> DividedLayer:
    """Return a division with its estimated time, operands loaded together if ``links`` and where that is faster."""
    shape = layer.sink.shape
    extents = shape if division is None else division.part_extents(shape)
    apart = DividedLayer(division, bound_layer(layer, extents, view, dtype, tiling_cache, ()).estimate_ps)
    if not links:
        return apart
    needed = layer.operand_bytes(extents)
    sharing = [
        (position, clusters_sharing(layer, name, full_box(shape), division, view.clusters))
        for position, name in enumerate(layer.inputs) if name in needed
    ]  # fmt: skip
    together = tuple([each for each in sharing if each[1] > 1])
    if not together:
        return apart
    estimate_ps = bound_layer(layer, extents, view, dtype, tiling_cache, together).estimate_ps
    return DividedLayer(division, estimate_ps, together) if estimate_ps < apart.estimate_ps else apart


def _weight_bytes(layer: Layer, box: Box) -> int:
    """Return the bytes of the weights from which ``box`` of a layer's output is computed; of tables, all rows."""
    tensors, need = layer.graph.tensors, layer_needs(layer, box)
    weights = (name for name in layer.inputs if name in need and tensors[name].role == "weight")
    return sum([tensors[name].bytes_of(box_volume(need[name])) for name in weights])


def _divisions(layer: Layer, parts: int) -> Iterator[Binding]:
    """Yield the divisions of a layer's outputs into ``parts`` equal parts, fewest cut dimensions first."""
    shape = layer.sink.shape
    choices = [
        [1] if dim in layer.together or not size else divisors(math.gcd(parts, size)) for dim, size in enumerate(shape)
    ]
    every = [factors for factors in itertools.product(*choices) if math.prod(factors) == parts]
    every.sort(key=lambda factors: sum(factor > 1 for factor in factors))
    divisions = (Binding(factors, tuple(range(len(shape)))) for factors in every)
    yield from (division for division in divisions if divides(layer, division))


def divides(layer: Layer, division: Binding) -> bool:
    """Return whether ``division`` divides all outputs of a layer into equal parts, of equal work.

    Each part of another output than the sink is what the same part of the sink computes of it. Clusters do different
    work where an output is put together from operands of which not all clusters need as much.
    """
    whole = full_box(layer.sink.shape)
    needs = [layer_needs(layer, division.part(whole, number)) for number in range(division.cores)]
    if layer.puts_together and not _are_alike(needs, layer.inputs):
        return False
    for name in layer.outputs:
        shape = layer.graph.tensors[name].shape
        if len(shape) != len(division.factors) or not division.divides(shape):
            return False
        parts = [division.part(full_box(shape), number) for number in range(division.cores)]
        if name != layer.sink.name and parts != [each.get(name) for each in needs]:
            return False
    return True


def _are_alike(needs: list[Mapping[str, Box]], names: tuple[str, ...]) -> bool:
    """Return whether all clusters need equally large boxes of each operand."""
    sizes = [[box_volume(each[name]) if name in each else 0 for name in names] for each in needs]
    return all(size == sizes[0] for size in sizes)
