"""The compiled form of a loop nest answers as the nest itself does."""

import random

import pytest

from scheduler.kernels.compiled import CompiledAccess, CompiledNest
from workloads import load_network


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
