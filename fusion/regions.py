"""Which part of every tensor a tile of the outputs needs, followed backwards through fused operators."""

from collections.abc import Mapping, Sequence

from workloads.graph import Graph
from workloads.loopnest import Box, hull


def required_regions(graph: Graph, ops: Sequence[int], wanted: Mapping[str, Box]) -> dict[str, Box]:
    """Return for every tensor that ``ops`` read or write the box needed so that the boxes ``wanted`` can be computed.

    ``ops`` in ascending order. Halos grow on the way; a tensor needed twice gets the box around both needs. Tensors
    of which nothing is needed are not in the result.
    """
    regions: dict[str, Box] = dict(wanted)
    for position in reversed(ops):
        op = graph.ops[position]
        for nest in reversed(op.nests):
            tile = regions.get(nest.write.tensor)
            if tile is None:
                continue
            ranges = nest.ranges_for(tile)
            if ranges is None:
                continue
            for read in nest.reads:
                box = read.region(ranges)
                if box is not None:
                    regions[read.tensor] = hull(regions.get(read.tensor), box)
    return regions
