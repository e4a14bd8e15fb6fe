"""Searches by reuse: the plan's order is kept, a killed run goes on, shapes become programs and are read back."""

import math
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import kernel_by_kernel
from dsascape.scheduler.gpu.view import GpuView
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.database import DATABASE, Candidates, DatabaseError, Record
from dsascape.tuner.search.evolution import EvolutionOptions
from dsascape.tuner.search.grid_space import GridSpace
from dsascape.tuner.search.kinds.gpu import tasks_of
from dsascape.tuner.search.objectives import TotalLatency
from dsascape.tuner.search.reuse.grids import ReusableGrid, sketch_kinds
from dsascape.tuner.search.reuse.hierarchical import Hierarchical
from dsascape.tuner.search.reuse.kernels import graph_of
from dsascape.tuner.search.reuse.nests import operator_of
from dsascape.tuner.search.reuse.operators import FeatureRatios, Operator, ReuseError
from dsascape.tuner.search.reuse.plan import plan_json, read_plan
from dsascape.tuner.search.reuse_search import ReuseSearch, chain_of, reuse_json
from dsascape.tuner.search.runners import Answer
from dsascape.tuner.search.simulated_grids import SimulatedGrids
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.tasks import Task
from dsascape.tuner.search.tuners import SearchOptions
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net
from tests.tuner.search import kernels

P100 = GpuView(load_hardware("p100", Gpu), "fp32")
MACHINE = SearchMachine.of_gpu(P100)
OPTIONS = SearchOptions(tuner="eto", trials=112, unit=16, evolution=EvolutionOptions(population=16, generations=1))


def tasks_in(graph: Graph) -> tuple[Task, ...]:
    schedule = kernel_by_kernel(fixed_pattern_plan(graph), GpuCosts(P100, Analysis(graph)))
    return tasks_of(schedule, P100)


def network() -> Graph:
    """Return four convolutions, of which neither the third nor the fourth dominates the other, and a pooling."""
    net = Net()
    x = net.relu(net.conv(net.input(1, 16, 16, 16), 32, 1))
    x = net.relu(net.conv(x, 48, 1))
    y = net.relu(net.conv(x, 24, 1))
    x = net.pool(y, 2, 2)
    return net.graph(net.relu(net.conv(x, 96, 1)), dtype="fp32")


def bridge(operator: Operator) -> Task:
    (task,) = tasks_in(graph_of(operator).with_dtype("fp32"))
    return task


class Counting:
    """A simulated runner that keeps the programs it is asked for, and is interrupted after some."""

    is_repeatable = True

    def __init__(self, most: float = math.inf) -> None:
        self.asked: list[tuple[str, Program]] = []
        self._runner, self._most = SimulatedGrids(P100), most

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            if len(self.asked) >= self._most:
                raise KeyboardInterrupt
            self.asked.append((task.key, program))
            yield from self._runner.answers(task, [program])

    def close(self) -> None:
        """Do nothing."""


def searched(folder: Path, runner: Counting, options: SearchOptions = OPTIONS) -> tuple[ReuseSearch, list[Record]]:
    own = tasks_in(network())
    weights = [{number: task.weight for number, task in enumerate(own)}]
    folder.mkdir(exist_ok=True)
    candidates = Candidates(folder, "p100", "test")
    search = ReuseSearch(own, weights, runner, candidates, TotalLatency(), options, bridge)
    for _ in search.run():
        pass
    return search, list(candidates.records())


def told(records: Sequence[Record]) -> list[tuple[object, ...]]:
    return [(each.task, each.unit, each.steps, each.answer) for each in records]


@dataclass(frozen=True)
class Whole:
    """A search that nothing interrupted."""

    search: ReuseSearch
    records: list[Record]
    asked: int
    folder: Path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    search, records = searched(folder, runner := Counting())
    return Whole(search, records, len(runner.asked), folder)


def test_what_reuses_comes_behind_what_it_reuses_and_takes_few_trials(whole: Whole) -> None:
    search, records = whole.search, whole.records
    first = {each.task.key: next(place for place, own in enumerate(records) if own.task == each.task.key and own.unit)
             for each in search.tasks if each.trials}  # fmt: skip
    assert first
    plan = search.plan
    assert plan is not None
    assert len(plan.from_nothing) < len(plan.tunings)
    assert read_plan(plan_json(plan)) == plan
    assert search.trials <= OPTIONS.trials
    assert all(each.best is not None for each in search.tasks)


def test_the_heaviest_task_comes_behind_nothing_but_what_it_reuses(whole: Whole) -> None:
    search, plan = whole.search, whole.search.plan
    assert plan is not None
    sources = {
        each.operator: None if each.reuses is None else plan.tunings[each.reuses].operator for each in plan.tunings
    }
    weighed_s = {each.task.key: (each.before.seconds or 0.0) * each.task.weight for each in search.tasks if each.before}
    heaviest = max(search.tasks, key=lambda each: weighed_s[each.task.key])
    order = list(dict.fromkeys([each.task for each in whole.records if each.unit]))
    chain = chain_of(operator_of(heaviest.task.naive, lambda _: heaviest.space.reusable().kinds), sources)
    assert order.index(heaviest.task.key) == len(chain) - 1


def test_a_chain_begins_with_what_is_tuned_from_nothing(whole: Whole) -> None:
    one, two, three = whole.search.operators[:3]
    assert chain_of(three, {one: None, two: one, three: two}) == [one, two, three]
    assert chain_of(one, {one: None, two: one, three: two}) == [one]


def test_a_killed_run_goes_on_where_it_stopped(whole: Whole, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path, Counting(whole.asked // 2))
    rest = Counting()
    _, again = searched(tmp_path, rest)
    assert told(again) == told(whole.records)
    assert 0 < len(rest.asked) < whole.asked
    _, third = searched(tmp_path, idle := Counting())
    assert told(third) == told(whole.records)
    per_task = Counter([task for task, _ in idle.asked])
    assert max(per_task.values()) <= 2, "the built-in choice and the fastest program are looked at again"


def test_selective_tuning_tries_the_fastest_programs_of_a_group_as_they_are(tmp_path: Path) -> None:
    """Three at once, until one runs: a member takes no more than a few trials, one operator of a group many."""
    search, _ = searched(tmp_path, Counting(), replace(OPTIONS, tuner="selective"))
    assert search.plan is None
    own = {operator: sum([each.trials for each in search.tasks if each.task.name == operator.name])
           for operator in search.operators}  # fmt: skip
    assert sorted([number for group in search.groups for number in group.members]) == list(range(len(own)))
    trials = [own[search.operators[group.tuned]] for group in search.groups]
    others = [
        own[search.operators[number]] for group in search.groups for number in group.members if number != group.tuned
    ]
    assert others
    assert max(others) <= 3 < min(trials)
    assert {"groups"} == set(reuse_json(search))


@pytest.mark.parametrize("which", ["min(seconds)", "max(seconds)"])
def test_a_stored_time_that_is_another_one_is_refused(whole: Whole, which: str, tmp_path: Path) -> None:
    """The least time of a task, or its longest one, made an eleventh of what it was."""
    shutil.copytree(whole.folder, tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy" / DATABASE)) as connection, connection:
        (place, seconds), *_ = connection.execute(
            f"SELECT id, {which} FROM candidates WHERE unit > 0 AND seconds IS NOT NULL GROUP BY task ORDER BY id"
        )
        connection.execute("UPDATE candidates SET seconds = ? WHERE id = ?", (seconds * 0.09, place))
    with pytest.raises(DatabaseError, match="where the machine model has"):
        searched(tmp_path / "copy", Counting())


def test_no_program_is_tried_twice(whole: Whole) -> None:
    assert len({(each.task, each.steps, each.unit == 0) for each in whole.records}) == len(whole.records)


@pytest.mark.parametrize("seed", range(4))
def test_shapes_become_the_program_that_has_them(seed: int) -> None:
    naive = kernels.matmul_relu(48, 64, 96)
    space, rng = GridSpace(naive, MACHINE), random.Random(seed)
    grid = ReusableGrid(space)
    found = 0
    for _ in range(12):
        program = space.draw(rng)
        shapes, carried = grid.shapes(program.steps), grid.carried(program.steps)
        is_even = all(size % own == 0 for size, own in zip(grid.nest.space, shapes.block, strict=True))
        if not is_even or any(own % part for own, part in zip(shapes.block, shapes.thread, strict=True)):
            continue
        again = grid.program(shapes, carried)
        assert again is not None
        assert (grid.shapes(again.steps), grid.features(again.steps)) == (shapes, grid.features(program.steps))
        assert grid.carried(again.steps) == carried
        found += 1
    assert found


def test_reuse_comes_near_a_search_from_nothing_with_a_few_programs() -> None:
    """A convolution of 256 channels from one of 512: 40 trials at most, 80 % of the speed of the best of 150."""
    def own(channels: int) -> GridSpace:
        net = Net()
        return GridSpace(kernels.naive(net, net.relu(net.conv(net.input(1, channels, 14, 14), 64, 1))), MACHINE)

    def times(space: GridSpace, programs: Sequence[Program]) -> dict[Program, float]:
        answers = SimulatedGrids(P100).answers(Task("", space.naive, MACHINE, 1, (), 1), programs)
        return {one: each.seconds for one, each in zip(programs, answers, strict=True) if each.seconds is not None}

    small, large = own(256), own(512)
    best = {}
    for space in (small, large):
        drawn = times(space, [space.draw(random.Random(number)) for number in range(150)])
        best[space] = min(drawn, key=drawn.__getitem__)
    tried: dict[Program, float] = {}

    def fastest(programs: Sequence[Program]) -> Program | None:
        tried.update(times(small, [each for each in programs if each not in tried]))
        return min([each for each in programs if each in tried], key=tried.__getitem__, default=None)

    grid, reused = ReusableGrid(small), ReusableGrid(large)
    steps = best[large].steps
    carried = reused.carried(steps)
    kinds = sketch_kinds(small)
    assert kinds == sketch_kinds(large)
    ratios = FeatureRatios.of(*[operator_of(each.naive, lambda _: kinds) for each in (small, large)])
    search = Hierarchical(grid.nest, reused.features(steps), ratios, grid.shapes_of_space(carried))
    found = search.search(lambda shapes: grid.program(shapes, carried), fastest)
    assert found is not None
    assert len(tried) <= 40
    assert tried[found] <= times(small, [best[small]])[best[small]] / 0.8


def test_a_kernel_of_several_products_is_tuned_from_nothing() -> None:
    with pytest.raises(ReuseError, match="other dimensions than its result"):
        ReusableGrid(GridSpace(kernels.pair_behind(), MACHINE))
