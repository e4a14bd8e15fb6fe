"""One name per layer in every command: its kernel's number in the plan, its operators' types, its output's shape."""

import json
import re
from pathlib import Path

import onnx
import pandas as pd
import pytest

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.layers import instruction_names, layers_of
from dsascape.experiments.question.points import DesignPoint, Workload, policy_of
from dsascape.experiments.report.build import timeline_of
from dsascape.experiments.report.words import TIMES
from dsascape.experiments.results.profile import matched
from dsascape.experiments.results.profile_files import ProfileRow
from dsascape.experiments.results.snapshot import KeptLayer, read_snapshot
from dsascape.experiments.shell.cli import main
from dsascape.fusion import FusionPlan
from dsascape.fusion.layer_names import kernel_layer_name, layer_name
from dsascape.fusion.plan import Group, plan_from_groups
from dsascape.hw_models import load_hardware
from dsascape.scheduler.gpu.kind import GPU
from dsascape.scheduler.kinds.any_kind import OpaqueKind
from dsascape.tuner.codegen.names import layers_of_kernels, layers_of_launches
from dsascape.workloads import load_network
from tests.experiments.onnx_block import block
from tests.experiments.studies import Reader
from tests.experiments.terminal import Terminal
from tests.experiments.test_far_beyond import tagger

LAUNCHES = "(kernel launches)"
MACHINES = ("stcp920", "kirin990", "a100")


def named(text: str) -> str:
    """A text in which shapes are written with ``x``, with multiplication signs."""
    return re.sub(r"(?<=\d)x(?=\d)", TIMES, text)


def blocks_of_resnet() -> FusionPlan:
    """ResNet-18 with its first convolution and activation in one kernel, and all else in another."""
    graph = load_network("resnet18", batch=4)
    return plan_from_groups(graph, [Group((0, 1)), Group(tuple(range(2, len(graph.ops))))])


class TestAName:
    def test_has_the_number_the_types_and_the_shape_of_one_image(self) -> None:
        plan = blocks_of_resnet()

        assert kernel_layer_name(plan, 0) == named("#0 Conv+Relu 64x112x112")
        assert kernel_layer_name(plan, 1) == "#1 MaxPool+Conv+Relu+...+Gemm 1000"

    def test_has_views_only_where_there_is_nothing_else(self) -> None:
        graph = load_network("resnet18", batch=4)
        (view,) = [position for position, op in enumerate(graph.ops) if op.is_view]

        assert layer_name("7", graph, (view,), graph.ops[view].outputs[0]) == "#7 Reshape 512"
        assert layer_name("7", graph, (view, view + 1), graph.ops[view + 1].outputs[0]) == "#7 Gemm 1000"

    def test_has_all_dimensions_where_the_first_is_no_batch(self) -> None:
        graph = load_network("resnet18", batch=4)

        assert layer_name("0.2", graph, (0,), graph.ops[0].inputs[1]) == named("#0.2 Conv 64x3x7x7")


DIRECTLY = {name: ("--dtype", "int8") if name == "kirin990" else () for name in MACHINES}
"""Options with which each machine computes every convolution as one layer."""


@pytest.mark.parametrize("hardware", MACHINES)
class TestEveryCommand:
    """Sets of names in simulate, fuse, traces and pictures, which are equal."""

    def test_has_the_same_names(self, hardware: str, terminal: Terminal, tmp_path: Path) -> None:
        trace, picture = tmp_path / "trace.json", tmp_path / "plan.svg"
        argv = "resnet18", "--hardware", hardware, "--policy", "fixed-pattern", *DIRECTLY[hardware]
        simulated = terminal.json("simulate", *argv, "--trace", str(trace))
        fused = terminal.json("fuse", *argv, "--picture", str(picture))
        names = {layer["name"] for layer in simulated["layers"]} - {LAUNCHES}

        planned = [name for layers in fused["layers"] for name in layers]
        assert sorted(names) == sorted(planned)
        assert len(planned) == fused["kernels"] == len(set(planned))
        assert named("#16 Conv+Relu 512x7x7") in names
        drawn = Reader(picture.read_text(encoding="utf-8")).text
        assert all(name in drawn for name in names)
        slices = {event["name"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"}
        assert {name for name in names if any(each.startswith(name) for each in slices)} == names

    def test_shows_them_with_the_nodes_of_the_file(self, hardware: str, terminal: Terminal) -> None:
        argv = "resnet18", "--hardware", hardware, "--policy", "fixed-pattern", *DIRECTLY[hardware]

        shown = terminal.out("simulate", *argv, "--wide")
        assert named("#15 Conv+Add+Relu 256x14x14") in shown
        assert "node_Conv_319, node_add_5, node_relu_12" in shown
        assert named("#15 Conv+Add+Relu 256x14x14") in terminal.out("fuse", *argv)


def test_phases_of_a_convolution_have_numbers_of_their_own(terminal: Terminal) -> None:
    simulated = [layer["name"] for layer in terminal.json(
        "simulate", "resnet18", "--hardware", "kirin990", "--policy", "fixed-pattern"
    )["layers"]]  # fmt: skip

    of_one = [name for name in simulated if name.startswith("#3.")]
    assert of_one == [named(each) for each in (
        "#3.0 Winograd+Winograd 14x6x6x14x64", "#3.1 Winograd 14x6x6x14x64", "#3.2 Winograd+Winograd+Add+Relu 64x56x56",
    )]  # fmt: skip


def test_layers_of_one_kernel_have_numbers_of_their_own(terminal: Terminal) -> None:
    argv = "resnet18", "--hardware", "stcp920", "--policy", "graphturbo"
    simulated = [layer["name"] for layer in terminal.json("simulate", *argv)["layers"]]
    fused = terminal.json("fuse", *argv)["layers"]

    assert set(simulated) - {LAUNCHES} == {name for layers in fused for name in layers}
    assert len(fused) == 1
    assert len(set(simulated)) == len(simulated)
    assert named("#0.18 Conv+Add+Relu 512x7x7") in simulated
    assert named("#0.18 Conv+Add+Relu 512x7x7") in terminal.out("fuse", *argv)


@pytest.mark.parametrize(("hardware", "policy"), [("kirin990", "ago"), ("a100", "dnnfusion"), ("stcp920", "dnnfusion")])
def test_kernels_that_a_machine_cuts_into_layers_are_named_before_they_are_scheduled(
    hardware: str, policy: str, terminal: Terminal
) -> None:
    argv = "bert-tiny", "--hardware", hardware, "--policy", policy
    simulated = [layer["name"] for layer in terminal.json("simulate", *argv)["layers"]]
    fused = [name for layers in terminal.json("fuse", *argv)["layers"] for name in layers]

    assert sorted({*simulated} - {LAUNCHES}) == sorted(fused)


@pytest.mark.parametrize("hardware", MACHINES)
def test_layers_of_a_recurrence_have_the_same_names_in_its_plan(
    hardware: str, terminal: Terminal, tmp_path: Path
) -> None:
    onnx.save(tagger(20, 64), str(tmp_path / "tagger.onnx"))
    argv = str(tmp_path / "tagger.onnx"), "--hardware", hardware, "--policy", "unfused"
    simulated = {layer["name"] for layer in terminal.json("simulate", *argv)["layers"]} - {LAUNCHES}
    fused = [name for layers in terminal.json("fuse", *argv)["layers"] for name in layers]

    assert sorted(simulated) == sorted(fused)
    assert all(name.startswith("#0.") for name in fused) or len(fused) == 1


@pytest.mark.parametrize("policy", ["unfused", "fixed-pattern", "dnnfusion", "ago", "graphturbo", "astitch"])
def test_names_are_unique_under_every_policy(policy: str) -> None:
    outcome = evaluate(DesignPoint(Workload("bert-tiny", batch=4), load_hardware("stcp920"), policy_of(policy)))
    names = [layer.name for layer in layers_of(outcome)]

    assert len(set(names)) == len(names)
    assert all(name.startswith("#") for name in names if name != LAUNCHES)


class TestATimeline:
    def test_has_the_layers_with_what_an_instruction_does(self) -> None:
        point = DesignPoint(Workload("bert-tiny", batch=4), load_hardware("stcp920"), policy_of("fixed-pattern"))
        outcome = evaluate(point)
        names = {layer.name for layer in layers_of(outcome)} - {LAUNCHES}
        called = instruction_names(outcome)

        assert len(called) == len(outcome.program.instructions)
        assert {name for name in names if f"{name} weights" in called}
        assert all(name.startswith("#") for name in called)
        spans = {span.label for _, spans in timeline_of(outcome, point).lanes for span in spans}
        assert spans <= set(called)

    def test_numbers_the_launches_of_a_kernel_in_instances(self) -> None:
        point = DesignPoint(Workload("resnet18", batch=16), load_hardware("stcp920"), policy_of("graphturbo"))
        outcome = evaluate(point)
        launches = [
            name for name, layer_run in zip(
                instruction_names(outcome), outcome.program.instructions.layer_runs, strict=True
            ) if layer_run < 0
        ]  # fmt: skip

        assert launches
        assert len(launches) == outcome.schedule.kernels
        assert all(name.startswith("#") for name in launches)


class TestCode:
    def test_of_a_cpu_has_a_function_for_each_kernel_under_its_name(self) -> None:
        point = DesignPoint(Workload("bert-tiny"), load_hardware("kirin990"), policy_of("fixed-pattern"))
        outcome = evaluate(point)
        functions = layers_of_kernels(outcome.schedule.plan)

        assert {layer.name for layer in layers_of(outcome)} <= set(functions.values())
        numbers = {name.partition("_")[0]: layer.partition(" ")[0] for name, layer in functions.items()}
        assert numbers == {f"kernel{number}": f"#{number}" for number in range(len(outcome.schedule.plan.groups))}

    @pytest.mark.tvm
    def test_that_is_compiled_has_the_names_of_the_plan(self, terminal: Terminal, tmp_path: Path) -> None:
        pytest.importorskip("tvm")
        argv = str(block(tmp_path)), "--policy", "unfused"
        measured = terminal.json("measure", *argv, "--target", "aarch64", "--out", str(tmp_path))
        fused = terminal.json("fuse", *argv, "--hardware", "kirin990")

        planned = [name for names in fused["layers"] for name in names]
        assert [kernel["layer"] for kernel in measured["kernels"]] == planned

    def test_of_a_gpu_has_a_function_for_each_launch(self) -> None:
        point = DesignPoint(Workload("bert-tiny"), load_hardware("a100"), policy_of("fixed-pattern"))
        outcome = evaluate(point)
        functions = layers_of_launches(OpaqueKind(GPU).own_schedule(outcome.schedule))

        assert len(functions) == outcome.schedule.kernels
        assert {layer.name for layer in layers_of(outcome)} == set(functions.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("study")
    (place / "study.yaml").write_text(
        "workloads: [{model: bert-tiny, batch: 4}]\npolicies: [unfused, fixed-pattern]\nhardware: {base: stcp920}\n"
    )
    assert main(["run", str(place / "study.yaml"), "--out", str(place / "out"), "--workers", "1"]) == 0
    return place / "out"


class TestAStudy:
    def test_stores_names_and_nodes(self, folder: Path) -> None:
        layers = pd.read_csv(folder / "layers.csv")
        own = layers.loc[layers["policy"] == "fixed-pattern"]

        assert named("#10 Softmax 2x128x128") in set(own["name"])
        assert own["operators"].str.contains("node_softmax").any()

    def test_shows_them_in_a_table_that_can_be_linked(self, folder: Path) -> None:
        page = (folder / "report.html").read_text(encoding="utf-8")

        assert 'id="layer-0-10"' in page
        assert '<a href="#layer-0-' in page

    def test_is_compared_by_tensor_and_shown_by_name(self, terminal: Terminal, tmp_path: Path) -> None:
        argv = "simulate", "bert-tiny", "--hardware", "stcp920", "--policy", "fixed-pattern", "--batch", "4"
        before, after = terminal.json(*argv), terminal.json(*argv, "--set", "ddr.efficiency=0.3")
        old = {**before, "layers": [{k: v for k, v in each.items() if k != "name"} for each in before["layers"]]}
        for name, record in (("before", before), ("after", after), ("old", old)):
            (tmp_path / f"{name}.json").write_text(json.dumps(record))

        moved = terminal.json("compare", str(tmp_path / "before.json"), str(tmp_path / "after.json"))["moved"]
        assert {layer["layer"][0] for layer in moved[0]["layers"]} == {"#"}
        without = terminal.json("compare", str(tmp_path / "old.json"), str(tmp_path / "after.json"))["moved"]
        assert [layer["name"] for layer in without[0]["layers"]] == [layer["name"] for layer in moved[0]["layers"]]


def test_a_profile_may_use_the_names() -> None:
    layers = [KeptLayer("relu", 2e-6, name=named("#0 Conv+Relu 64x112x112")), KeptLayer("pool", 1e-6)]
    match = matched(layers, [ProfileRow(named("#0 Conv+Relu 64x112x112"), 3e-6), ProfileRow("pool", 1e-6)])

    assert [group.layers for group in match.groups] == [(named("#0 Conv+Relu 64x112x112"),), ("pool",)]


def test_a_stored_layer_keeps_its_name(folder: Path) -> None:
    snapshot = read_snapshot(folder)
    layers = [layer for point in snapshot.points for layer in snapshot.layers_of(point)]

    assert {layer.name[0] for layer in layers} == {"#", "("}
    assert any("node_softmax" in layer.operators for layer in layers)


def test_loops_are_printed_by_name(terminal: Terminal) -> None:
    argv = "simulate", "resnet18", "--hardware", "kirin990", "--policy", "fixed-pattern", "--loops"

    assert terminal.out(*argv, "#23 Gemm 1000") == terminal.out(*argv, "linear")
    assert named("named as in the plan, as '#0 Conv+Relu 64x112x112'") in terminal.refused(*argv, "#99")
