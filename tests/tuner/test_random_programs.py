"""Whatever is legal compiles and computes the right values: steps drawn at random for kernels with an anchor.

That loops are right is the interpreter's to say (`tests/scheduler/kernels/test_interpreter.py`); code is tried here.
"""


import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsascape.scheduler.cpu.schedule.steps import Chosen
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.fusion import plan_from_groups
from dsascape.fusion.plan import Group
from dsascape.scheduler.cpu.schedule.steps import cpu_limits, steps_of
from dsascape.scheduler.cpu.schedule.tiles import LoopTiles
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.illegal import illegal
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.scheduler.kernels.drawn import LANES, NARROW, anchored, changed
from tests.tiers import examples
from tests.tuner.runs import deviations

pytestmark = pytest.mark.tvm


@settings(max_examples=examples(60, few=5), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=anchored(), data=st.data())
def test_whatever_is_legal_is_right(drawn: tuple[Graph, LoopTiles], data: st.DataObject) -> None:
    graph, tiles = drawn
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    steps = data.draw(changed(steps_of(layer, tiles, LANES), tiles, layer.sink.name))
    try:
        reasons = illegal(loop_program(NaiveProgram(layer), steps), cpu_limits(NARROW))
    except StepError:
        return
    if not reasons:
        assert max(deviations(plan, {0: Chosen((steps,))}).values()) <= KERNEL_TOLERANCE
