"""The pages of DNNFusion and AGO put the right figures beside the papers'; the weights in use are the fitted ones."""

import pandas as pd
import pytest

from experiments.grid import read_experiment
from experiments.papers import ago_tables, dnnfusion_tables
from experiments.papers.ago_tables import Statistics, fitted
from experiments.papers.graphturbo_tables import Results
from fusion.ago import BIAS, SLOPE
from hw_models.yaml_file import read_yaml
from workloads import zoo_names

AGO = read_yaml(ago_tables.FOLDER / "paper.yaml")
DNNFUSION = read_yaml(dnnfusion_tables.FOLDER / "paper.yaml")


def cells(text: str, first: str) -> list[str]:
    """Return the cells of the row that begins with ``first``."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_experiments_can_be_read() -> None:
    for tables in (ago_tables, dnnfusion_tables):
        for name in tables.EXPERIMENTS:
            _, grid = read_experiment(tables.FOLDER / f"{name}.yaml")
            assert grid.size


def test_slope_and_bias_in_use_are_those_of_the_fit() -> None:
    relay = AGO["fig14"]["relay"]
    found = fitted(relay["mean"], relay["median"])

    assert (round(found.slope, 2), round(found.bias, 2)) == (SLOPE, BIAS)


def test_jains_index_is_one_where_all_weigh_the_same() -> None:
    assert Statistics.of([10.0] * 4) == Statistics(4, 4, 10.0, 10.0, 1.0)
    assert Statistics.of([40.0, 0.0, 0.0, 0.0]).jain == pytest.approx(0.25)


def test_every_network_of_the_paper_has_its_raw_export() -> None:
    assert {f"{name}-raw" for name in DNNFUSION["networks"]} <= set(zoo_names())


def test_counts_and_sizes_stand_beside_the_papers() -> None:
    paper = {"networks": {"vgg16": DNNFUSION["networks"]["vgg16"], "c3d": DNNFUSION["networks"]["c3d"]}}

    assert cells(dnnfusion_tables.table5_counts(paper), "vgg16")[1:7] == ["51", "51", "+0 %", "22", "22", "+0 %"]
    assert cells(dnnfusion_tables.table5_counts(paper), "c3d")[7::2] == ["n/a", "n/a"]
    assert cells(dnnfusion_tables.table6_sizes(paper), "vgg16")[1:4] == ["138", "138", "+0 %"]


def test_times_are_those_of_the_policy_with_just_its_options() -> None:
    milliseconds = {"unfused": 30, "fixed-pattern": 20, "dnnfusion": 10, "dnnfusion(rewriting=false)": 15}
    rows = [
        {"model": "vgg16-raw", "batch": 1, "hardware": "phone", "policy": policy, "latency_s": value / 1e3}
        for policy, value in milliseconds.items()
    ]
    paper = {"networks": {"vgg16": DNNFUSION["networks"]["vgg16"]}}
    found = cells(dnnfusion_tables.table6_times(paper, Results(pd.DataFrame(rows))), "vgg16")

    assert found[1:7] == ["251", "30", "231", "20", "171", "10"]
    assert found[8] == "2"
