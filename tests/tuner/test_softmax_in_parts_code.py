"""Code of attention with running statistics computes what onnxruntime does, in full and inside of masks."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion.plan import Group, plan_from_groups
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles, UpstreamTiles
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph
from dsascape.workloads.bounded import graph_with_bounded_nests
from dsascape.workloads.executable import executable
from tests.tuner.runs import outcomes
from tests.tuner.test_bounded_code import window
from tests.workloads.test_masked_attention import written_out

pytestmark = pytest.mark.tvm

FORMS: dict[str, Callable[[], Graph]] = {
    "in full": lambda: written_out(30, "added", kept=np.ones((30, 30), bool)),
    "causal": lambda: written_out(30, "where"),
    "a window narrower than a step": lambda: window(30, 3),
    "a window wider than a step": lambda: window(30, 14),
}
ROWS = UpstreamTiles((0, 1, 2, 3), (1, 1, 1, 1), 3)
TILES = {
    "a tile of rows, a step of scores": LoopTiles(
        (1, 1, 10, 4), (0, 1, 2, 3), 2, (1, 1, 5, 4), 3, 6, (ROWS, UpstreamTiles((0, 1, 2, 3), (1, 1, 5, 3), 3)), True
    ),
    "rows that do not divide, one register tile of scores": LoopTiles(
        (1, 1, 8, 4), (3, 0, 1, 2), 3, (1, 1, 8, 4), 3, 10, (ROWS, UpstreamTiles((3, 0, 1, 2), (1, 1, 8, 10), 3)), True
    ),
    "a last step of 6 keys": LoopTiles(
        (1, 1, 10, 4), (0, 1, 2, 3), 2, (1, 1, 5, 4), 3, 8, (ROWS, UpstreamTiles((0, 1, 2, 3), (1, 1, 5, 4), 3)), True
    ),
    "a last step of 2 keys, rows that do not divide, steps that are no whole vectors": LoopTiles(
        (1, 1, 8, 4), (0, 1, 2, 3), 2, (1, 1, 8, 4), 3, 14, (ROWS, UpstreamTiles((0, 1, 2, 3), (1, 1, 8, 8), 3)), True
    ),
    "rows from both ends in turn, outermost": LoopTiles(
        (1, 1, 6, 4), (2, 0, 1, 3), 1, (1, 1, 6, 4), 3, 8, (ROWS, UpstreamTiles((0, 1, 2, 3), (1, 1, 6, 4), 3)), True
    ),
    "rows from both ends in turn, of each head": LoopTiles(
        (1, 1, 8, 4), (0, 1, 2, 3), 3, (1, 1, 8, 4), 3, None, (ROWS, UpstreamTiles((0, 1, 2, 3), (1, 1, 8, 4), 3))
    ),
}


FIRST, SECOND, SHORTER, SHORTEST, DEALT, FUSED = TILES


@pytest.mark.parametrize(
    ("form", "tiles"), [*[(form, tiles) for form in FORMS for tiles in (FIRST, SHORTER, SHORTEST)],
     ("causal", DEALT), ("causal", FUSED), ("a window wider than a step", DEALT), ("in full", SECOND),
     ("a window wider than a step", SECOND)]
)
def test_its_kernel_is_correct(form: str, tiles: str) -> None:
    graph = graph_with_bounded_nests(FORMS[form]())
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    found, refused = outcomes(plan, {0: TILES[tiles]}, executable(graph))

    assert refused == {}
    assert max(found.values()) <= KERNEL_TOLERANCE


def test_large_scores_that_rise_step_by_step_stay_finite() -> None:
    """Each key's scores are larger than all before them: every step corrects what was summed up by a tiny factor."""
    graph = written_out(30, "added", kept=np.ones((30, 30), bool))
    network = executable(graph)
    rising = np.broadcast_to(np.arange(30, dtype=np.float32) * 40, (30, 30))
    masks = {name: rising.reshape(each.shape).copy() for name, each in network.values.items() if each.size == 30 * 30}
    assert masks
    network = replace(network, values={**network.values, **masks})
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    found, refused = outcomes(plan, {0: TILES[FIRST]}, network)

    assert refused == {}
    assert max(found.values()) <= KERNEL_TOLERANCE
