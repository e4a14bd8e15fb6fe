"""A search finds a grid's Pareto front with a fraction of its points, stays on the grid, and resumes."""

import json
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path

import pandas as pd
import pytest

from dsascape.experiments.engine.engines import EngineError, open_engine
from dsascape.experiments.engine.limits import Limits
from dsascape.experiments.engine.run import computed
from dsascape.experiments.engine.search import Aim, Rows, costs, search_designs
from dsascape.experiments.question.grid import Grid
from dsascape.experiments.question.points import DesignPoint, Row
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.report.frames import pareto_front
from dsascape.experiments.results.computed import Computed
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import ClusteredDsa
from tests.experiments.dangers import EVERY_DANGER, check_every_danger, dangerous

STUDY = """
workloads: [{model: bert-tiny, batch: 4}]
hardware: {base: stcp920, sweep: {clusters: [1, 2, 4], ddr.bandwidth: [30 GB/s, 60 GB/s, 120 GB/s]}}
policies: [unfused, graphturbo]
objectives: [latency_s, area_mm2]
search: {method: nsga2, budget: BUDGET, seed: 1}
"""


def study(folder: Path, budget: int, text: str = STUDY) -> Path:
    path = folder / "study.yaml"
    path.write_text(text.replace("BUDGET", str(budget)))
    return path


def wide_grid(folder: Path, policies: str = "[unfused, graphturbo]") -> Grid:
    values = ", ".join(str(value) for value in range(1, 21))
    text = f"""
workloads: [bert-tiny, dlrm]
hardware:
  - {{base: stcp920, sweep: {{clusters: [{values}], cores_per_cluster: [{values}]}}}}
  - ascend910
policies: {policies}
search: {{method: grid}}
"""
    return read_experiment(study(folder, 0, text))[1]


def formula(points: Sequence[DesignPoint]) -> list[Row]:
    """Rows of a made-up machine: more cores cost area, and serve until there are too many of them."""
    rows: list[Row] = []
    for point in points:
        assert isinstance(point.hardware, ClusteredDsa)
        clusters, cores = point.hardware.clusters, point.hardware.cores_per_cluster
        slow = 2.0 if point.policy.name == "unfused" else 1.0
        latency = slow * (1 / clusters + 0.02 * clusters + 1 / cores)
        rows.append({"latency_s": latency, "area_mm2": float(clusters * cores), "throughput_per_s": 1 / latency})
    return rows


def nsga2(grid: Grid, objectives: Sequence[str], budget: int, seed: int, rows: Rows) -> list[DesignPoint]:
    return [point for design in search_designs("nsga2", grid, Aim(objectives), budget, seed, rows) for point in design]


def latencies(points: Sequence[DesignPoint]) -> list[float]:
    return [cost for row in formula(points) for cost in costs(row, ["latency_s"])]


class Counting:
    """Rows by the formula, and how often each point was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, points: Sequence[DesignPoint]) -> list[Row]:
        self.asked += [point.key for point in points]
        return formula(points)


def front(points: Sequence[DesignPoint], objectives: Sequence[str]) -> set[str]:
    frame = pd.DataFrame(formula(points))
    marks = pareto_front(frame, objectives)
    return {point.key for point, marked in zip(points, marks, strict=True) if marked}


def test_budget_counts_distinct_points_on_the_grid(tmp_path: Path) -> None:
    grid = wide_grid(tmp_path)
    rows = Counting()
    found = nsga2(grid, ["latency_s", "area_mm2"], 101, 0, rows)
    keys = [point.key for point in found]

    assert len(keys) == len(set(keys)) == 101
    assert sorted(rows.asked) == sorted(keys)
    assert set(keys) <= {grid.point(number).key for number in range(grid.size)}
    shares = [sum(point.workload.model == model for point in found) for model in ("bert-tiny", "dlrm")]
    assert shares == [51, 50]


def test_the_same_seed_is_the_same_search(tmp_path: Path) -> None:
    grid = wide_grid(tmp_path)
    first, again, other = (
        [point.key for point in nsga2(grid, ["latency_s", "area_mm2"], 60, seed, formula)] for seed in (5, 5, 6)
    )

    assert first == again
    assert first != other


def test_a_design_within_a_twentieth_of_the_best_is_found_with_a_fifth_of_the_grid(tmp_path: Path) -> None:
    grid = wide_grid(tmp_path)
    found = nsga2(grid, ["latency_s"], 300, 0, formula)

    assert len(found) <= grid.size / 5
    for model in ("bert-tiny", "dlrm"):
        everything = [p for p in map(grid.point, range(grid.size)) if p.workload.model == model]
        best = min(latencies(everything))
        assert min(latencies([p for p in found if p.workload.model == model])) <= best * 1.05


def test_most_of_a_front_is_found_with_a_part_of_the_grid(tmp_path: Path) -> None:
    grid = wide_grid(tmp_path, "[graphturbo]")
    objectives = ["latency_s", "area_mm2"]
    everything = [grid.point(number) for number in range(grid.designs)]
    found = [p for p in nsga2(grid, objectives, 400, 0, formula) if p.workload.model == "bert-tiny"]
    whole = front(everything, objectives)

    assert len(found) < len(everything) * 0.55
    assert len(whole & {point.key for point in found}) >= 0.6 * len(whole)


def test_throughput_is_maximised() -> None:
    row: Row = {"latency_s": 2.0, "throughput_per_s": 8.0, "error": None}
    assert costs(row, ["latency_s", "throughput_per_s"]) == [2.0, -8.0]


def test_a_point_that_failed_is_worse_than_any() -> None:
    assert costs({"error": "does not fit", "area_mm2": 3.0}, ["area_mm2"]) == [inf]
    assert costs({"error": None, "latency_s": None}, ["latency_s"]) == [inf]


def test_a_grid_where_everything_fails_ends(tmp_path: Path) -> None:
    def failing(points: Sequence[DesignPoint]) -> list[Row]:
        return [{"error": "no"} for _ in points]

    assert len(nsga2(wide_grid(tmp_path), ["latency_s"], 40, 0, failing)) == 40


def test_a_grid_within_the_budget_is_evaluated_whole(tmp_path: Path) -> None:
    experiment, grid = read_experiment(study(tmp_path, 500))
    found = nsga2(grid, experiment.objectives, 500, 0, formula)

    assert [p.key for p in found] == [grid.point(number).key for number in range(18)]


def test_the_front_of_a_simulated_grid_is_found(tmp_path: Path) -> None:
    path = study(tmp_path, 15)
    experiment, grid = read_experiment(path)
    everything = [grid.point(number) for number in range(grid.size)]
    rows = pd.DataFrame([computed(point).row for point in everything])
    best = {p.key for p, marked in zip(everything, pareto_front(rows, experiment.objectives), strict=True) if marked}

    assert main(["run", str(path), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    written = pd.read_csv(tmp_path / "out" / "results.csv")
    assert len(written) == 15
    places = ["clusters", "ddr.bandwidth", "policy"]
    evaluated = {tuple(map(str, row)) for row in written[places].to_numpy()}
    wanted = {tuple(str(computed(p).row[place]) for place in places) for p in everything if p.key in best}
    assert wanted <= evaluated


def test_a_search_resumes_from_what_is_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, folder = study(tmp_path, 10), tmp_path / "out"
    command = ["run", str(path), "--out", str(folder), "--workers", "1", "--json"]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    rows = pd.read_csv(folder / "results.csv")
    assert main(command) == 0
    again = json.loads(capsys.readouterr().out)
    study(tmp_path, 12)
    assert main(command) == 0
    longer = json.loads(capsys.readouterr().out)

    assert (first["points"], first["computed"]) == (10, 10)
    assert (again["points"], again["computed"]) == (10, 0)
    assert longer["points"] == 12
    assert longer["computed"] <= 12 - 4, "the first generation, at least, is known"
    assert len(rows) == 10


def test_workers_do_not_change_a_search(tmp_path: Path) -> None:
    path = study(tmp_path, 9)
    for workers in ("1", "2"):
        assert main(["run", str(path), "--out", str(tmp_path / workers), "--workers", workers]) == 0
    one, two = (pd.read_csv(tmp_path / workers / "results.csv").drop(columns=["wall_s"]) for workers in ("1", "2"))

    pd.testing.assert_frame_equal(one, two)


def test_a_search_creates_only_the_points_it_evaluates(tmp_path: Path) -> None:
    """The space has 3 x 10^9 points, too many to enumerate."""
    units = {"clusters": "", "cores_per_cluster": "", "local_buffer.capacity": " KiB", "ddr.bandwidth": " GB/s"}
    sweep = ", ".join(f"{path}: [{', '.join(f'{i}{unit}' for i in range(1, 201))}]" for path, unit in units.items())
    text = f"""
workloads: [bert-tiny]
hardware: {{base: stcp920, sweep: {{{sweep}}}}}
policies: [unfused, graphturbo]
search: {{method: nsga2, budget: 20}}
"""
    experiment, grid = read_experiment(study(tmp_path, 0, text))
    rows = Counting()

    assert grid.size == 2 * 200**4
    assert len(nsga2(grid, experiment.objectives, 20, 0, rows)) == len(rows.asked) == 20


class TestDask:
    def test_a_cluster_gives_the_same_figures(self, tmp_path: Path) -> None:
        distributed = pytest.importorskip("dask.distributed")
        grid = read_experiment(study(tmp_path, 10))[1]
        points = [grid.point(number) for number in range(4)]
        with (
            distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
            open_engine(scheduler=cluster.scheduler_address) as engine,
        ):
            found = {point.key: result for point, result in engine.results(computed, points)}

        rows = {key: result.row for key, result in found.items() if isinstance(result, Computed)}
        assert {key: {**row, "wall_s": 0} for key, row in rows.items()} == {
            point.key: {**computed(point).row, "wall_s": 0} for point in points
        }

    def test_a_point_that_ends_its_process_is_a_failure_and_the_cluster_goes_on(self, tmp_path: Path) -> None:
        distributed = pytest.importorskip("dask.distributed")
        with (
            distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
            open_engine(scheduler=cluster.scheduler_address, limits=Limits(2.0, 2**28)) as engine,
        ):
            found = {point.swept["clusters"]: result for point, result in engine.results(dangerous, EVERY_DANGER)}

        check_every_danger(found)

    def test_no_scheduler_there_is_a_message(self) -> None:
        pytest.importorskip("dask.distributed")
        with pytest.raises(EngineError, match="no dask scheduler answers"), open_engine(scheduler="nonsense://a"):
            pass

    def test_without_dask_the_message_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "dask.distributed", None)
        with pytest.raises(EngineError, match=r"dsascape\[distributed\]"), open_engine(scheduler="tcp://x:1"):
            pass

    @pytest.mark.parametrize("options", [["--engine", "dask"], ["--scheduler", "tcp://x:1"]])
    def test_engine_and_scheduler_go_together(
        self, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["run", str(study(tmp_path, 4)), "--out", str(tmp_path / "out"), *options]) == 2
        assert "go together" in capsys.readouterr().err


def test_a_measured_point_is_judged_by_what_was_measured() -> None:
    simulated: Row = {"latency_s": 1.0, "throughput_per_s": 4.0, "area_mm2": 3.0, "batch": 4, "error": None}
    row = {**simulated, "measured_s": 2.0}

    assert costs(row, ["latency_s", "throughput_per_s", "area_mm2"]) == [2.0, -2.0, 3.0]
    assert costs({**row, "measured_s": None}, ["latency_s", "throughput_per_s"]) == [1.0, -4.0]
    assert costs({**row, "measured_s": None, "error": "does not compile"}, ["latency_s"]) == [inf]
