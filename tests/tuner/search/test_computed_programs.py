"""Whatever the search draws, mutates, crosses or composes computes what onnxruntime computes."""

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
from dsascape.tuner.search.hints import Hint, InnermostHint
from dsascape.tuner.search.kinds.cpu import CpuSpace
from dsascape.tuner.search.kinds.kind import KernelSpace
from dsascape.tuner.search.kinds.table import space_of
from dsascape.tuner.search.mutations import crossed
from dsascape.tuner.search.options import SpaceOptions
from tests.scheduler.kernels.drawn import NARROW
from tests.tiers import examples
from tests.tuner.runs import deviations
from tests.tuner.search.kernels import SMALL
from tests.tuner.search.reformer.pairs import PAIRS, split_of
from tests.tuner.search.test_space import CAMPAIGN

pytestmark = pytest.mark.tvm


@pytest.mark.parametrize("name", SMALL)
def test_programs_compute_the_right_values(name: str) -> None:
    """At night, of each kernel of the campaign, eighteen programs with as many mutants and 35 children."""
    space = CpuSpace(SMALL[name](), SearchMachine.of_cpu(NARROW, "fp32"))
    _check_family(space, examples(18 if name in CAMPAIGN else 4, few=1))


HINTS = {
    "matmul": Hint("matmul1", (InnermostHint(0, size=5), InnermostHint(1, multiple=16)), whole_reduction=True),
    "convolution": Hint("conv1", (InnermostHint(1, multiple=16), InnermostHint(3, most=2)), unroll=0),
    "softmax": Hint("softmax1:*", (), unroll=16, partial_sums=True),
    "fused pair": Hint("conv2", (InnermostHint(1, size=8), InnermostHint(2, size=4)), whole_reduction=True),
}


@pytest.mark.parametrize("name", HINTS)
def test_programs_that_obey_hints_compute_the_right_values(name: str) -> None:
    """Tiles stick out as far as the hints need it: sixteen of ten channels, five of twelve rows."""
    machine = SearchMachine.of_cpu(NARROW, "fp32")
    _check_family(CpuSpace(SMALL[name](), machine, SpaceOptions(hints=(HINTS[name],))), examples(3, few=1))


def _check_family(space: KernelSpace, draws: int) -> None:
    """Compute programs drawn, a mutant of each, and children of neighbours among all of these."""
    graph, rng = space.naive.layer.graph, random.Random(11)
    plan = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    programs = [space.draw(rng) for _ in range(draws)]
    programs += [each for one in programs if (each := space.mutated(one.steps, rng)) is not None]
    programs += [
        each
        for one, other in itertools.pairwise(programs)
        if (each := crossed(space, one.steps, other.steps, rng)) is not None
    ]
    for program in dict.fromkeys(program.steps for program in programs):
        assert max(deviations(plan, {0: program}).values()) <= KERNEL_TOLERANCE


@pytest.mark.sampled(3)
@pytest.mark.parametrize("naive", PAIRS.values(), ids=PAIRS.keys())
def test_what_is_composed_of_mini_sub_graphs_computes_what_these_compute(naive: Callable[[], NaiveProgram]) -> None:
    """Programs of two kernels and of both in one, as composed and with one stage in another place."""
    split, rng = split_of(naive(), NARROW), random.Random(13)
    space, graph = space_of(split.whole.naive, split.whole.machine), split.whole.naive.layer.graph
    parts = [space_of(mini.task.naive, mini.task.machine).draw(rng).steps for mini in split.minis]
    apart = plan_from_groups(graph, [Group(mini.task.naive.layer.ops) for mini in split.minis])
    assert max(deviations(apart, dict(enumerate(parts))).values()) <= KERNEL_TOLERANCE
    program = space.composed(parts)
    assert program is not None
    near = list(space.placed_inside(program.steps))
    together = plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])
    for each in (program, *rng.sample(near, min(len(near), examples(4, few=1)))):
        assert max(deviations(together, {0: each.steps}).values()) <= KERNEL_TOLERANCE
