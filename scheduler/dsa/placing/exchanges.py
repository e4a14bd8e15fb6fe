"""Data that clusters which share every kernel need of each other: parts of operands that others store or load."""

from collections import Counter
from collections.abc import Sequence

from dsascape.scheduler.dsa.placing.binding import Binding, needed_and_held
from dsascape.scheduler.dsa.schedule.schedule import LayerRun, TensorSlice
from dsascape.scheduler.dsa.view import DDR, GLOBAL
from dsascape.scheduler.kernels.layer import Layer, layer_needs
from dsascape.workloads.loopnest import Box, box_volume, intersect


def clusters_sharing(layer: Layer, name: str, whole: Box, divided: Binding | None, clusters: int) -> int:
    """Return the number of clusters that need the same bytes of operand ``name``; 1 if these groups differ in size.

    ``divided``: division of the box ``whole`` of the layer's output among ``clusters`` clusters.
    """
    if divided is None:
        return clusters
    needs = (layer_needs(layer, divided.part(whole, cluster)).get(name) for cluster in range(clusters))
    groups = set(Counter(needs).values())
    return groups.pop() if len(groups) == 1 else 1


def received_share(run: LayerRun, name: str, slices: Sequence[TensorSlice], clusters: int) -> tuple[float, int]:
    """Return what the clusters' global buffers send each other of an operand that is divided among them.

    As (the largest share of its need that a cluster receives, the number of clusters that receive each byte: the mean,
    rounded down).
    """
    held = (slices[number] for number in run.reads[name])
    there = [(each.box, each.divided) for each in held if each.memory == GLOBAL and each.divided is not None]
    most, received, sent = 0.0, 0, set[tuple[Box, Box]]()
    for cluster in range(clusters) if there else ():
        need = layer_needs(run.layer, run.cluster_box(cluster)).get(name)
        for box, divided in there:
            wanted = None if need is None else intersect(need, box)
            if need is None or wanted is None:
                continue
            lacked = 0
            for number in range(divided.cores):
                part = divided.part(box, number)
                piece = intersect(wanted, part)
                if piece is not None and number != cluster % divided.cores:
                    lacked += box_volume(piece)
                    sent.add((part, piece))
            most, received = max(most, lacked / box_volume(need)), received + lacked
    sent_once = sum([box_volume(piece) for _, piece in sent])
    return most, max(received // sent_once, 1) if sent_once else 1


def from_clusters_bytes(run: LayerRun, slices: Sequence[TensorSlice], clusters: int) -> int:
    """Return the bytes of ``run``'s inputs that only other clusters have stored in DDR: the most of ``clusters``."""
    divided = [
        (name, slices[number].box, division)
        for name, held in run.reads.items() for number in held
        if slices[number].memory == DDR and (division := slices[number].divided) is not None
    ]  # fmt: skip
    most, tensors = 0, run.layer.graph.tensors
    for cluster in range(clusters) if divided else ():
        need, lacked_bytes = layer_needs(run.layer, run.cluster_box(cluster)), 0
        for name, box, division in divided:
            counted = needed_and_held(cluster % division.cores, need.get(name), [(box, division)])
            if counted is not None:
                needed, own = counted
                if name in run.loaded_together:
                    needed //= clusters_sharing(run.layer, name, run.whole_box, run.divided, clusters)
                lacked_bytes += tensors[name].bytes_of(max(needed - own, 0))
        most = max(most, lacked_bytes)
    return most
