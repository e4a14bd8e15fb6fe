"""A constraint is a limit of one figure: parsed strictly, kept or not, and what is beyond it is never best."""

import json
import sqlite3
from dataclasses import replace
from math import inf
from pathlib import Path

import pandas as pd
import pytest

from dsascape.experiments.engine.search import Aim, search_designs
from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.constraints import ConstraintError, read_constraints, violated
from dsascape.experiments.question.points import Row
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.report.best import dtypes_warning
from dsascape.experiments.report.best_of_study import best_of
from dsascape.experiments.report.frames import prepared
from dsascape.experiments.report.study import Study
from dsascape.experiments.shell.cli import main
from tests.experiments.test_search import formula, wide_grid

STUDY = """
workloads: [{model: bert-tiny, batch: 4}]
hardware: {base: stcp920, sweep: {clusters: [1, 2, 4]}}
policies: [unfused]
objectives: OBJECTIVES
constraints: CONSTRAINTS
"""


def study(folder: Path, constraints: str, objectives: str = "[latency_s, area_mm2]") -> Path:
    path = folder / "study.yaml"
    path.write_text(STUDY.replace("OBJECTIVES", objectives).replace("CONSTRAINTS", constraints))
    return path


def test_a_limit_is_in_the_unit_of_its_name_or_in_its_own() -> None:
    texts = ["area_mm2 <= 20", "power_w<=10", "latency_s <= 5 ms", "throughput_per_s >= 1_000", "energy_j <= 2 mJ"]

    assert [(each.figure, each.at_most, each.limit) for each in read_constraints(texts)] == [
        ("area_mm2", True, 20.0), ("power_w", True, 10.0), ("latency_s", True, 0.005),
        ("throughput_per_s", False, 1000.0), ("energy_j", True, 0.002),
    ]  # fmt: skip


MISTAKES = {
    "area <= 20": "has 'area' (did you mean area_mm2?); needs one of: latency_s",
    "area_mm2 < 20": "needs FIGURE <= VALUE or FIGURE >= VALUE",
    "area_mm2 = 20": "needs FIGURE <= VALUE",
    "area_mm2 <= 20 <= 30": "needs FIGURE <= VALUE",
    "20 >= area_mm2": "has '20'; needs one of",
    "latency_s <= 5 mm": "latency_s has unit 'mm'; needs one of: ps",
    "latency_s <= five": "latency_s has 'five'; needs a number",
    "latency_s <= -1": "needs a limit above zero",
    "area_mm2 <= 0": "needs a limit above zero",
    "area_mm2 <= 1e999": "needs a finite number",
    "throughput_per_s >= 5 img/s": "throughput_per_s; needs a number",
    "__import__('os').getcwd() <= 2": "needs FIGURE <= VALUE",
    "latency_s <= " + "9" * 100: "needs FIGURE <= VALUE",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_gets_one_message_with_file_and_key(text: str, tmp_path: Path) -> None:
    path = study(tmp_path, json.dumps([text]))
    with pytest.raises(ExperimentError) as raised:
        read_experiment(path)

    assert str(raised.value).startswith(f"{path}: constraints: ")
    assert MISTAKES[text] in str(raised.value)
    assert "\n" not in str(raised.value)


def test_constraints_that_repeat_or_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConstraintError, match="needs one limit of a kind per figure"):
        read_constraints(["area_mm2 <= 1", "area_mm2 <= 2"])
    with pytest.raises(ConstraintError, match="no point can keep together"):
        read_constraints(["area_mm2 >= 2", "area_mm2 <= 1"])
    assert len(read_constraints(["area_mm2 >= 1", "area_mm2 <= 1"])) == 2


def test_excess_is_a_fraction_of_the_limit_and_an_unknown_figure_keeps_none() -> None:
    at_most, at_least = read_constraints(["area_mm2 <= 20", "throughput_per_s >= 100"])

    assert at_most.excess({"area_mm2": 30.0}) == pytest.approx(0.5)
    assert at_most.excess({"area_mm2": 20}) == 0
    assert at_least.excess({"throughput_per_s": 50.0}) == pytest.approx(0.5)
    assert at_most.excess({}) == at_most.excess({"area_mm2": None}) == inf
    assert violated({"area_mm2": 21.0, "throughput_per_s": 100.0}, [at_most, at_least]) == "area_mm2 <= 20"


def figure(row: Row, name: str) -> float:
    value = row[name]
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize("method", ["tpe", "nsga2"])
def test_a_search_keeps_to_its_constraints(method: str, tmp_path: Path) -> None:
    grid, limits = wide_grid(tmp_path, "[graphturbo]"), read_constraints(["area_mm2 <= 40"])
    everything = formula([grid.point(number) for number in range(grid.designs)])
    best = min(figure(row, "latency_s") for row in everything if figure(row, "area_mm2") <= 40)
    aims = Aim(["latency_s"], limits), Aim(["latency_s"])
    found = [formula([point for (point,) in search_designs(method, grid, aim, 120, 0, formula)][:60]) for aim in aims]
    kept, free = (
        [figure(row, "latency_s") for row in rows if figure(row, "area_mm2") <= 40] for rows in found
    )  # of bert-tiny, whose search comes first

    assert len(kept) > 1.3 * len(free), "the budget goes to designs within the constraint"
    assert min(kept) <= best * 1.15


def test_points_beyond_a_constraint_are_stored_marked_and_never_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = study(tmp_path, "[area_mm2 <= 350 mm2]"), tmp_path / "out"
    assert main(["run", str(path), "--out", str(folder), "--workers", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    rows = pd.read_csv(folder / "results.csv")
    page = (folder / "report.html").read_text()

    assert set(rows.loc[rows["area_mm2"] > 350, "violates"]) == {"area_mm2 <= 350 mm2"}
    assert rows.loc[rows["area_mm2"] <= 350, "violates"].isna().all()
    beyond = int((rows["area_mm2"] > 350).sum())
    assert answer["infeasible"] == beyond > 0
    assert all(point["area_mm2"] <= 350 for point in answer["best"])
    best = rows.loc[rows["area_mm2"] <= 350, "latency_s"].min()
    assert answer["best"][0]["latency_s"] == pytest.approx(best)
    assert best > rows["latency_s"].min()
    assert "within area_mm2 &lt;= 350 mm2" in page.partition("<h1>")[2].partition("</h1>")[0]
    assert "beyond a constraint" in page
    with sqlite3.connect(folder / "results.sqlite") as connection:
        stored = connection.execute("SELECT count(*) FROM runs WHERE violates IS NOT NULL").fetchone()
    assert stored == (beyond,)

    study(tmp_path, "[]")  # the same points without the constraint: nothing is computed again, and no mark stays
    assert main(["run", str(path), "--out", str(folder), "--workers", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["computed"] == 0
    assert "violates" not in pd.read_csv(folder / "results.csv")


def test_where_nothing_keeps_the_constraints_the_answer_names_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = study(tmp_path, "[area_mm2 <= 1]"), tmp_path / "out"
    assert main(["run", str(path), "--out", str(folder), "--workers", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    least = pd.read_csv(folder / "results.csv")["area_mm2"].min()

    assert answer["best"] == []
    assert answer["answer"].startswith("Of 3 points none keeps area_mm2 <= 1. The nearest is bert-tiny on stcp920")
    assert f"area {least:.0f} mm²" in answer["answer"]


def test_the_headline_is_about_the_objective_that_was_asked_for() -> None:
    rows = [
        {"model": "net", "hardware": "m", "policy": "unfused", "clusters": str(number), "batch": 1, "dtype": "fp16",
         "latency_s": 1.0 / number, "energy_j": float(number)}
        for number in (1, 2)
    ]  # fmt: skip
    studied = Study(
        name="s", question="", hardware_name="m", hardware_rows=(), swept={"clusters": ("1", "2")},
        objectives=("energy_j",), frame=pd.DataFrame(rows), timelines=(), provenance={},
    )  # fmt: skip
    by_latency = replace(studied, objectives=("latency_s",))

    assert best_of(studied).sentence == (
        "The best found, by energy: net, unfused at clusters = 1 (1.00 J; 1 of 2 points)."
    )
    assert best_of(by_latency).sentence == "", "a grid by latency compares policies"


def test_machines_of_different_dtypes_are_compared_with_a_warning_only() -> None:
    rows = [
        {"model": "net", "hardware": name, "policy": "unfused", "batch": 1, "dtype": dtype, "latency_s": 1.0}
        for name, dtype in (("one", "fp16"), ("other", "int8"))
    ]
    alike = [{**row, "dtype": "fp16"} for row in rows]

    warning = dtypes_warning(prepared(pd.DataFrame(rows), ()))
    assert "one computes in fp16 and other computes in int8" in warning
    assert dtypes_warning(prepared(pd.DataFrame(alike), ())) == ""
