"""The compiled form of a loop nest answers as the nest itself does."""

import random

import pytest

from dsascape.scheduler.kernels.compiled import CompiledAccess, CompiledNest, first_alike
from dsascape.workloads import load_network
from tests.graphs import Net


@pytest.mark.parametrize("name", ["mobilenet-v2", "bert-tiny", "dcgan", "mobilevit"])
def test_compiled_nests_agree_with_their_loop_nests_on_random_tiles(name: str) -> None:
    draw = random.Random(name)
    for op in load_network(name).ops:
        for nest in op.nests:
            compiled = CompiledNest(nest, internal=False)
            tile = tuple(draw.randint(1, size) for size in nest.write.shape)
            extents = nest.loop_extents_for(tile)
            assert compiled.loop_extents(tile) == extents
            assert compiled.operations(extents) == nest.operations(extents)
            assert [CompiledAccess(r).extents(extents) for r in nest.reads] == [r.extents(extents) for r in nest.reads]


def test_parts_of_a_concatenation_are_alike_if_they_are_as_large() -> None:
    net = Net()
    parts = [net.input(1, channels, 4, 4) for channels in (8, 2, 2, 8, 2)]
    (op,) = net.graph(net.concat(*parts, axis=1)).ops

    assert first_alike(op.nests) == (0, 1, 1, 0, 1)


@pytest.mark.parametrize("name", ["squeezenet", "dlrm"])
def test_nests_that_are_alike_do_the_same_for_every_tile(name: str) -> None:
    draw = random.Random(name)
    for op in load_network(name).ops:
        compiled = [CompiledNest(nest, internal=False) for nest in op.nests]
        for each, number in zip(compiled, first_alike(op.nests), strict=True):
            first = compiled[number]
            tile = tuple(draw.randint(1, size) for size in each.nest.write.shape)
            extents = each.loop_extents(tile)
            assert extents == first.loop_extents(tile)
            assert each.operations(extents) == first.operations(extents)
            assert [r.extents(extents) for r in each.reads] == [r.extents(extents) for r in first.reads]
