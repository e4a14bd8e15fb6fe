"""The page on accuracy: its figures by hand, and what it reads."""

import re
from dataclasses import astuple

import pytest

from dsascape.experiments.papers.accuracy_cpus import epyc_rows, measured_rows
from dsascape.experiments.papers.comparisons import MEASURED, Compared
from dsascape.experiments.papers.rooflines import roofline_s
from dsascape.hw_models import Cpu, load_hardware, preset_names
from dsascape.hw_models.machine_files.load import with_values
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.scheduler import policy_types
from dsascape.workloads import load_network


def test_error_bias_and_rank_of_a_comparison() -> None:
    # a half too much, and a half too little: errors of 100 and 50 %, twice and half the true figure
    row = Compared("kernels", "measured", (2.0, 1.0), (1.0, 2.0)).row

    assert row == ("kernels", "measured", 2, "75.0%", "+0.0%", "")


def test_a_roofline_stands_beside_what_is_published() -> None:
    row = Compared("networks", "published", (2.0,), (2.0,), (1.0,)).row_by_roofline

    assert row == ("networks", "published", 1, "0.0%", "+0.0%", "", "50.0%, -50.0%")


def test_a_roofline_is_arithmetic_at_the_peak_of_the_cores_at_work_or_bytes_at_that_of_memory() -> None:
    network, machine = load_network("squeezenet"), load_hardware("snapdragon835", Cpu)
    # four lanes on one pipe of 2.45 GHz in each of four large cores; then 1.9 GHz of the little ones, too
    one, eight = 4 * 2.45e9, 4 * 4 * (2.45e9 + 1.9e9)

    macs = network.operations.macs
    assert roofline_s(network, machine, "fp32", 1) == pytest.approx(macs / one)
    assert roofline_s(network, machine, "fp32", 8) == pytest.approx(macs / eight)
    slow = with_values(machine, {"dram.bandwidth": "1 MB/s"})
    assert roofline_s(network, slow, "fp16", 8) == pytest.approx(roofline_s(network, slow, "fp32", 8) / 2)


def test_ranks_are_said_of_four_cases_and_more() -> None:
    assert Compared("", "", (1.0, 2.0, 3.0, 5.0), (2.0, 3.0, 4.0, 5.0)).row[-1] == "1.00"


def test_measured_tables_have_kernels_and_networks_on_one_thread_and_two_and_pairs() -> None:
    rows = measured_rows()

    assert [each.what.split(",")[0] for each in rows] == ["kernels"] * 2 + ["networks"] * 2 + ["one kernel by two"] * 2
    assert all(len(each.predicted) == len(each.true) > 10 for each in rows)
    assert all(value > 0 for each in rows for values in astuple(each)[2:] for value in values)


def test_networks_on_several_threads_are_told_apart_by_where_cores_lay() -> None:
    rows = [each for each in epyc_rows() if each.what.startswith("networks")]

    assert [(each.what, each.beside) for each in rows] == [
        ("networks", "measured on 1 thread"), ("networks, cores as calibrated", "measured on 2 threads"),
        ("networks, cores elsewhere", "measured on 2 threads"),
    ]  # fmt: skip
    assert len(rows[0].true) == len(rows[1].true) + len(rows[2].true)


def test_no_file_of_figures_names_a_folder_of_the_machine_that_made_it() -> None:
    files = [each for each in MEASURED.parent.rglob("*") if each.suffix in {".csv", ".json", ".yaml"}]
    of_a_machine = re.compile(r"file://|(?<![\w.])/(?:tmp|home|root|work|Users)/")

    assert files
    assert [each for each in files if of_a_machine.search(each.read_text(encoding="utf-8"))] == []


def test_published_figures_name_their_source_and_a_preset() -> None:
    published = read_yaml(MEASURED / "published.yaml")

    assert {each["hardware"] for each in (*published["latencies"], *published["powers"])} <= {*preset_names()}
    assert all(each["source"] for each in (*published["latencies"], *published["powers"]))
    assert {each["policy"] for each in published["latencies"]} <= {*policy_types()}
    assert [each["watts"] for each in published["powers"]] == pytest.approx(
        [300, 300, 400, 700, 700]
    )
    parts = published["powers_by_part"]
    assert {each["hardware"] for each in parts} <= {*preset_names()}
    assert all(one["source"] for each in parts for one in each.get("measured", ()))
