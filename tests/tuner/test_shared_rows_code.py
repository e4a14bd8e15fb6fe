"""Code of one query for several heads that share keys computes what onnxruntime does, each row of keys read once."""

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion.plan import Group, plan_from_groups
from dsascape.scheduler.cpu.search.tiling import candidates
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from tests.scheduler.cpu.test_rows_between_products import layer
from tests.scheduler.cpu.test_shared_rows_of_operands import decode
from tests.scheduler.kernels.drawn import NARROW
from tests.tuner.runs import outcomes, tiles_of

pytestmark = pytest.mark.tvm


@pytest.mark.parametrize("fused", [2, 3, 4])
def test_its_kernel_is_correct(fused: int) -> None:
    """Scores alone, with their scaling, and with the softmax behind it, too."""
    graph = decode(48)
    rest = range(fused, len(graph.ops))
    plan = plan_from_groups(graph, [Group(tuple(range(fused))), *[Group((op,)) for op in rest]])
    tiles = candidates(layer(graph, fused), "fp32", NARROW)[-1]
    found, refused = outcomes(plan, {**tiles_of(plan), 0: tiles})

    assert tiles.order[-1] == 2
    assert refused == {}
    assert max(found.values()) <= KERNEL_TOLERANCE
