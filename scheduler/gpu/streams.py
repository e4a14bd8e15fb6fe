"""Softmaxes in front of a block's last product, computed for a piece of its depth at a time.

Running statistics correct what was summed up before (Dao et al., FlashAttention, 2022, algorithm 1).
"""

from dsascape.scheduler.gpu.nests import nests_of
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.streaming import Softmax, softmax_of
from dsascape.workloads.index import Index


def softmax_in_front(layer: Layer) -> Softmax | None:
    """Return the softmax whose rows the last product of a layer goes along, so that it can be computed in pieces.

    None where the product reads something else, or another reduction in front of it goes along these rows.
    """
    nests = nests_of(layer)
    if not layer.streamed or nests.anchor < 0:
        return None
    own = [each.nest for each in reversed(layer.nests) if not each.is_view]
    anchor, depth = own[nests.anchor], nests.nests[nests.anchor].depth_loop
    for read in anchor.reads[:2]:
        producer = layer.graph.producer.get(read.tensor, -1)
        softmax = softmax_of(layer.graph.ops[producer]) if producer in layer.ops else None
        if softmax is not None and softmax.rows == read.tensor and depth is not None:
            return softmax if read.indices[softmax.columns] == Index(((depth, 1),)) else None
    return None
