"""The figures of a run's layers add up to its latency and its traffic, and every output has a layer."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from dsascape import Outcome, load_hardware, simulate
from dsascape.experiments.point.layers import BETWEEN_LAYERS, LayerFigures, layers_of
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import ClusteredDsa
from dsascape.scheduler import make_policy
from tests.experiments.studies import Reader
from tests.experiments.terminal import Terminal

HARDWARE = load_hardware("stcp920", ClusteredDsa)


def run(
    policy: str, options: dict[str, object] | None = None, batch: int = 16
) -> tuple[Outcome, list[LayerFigures]]:
    outcome = simulate("bert-tiny", HARDWARE, make_policy(policy, options), batch=batch)
    return outcome, layers_of(outcome)


@pytest.mark.parametrize(
    ("policy", "options"),
    [("unfused", {}), ("fixed-pattern", {}), ("graphturbo", {}), ("graphturbo", {"batches_per_cluster": 1})],
)
def test_layers_add_up_to_the_run(policy: str, options: dict[str, object]) -> None:
    outcome, layers = run(policy, options)
    record = outcome.record

    assert sum(layer.critical_s for layer in layers) == pytest.approx(record.latency_s)
    for memory, size in record.traffic_bytes.items():
        moved = sum(layer.traffic_bytes.get(memory, 0) for layer in layers)
        assert moved == pytest.approx(size, abs=len(layers) * outcome.record.iterations)
    names = [layer.layer for layer in layers]
    assert len(names) == len(set(names))


def test_without_fusion_every_layer_writes_a_tensor_and_runs_once() -> None:
    outcome, (launches, *layers) = run("unfused")

    assert {layer.layer for layer in layers} <= set(outcome.schedule.graph.tensors)
    assert {layer.runs for layer in layers} == {1}
    assert (launches.layer, launches.runs, launches.limited_by) == (BETWEEN_LAYERS, outcome.record.kernels, "launch")


def test_iterations_are_runs() -> None:
    outcome, layers = run("graphturbo", {"batches_per_cluster": 1})

    assert (outcome.record.iterations, outcome.record.batch_at_once) == (4, 1)
    assert {layer.runs % 4 for layer in layers} == {0}


def test_shares_of_the_critical_path_are_those_of_the_run() -> None:
    outcome, layers = run("graphturbo")
    record, result = outcome.record, outcome.result

    assert sum(record.critical.values()) == pytest.approx(1)
    assert record.critical["ddr"] == pytest.approx(result.critical_ps["ddr"] / result.makespan_ps)
    assert max(record.critical, key=lambda name: record.critical[name]) == record.bottleneck
    assert {layer.limited_by for layer in layers} <= {*HARDWARE.units, *record.utilisation, "launch"} | {
        f"{unit}-startup" for unit in record.utilisation
    }


class TestPadding:
    @pytest.mark.parametrize(
        ("batch", "options", "at_work", "padded"),
        [
            (16, {}, 4, 0),
            (5, {}, 3, 1),  # two each
            (1, {}, 1, 0),
            (16, {"batches_per_cluster": 3}, 4, 8),  # two times three each, where four were asked for
        ],
    )
    def test_is_in_the_record(self, batch: int, options: dict[str, object], at_work: int, padded: int) -> None:
        record = run("graphturbo", options, batch)[0].record

        assert (record.parts_at_work, record.parts, record.padded) == (at_work, 4, padded)

    def test_is_said(self, terminal: Terminal) -> None:
        argv = ["simulate", "bert-tiny", "--hardware", "stcp920", "--policy", "unfused", "--batch"]

        assert "\n  3 of 4 clusters at work; 1 image padded\n" in terminal.out(*argv, "5")
        alone = terminal.out(*argv, "1", "--set", "tuning.kernels_divided=never")
        assert "\n  1 of 4 clusters at work\n" in alone
        assert "\n  4 clusters share every kernel\n" in terminal.out(*argv, "1")
        assert "at work" not in terminal.out(*argv, "4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("study")
    (place / "study.yaml").write_text(
        "workloads: [{model: bert-tiny, batch: 4}]\npolicies: [unfused, graphturbo]\n"
        "hardware: {base: stcp920, sweep: {clusters: [2, 4]}}\n"
    )
    assert main(["run", str(place / "study.yaml"), "--out", str(place / "out"), "--workers", "1"]) == 0
    return place / "out"


class TestEveryOutput:
    def test_json_has_layers(self, terminal: Terminal) -> None:
        argv = ["simulate", "bert-tiny", "--hardware", "stcp920", "--policy", "graphturbo", "--batch", "4"]
        found = terminal.json(*argv)

        keys = {"layer", "name", "runs", "critical_s", "limited_by", "traffic_bytes", "operators"}
        assert set(found["layers"][0]) == keys
        assert sum(layer["critical_s"] for layer in found["layers"]) == pytest.approx(found["latency_s"])
        assert sum(found["critical"].values()) == pytest.approx(1)
        assert "Layers with most of the critical path" in terminal.out(*argv)

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("hardware", ["stcp920", "kirin990", "a100"])
    @pytest.mark.parametrize("policy", ["unfused", "fixed-pattern", "dnnfusion"])
    def test_json_has_each_operator_in_one_layer(self, hardware: str, policy: str, terminal: Terminal) -> None:
        found = terminal.json("simulate", "bert-tiny", "--hardware", hardware, "--policy", policy)
        names = [name for layer in found["layers"] for name in layer["operators"]]

        assert len(names) == len(set(names)) > 50

    def test_the_store_has_a_table_of_them(self, folder: Path) -> None:
        with closing(sqlite3.connect(folder / "results.sqlite")) as connection:
            sums = connection.execute(
                "SELECT runs.latency_s, SUM(critical_s), runs.\"traffic_bytes.ddr\", SUM(layers.\"traffic_bytes.ddr\")"
                " FROM runs JOIN layers USING (key) GROUP BY key"
            ).fetchall()

        assert len(sums) == 4
        for latency_s, critical_s, traffic_bytes, moved_bytes in sums:
            assert critical_s == pytest.approx(latency_s)
            assert moved_bytes == pytest.approx(traffic_bytes, abs=100)

    def test_a_file_has_them_with_what_was_swept(self, folder: Path) -> None:
        layers = pd.read_csv(folder / "layers.csv")
        results = pd.read_csv(folder / "results.csv")

        assert list(layers)[:6] == ["model", "hardware", "policy", "batch", "dtype", "clusters"]
        sums = layers.groupby(["policy", "clusters"])["critical_s"].sum()
        wanted = results.set_index(["policy", "clusters"])["latency_s"]
        pd.testing.assert_series_equal(sums.sort_index(), wanted.sort_index(), check_names=False)
        assert results["critical.ddr"].between(0, 1).all()

    def test_the_report_shows_the_layers_of_the_fastest_point(self, folder: Path) -> None:
        text = " ".join(Reader((folder / "report.html").read_text(encoding="utf-8")).text.split())

        fastest = min(pd.read_csv(folder / "results.csv").to_dict("records"), key=lambda row: row["latency_s"])
        assert f"bert-tiny under {fastest['policy']} at clusters = {fastest['clusters']}" in text
        assert "The layers that take most of the critical path" in text
        assert "What the critical path waited for: share of the simulated latency" in text

    def test_computing_again_replaces_them(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "results.sqlite").write_bytes((folder / "results.sqlite").read_bytes())
        with closing(sqlite3.connect(tmp_path / "results.sqlite")) as connection, connection:
            (before,) = connection.execute("SELECT COUNT(*) FROM layers").fetchone()
            connection.execute("UPDATE runs SET error = 'x'")
        study = str(folder.parent / "study.yaml")
        assert main(["run", study, "--out", str(tmp_path), "--workers", "1", "--retry-failed"]) == 0

        with closing(sqlite3.connect(tmp_path / "results.sqlite")) as connection:
            assert connection.execute("SELECT COUNT(*) FROM layers").fetchone() == (before,)


class TestBatchesPerCluster:
    ARGV = "simulate", "bert-tiny", "--hardware", "stcp920", "--batch", "16", "--policy"
    HINT = "a cluster takes its 4 at once; --option batches_per_cluster=best tries fewer, in several iterations"

    def test_how_to_try_fewer_is_said_where_a_policy_leaves_it_open(self, terminal: Terminal) -> None:
        assert f"\n  {self.HINT}\n" in terminal.out(*self.ARGV, "graphturbo")

    @pytest.mark.parametrize(
        "argv",
        [
            ("graphturbo", "--batch", "4"),  # one each: there is nothing to try
            ("graphturbo", "--option", "batches_per_cluster=4"),
            ("graphturbo", "--option", "batches_per_cluster=best"),
            ("unfused",),  # which has no such option
        ],
    )
    def test_it_is_not_said_where_there_is_nothing_to_try(self, terminal: Terminal, argv: tuple[str, ...]) -> None:
        assert "batches_per_cluster=best tries" not in terminal.out(*self.ARGV, *argv)

    def test_padding_and_batches_at_once_are_in_the_record(self) -> None:
        best = run("graphturbo", {"batches_per_cluster": "best"}, 16)[0].record

        assert best.batch_at_once * best.iterations >= 4
        assert (best.padded, best.parts_at_work) == (best.batch_at_once * best.iterations * 4 - 16, 4)
