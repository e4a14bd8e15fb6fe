"""The page on AGO's tuner: pairs of the paper's kinds, losses and orders by hand, missing searches run once."""

import math
from pathlib import Path

import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.experiments.papers.ago_tuning import (
    ANSOR_NETWORKS,
    BUDGETS,
    FOLDER,
    NETWORKS,
    PAIRS,
    SHORT_PAIRS,
    VARIANTS,
    figure8,
    figure13,
    figures10_to_12,
    loss,
    main,
    trials_until_stable,
)
from dsascape.experiments.papers.ansor_comparisons import Study
from dsascape.experiments.papers.tuning_results import Point, SearchResult
from dsascape.experiments.papers.tuning_study import read_study
from dsascape.experiments.question.shapes import read_shapes
from dsascape.fusion.ago import is_complex
from dsascape.workloads import Graph

PRINTED = {"no_intensive": 0.17, "no_reformer": 0.27}


def result(label: str, variant: str, found_us: float, *earlier: tuple[int, float]) -> SearchResult:
    points = [Point(trials, (us,), (us * 1e-6,)) for trials, us in [*earlier, (256, found_us)]]
    return SearchResult(
        label, "kirin990", variant, 0, 1, 3, 256, 0, (130e-6,), (found_us * 1e-6,), tuple(points), 1.0
    )  # fmt: skip


def study(name: str, *results: SearchResult) -> Study:
    settings, wanted = read_study(FOLDER / f"{name}.yaml")
    return Study(name, settings, wanted, list(results), {})


def kinds(graph: Graph) -> str:
    """Return the kinds of a network's convolutions, by their weights: one tap, or one channel each."""
    weights = [graph.tensors[op.inputs[1]].shape for op in graph.ops if op.kind == "Conv"]
    return "".join(["P" if math.prod(shape[2:]) == 1 else "D" if shape[1] == 1 else "?" for shape in weights])


def test_pairs_are_of_the_four_kinds_at_batch_1_and_4() -> None:
    graphs = read_shapes(FOLDER / "operators" / "pairs.yaml")
    assert list(graphs) == [f"{kind}-b{batch}" for kind in ("PD", "DP", "PP", "DD") for batch in (1, 4)]
    for name, graph in graphs.items():
        kind, _, batch = name.partition("-b")
        assert kinds(graph) == kind
        assert graph.tensors["x0"].shape[0] == int(batch)
        assert sum(is_complex(graph, position) for position in range(len(graph.ops))) == 2


def test_sub_graphs_of_fig_8_keep_height_and_width() -> None:
    for name, graph in read_shapes(FOLDER / "operators" / "fig8.yaml").items():
        side = int(name.split()[0].partition("HW")[2])
        assert graph.tensors[graph.outputs[0]].shape == (1, 64, side, side)
        assert len(graph.ops) == 1 + name.count("+")


def test_all_variants_are_searched_on_all_machines() -> None:
    for name in (PAIRS, SHORT_PAIRS):
        _, wanted = read_study(FOLDER / f"{name}.yaml")
        assert len(wanted) == 8 * 2 * len(VARIANTS)
        assert {each.variant for each in wanted} == set(VARIANTS)
    assert len(read_study(FOLDER / f"{BUDGETS}.yaml")[1]) == 6


def test_a_loss_is_a_fraction_of_the_speed_of_ago() -> None:
    assert loss(200.0, 100.0) == 0.5  # half as fast
    assert loss(100.0, 100.0) == 0.0
    assert loss(80.0, 100.0) == -0.25


def test_losses_and_their_order_by_hand() -> None:
    found = {"PD-b1": (100.0, 125.0, 200.0), "DP-b1": (100.0, 80.0, 100.0), "PP-b1": (100.0, 100.0, math.inf)}
    own = [
        result(label, name, us)
        for label, times in found.items()
        for name, us in zip(VARIANTS, times, strict=True)
    ]  # fmt: skip
    text = figure13(study(PAIRS, *own), PRINTED)
    assert "| PD-b1 | 256 | 130 | 100 | 125 | 200 | 20 | 50 |" in text
    assert "| DP-b1 | 256 | 130 | 100 | 80 | 100 | -25 | 0 |" in text
    assert "PP-b1" not in text
    said = "In the mean of 2 pairs AGO-NI loses -2.5% (the paper: 17%) and AGO-NR loses 25.0% (the paper: 27%)"
    assert f"{said}: the order is AGO-NI, AGO, AGO-NR." in text
    assert "AGO-NI is faster than AGO in 1 and AGO-NR is faster than AGO in 0 of them." in text


def test_networks_in_agos_kernels_stand_beside_ansors_and_the_papers_gain() -> None:
    own = [result("bert-tiny", name, us) for name, us in zip(VARIANTS, (90.0, 91.0, 120.0), strict=True)]
    ansor = study(ANSOR_NETWORKS, result("bert-tiny", "Ansor", 120.0))
    printed = {"fig12": {"bert-tiny": {"ansor": 0.205}}, "mean_speedup": {"kirin990": {"ansor": 1.1}}}
    text = figures10_to_12(study(NETWORKS, *own, result("squeezenet", "AGO", 80.0)), ansor, printed)
    assert "| bert-tiny | kirin990 | 256 | 256 | 120 | 90 | 91 | 120 | 25 | 20.5 |" in text
    assert "| squeezenet | kirin990 | n/a | 256 | n/a | 80 | n/a | n/a | n/a | 10.0, mean |" in text
    assert figures10_to_12(study(NETWORKS), ansor, printed) == "Nothing has been run."


def test_networks_are_the_same_in_both_searches_with_equal_budgets() -> None:
    (own, wanted), (other, beside) = [read_study(FOLDER / f"{name}.yaml") for name in (NETWORKS, ANSOR_NETWORKS)]
    assert {each.label for each in wanted} == {each.label for each in beside}
    assert (own.trials_per_task, own.unit, own.machines) == (other.trials_per_task, other.unit, other.machines)


def test_stable_is_within_a_hundredth_of_the_end() -> None:
    own = result("I32-O64-HW14 Conv", "AGO", 100.0, (16, 150.0), (48, 100.9), (96, 100.5))
    assert trials_until_stable(own) == 48
    assert "| I32-O64-HW14 Conv | kirin990 | 256 |" in figure8(study(BUDGETS, own))
    assert figure8(study(BUDGETS)) == "Nothing has been run."
    assert figure13(study(PAIRS), PRINTED) == "Nothing has been run with all three variants."


def test_missing_searches_are_run_once_and_the_page_is_written(tmp_path: Path) -> None:
    studies = tmp_path / "studies"
    (studies / "operators").mkdir(parents=True)
    for name in ("pairs", "fig8"):
        text = (FOLDER / "operators" / f"{name}.yaml").read_text().replace("28, 28", "7, 7").replace("192", "8")
        (studies / "operators" / f"{name}.yaml").write_text(text)
    (studies / "one_kernel.py").write_text((FOLDER / "one_kernel.py").read_text())
    for name, only in ((PAIRS, "PD-b1"), (BUDGETS, "I32-O64-HW14 Conv")):
        text = (FOLDER / f"{name}.yaml").read_text()
        for old, new in (
            (".yaml}", f".yaml, only: {only}}}"), ("trials_per_task: 1024", "trials_per_task: 8"),
            ("trials_per_task: 256", "trials_per_task: 8"), ("unit: 16", "unit: 4"),
            ("population: 32", "population: 8"), (", snapdragon810", ""),
        ):  # fmt: skip
            text = text.replace(old, new)
        (studies / f"{name}.yaml").write_text(text)
    asked = [str(tmp_path / "results"), str(tmp_path / "page.md"), "--studies", str(studies), "--workers", "1"]
    assert main(asked) == 0
    page = (tmp_path / "page.md").read_text()
    assert "| `tuning.yaml` | 3 | 3 | 8 a task |" in page
    assert "| PD-b1 | 8 |" in page
    assert "In the mean of 1 pair AGO-NI" in page
    results = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").glob("*/result.json")}
    assert main(asked) == 0
    assert (tmp_path / "page.md").read_text() == page
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").glob("*/result.json")} == results


def test_a_folder_without_studies_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "results"), "--studies", str(tmp_path)]) == 2
    assert "tuning.yaml" in capsys.readouterr().err
