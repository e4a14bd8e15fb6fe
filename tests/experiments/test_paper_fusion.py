"""The pages of DNNFusion and AGO compare the right figures with the papers', and AGO's default weights are the fit."""

import pandas as pd
import pytest

from dsascape.experiments.papers import ago_tables, dnnfusion_figures, dnnfusion_tables
from dsascape.experiments.papers.ago_pairs import pairs
from dsascape.experiments.papers.ago_readings import USED, Statistics, deviations, fit, total_of
from dsascape.experiments.papers.ago_thresholds import POLICIES, Row
from dsascape.experiments.papers.ago_thresholds import table as larger_thresholds
from dsascape.experiments.papers.dnnfusion_figures import PARTLY, REWRITTEN, UNFUSED, WHOLE, WITHOUT_REWRITING
from dsascape.experiments.papers.dnnfusion_times import factors, times_over
from dsascape.experiments.papers.graphturbo_tables import Results
from dsascape.experiments.question.reading import read_experiment
from dsascape.fusion import unfused_intermediate_bytes
from dsascape.fusion.ago import BASE, BIAS, SLOPE, THRESHOLD, Weights
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.workloads import zoo_names
from tests.graphs import Net

COLUMNS = ["model", "batch", "hardware", "policy", "latency_s"]
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


class TestPartitionOfMobileViT:
    """Fig. 14 with the default weights and Td: printed | ours, and the deviation that is allowed."""

    def test_relays_row(self) -> None:
        own = ago_tables.relay_weights(Weights())
        found, printed = Statistics.of(own), AGO["fig14"]["relay"]

        assert (found.subgraphs, printed["subgraphs"]) == (236, 259)  # 9 % fewer
        assert found.trivial == pytest.approx(printed["trivial"], abs=3)  # 105 | 106
        assert found.mean == pytest.approx(printed["mean"], rel=0.12)  # 138 | 152
        assert found.median == pytest.approx(printed["median"], rel=0.15)  # 23 | 25.9
        assert found.jain == pytest.approx(printed["jain"], abs=0.04)  # 0.19 | 0.17

    def test_agos_row(self) -> None:
        own = ago_tables.ago_weights(Weights())
        found, printed = Statistics.of(own), AGO["fig14"]["ago"]

        assert found.subgraphs == pytest.approx(printed["subgraphs"], abs=8)  # 82 | 74
        assert found.trivial == 0
        assert found.mean == pytest.approx(printed["mean"], rel=0.12)  # 437 | 484
        assert found.median == pytest.approx(printed["median"], rel=0.06)  # 350 | 332
        assert found.jain == pytest.approx(printed["jain"], abs=0.1)  # 0.55 | 0.47

    def test_both_partitions_weigh_as_much(self) -> None:
        """259 x 138 and 82 x 437 in the paper."""
        relay, own = ago_tables.relay_weights(Weights()), ago_tables.ago_weights(Weights())

        assert sum(relay) == pytest.approx(sum(own)) == pytest.approx(total_of(AGO["fig14"]), rel=0.01)

    def test_three_convolutions_are_heavier_than_the_last_of_ten_bins(self) -> None:
        """The bin "[1, 2)" is the interval [2^1, 2^2), so that the tenth ends at 2,048; the paper has none beyond."""
        relay, own = (ago_tables.by_bin(row(Weights())) for row in (ago_tables.relay_weights, ago_tables.ago_weights))

        assert (sum(relay), sum(own)) == (236, 74)
        assert relay[-1] == own[-1] == 3
        assert sum(own[8:]) > 0.9 * sum(own)  # "most of them have a large weight"
        assert sum(relay[:6]) > sum(relay) / 2

    def test_the_numbers_in_use_are_the_fit(self) -> None:
        near = fit(
            USED, AGO["fig14"], bases=(BASE - 0.05, BASE, BASE + 0.05), biases=(0.0, 3.0), thresholds=(THRESHOLD,)
        )

        assert (near.base, near.bias, near.threshold) == (BASE, BIAS, THRESHOLD)
        assert near.slope == pytest.approx(SLOPE, rel=1e-3)
        assert near.largest < 1  # every figure is as near as is aimed at


def test_deviations_are_fractions_of_those_aimed_at() -> None:
    found = Statistics(97, 0, 120.0, 80.0, 0.5)
    printed = {"subgraphs": 82, "trivial": None, "mean": 100, "median": 100, "jain": 0.6}

    assert deviations(found, printed) == pytest.approx([1.0, 1.0, -1.0, -1.0])


def test_a_larger_threshold_is_compared_by_time_and_planning_time() -> None:
    rows: list[Row] = [
        {
            "network": "squeezenet",
            "machine": "kirin990",
            "policy": policy,
            "latency_s": latency_s,
            "planning_s": planning_s,
        }
        for policy, latency_s, planning_s in zip(POLICIES, (3e-6, 2e-6, 1.5e-6), (1.0, 1.0, 4.0), strict=True)
    ]

    assert cells(larger_thresholds(rows), "kirin990")[1:] == ["squeezenet", "3", "2", "1.5", "25", "1", "4", "4"]


def test_jains_index_is_one_where_all_weigh_the_same() -> None:
    assert Statistics.of([10.0] * 4) == Statistics(4, 4, 10.0, 10.0, 1.0)
    assert Statistics.of([40.0, 0.0, 0.0, 0.0]).jain == pytest.approx(0.25)


def test_every_network_of_the_paper_has_its_raw_export() -> None:
    assert {f"{name}-raw" for name in DNNFUSION["networks"]} <= set(zoo_names())


def test_counts_and_sizes_are_compared_with_the_papers() -> None:
    paper = {"networks": {"vgg16": DNNFUSION["networks"]["vgg16"], "c3d": DNNFUSION["networks"]["c3d"]}}

    counts = dnnfusion_tables.table5_counts(paper)
    assert cells(counts, "vgg16")[1:7] == ["51", "51", "+0 %", "22", "22", "+0 %"]
    assert cells(counts, "c3d")[7::2] == ["n/a", "n/a"]
    assert cells(dnnfusion_tables.table6_sizes(paper), "vgg16")[1:4] == ["138", "138", "+0 %"]


def test_times_are_those_of_the_policy_with_just_its_options() -> None:
    milliseconds = {"unfused": 30, "fixed-pattern": 20, "dnnfusion": 10, "dnnfusion(rewriting=false)": 15}
    rows = [
        {"model": "vgg16-raw", "batch": 1, "hardware": "phone", "policy": policy, "latency_s": value / 1e3}
        for policy, value in milliseconds.items()
    ]
    paper = {**DNNFUSION, "networks": {"vgg16": DNNFUSION["networks"]["vgg16"]}}
    found = cells(dnnfusion_tables.table6_times(paper, Results(pd.DataFrame(rows))), "vgg16")

    assert found[1:7] == ["251", "30", "231", "20", "171", "10"]
    assert found[8] == "2"


def test_gpu_times_are_compared_with_those_of_the_papers_gpu() -> None:
    paper = {**DNNFUSION, "networks": {"vgg16": DNNFUSION["networks"]["vgg16"]}}

    assert cells(dnnfusion_tables.table6_times(paper, Results(pd.DataFrame(columns=COLUMNS)), "gpu"), "vgg16")[1:7] == [
        "121", "n/a", "97", "n/a", "65", "n/a",
    ]  # fmt: skip


def test_steps_are_speed_ups_over_the_step_before() -> None:
    steps = (UNFUSED, REWRITTEN, PARTLY, WHOLE, WITHOUT_REWRITING)
    rows = [
        {"model": "gpt2-raw", "batch": 1, "policy": policy, "latency_s": value / 1e3}
        for policy, value in zip(steps, (24, 12, 6, 3, 4.5), strict=True)
    ]
    text = dnnfusion_figures.figure7(DNNFUSION, {"snapdragon865": Results(pd.DataFrame(rows))})
    (line,) = (line for line in text.splitlines() if "gpt2" in line)

    assert [cell.strip() for cell in line.strip("|").split("|")][2:] == ["24", "2", "2", "2", "1.5", "8"]


def test_times_that_grow_with_one_quantity_are_explained_by_it_without_error() -> None:
    networks: dict[str, dict[str, float]] = {
        name: {"layers": layers, "gflop": 1.0, "irs_mb": 10.0 / layers, "ourb_ms": 2.0 * layers}
        for name, layers in (("one", 3), ("two", 7))
    }
    networks["large-rcnn"] = {**networks["one"], "ourb_ms": 18.0}
    found = factors([networks["one"], networks["two"]], ["layers"], "ourb_ms")

    assert found == pytest.approx([2.0])
    assert times_over([networks["large-rcnn"]], ["layers"], "ourb_ms", found) == pytest.approx([6.0 / 18.0])


def test_layers_explain_the_papers_times_less_than_operations_and_intermediate_results_do() -> None:
    timed = [each for name, each in DNNFUSION["networks"].items() if each["ourb_ms"] and "rcnn" not in name]
    errors = {
        quantities: abs(times_over(timed, quantities, "ourb_ms", factors(timed, quantities, "ourb_ms")) - 1).mean()
        for quantities in (("layers",), ("gflop", "irs_mb"))
    }

    assert errors[("layers",)] > 0.5
    assert errors[("gflop", "irs_mb")] < 0.15


def test_bytes_before_fusion_are_those_that_fuse_says() -> None:
    """Views hand on nothing."""
    paper = {"networks": {"bert-base": DNNFUSION["networks"]["bert-base"]}}
    graph = dnnfusion_tables.network("bert-base")
    before = unfused_intermediate_bytes(graph)

    assert cells(dnnfusion_tables.table5_sizes(paper), "bert-base")[2] == f"{before / 1e6:,.0f}"
    assert before < graph.activation_bytes


def test_pairs_are_layers_with_one_convolution_of_which_one_reads_the_other_alone() -> None:
    net = Net()
    x = net.relu(net.conv(net.input(1, 8, 8, 8), 16, 1))
    y = net.conv(net.relu(net.depthwise(x)), 8, 1)
    graph = net.graph(net.conv(y, 8), y)

    assert [(kind, first, second) for kind, first, second in pairs(graph)] == [
        ("pointwise, depthwise", (0, 1), (2, 3)),
        ("depthwise, pointwise", (2, 3), (4,)),
    ]
