"""One query of several heads that share keys, on a CPU: each row of keys is read once for all of them.

Keys lie row by row, so that vectors go along a row of keys and of the query: no register tile holds the scores.
"""

import pytest
from onnx import helper

from dsascape import simulate
from dsascape.scheduler.cpu.cost.tiled_kernel import kernel_of
from dsascape.scheduler.cpu.schedule.steps import cpu_limits, program_of
from dsascape.scheduler.cpu.search.tiling import candidates
from dsascape.scheduler.cpu.structure.shared_operands import shared_dims
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.scheduler.kernels.loops.nodes import SUMS, statements_of
from dsascape.workloads import Graph
from tests.scheduler.cpu.test_rows_between_products import VIEW, layer
from tests.workloads.test_masked_attention import network

LANES = VIEW.lanes("fp32")
HEADS, SHARE, WIDTH = 8, 4, 128


def decode(keys: int, share: int = SHARE) -> Graph:
    """Return the attention of one token to ``keys`` keys: eight of their heads, each for ``share`` heads of queries."""
    shared = [1, HEADS, keys, WIDTH]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    return network([node], {"q": [1, HEADS * share, 1, WIDTH], "k": shared, "v": shared}, {})


def scores(keys: int, *, scaled: bool = False) -> Layer:
    return layer(decode(keys), 3 if scaled else 2)


def test_heads_that_share_keys_are_told_from_those_that_do_not() -> None:
    """Scores are [batch, key heads, heads of each, queries, keys]."""
    assert shared_dims(scores(64)) == (2,)
    assert shared_dims(layer(decode(64, 1), 1)) == ()


@pytest.mark.parametrize("scaled", [False, True])
def test_a_row_of_keys_is_used_by_all_heads_before_the_next(scaled: bool) -> None:
    whole = scores(4096, scaled=scaled)
    apart, together = candidates(whole, "fp32", VIEW)
    lines = [
        kernel_of(whole, tiles, 1, "fp32", VIEW).traffic.passed(VIEW.paces[0].caches[-1][0], 1)[0].total
        for tiles in (apart, together)
    ]

    assert 3.6 < lines[0] / lines[1] < 4.1
    program = program_of(whole, together, LANES)
    assert illegal(program, cpu_limits(VIEW)) == ()
    around = next(loops for loops, each in statements_of(program.body) if each.stage.endswith(SUMS))
    assert [loop.name for loop in around[:3]] == ["i10" if scaled else "h0", "k0", "g0"]


@pytest.mark.parametrize("policy", ["unfused", "fixed-pattern", "ago"])
def test_a_cache_is_read_once_for_all_heads_that_share_it(policy: str) -> None:
    """Keys and values are 8 heads x 4,096 x 128 x 4 bytes each; scores stay in caches."""
    moved = simulate(decode(4096), "kirin990", policy, dtype="fp32").record.traffic_bytes["dram"]

    assert 32 << 20 < moved < 1.1 * (32 << 20)
