"""Whatever the search draws, mutates or crosses computes what onnxruntime computes."""

import random
from collections.abc import Callable

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

import itertools

from dsascape.fusion import plan_from_groups
from dsascape.fusion.plan import Group
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.mutations import crossed, mutated
from dsascape.tuner.search.space import Space
from tests.tiers import examples
from tests.tuner.runs import NARROW, deviations
from tests.tuner.search.kernels import SMALL

pytestmark = pytest.mark.tvm


@pytest.mark.parametrize("naive", SMALL.values(), ids=SMALL.keys())
def test_programs_compute_the_right_values(naive: Callable[[], NaiveProgram]) -> None:
    own, rng = naive(), random.Random(11)
    space = Space(own, SearchMachine.of_cpu(NARROW, "fp32"))
    graph = own.layer.graph
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    programs = [space.draw(rng) for _ in range(examples(4))]
    programs += [each for one in programs if (each := mutated(space, one.steps, rng)) is not None]
    programs += [
        each
        for one, other in itertools.pairwise(programs)
        if (each := crossed(space, one.steps, other.steps, rng)) is not None
    ]
    for program in dict.fromkeys(program.steps for program in programs):
        assert max(deviations(plan, {0: program}).values()) <= KERNEL_TOLERANCE
