"""With unbounded local buffers and no start-ups, networks that are bound by DDR take exactly DDR's time.

So the overlap of loads and computation, of layers and of units is real. The bound counts products at the peak rate of
the matrix engines, and what has to cross DDR: each cluster's weights, images and results once. Of embedding tables, of
which only some rows are looked up, it counts nothing.
"""

import pytest

from dsascape.hw_models import ClusteredDsa, load_hardware, with_values
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler import make_policy
from dsascape.workloads import Graph, load_network
from tests.scheduler.runs import run_of

WITHIN = 1.05
FREE = {
    "local_buffer.capacity": "256 MiB",
    "dma.load.startup": "0 ps",
    "dma.store.startup": "0 ps",
    "on_chip_path.startup": "0 ps",
    "launch": "0 ps",
}
EMBEDDING_ROWS = 512
"""Rows from which on a table that is looked up counts as an embedding."""


def ideal_machine() -> ClusteredDsa:
    spec = with_values(load_hardware("stcp920"), FREE)
    assert isinstance(spec, ClusteredDsa)
    return spec


def compulsory_bytes(graph: Graph) -> int:
    """Return what one cluster moves at least between DDR and itself."""
    looked_up = {op.inputs[0] for op in graph.ops if op.kind == "Gather"}
    tables = {name for name in looked_up if graph.tensors[name].shape[:1] >= (EMBEDDING_ROWS,)}
    weights = {name for op in graph.ops for name in op.inputs if graph.tensors[name].role == "weight"} - tables
    return sum(graph.tensors[name].size_bytes for name in (*weights, *graph.inputs, *graph.outputs))


@pytest.mark.parametrize(
    ("network", "images", "limit"),
    [
        ("resnet50", 1, "ddr"),
        ("resnet50", 4, "ddr"),
        ("mobilenet-v2", 1, "ddr"),
        ("bert-base-128", 1, "ddr"),
        ("bert-base-128", 4, "ddr"),
    ],
)
def test_a_network_takes_what_its_bound_says_and_little_more(network: str, images: int, limit: str) -> None:
    spec = ideal_machine()
    graph = load_network(network, batch=images).with_dtype("fp16")
    result = run_of(make_policy("graphturbo"), graph, spec).result
    bounds_s = {
        "ddr": compulsory_bytes(graph) * spec.clusters / spec.ddr.sustained_bytes_per_s,
        "matrix": graph.operations.macs * spec.clusters / spec.peak_macs_per_s("fp16"),
    }

    assert max(bounds_s, key=lambda name: bounds_s[name]) == limit
    assert 1.0 <= result.makespan_ps / PS_PER_S / max(bounds_s.values()) <= WITHIN


def test_where_the_matrix_engines_set_the_pace_they_hardly_ever_wait() -> None:
    spec = ideal_machine()
    graph = load_network("resnet50", batch=16).with_dtype("fp16")

    result = run_of(make_policy("graphturbo"), graph, spec).result

    assert result.utilisation["matrix"] >= 1 / WITHIN
