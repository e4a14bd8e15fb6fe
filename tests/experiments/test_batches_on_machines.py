"""Whatever a machine shares out, a network counts as the file that an exporter writes at these sizes."""

import json
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsascape
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.layers import layers_of
from dsascape.experiments.point.roofline import roofline_s
from dsascape.experiments.question.reading import read_experiment
from dsascape.hw_models import load_hardware
from dsascape.workloads import WorkloadError
from tests.experiments.terminal import Terminal
from tests.tiers import examples
from tests.workloads.batch.towers import Towers, figures_of, towers, written

POLICIES = ("stcp920", "fixed-pattern"), ("stcp920", "graphturbo"), ("stcp920", "astitch"), ("stcp920", "ago"), (
    "kirin990", "fixed-pattern"), ("h100", "fixed-pattern"), ("h100", "graphturbo"), ("h100", "astitch")  # fmt: skip
PRODUCTS = Towers("shared weight", "features", "transposed operand", None, has_scale=False)
TEMPLATE = Towers("shared weight", None, "product", "product", has_scale=False)
"""By hand: 576 multiply-accumulates whatever the batch, 272 for each image."""
J_PER_MAC = 0.97e-12
"""Energy of a multiply-accumulate of the machine of four clusters in fp16, as its file has it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


def saved(folder: Path, net: Towers, images: int | str, texts: int | str) -> str:
    onnx.save(written(net, images, texts), folder / "net.onnx")
    return str(folder / "net.onnx")


@given(net=towers(), images=st.sampled_from([1, 2, 3, 4, 5, 8]), texts=st.sampled_from([1, 2, 3, 8, 9]), on=st.data())
@settings(deadline=None, max_examples=examples(80))
def test_multiply_accumulates_are_those_of_the_file_at_these_sizes(
    folder: Path, net: Towers, images: int, texts: int, on: st.DataObject
) -> None:
    hardware, policy = on.draw(st.sampled_from(POLICIES))
    wanted = figures_of(written(net, images, texts))
    stated = {"text_batch": texts} if net.texts is not None else {}
    names = (images, texts) if net.bakes_images else ("image_batch", "text_batch")
    path = saved(folder, net, *names)
    dims = {} if net.bakes_images else {"image_batch": images, **stated}
    outcome = dsascape.simulate(path, hardware, policy, batch=images, dims=dims)

    assert outcome.record.macs == wanted.macs
    if hardware == "stcp920":
        assert outcome.record.energy_parts_j["macs"] >= wanted.macs * J_PER_MAC * 0.99


@pytest.mark.parametrize("batch", [1, 4, 6, 8])
def test_a_branch_without_a_batch_counts_once_on_clusters(folder: Path, batch: int) -> None:
    path, spec = saved(folder, TEMPLATE, "N", 0), load_hardware("stcp920")
    every = dsascape.simulate(path, spec, "fixed-pattern", batch=batch, tuning={"kernels_divided": "never"})
    shared = dsascape.simulate(path, spec, "fixed-pattern", batch=batch)

    assert every.record.macs == shared.record.macs == 576 + 272 * batch
    assert shared.record.latency_s <= every.record.latency_s
    assert roofline_s(every, spec) == pytest.approx(roofline_s(shared, spec))


def test_sizes_stated_on_the_command_line_stay(terminal: Terminal, folder: Path) -> None:
    path = saved(folder, PRODUCTS, "image_batch_size", "text_batch_size")
    dims = ["--dim", "image_batch_size=4", "--dim", "text_batch_size=9"]
    data = terminal.json("simulate", path, "--hardware", "stcp920", "--policy", "fixed-pattern", *dims)

    assert (data["batch"], data["macs"], data["batch_dims"]) == (4, 4 * 128 + 9 * 64 + 36 * 8, {"img": 0})


def test_sizes_stated_in_an_experiment_stay_at_every_batch(folder: Path) -> None:
    path = saved(folder, PRODUCTS, "image_batch_size", "text_batch_size")
    entry = {"model": path, "batch": [1, 6], "dims": {"text_batch_size": 9}}
    study = {"name": "towers", "workloads": [entry], "hardware": "stcp920", "policies": ["fixed-pattern"]}
    (folder / "study.yaml").write_text(json.dumps(study))
    grid = read_experiment(folder / "study.yaml")[1]
    points = [grid.point(number) for number in range(grid.size)]

    assert [evaluate(point).record.macs for point in points] == [128 + 9 * 64 + 72, 6 * (128 + 72) + 9 * 64]


def test_one_of_two_open_batches_is_asked_for_however_few_a_cluster_takes(folder: Path) -> None:
    path = saved(folder, PRODUCTS, "image_batch_size", "text_batch_size")

    with pytest.raises(WorkloadError, match="state one, such as --dim text_batch_size="):
        dsascape.simulate(path, "stcp920", "fixed-pattern", batch=4)


def test_a_batch_that_cannot_be_split_is_run_whole(folder: Path) -> None:
    path = saved(folder, PRODUCTS, "N", "N")
    record = dsascape.simulate(path, "stcp920", "fixed-pattern", batch=8).record

    assert (record.batch, record.macs, record.padded) == (8, 8 * 128 + 8 * 64 + 64 * 8, 0)
    assert record.throughput_per_s == pytest.approx(8 / record.latency_s)


def test_what_has_no_batch_is_named_with_its_whole_shape(folder: Path) -> None:
    path = saved(folder, TEMPLATE, "N", 0)
    outcome = dsascape.simulate(path, "h100", "unfused", batch=9)
    names = {layer.layer: layer.name.split()[-1] for layer in layers_of(outcome)}
    branch = next(op for op in outcome.schedule.graph.ops if "z" in op.inputs)

    assert names[branch.outputs[0]] == "9\N{MULTIPLICATION SIGN}8"
    assert "8" in names.values()
