"""With a combination, a search proposes designs, each runs all networks, and the best is compared with the base."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import inf, prod
from pathlib import Path
from typing import cast

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.experiments.engine.chosen import Chosen, compute_chosen, planned_points
from dsascape.experiments.engine.engines import Engine
from dsascape.experiments.engine.failures import Failure
from dsascape.experiments.engine.run import Runner, described
from dsascape.experiments.engine.search import Aim, search_designs
from dsascape.experiments.engine.worker import Compute
from dsascape.experiments.question.combined import combined
from dsascape.experiments.question.points import DesignPoint, Row
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.question.reference import base_design
from dsascape.experiments.report.best import best_machine
from dsascape.experiments.report.hypervolume import hypervolume, hypervolumes
from dsascape.experiments.report.together import Together
from dsascape.experiments.results.computed import Computed
from dsascape.experiments.results.store import ResultStore
from dsascape.experiments.shell.cli import main
from tests.experiments.test_search import Counting, formula
from tests.tiers import examples

STUDY = """
workloads: [{model: bert-tiny, batch: 4, weight: 3}, {model: dlrm, batch: 4}]
hardware: {base: stcp920, sweep: {clusters: [1, 2, 3, 5, 8], ddr.bandwidth: [30 GB/s, 60 GB/s, 240 GB/s]}}
policies: [unfused]
objectives: [latency_s, area_mm2]
combine: COMBINE
search: SEARCH
"""


def study(folder: Path, search: str, how: str = "geometric_mean", text: str = STUDY) -> Path:
    path = folder / "study.yaml"
    path.write_text(text.replace("SEARCH", search).replace("COMBINE", how))
    return path


class TestCombined:
    ROWS = ({"latency_s": 1.0, "energy_j": 8.0, "throughput_per_s": 4.0, "area_mm2": 9.0},
            {"latency_s": 16.0, "energy_j": 1.0, "throughput_per_s": 1.0, "area_mm2": 9.0})  # fmt: skip
    NAMES = ("latency_s", "energy_j", "power_w", "throughput_per_s", "area_mm2")

    def test_geometric_means_are_worked_out_by_hand(self) -> None:
        assert combined(self.ROWS, [3, 1], "geometric_mean", self.NAMES) == pytest.approx({
            "latency_s": 2.0, "energy_j": 8 ** (3 / 4), "power_w": 8 ** (3 / 4) / 2, "throughput_per_s": 4 ** (3 / 4),
            "area_mm2": 9.0,
        })  # fmt: skip

    def test_sums_are_those_of_a_mix_by_weight(self) -> None:
        assert combined(self.ROWS, [3, 1], "weighted_sum", self.NAMES) == pytest.approx({
            "latency_s": 3 + 16, "energy_j": 25, "power_w": 25 / 19, "throughput_per_s": 4 / (3 / 4 + 1),
            "area_mm2": 9.0,
        })  # fmt: skip

    def test_a_figure_that_one_network_lacks_is_none(self) -> None:
        assert combined([{"latency_s": 1.0}, {"latency_s": None}], [1, 1], "weighted_sum", ["latency_s"]) == {
            "latency_s": None
        }

    def test_a_design_fails_with_any_of_its_networks_and_keeps_a_limit_with_all(self) -> None:
        aim = Aim(["latency_s"], combine="geometric_mean", weights=[1, 1])

        assert aim.costs([{"latency_s": 1.0, "error": None}, {"error": "does not fit"}]) == [inf]
        assert aim.costs([{"latency_s": 1.0}, {"latency_s": 4.0}]) == pytest.approx([2.0])


class Formula:
    """An engine that computes points by a formula, and is killed before it computes one too many."""

    def __init__(self, survives: int = 10**9) -> None:
        self.left = survives
        self.computed: list[str] = []

    def results(
        self, compute: Compute[object], points: Iterable[DesignPoint]
    ) -> Iterator[tuple[DesignPoint, object | Failure]]:
        for point in points:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            self.computed.append(point.key)
            (row,) = formula([point])
            slower = 3.0 if point.workload.model == "dlrm" else 1.0
            figures: Row = {"latency_s": float(str(row["latency_s"])) * slower, "energy_j": 1.0, "error": None}
            yield point, Computed(described(point) | figures)


def run_killed(path: Path, folder: Path, engine: Formula) -> Chosen:
    experiment, grid = read_experiment(path)
    with ResultStore(folder) as store:
        return compute_chosen(experiment, grid, Runner(store, cast(Engine, engine)))


@pytest.mark.parametrize("method", ["tpe", "nsga2", "random"])
def test_a_run_that_is_killed_anywhere_goes_on_as_if_it_had_not_been(method: str, tmp_path: Path) -> None:
    path = study(tmp_path, f"{{method: {method}, budget: 9, seed: 3, compare_with: []}}")
    whole = Formula()
    uninterrupted = [point.key for point in run_killed(path, tmp_path / "whole", whole).points]
    place = random.Random(method).randrange(1, len(uninterrupted))
    first, second = Formula(place), Formula()
    with suppress(KeyboardInterrupt):
        run_killed(path, tmp_path / "killed", first)
    resumed = [point.key for point in run_killed(path, tmp_path / "killed", second).points]

    assert resumed == uninterrupted
    assert len(first.computed) == place
    assert sorted([*first.computed, *second.computed]) == sorted(whole.computed)
    assert len(set(whole.computed)) == len(whole.computed)


@pytest.mark.night
@pytest.mark.parametrize("seed", range(3))
def test_a_process_that_is_killed_leaves_a_run_that_goes_on(seed: int, tmp_path: Path) -> None:
    path = study(tmp_path, "{method: tpe, budget: 12, seed: 1}")
    command = [sys.executable, "-m", "dsascape", "run", str(path), "--workers", "2", "--json", "--out"]
    whole = json.loads(subprocess.run([*command, str(tmp_path / "a")], check=True, capture_output=True).stdout)
    process = subprocess.Popen([*command, str(tmp_path / "b")], start_new_session=True, stdout=subprocess.DEVNULL)
    wanted, stored = random.Random(seed).randrange(1, whole["points"]), 0
    while stored < wanted and process.poll() is None:
        time.sleep(0.05)
        with suppress(sqlite3.Error), sqlite3.connect(f"file:{tmp_path}/b/results.sqlite?mode=ro", uri=True) as opened:
            (stored,) = opened.execute("SELECT count(*) FROM runs").fetchone()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    again = json.loads(subprocess.run([*command, str(tmp_path / "b")], check=True, capture_output=True).stdout)
    columns = ["model", "clusters", "ddr.bandwidth", "latency_s", "area_mm2"]
    one, other = (pd.read_csv(tmp_path / folder / "results.csv")[columns] for folder in "ab")

    assert again["points"] == whole["points"]
    assert again["computed"] <= whole["points"] - stored
    pd.testing.assert_frame_equal(one, other)


def test_the_budget_counts_designs_and_every_design_runs_all_networks(tmp_path: Path) -> None:
    experiment, grid = read_experiment(study(tmp_path, "{method: tpe, budget: 6, compare_with: [random, nsga2]}"))
    rows = Counting()
    for method in experiment.search.methods:
        designs = search_designs(method, grid, Aim(["latency_s"], combine="geometric_mean"), 6, 0, rows)
        assert len({tuple(point.key for point in design) for design in designs}) == 6
        for design in designs:
            assert [point.workload.model for point in design] == ["bert-tiny", "dlrm"]
            assert len({point.hardware.model_dump_json() for point in design}) == 1
    assert planned_points(experiment, grid) == 2 * (min(18, grid.designs) + 1)


def test_a_base_off_the_grid_is_the_machine_as_it_is(tmp_path: Path) -> None:
    base = base_design(read_experiment(study(tmp_path, "{method: tpe, budget: 6}"))[1])
    on_grid = read_experiment(study(tmp_path, "{method: tpe, budget: 6}", text=STUDY.replace("5, 8", "4, 8").replace(
        "240 GB/s", "119.4 GB/s")))[1]  # fmt: skip

    assert [dict(point.swept) for point in base] == [{"clusters": "4", "ddr.bandwidth": "119.4 GB/s"}] * 2
    assert all(point.origin is not None and point.origin.is_base for point in base)
    numbers = [on_grid.point(number).key for number in range(on_grid.size)]
    assert all(point.key in numbers for point in base_design(on_grid))


def test_the_answer_names_the_best_machine_how_it_was_combined_and_the_base(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = study(tmp_path, "{method: random, budget: 4, seed: 2, compare_with: [tpe]}"), tmp_path / "out"
    assert main(["run", str(path), "--out", str(folder), "--workers", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    rows = pd.read_csv(folder / "results.csv")
    page = (folder / "report.html").read_text()
    machine = ["clusters", "ddr.bandwidth"]
    wide = rows.pivot_table(index=machine, columns="model", values="latency_s")
    means = (wide["bert-tiny"] ** 3 * wide["dlrm"]) ** 0.25
    base = means.loc[4, "119.4 GB/s"]
    means = means.drop((4, "119.4 GB/s"))
    clusters, bandwidth = means.sort_values().index.to_list()[0]

    sentence = answer["answer"]
    assert sentence.startswith("Best machine for this set of 2 networks, by weighted geometric mean of latency: stcp")
    assert f"clusters = {clusters}, ddr.bandwidth = {bandwidth} under unfused" in sentence
    assert f"({base / means.min():#.3g} \N{MULTIPLICATION SIGN} as fast as the base)" in sentence
    assert answer["best"][0]["latency_s"] == pytest.approx(means.min())
    assert "Best machine for this set" in page.partition("<h1>")[2].partition("</h1>")[0]
    assert "(weights: 3 for bert-tiny (batch 4), 1 for dlrm (batch 4))" in page
    assert 'id="best"' in page
    assert "random and tpe had the same budget" in page


def test_a_weighted_sum_is_named_and_a_design_beyond_a_constraint_is_not_best() -> None:
    rows = [
        {"hardware": "m", "policy": "unfused", "clusters": str(number), "error": "", "latency_s": 4.0 / number,
         "throughput_per_s": 1.0, "energy_j": 1.0, "power_w": 1.0, "area_mm2": 10.0 * number,
         "violates": "area_mm2 <= 20" if number > 2 else ""}
        for number in (1, 2, 3)
    ]  # fmt: skip
    weights = (("net", 1.0), ("other", 2.0))
    together = Together("weighted_sum", weights, pd.DataFrame(rows), rows[0], ("clusters",))

    assert best_machine(together, ["latency_s"], ["area_mm2 <= 20"]) == (
        "Best machine for this set of 2 networks, by weighted sum of latency, within area_mm2 <= 20: m with clusters ="
        " 2 under unfused, 2.00 s (2.00 \N{MULTIPLICATION SIGN} as fast as the base)."
    )


class TestHypervolume:
    def test_two_points_are_worked_out_by_hand(self) -> None:
        assert hypervolume([(1.0, 3.0), (2.0, 1.0)], (4.0, 4.0)) == 3 * 1 + 2 * 3 - 2 * 1
        assert hypervolumes([(1.0, 3.0), (), (2.0, 1.0), (3.0, 3.0)], (4.0, 4.0)) == [3.0, 3.0, 7.0, 7.0]

    @given(data=st.data(), dims=st.integers(1, 4))
    @settings(max_examples=examples(60), deadline=None)
    def test_it_is_the_number_of_dominated_cells(self, data: st.DataObject, dims: int) -> None:
        points = data.draw(st.lists(st.tuples(*[st.integers(0, 4)] * dims), max_size=6))
        cells = [[place // 4**axis % 4 for axis in range(dims)] for place in range(4**dims)]
        dominated = sum(any(all(a <= b for a, b in zip(p, cell, strict=True)) for p in points) for cell in cells)

        assert hypervolume(points, [4] * dims) == dominated
        assert [0.0, *hypervolumes(points, [4] * dims)][-1] == dominated
        assert prod([4] * dims) >= dominated
