"""GraphTurbo's tables compare the right figures with the paper's, and mark those that are missing."""

import pandas as pd
import pytest

from dsascape.experiments.papers.graphturbo_tables import (
    FOLDER,
    Results,
    arithmetic_mean,
    figure15,
    geometric_mean,
    markdown,
    relative,
    table2,
)
from dsascape.hw_models.text.yaml_file import read_yaml

PAPER = read_yaml(FOLDER / "paper.yaml")
NETWORKS = [(network["model"], network["batch"]) for network in PAPER["networks"].values()]


def results(**throughput: float) -> Results:
    """Return results in which every network has the throughput of each policy, by its label."""
    rows = [
        {"model": model, "batch": batch, "hardware": "dsa", "policy": policy, "throughput_per_s": value}
        for model, batch in NETWORKS
        for policy, value in throughput.items()
    ]
    return Results(pd.DataFrame(rows))


def cells(text: str, first: str) -> list[str]:
    """Return the cells of the row that begins with ``first``."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_numbers_have_three_digits_and_missing_ones_are_named() -> None:
    table = markdown(("a", "b"), [(1.23456, None), (123456.7, "x")])

    assert table.splitlines()[2:] == ["| 1.23 | n/a |", "| 123,457 | x |"]


@pytest.mark.parametrize(("ours", "paper", "text"), [(3.0, 2.0, "+50 %"), (1.0, 4.0, "-75 %"), (None, 4.0, "n/a")])
def test_differences_are_relative_to_the_paper(ours: float | None, paper: float, text: str) -> None:
    assert relative(ours, paper) == text


def test_a_mean_leaves_out_missing_values() -> None:
    assert geometric_mean([2.0, None, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([None]) is None


def test_table_2_has_speed_ups_at_batches_tried_and_at_the_paper_s() -> None:
    best = results(**{"astitch(batches_per_cluster=best)": 200.0, "graphturbo(batches_per_cluster=best)": 800.0})
    given = results(astitch=100.0, graphturbo=400.0)

    text = table2(PAPER, results(**{"fixed-pattern(batches_per_cluster=2)": 100.0}), best, given)

    assert cells(text, "A")[4:] == ["n/a", "100", "-91 %", "2", "8", "16", "1", "4"]
    assert cells(text, "over TVM | tried")[2:4] == ["11.2", "8"]
    assert cells(text, "over AStitch (ours) | the paper's")[2:4] == ["6.16", "4"]


def test_means_are_geometric_and_arithmetic_because_the_paper_does_not_say() -> None:
    assert geometric_mean([1.0, 4.0, None]) == pytest.approx(2.0)
    assert arithmetic_mean([1.0, 4.0, None]) == pytest.approx(2.5)
    assert arithmetic_mean([None]) is None


def test_rows_beyond_every_roof_are_marked_and_left_out_of_a_mean() -> None:
    """BERT-256 moves 500 MB an image here: at the paper's 412 a second that is 206 GB/s, of 136 that there are."""
    tvm = results(**{"fixed-pattern": 100.0})
    tvm.frame["utilisation.matrix"] = 0.01
    tvm.frame["traffic_bytes.ddr"] = [500e6 * batch if model == "bert-base-256" else 1.0 for model, batch in NETWORKS]
    best = results(**{"astitch(batches_per_cluster=best)": 200.0, "graphturbo(batches_per_cluster=best)": 800.0})
    best.frame.loc[best.frame["model"] == "bert-base-256", "throughput_per_s"] = 100.0

    text = table2(PAPER, tvm, best, best)

    assert cells(text, "C (!)")[4] == "151"
    assert float(cells(text, "A")[4]) < 100
    geometric, _, arithmetic, without = cells(text, "over TVM | tried")[3:]
    assert (without, geometric, arithmetic) == ("8", "6.5", "7.3")


def test_of_several_versions_of_a_point_the_newest_counts() -> None:
    both = Results(pd.concat([results(graphturbo=1.0).frame, results(graphturbo=2.0).frame]))

    assert both.figure("throughput_per_s", "resnet50", 64, "graphturbo") == 2.0


def test_the_ablation_s_variants_are_identified_by_their_options() -> None:
    variants = results(
        **{
            "graphturbo(instances=false,instruction_scheduling=false,outputs=global)": 100.0,
            "graphturbo(instances=false,instruction_scheduling=false)": 200.0,
            "graphturbo(instruction_scheduling=false)": 300.0,
            "graphturbo": 400.0,
        }
    )

    text = figure15(PAPER, results(**{"fixed-pattern": 100.0}), variants)

    assert cells(text, "A")[2:] == ["1", "2", "3", "4"]
