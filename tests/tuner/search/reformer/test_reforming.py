"""The reformer in a search: mini sub-graphs until they are stable, then the kernel from what was composed; resumed."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.tuner.search.database import BUILTIN, DATABASE, DatabaseError
from dsascape.tuner.search.joint import complex_stages, is_joint
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.reformer.apart import kept_apart
from dsascape.tuner.search.reformer.decisions import JoinDecision, SplitDecision
from dsascape.tuner.search.reformer.options import ReformerOptions
from dsascape.tuner.search.reformer.reforming import is_stable
from dsascape.tuner.search.reformer.splitting import Split
from dsascape.tuner.search.search import Search
from tests.tuner.search.kernels import convolution, fused_pair, pair_behind
from tests.tuner.search.reformer.pairs import OPTIONS, alike, search, split_of


def stored(folder: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(folder / DATABASE) as connection:
        rows = connection.execute("SELECT task, unit, steps, seconds, reason, threads FROM candidates ORDER BY id")
        found = rows.fetchall()
        return [*found, *connection.execute("SELECT decision FROM decisions ORDER BY id").fetchall()]


def order(found: Search) -> list[str]:
    return [unit.task for unit in found.curve]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Search]:
    """A search over one pair that was not stopped, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    found = search(folder, split_of(pair_behind()))
    list(found.run())
    return folder, found


def joins(found: Search) -> list[JoinDecision]:
    return [each for each in found.decisions if isinstance(each, JoinDecision)]


def test_mini_sub_graphs_come_first_then_the_kernel_which_begins_with_what_was_composed(
    whole: tuple[Path, Search],
) -> None:
    split, (folder, found) = split_of(pair_behind()), whole
    assert found.trials == OPTIONS.trials
    keys, kernel = order(found), split.whole.key
    first = keys.index(kernel)
    assert set(keys[:first]) == {mini.task.key for mini in split.minis}
    assert set(keys[first:]) == {kernel}
    (decision,) = joins(found)
    assert decision.unit == first
    assert [each.task for each in decision.minis] == [mini.task.key for mini in split.minis]
    rows = [row for row in stored(folder) if len(row) > 1 and row[0] == kernel and row[1] != BUILTIN]
    assert rows[0][2] == decision.steps
    assert found.tasks[0].found()[-1] <= float(str(rows[0][3]))
    assert isinstance(found.decisions[0], SplitDecision)


def test_units_go_to_the_mini_sub_graph_with_the_fewest_for_its_weight(tmp_path: Path) -> None:
    split = split_of(pair_behind())
    found = search(tmp_path, split, options=replace(OPTIONS, reformer=ReformerOptions(stable_units=100)))
    list(found.run())
    first = order(found).index(split.whole.key)
    weights = {mini.task.key: mini.weight for mini in split.minis}
    counts = dict.fromkeys(weights, 0)
    for key in order(found)[:first]:
        assert (counts[key] + 1) / weights[key] == min((counts[each] + 1) / weights[each] for each in weights)
        counts[key] += 1
    assert [each.reason for each in joins(found)[0].minis] == ["budget", "budget"]
    assert 4 * first == OPTIONS.trials / 2


def test_a_mini_sub_graph_gets_nothing_more_once_it_is_stable(tmp_path: Path) -> None:
    split = split_of(pair_behind())
    own = ReformerOptions(stable_units=1, most_for_minis=1.0)
    found = search(tmp_path, split, options=replace(OPTIONS, trials=80, reformer=own))
    list(found.run())
    (decision,) = joins(found)
    assert "stable" in [each.reason for each in decision.minis]
    by_key = {each.task.key: each for each in found.tasks}
    for each in decision.minis:
        if each.reason == "stable":
            history = by_key[each.task].found()
            assert len(history) == each.units
            assert [is_stable(history[:units], 1) for units in range(1, each.units + 1)].index(True) == each.units - 1


def test_without_the_reformer_the_kernel_is_the_only_task(tmp_path: Path) -> None:
    split = split_of(pair_behind())
    found = search(tmp_path, Split(split.whole, split.weight))
    list(found.run())
    assert set(order(found)) == {split.whole.key}
    assert found.decisions == ()


def test_without_intensive_fusion_nothing_that_is_tried_is_joint(tmp_path: Path) -> None:
    options = SpaceOptions(intensive=False)
    (split,) = kept_apart([split_of(pair_behind())], options)
    found = search(tmp_path, split, options=replace(OPTIONS, space=options, builtin=True))
    list(found.run())
    stages, (kernel, *_) = complex_stages(split.whole.naive), found.tasks
    assert kernel.trials > 8
    assert not any(is_joint(program.loops, stages) for program in kernel.fastest())


def test_networks_with_equal_mini_sub_graphs_and_kernels_of_their_own_share_trials_by_weight(tmp_path: Path) -> None:
    splits = [split_of(alike()), split_of(convolution()), split_of(fused_pair())]
    found = search(tmp_path, *splits, options=replace(OPTIONS, trials=60, tuner="random"))
    list(found.run())
    spent = {each.task.key: each.trials for each in found.tasks}
    assert sum(spent.values()) == 60
    assert len(found.tasks) == 3 + 2 + 2
    shares = []
    for split in splits:
        own = sum([spent[key] for key in {split.whole.key, *[mini.task.key for mini in split.minis]}])
        shares.append(own / split.weight)
    assert max(shares) - min(shares) <= 4 / min([split.weight for split in splits])


def test_same_seed_same_records(tmp_path: Path, whole: tuple[Path, Search]) -> None:
    list(search(tmp_path, split_of(pair_behind())).run())
    assert stored(tmp_path) == stored(whole[0])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("units", [2, 4, 6])
def test_a_second_run_goes_on_as_if_there_had_been_one(
    tmp_path: Path, whole: tuple[Path, Search], units: int
) -> None:
    """The first run is stopped while mini sub-graphs are tuned, as the kernel is joined, and behind that."""
    split = split_of(pair_behind())
    folder, found = whole
    assert order(found).index(split.whole.key) == 4
    first = search(tmp_path, split).run()
    for _ in range(units):
        next(first)
    second = search(tmp_path, split)
    list(second.run())
    assert stored(tmp_path) == stored(folder)
    assert second.decisions == found.decisions
    assert second.latencies() == found.latencies()


def test_a_run_killed_between_decision_and_first_unit_begins_with_what_was_composed(
    tmp_path: Path, whole: tuple[Path, Search]
) -> None:
    split, (folder, _) = split_of(pair_behind()), whole
    with sqlite3.connect(folder / DATABASE) as source, sqlite3.connect(tmp_path / DATABASE) as target:
        source.backup(target)
        target.execute("DELETE FROM candidates WHERE task = ? AND unit > 0", (split.whole.key,))
    list(search(tmp_path, split).run())
    assert stored(tmp_path) == stored(folder)


def test_damaged_decisions_are_named(tmp_path: Path, whole: tuple[Path, Search]) -> None:
    split, (folder, _) = split_of(pair_behind()), whole
    with sqlite3.connect(folder / DATABASE) as source, sqlite3.connect(tmp_path / DATABASE) as target:
        source.backup(target)
        target.execute("UPDATE decisions SET decision = 'nothing'")
    with pytest.raises(DatabaseError, match="is damaged: no decision of the reformer: 'nothing'"):
        list(search(tmp_path, split, options=replace(OPTIONS, trials=48)).run())
