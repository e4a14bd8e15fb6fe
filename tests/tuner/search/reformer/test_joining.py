"""JOIN: what is composed is legal; only intensive fusion computes one complex operator inside of another."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import CacheRead, Steps, Tile
from dsascape.tuner.search.genes import step_of
from dsascape.tuner.search.joint import complex_stages, is_joint
from dsascape.tuner.search.kinds.table import space_of, tuned_kind
from dsascape.tuner.search.mutations import crossed
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.reformer.apart import kept_apart
from dsascape.tuner.search.reformer.composing import carried_over
from dsascape.tuner.search.reformer.splitting import Split, splits_of
from dsascape.tuner.search.searching import Searching
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.space import NoProgramError, Program
from dsascape.tuner.search.tuners import TUNERS
from tests.graphs import Net
from tests.tiers import examples
from tests.tuner.search.kernels import naive, pair_behind
from tests.tuner.search.reformer.pairs import OPTIONS, PAIRS, VIEW, alike, split_of

APART = SpaceOptions(intensive=False)
KERNELS = pytest.mark.parametrize("own", PAIRS.values(), ids=PAIRS.keys())


def drawn(split: Split, rng: random.Random) -> list[Steps]:
    """Return a program of each mini sub-graph, with the names of the kernel's stages."""
    return [space_of(mini.task.naive, mini.task.machine).draw(rng).steps for mini in split.minis]


@KERNELS
def test_what_is_composed_is_legal_and_has_the_tiles_of_the_mini_sub_graphs(own: Callable[[], NaiveProgram]) -> None:
    """Nothing is computed inside of another one's tiles, so that no size has to follow from another place."""
    split, rng = split_of(own()), random.Random(5)
    space, stages = space_of(split.whole.naive, split.whole.machine), complex_stages(split.whole.naive)
    for _ in range(examples(8, few=4)):
        parts = drawn(split, rng)
        program = space.composed(parts)
        assert program is not None
        assert not is_joint(program.loops, stages)
        for steps in parts:
            for step in steps:
                if isinstance(step, Tile):
                    assert step_of(program.steps, step.stage, Tile) == step


@KERNELS
def test_a_composed_program_has_a_cost(own: Callable[[], NaiveProgram]) -> None:
    split, rng = split_of(own()), random.Random(7)
    program = space_of(split.whole.naive, split.whole.machine).composed(drawn(split, rng))
    assert program is not None
    (answer,) = SimulatedRunner(VIEW, "fp32").answers(split.whole, [program])
    assert answer.reason == ""


def test_steps_of_an_equal_mini_sub_graph_carry_over_by_number() -> None:
    _, one, other = split_of(alike()).minis
    steps = space_of(one.task.naive, one.task.machine).draw(random.Random(2)).steps
    moved = carried_over(one.task.naive, other.task.naive, steps)
    assert {step.stage.split(".")[0] for step in steps} <= {"conv2", "relu2", "relu1"}
    assert {step.stage.split(".")[0] for step in moved} <= {"conv3", "relu3", "relu2"}
    assert space_of(other.task.naive, other.task.machine).built(moved) is not None


def test_two_copies_of_one_tensor_have_names_of_their_own() -> None:
    """Two depthwise convolutions of one input, added up: each copies it with padding."""
    net = Net()
    x = net.input(1, 8, 9, 9)
    split = split_of(naive(net, net.add(net.relu(net.depthwise(x)), net.relu(net.depthwise(x, 5)))))
    space, rng = space_of(split.whole.naive, split.whole.machine), random.Random(0)
    several = 0
    for _ in range(20):
        program = space.composed(drawn(split, rng))
        assert program is not None
        copies = [step.stage for step in program.steps if isinstance(step, CacheRead)]
        assert len(set(copies)) == len(copies)
        several += len(copies) > 1
    assert several


def test_other_places_of_what_was_composed_hold_joint_ones() -> None:
    split, rng = split_of(pair_behind()), random.Random(1)
    stages = complex_stages(split.whole.naive)
    found = {True: 0, False: 0}
    for options in (SpaceOptions(), APART):
        space = space_of(split.whole.naive, split.whole.machine, options)
        for _ in range(6):
            program = space.composed(drawn(split, rng))
            assert program is not None
            near = list(space.placed_inside(program.steps))
            assert program.steps not in [each.steps for each in near]
            found[options.intensive] += sum([is_joint(each.loops, stages) for each in near])
    assert found[True] > 0
    assert found[False] == 0


def test_a_search_tries_joint_places_of_what_was_composed_first() -> None:
    """No mini sub-graph has such a program, so that a cost model would not choose them among what is near."""
    split = split_of(pair_behind(image=28))
    searching = Searching(split.whole, SpaceOptions(), None, has_builtin=False)
    program = searching.space.composed([mini.task.builtin for mini in split.minis])
    assert program is not None
    searching.initial = (program,)
    near = searching.space.placed_inside(program.steps)
    joint = {str(each.loops) for each in near if searching.space.is_joint(each)}
    first = TUNERS["ago"](searching, 8, random.Random(0), OPTIONS)

    assert first[0] == program
    assert not searching.space.is_joint(program)
    assert {str(each.loops) for each in first[1:5]} & joint
    assert len(joint & {str(each.loops) for each in first}) >= min(len(joint), 4)


def test_a_search_without_the_built_in_choice_draws_its_first_programs() -> None:
    split = split_of(pair_behind(image=28))
    searching = Searching(split.whole, SpaceOptions(), None, has_builtin=False)
    first = TUNERS["ago"](searching, 8, random.Random(0), OPTIONS)
    others = TUNERS["ago"](searching, 8, random.Random(0), replace(OPTIONS, builtin=True))

    assert first == TUNERS["random"](searching, 8, random.Random(0), OPTIONS)
    assert others != first


@KERNELS
def test_without_intensive_fusion_no_program_has_a_complex_operator_inside_of_another(
    own: Callable[[], NaiveProgram],
) -> None:
    split, rng = split_of(own()), random.Random(3)
    space, stages = space_of(split.whole.naive, split.whole.machine, APART), complex_stages(split.whole.naive)
    found: list[Program] = [space.draw(rng) for _ in range(6)]
    found += [each for one in found if (each := space.mutated(one.steps, rng)) is not None]
    found += [each for one in found[:6] if (each := crossed(space, one.steps, found[0].steps, rng)) is not None]
    (apart,) = kept_apart([split], APART)
    for program in (*found, apart.whole.program()):
        assert not is_joint(program.loops, stages)


def test_with_intensive_fusion_some_have() -> None:
    split, rng = split_of(pair_behind()), random.Random(3)
    space, stages = space_of(split.whole.naive, split.whole.machine), complex_stages(split.whole.naive)
    assert any(is_joint(space.draw(rng).loops, stages) for _ in range(40))


class TestOnGpus:
    VIEW = GpuView(load_hardware("p100", Gpu), "fp32")

    def split(self, own: NaiveProgram) -> Split:
        costs = GpuCosts(self.VIEW, own.layer.analysis)
        task = tuned_kind("gpu").task(own.layer, costs)
        assert task is not None
        (found,) = splits_of([task], {task.key: costs})
        return found

    @pytest.mark.parametrize("name", ["depthwise, pointwise", "pointwise, depthwise", "two pointwise", "two depthwise"])
    def test_what_is_composed_is_one_legal_grid_with_the_sink_as_it_was_tuned(self, name: str) -> None:
        split, rng = self.split(PAIRS[name]()), random.Random(4)
        space = space_of(split.whole.naive, split.whole.machine)
        parts = [space_of(mini.task.naive, mini.task.machine).draw(rng).steps for mini in split.minis]
        program = space.composed(parts)
        assert program is not None
        assert step_of(program.steps, split.whole.name, Tile) == step_of(parts[-1], split.whole.name, Tile)
        assert list(space.placed_inside(program.steps)) == []

    def test_operators_of_one_grid_are_not_kept_apart(self) -> None:
        with pytest.raises(NoProgramError, match="cannot be computed apart in one GPU kernel"):
            kept_apart([self.split(pair_behind())], APART)


def test_a_kernel_that_stays_whole_has_no_built_in_choice_apart() -> None:
    split = replace(split_of(pair_behind()), minis=(), reason="for a test")
    with pytest.raises(NoProgramError, match="cannot be computed apart"):
        kept_apart([split], APART)
