"""A file rescaled to another batch equals the file that an exporter writes for that batch."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.workloads import Graph
from tests.tiers import examples
from tests.workloads.baked import BLOCKS, Block, baked
from tests.workloads.onnx_models import read

Facts = list[tuple[str, list[tuple[int, ...]], list[tuple[int, ...]], object]]


def facts(graph: Graph) -> Facts:
    """Return kind, operand shapes, result shapes and operations of every operator, whatever tensors are called.

    Without constants: one that an exporter wrote for one image is broadcast to several, and one that it wrote for
    several has them.
    """
    tensors = graph.tensors
    return [
        (
            op.kind,
            [tensors[name].shape for name in op.inputs if tensors[name].role != "weight"],
            [tensors[name].shape for name in op.outputs],
            op.operations,
        )
        for op in graph.ops
    ]


def same(blocks: Sequence[Block], exported: int, wanted: int) -> None:
    graph = read(baked(blocks, exported), batch=wanted)

    assert (graph.batch, graph.batch_dims) == (wanted, (("x", 0),))
    assert facts(graph) == facts(read(baked(blocks, wanted)))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)
@pytest.mark.parametrize(("exported", "wanted"), [(1, 3), (3, 1), (4, 6), (2, 1)])
def test_every_way_to_write_a_batch_down_follows(block: Block, exported: int, wanted: int) -> None:
    same([block], exported, wanted)


@given(
    blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=5),
    exported=st.integers(1, 6),
    wanted=st.integers(1, 9),
)
@settings(deadline=None, max_examples=examples(60))
def test_so_does_any_network_of_them(blocks: list[Block], exported: int, wanted: int) -> None:
    same(blocks, exported, wanted)


@given(blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=3), exported=st.integers(1, 4))
@settings(deadline=None, max_examples=examples(20))
def test_there_and_back_again(blocks: list[Block], exported: int) -> None:
    own = read(baked(blocks, exported))

    assert facts(own.with_batch(7).with_batch(exported)) == facts(own)
