"""Searches over the tasks of a network: repeatable, resumed, and not stopped by candidates that fail."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Cpu, load_hardware
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.cpu.tuning import CpuTuning
from dsascape.scheduler.cpu.view import CpuView
from dsascape.tuner.search.database import BUILTIN, DATABASE, Candidates, DatabaseError, Record
from dsascape.tuner.search.evolution import EvolutionOptions
from dsascape.tuner.search.kinds.cpu import tasks_of
from dsascape.tuner.search.objectives import TotalLatency
from dsascape.tuner.search.options import LIMITED
from dsascape.tuner.search.runners import Answer, Runner
from dsascape.tuner.search.search import Search
from dsascape.tuner.search.simulated_loops import SimulatedRunner
from dsascape.tuner.search.space import Program
from dsascape.tuner.search.task_scheduler import SchedulerOptions
from dsascape.tuner.search.tasks import Task, joined
from dsascape.tuner.search.tuners import SearchOptions
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

VIEW = CpuView(load_hardware("epyc", Cpu), CpuTuning(threads=2, winograd=0))
SMALL = EvolutionOptions(population=12, generations=1)
OPTIONS = SearchOptions(trials=48, unit=8, evolution=SMALL)


def tasks() -> tuple[Task, ...]:
    net = Net()
    x = net.relu(net.conv(net.input(1, 16, 14, 14), 32, 3))
    x = net.relu(net.conv(net.relu(net.conv(x, 32, 3)), 32, 3))
    graph = net.graph(net.softmax(net.dense(net.flatten(net.global_pool(x)), 40)), dtype="fp32")
    schedule = kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(VIEW, Analysis(graph), "fp32"))
    return tasks_of(schedule, VIEW)


def search(
    folder: Path, options: SearchOptions = OPTIONS, runner: Runner | None = None, own: Sequence[Task] | None = None
) -> Search:
    found = tasks() if own is None else own
    weights = [{number: task.weight for number, task in enumerate(found)}]
    asked = SimulatedRunner(VIEW, "fp32") if runner is None else runner
    return Search(found, weights, asked, Candidates(folder, "epyc", "test"), TotalLatency(), options)


def stored(folder: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(folder / DATABASE) as connection:
        rows = connection.execute("SELECT task, unit, steps, seconds, reason, threads FROM candidates ORDER BY id")
        return rows.fetchall()


def test_equal_kernels_are_one_task_that_weighs_more() -> None:
    """Two of the three convolutions are alike."""
    own = tasks()
    assert sorted([task.weight for task in own]) == [1, 1, 1, 1, 2]
    assert len({task.key for task in own}) == len(own)
    assert [task.weight for task in joined([*own, *own])] == [2 * task.weight for task in own]


@pytest.mark.parametrize(
    ("network", "count"),
    [
        ("mobilenet-v2", 32), ("dcgan", 5), pytest.param("resnet50", 27, marks=pytest.mark.slow),
        pytest.param("resnet3d-18", 17, marks=pytest.mark.slow),
        pytest.param("bert-base-128", 13, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_networks_have_as_many_tasks_as_they_have_different_kernels(network: str, count: int) -> None:
    """By the rule with which TVM fuses; the paper counts 29 for its own ResNet-50."""
    graph = load_network(network).with_dtype("fp32")
    schedule = kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(VIEW, Analysis(graph), "fp32"))
    found = tasks_of(schedule, VIEW)
    assert len(found) == count
    assert sum([task.weight for task in found]) == len(schedule.runs)


VARIANTS = {
    "ansor": OPTIONS, "random": replace(OPTIONS, tuner="random"), "beam": replace(OPTIONS, tuner="beam"),
    "no fine tuning": replace(OPTIONS, fine_tuning=False), "limited": replace(OPTIONS, space=LIMITED),
    "no scheduler": replace(OPTIONS, scheduler=SchedulerOptions("round-robin")),
}  # fmt: skip


@pytest.mark.sampled(3, long=["beam"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_tuner_tries_as_many_as_asked_for_and_is_never_worse_than_the_built_in_choice(
    variant: str, tmp_path: Path
) -> None:
    own = search(tmp_path, VARIANTS[variant])
    units = list(own.run())
    assert own.trials == units[-1].trials == 48
    assert own.failed == 0
    builtin = [each.before.seconds for each in own.tasks if each.before and each.before.seconds]
    weights = [each.task.weight for each in own.tasks]
    assert own.latencies()[0] <= sum([one * times for one, times in zip(builtin, weights, strict=True)])
    assert [unit.latency_s for unit in units] == sorted([unit.latency_s for unit in units], reverse=True)


def test_with_few_trials_the_heaviest_tasks_get_them(tmp_path: Path) -> None:
    """Twenty trials of five tasks are units of eight, six and six: none for what takes least."""
    own = search(tmp_path, replace(OPTIONS, trials=20, tuner="random"))
    assert [unit.trials for unit in own.run()] == [8, 14, 20]
    before_s = [each.before.seconds if each.before is not None else None for each in own.tasks]
    weighed_s = [(seconds or 0.0) * each.task.weight for seconds, each in zip(before_s, own.tasks, strict=True)]
    tried = [number for number, each in enumerate(own.tasks) if each.trials]
    heaviest = sorted(range(len(own.tasks)), key=lambda number: -weighed_s[number])
    assert set(tried) == set(heaviest[: len(tried)])
    assert len(tried) < len(own.tasks)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a search that was not stopped."""
    folder = tmp_path_factory.mktemp("whole")
    list(search(folder).run())
    return folder


def test_same_seed_same_records(undisturbed: Path, tmp_path: Path) -> None:
    list(search(tmp_path).run())
    assert stored(tmp_path) == stored(undisturbed)


def test_a_second_run_goes_on_as_if_there_had_been_one(undisturbed: Path, tmp_path: Path) -> None:
    """The first run ends after three units; records are those of a run that was not stopped."""
    first = search(tmp_path).run()
    for _ in range(3):
        next(first)
    second = search(tmp_path)
    list(second.run())
    assert second.continued == 24
    assert stored(tmp_path) == stored(undisturbed)
    assert len(second.curve) == 6
    third = search(tmp_path)
    assert list(third.run()) == []
    assert third.trials == 48
    assert third.latencies() == second.latencies()


def _search_slowly(folder: str) -> None:
    for unit in search(Path(folder)).run():
        Path(folder, f"unit{unit.unit}").touch()
        time.sleep(0.2)


def test_a_killed_run_leaves_whole_units_and_is_continued(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_search_slowly, args=(str(tmp_path),))
    process.start()
    while not (tmp_path / "unit2").exists() and process.is_alive():
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    kept = Counter([row[1] for row in stored(tmp_path) if row[1] != BUILTIN])
    assert set(kept.values()) <= {8}
    second = search(tmp_path)
    list(second.run())
    assert second.trials == 48


class Refusing:
    """A runner on which nothing runs but the built-in choice of one task, perhaps."""

    is_repeatable = True

    def __init__(self, working: str = "") -> None:
        self.working = working

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            is_right = task.key == self.working
            yield Answer(1e-3 / len(program.steps) if is_right else None, "" if is_right else "its process ended")

    def close(self) -> None:
        pass


class Noisy:
    """A runner whose times are those of the machine model, but for one that is low by chance."""

    is_repeatable = False

    def __init__(self) -> None:
        self.model, self.asked = SimulatedRunner(VIEW, "fp32"), 0

    def answers(self, task: Task, programs: Sequence[Program]) -> Iterator[Answer]:
        for answer in self.model.answers(task, programs):
            self.asked += 1
            yield replace(answer, seconds=1e-12) if self.asked == 20 else answer

    def close(self) -> None:
        pass


def test_what_was_fast_by_chance_is_found_out_in_the_end(tmp_path: Path) -> None:
    found = search(tmp_path, replace(OPTIONS, tuner="random"), Noisy())
    list(found.run())
    assert all(each.is_confirmed for each in found.tasks)
    assert min([chosen.seconds for _, chosen in found.kernels()]) > 1e-9
    again = search(tmp_path, replace(OPTIONS, tuner="random"), Noisy())
    assert list(again.run()) == []
    assert again.latencies() == found.latencies()
    assert again.kernels() == found.kernels()


def test_a_task_whose_every_candidate_crashes_is_given_up(tmp_path: Path) -> None:
    own = tasks()[:3]
    found = search(tmp_path, replace(OPTIONS, trials=72), Refusing(own[0].key), own)
    list(found.run())
    trials = [each.trials for each in found.tasks]
    assert max(trials[1:]) <= 3 * 8
    assert trials[0] == 72 - sum(trials[1:])
    assert [key for key, _ in found.kernels()] == [own[0].key]


def test_nothing_works_and_the_search_ends(tmp_path: Path) -> None:
    found = search(tmp_path, replace(OPTIONS, trials=1000), Refusing(), tasks()[:2])
    list(found.run())
    assert found.failed == found.trials <= 2 * 3 * 8
    assert found.kernels() == []


def test_a_space_that_is_exhausted_ends_the_search(tmp_path: Path) -> None:
    net = Net()
    graph = net.graph(net.op("ReduceSum", [net.input(2, 2), net.integers(0, 1)], (), keepdims=0), dtype="fp32")
    schedule = kernel_by_kernel(fixed_pattern_plan(graph), CpuCosts(VIEW, Analysis(graph), "fp32"))
    found = search(tmp_path, replace(OPTIONS, trials=5000), own=tasks_of(schedule, VIEW))
    list(found.run())
    assert found.trials < 5000


def test_with_the_machine_model_as_a_prior_the_first_units_are_faster(tmp_path: Path) -> None:
    """Here it is the runner, too, and so is right: programs of the first units take less time, but for random ones."""
    own, found = tasks()[:3], {}
    for prior in (False, True):
        folder = tmp_path / str(prior)
        folder.mkdir()
        runner = SimulatedRunner(VIEW, "fp32")
        options = replace(OPTIONS, trials=8 * len(own), prior=prior, evolution=EvolutionOptions(24, 2))
        weights = [{number: task.weight for number, task in enumerate(own)}]
        each = Search(own, weights, runner, Candidates(folder, "epyc", "test"), TotalLatency(), options, runner)
        list(each.run())
        found[prior] = each
    rows = {prior: stored(tmp_path / str(prior)) for prior in found}
    spent = {
        prior: statistics.geometric_mean([row[3] for row in own_rows if isinstance(row[3], float)])
        for prior, own_rows in rows.items()
    }
    assert spent[True] < 0.8 * spent[False]
    assert {rows.shape[1] for rows in found[True].tasks[0].features([own[0].program()])} == {165}


def test_records_of_another_machine_are_left_alone(tmp_path: Path, undisturbed: Path) -> None:
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    other = Candidates(tmp_path, "kirin990", "test")
    assert list(other.records()) == []
    assert other.others() == len(stored(tmp_path))


@pytest.mark.parametrize("steps", ['[{"step": "No"}]', "7", "[" * 1000, "nothing"])
def test_a_damaged_record_is_named_and_nothing_is_tried(tmp_path: Path, steps: str) -> None:
    own = tasks()
    candidates = Candidates(tmp_path, "epyc", "test")
    candidates.add([Record(own[0].key, 1, steps, Answer(1e-9), 0.0)])
    with pytest.raises(DatabaseError, match=rf"{DATABASE}: is damaged: a candidate of task {own[0].key}"):
        list(search(tmp_path, own=own).run())
    assert len(stored(tmp_path)) == 1


@pytest.mark.parametrize("times", [0.5, 2.0, 1e-2])
def test_a_stored_time_that_the_machine_model_does_not_have_is_named(
    tmp_path: Path, times: float, undisturbed: Path
) -> None:
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("UPDATE candidates SET seconds = seconds * ? WHERE unit = 0", (times,))
        connection.commit()
    with pytest.raises(DatabaseError, match="where the machine model has"):
        list(search(tmp_path).run())


def test_a_file_that_is_no_database_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("nothing of the kind" * 100)
    with pytest.raises(DatabaseError, match=DATABASE):
        Candidates(tmp_path, "epyc", "test")


def test_a_full_disk_is_a_message(tmp_path: Path) -> None:
    candidates = Candidates(tmp_path, "epyc", "test")
    candidates._connection.execute("PRAGMA max_page_count = 8")
    with pytest.raises(DatabaseError, match="full"):
        candidates.add([Record("task", 1, "[]" * 10_000, Answer(1.0), 0.0)] * 20)
    assert list(candidates.records()) == []
