"""The page that compares predictions with measurements shows the figures in the tables of a measured run."""

import json
from pathlib import Path

import pandas as pd
import pytest

from dsascape.experiments.papers.measured_fusion import BASELINE
from dsascape.experiments.papers.measured_page import main, page


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    facts = json.dumps({"processor": "P", "architecture": "x", "cores": 2, "versions": {"apache-tvm": "0.27"}})
    points = pd.DataFrame({
        "model": "net", "policy": ["unfused", "fixed-pattern"], "tuning.threads": 1, "latency_s": [3e-3, 1e-3],
        "measured_s": [2e-3, 2.5e-3], "mape": 0.1, "spearman": 0.9, "kendall": 0.8, "is_correct": 1,
        "hardware": "host", "device_facts": facts, "measured_at": "2030-01-02T03:04:05",
        "warnings": ["", "the machine was busy"],
    })  # fmt: skip
    kernels = pd.DataFrame({
        "model": "net", "policy": "unfused", "tuning.threads": 1, "kernel": ["kernel0_conv", "kernel1_relu"],
        "measured_s": [1e-6, 4e-6], "predicted_s": [1.5e-6, 3e-6], "predicted_parts_s.core": [1e-6, 2e-6],
    })  # fmt: skip
    points.to_csv(tmp_path / "results.csv", index=False)
    kernels.to_csv(tmp_path / "kernels.csv", index=False)
    return tmp_path


def test_kernels_networks_and_choices_are_summed_up(tables: Path) -> None:
    text = page(tables)

    assert "on 2030-01-02; apache-tvm 0.27" in text
    assert "2 kernels: mean error 37.5%, rank correlation 1.000 (Spearman), 1.000 (Kendall)" in text
    assert "2 runs of whole networks: mean error 55.0%" in text
    # fixed-pattern looks faster, and takes a quarter more
    assert "| net | 1 | fixed-pattern | unfused | 25.0% |" in text
    assert "largest regret: 25.0%" in text
    assert "1 of 2 runs began on a busy machine" in text


def test_points_of_a_gpu_have_a_machine_in_place_of_threads(tables: Path) -> None:
    for name in ("results.csv", "kernels.csv"):
        frame = pd.read_csv(tables / name).drop(columns="tuning.threads").assign(hardware="h100")
        frame.to_csv(tables / name, index=False)
    text = page(tables)

    assert "The machine that predicts: `h100`." in text
    assert "| net | h100 | fixed-pattern | unfused | 25.0% |" in text


def test_kernels_are_in_order_of_the_time_that_is_missed(tables: Path) -> None:
    rows = [line for line in page(tables).splitlines() if "| kernel" in line and line.startswith("| net |")]

    assert [row.split(" | ")[3] for row in rows] == ["kernel1_relu", "kernel0_conv"]
    assert "| 4.0 | 3.0 | -25% | 2.0 |" in rows[0]


def test_a_kernel_with_two_convolutions_is_compared_with_the_two_it_replaces(tables: Path) -> None:
    first, *others = ("node_Conv_811", "n4_2"), ("node_Conv_813",)
    rows = [(BASELINE, first, 300e-6, 200e-6), (BASELINE, others[0], 100e-6, 100e-6)]
    rows += [("ago", (*first, *others[0]), 200e-6, 240e-6), ("ago", ("node_Conv_815",), 1e-6, 1e-6)]
    kernels = pd.DataFrame([
        {"model": "mobilenet-v2", "policy": policy, "tuning.threads": 1, "kernel": "kernel",
         "operators": ", ".join(ops), "measured_s": measured_s, "predicted_s": predicted_s}
        for policy, ops, measured_s, predicted_s in rows
    ])  # fmt: skip
    kernels.to_csv(tables / "kernels.csv", index=False)

    # 400 us apart, 200 together; predicted 300 and 240
    assert "| mobilenet-v2 | ago | node_Conv_811, node_Conv_813 | 2.00 | 1.25 |" in page(tables)
    assert "Of 1 predictions, 1 say rightly whether it pays" in page(tables)


def test_the_page_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "page.md"

    assert main([str(out)]) == 0
    assert out.read_text(encoding="utf-8") == page()
