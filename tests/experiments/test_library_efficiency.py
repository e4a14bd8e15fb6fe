"""What a library reaches of the bound, by kind of kernel, as the file of a calibrated machine states it."""

from pathlib import Path

import pytest

from dsascape.experiments.real.library_efficiency import (
    SAMPLES,
    Sample,
    bound_s,
    efficiencies,
    libraries_s,
    with_efficiencies,
)
from dsascape.hw_models import Cpu, load_hardware
from dsascape.hw_models.machine_files.load import hardware_of_text
from dsascape.hw_models.machine_files.machine_file import machine_file
from dsascape.workloads.kernel_kinds import kind_of_kernel
from tests.experiments.terminal import Terminal


def test_the_share_of_the_bound_is_at_most_one() -> None:
    assert efficiencies({"product": 2e-3, "other": 3e-3}, {"product": 4e-3, "other": 1e-3}) == {
        "product": 0.5, "other": 1.0,
    }  # fmt: skip
    assert efficiencies({"memory": 1e-9}, {"memory": 1.0}) == {"memory": 0.001}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.kind)
def test_every_sample_is_of_its_kind(sample: Sample) -> None:
    kinds = {kind_of_kernel(op.nests) for op in sample.graph.ops}

    assert kinds == {"other" if sample.kind == "memory" else sample.kind}


def test_the_large_array_waits_for_dram_and_the_products_do_not() -> None:
    machine = load_hardware("epyc", Cpu)
    graphs = {sample.kind: sample.graph for sample in SAMPLES}
    moved_bytes = 2 * 64 * 1024 * 1024 * 4

    assert bound_s(graphs["memory"], machine) > moved_bytes / machine.dram.sustained_bytes_per_s
    on_one_core_s = 3 * 512**3 / (machine.peak_macs_per_s("fp32") / 2)
    assert bound_s(graphs["product"], machine) == pytest.approx(on_one_core_s, rel=0.3)


def test_onnxruntime_runs_a_sample() -> None:
    assert 0 < libraries_s({"other": SAMPLES[3].graph}, 0.05)["other"] < 1


def test_the_file_states_what_was_measured_and_how() -> None:
    text = with_efficiencies(machine_file("epyc"), {"product": 0.75, "memory": 0.9})

    assert hardware_of_text(text, "mine.yaml").library_efficiency == {"product": 0.75, "memory": 0.9}
    assert "# measured: onnxruntime" in text


@pytest.mark.parametrize("other", [["--device", "rpc://host:9090"], ["--target", "cuda"], ["--from", "results.json"]])
def test_libraries_are_those_of_this_processor(other: list[str], terminal: Terminal, tmp_path: Path) -> None:
    assert "--libraries measures this processor" in terminal.refused("calibrate", "--libraries", *other)
