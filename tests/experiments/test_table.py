"""Tables of operators' times: rows of distinct layers over shapes, traces for ASTRA-sim, tables for LLMServingSim."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from dsascape.experiments.engine.operator_grid import grid_times
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.point.operator_times import OperatorTime, ShapeTimes, operator_times
from dsascape.experiments.question.points import DesignPoint, Workload, policy_of
from dsascape.experiments.report.chakra import COMP_NODE, VERSION, messages, write_chakra
from dsascape.experiments.report.llm_serving_sim import module_times, write_llm_serving_sim
from dsascape.experiments.report.operator_table import COLUMNS, table_rows
from dsascape.experiments.shell.cli import parser
from dsascape.hw_models import load_hardware
from tests.docs.pages import page
from tests.experiments.terminal import Terminal

SHAPES = """
operators:
  square: {op: MatMul, inputs: [[64, 64]], weights: [[64, 64]]}
  wide: {op: MatMul, inputs: [[64, 64]], weights: [[64, 256]]}
"""


def point(
    network: str = "bert-tiny", hardware: str = "stcp920", policy: str = "fixed-pattern", **sizes: Any
) -> DesignPoint:
    return DesignPoint(Workload(network, **sizes), load_hardware(hardware), policy_of(policy))


def times(design: DesignPoint) -> ShapeTimes:
    (shape,) = grid_times([design]).shapes
    return shape


class TestLayers:
    @pytest.mark.parametrize(
        ("hardware", "policy"),
        [("stcp920", "fixed-pattern"), ("stcp920", "graphturbo"), ("kirin990", "dnnfusion"), ("a100", "unfused")],
    )
    def test_add_up_to_the_run(self, hardware: str, policy: str) -> None:
        design = point(hardware=hardware, policy=policy, batch=4)
        outcome = evaluate(design)
        layers, record = operator_times(outcome, design.hardware), outcome.record

        assert sum(each.seconds for each in layers) == pytest.approx(record.latency_s)
        assert sum(each.energy_j for each in layers) == pytest.approx(record.energy_j)
        assert sum(each.operations.macs for each in layers) == outcome.schedule.graph.operations.macs * (
            record.batch // outcome.schedule.graph.batch
        )

    def test_wait_for_those_that_they_read(self) -> None:
        layers = times(point("resnet18")).layers
        adding = next(each for each in layers if each.name.startswith("#3 Conv+Add+Relu"))

        assert [layers[place].name.partition(" ")[0] for place in adding.after] == ["#1", "#2"]
        assert all(place < number for number, each in enumerate(layers) for place in each.after)

    def test_that_compute_the_same_are_equal(self) -> None:
        layers = times(point("resnet18")).layers
        first = next(each for each in layers if each.name.startswith("#2 Conv+Relu"))
        same = [each.name.partition(" ")[0] for each in layers if layers[each.first_equal] is first]

        assert same == ["#2", "#4"]  # the first convolutions of both blocks of 64 channels

    def test_span_at_least_their_time_on_the_critical_path(self) -> None:
        for each in times(point("resnet18", batch=16, policy="graphturbo")).layers:
            assert each.span_s >= each.seconds * (1 - 1e-9)


class TestRows:
    def test_have_each_distinct_layer_once_and_count_it(self) -> None:
        shape = times(point("resnet18"))
        rows = table_rows([shape])

        assert sum(int(row["count"] or 0) for row in rows) == len(shape.layers)
        total = sum(float(row["count"] or 0) * float(row["seconds"] or 0) for row in rows)
        assert total == pytest.approx(shape.latency_s)
        (row,) = [row for row in rows if row["kernel"] == "2"]
        assert (row["operators"], row["count"], row["input_shapes"], row["output_shapes"]) == (
            "Conv+Relu", 2, "1x64x56x56", "1x64x56x56",
        )  # fmt: skip
        assert row["weight_shapes"] == "64x64x3x3;64"
        assert row["macs"] == 56 * 56 * 64 * 64 * 9
        assert row["nodes"] == "node_Conv_293;node_relu_1"

    def test_are_read_by_pandas_over_a_grid(self, terminal: Terminal, tmp_path: Path) -> None:
        out = tmp_path / "times.csv"
        argv = "table", "--network", "bert-tiny", "--hardware", "stcp920", "--out", str(out)
        told = terminal.json(*argv, "--batches", "1,4,2", "--sequence", "16,128", "--workers", "1")
        table = pd.read_csv(out)

        assert list(table)[: len(COLUMNS)] == list(COLUMNS)
        memories = ["ddr", "global_buffer", "local_buffer"]
        assert list(table)[len(COLUMNS) :] == [f"traffic_bytes.{name}" for name in memories]
        assert told["rows"] == len(table)
        assert list(dict.fromkeys(table["batch"])) == [1, 4, 2]
        for (network, batch), own in table.groupby(["network", "batch"]):
            assert network == "bert-tiny"
            latencies = [each["latency_s"] for each in told["shapes"] if each["batch"] == batch]
            assert (own["count"] * own["seconds"]).sum() == pytest.approx(sum(latencies))

    def test_have_the_tokens_of_language_models(self) -> None:
        (row, *_) = table_rows([times(point("llama-3.2-1b", "h100", batch=2, context=64, tokens=1))])

        assert (row["network"], row["batch"], row["context"], row["tokens"]) == ("llama-3.2-1b", 2, 64, 1)

    def test_of_operators_of_a_file(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "shapes.yaml").write_text(SHAPES)
        argv = "table", "--operators", str(tmp_path / "shapes.yaml"), "--hardware", "kirin990"
        terminal.json(*argv, "--out", str(tmp_path / "times.csv"))
        table = pd.read_csv(tmp_path / "times.csv")

        assert list(table["network"]) == ["square", "wide"]
        assert list(table["macs"]) == [64 * 64 * 64, 64 * 64 * 256]
        assert table["seconds"].is_monotonic_increasing
        assert "--batches does not go with --operators" in terminal.refused(
            *argv, "--batches", "1,2", "--out", str(tmp_path / "x.csv")
        )

    def test_parquet_has_the_same(self, terminal: Terminal, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow", reason="pip install -e '.[parquet]'")
        argv = "table", "--network", "bert-tiny", "--hardware", "stcp920"
        for form in ("csv", "parquet"):
            terminal.json(*argv, "--format", form, "--out", str(tmp_path / f"times.{form}"))
        read, columns = pd.read_parquet(tmp_path / "times.parquet"), pd.read_csv(tmp_path / "times.csv")

        assert list(read) == list(columns)
        assert read["seconds"].tolist() == pytest.approx(columns["seconds"].tolist())

    def test_parquet_without_pyarrow_says_what_to_install(
        self, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        argv = "table", "--network", "bert-tiny", "--hardware", "stcp920", "--format", "parquet"

        assert "pip install 'dsascape[parquet]'" in terminal.refused(*argv, "--out", str(tmp_path / "times.parquet"))

    def test_a_shape_that_does_not_run_is_named_and_the_others_are_written(
        self, terminal: Terminal, tmp_path: Path
    ) -> None:
        argv = "table", "--network", "llama-3.2-1b", "--hardware", "h100", "--out", str(tmp_path / "times.csv")
        told = terminal.out(*argv, "--tokens", "1", "--context", "8,200000", "--workers", "1", code=1)

        assert "not in the table: llama-3.2-1b, context 200000, tokens 1: llama-3.2-1b: context and tokens are" in told
        assert set(pd.read_csv(tmp_path / "times.csv")["context"]) == {8}
        assert "no shape of the grid can be simulated" in terminal.refused(
            *argv, "--tokens", "1", "--context", "200000,300000", "--workers", "1"
        )

    def test_mistakes_are_named(self, terminal: Terminal, tmp_path: Path) -> None:
        argv = "table", "--network", "bert-tiny", "--hardware", "stcp920", "--out", str(tmp_path / "times.csv")

        assert "needs each size once" in terminal.refused(*argv, "--batches", "1,1")
        assert "needs whole numbers from 1" in terminal.refused(*argv, "--batches", "1,x")
        assert "one of the arguments --network --operators is required" in terminal.refused("table", *argv[3:])


Fields = dict[int, list[bytes | int]]


def varint(content: bytes, place: int) -> tuple[int, int]:
    """Number at ``place`` and the place behind it, read without protobuf."""
    number = shift = 0
    while True:
        byte = content[place]
        number, place, shift = number | (byte & 0x7F) << shift, place + 1, shift + 7
        if not byte & 0x80:
            return number, place


def fields(content: bytes) -> Fields:
    """Values of a message by field number, read without a schema."""
    values: Fields = {}
    place = 0
    while place < len(content):
        tag, place = varint(content, place)
        kind = tag & 7
        if kind == 0:
            value: bytes | int
            value, place = varint(content, place)
        else:
            size, place = (8, place) if kind == 1 else varint(content, place)
            value, place = content[place : place + size], place + size
        values.setdefault(tag >> 3, []).append(value)
    return values


def packets(path: Path) -> Iterator[bytes]:
    """Messages of a trace, each behind its length."""
    content, place = path.read_bytes(), 0
    while place < len(content):
        size, place = varint(content, place)
        yield content[place : place + size]
        place += size


class TestChakra:
    """Fields by their numbers in Chakra's schema, read without the description that they were written with."""

    def test_has_metadata_and_a_node_for_each_layer(self, tmp_path: Path) -> None:
        shape = times(point("resnet18"))
        write_chakra(shape, tmp_path / "x.0.et")
        metadata, *nodes = map(fields, packets(tmp_path / "x.0.et"))

        assert metadata[1] == [VERSION.encode()]
        assert [node[2][0] for node in nodes] == [layer.name.encode() for layer in shape.layers]
        assert {node[3][0] for node in nodes} == {COMP_NODE}
        assert sum(int(node.get(7, [0])[0]) for node in nodes) == round(shape.latency_s * 1e6)

    def test_attributes_are_of_the_types_that_the_feeder_reads(self, tmp_path: Path) -> None:
        shape = times(point("resnet18"))
        write_chakra(shape, tmp_path / "x.0.et")
        _, _, node, *_ = map(fields, packets(tmp_path / "x.0.et"))
        entries = [fields(content) for content in node[10] if isinstance(content, bytes)]
        attributes = {entry[1][0]: entry for entry in entries}
        layer: OperatorTime = shape.layers[1]

        assert attributes[b"is_cpu_op"][27] == [0]
        assert attributes[b"num_ops"][9] == [2 * layer.operations.macs + layer.operations.simple]
        assert attributes[b"tensor_size"][13] == [layer.traffic_bytes["ddr"]]

    def test_dependencies_are_those_of_the_layers(self, tmp_path: Path) -> None:
        shape = times(point("bert-tiny"))
        write_chakra(shape, tmp_path / "x.0.et")
        _, *content = packets(tmp_path / "x.0.et")
        nodes = [messages()["Node"].FromString(each) for each in content]

        assert [tuple(node.data_deps) for node in nodes] == [layer.after for layer in shape.layers]
        assert [node.id for node in nodes] == list(range(len(nodes)))
        assert nodes[1].inputs.shapes.startswith("[[1, 128]")

    def test_of_several_shapes_is_a_file_for_each(self, terminal: Terminal, tmp_path: Path) -> None:
        argv = "table", "--network", "bert-tiny", "--hardware", "stcp920", "--format", "chakra", "--workers", "1"
        told = terminal.json(*argv, "--batches", "1,2", "--out", str(tmp_path / "bert.0.et"))

        names = [Path(name).name for name in told["files"]]
        assert names == ["bert-bert-tiny-batch1.0.et", "bert-bert-tiny-batch2.0.et"]
        assert all(Path(name).stat().st_size for name in told["files"])
        assert "needs to end in .0.et" in terminal.refused(*argv, "--out", str(tmp_path / "bert.et"))


class TestLlmServingSim:
    def test_modules_of_all_blocks_make_the_latency(self) -> None:
        shape = times(point("llama-3.2-1b", "h100", batch=2, context=64, tokens=1))
        modules = module_times(shape)
        blocks = 16
        once = modules["embedding"] + modules["final_layernorm"] + modules["lm_head"]
        block = sum(modules.values()) - once + modules["layernorm"]  # which a block has twice

        assert once + blocks * block == pytest.approx(shape.latency_s)
        assert "qk_norm" not in modules

    def test_one_prompt_is_tabulated_with_its_context(self, tmp_path: Path) -> None:
        shape = times(point("llama-3.2-1b", "h100", context=64, tokens=16))
        write_llm_serving_sim([shape], tmp_path)
        (row,) = pd.read_csv(tmp_path / "tp1" / "attention.csv").to_dict("records")

        assert (row["prefill_chunk"], row["kv_prefill"], row["n_decode"], row["kv_decode"]) == (16, 64, 0, 0)
        assert row["time_us"] == pytest.approx(module_times(shape)["attention"] * 1e6, rel=1e-5)

    def test_tables_have_the_axes_that_the_simulator_reads(self, terminal: Terminal, tmp_path: Path) -> None:
        argv = "table", "--network", "llama-3.2-1b", "--hardware", "h100", "--format", "llmservingsim", "--workers", "1"
        terminal.json(*argv, "--batches", "2", "--tokens", "1,16", "--context", "64", "--out", str(tmp_path / "fp16"))
        dense, sequences, attention = (
            pd.read_csv(tmp_path / "fp16" / "tp1" / f"{name}.csv") for name in ("dense", "per_sequence", "attention")
        )

        assert list(dense) == ["layer", "tokens", "time_us"]
        assert set(dense.loc[dense["layer"] == "qkv_proj", "tokens"]) == {2, 32}
        assert sorted(set(sequences["layer"])) == ["lm_head", "sampler"]
        assert set(sequences["sequences"]) == {2}
        shots = attention[["prefill_chunk", "kv_prefill", "n_decode", "kv_decode"]].to_numpy().tolist()
        assert shots == [[0, 0, 2, 64]]  # several prompts at once are no longer prompt
        meta = yaml.safe_load((tmp_path / "fp16" / "meta.yaml").read_text())
        assert (meta["tp_degrees"], meta["engine_effective"]["max_num_seqs"]) == ([1], 2)

    @pytest.mark.parametrize(
        ("network", "what"), [("bert-tiny", "needs one language model"), ("mamba-130m", "which is no module")]
    )
    def test_other_networks_are_refused(self, network: str, what: str, terminal: Terminal, tmp_path: Path) -> None:
        argv = "table", "--network", network, "--hardware", "h100", "--format", "llmservingsim", "--out"

        assert what in terminal.refused(*argv, str(tmp_path / "out"))


def test_columns_are_documented_as_they_are() -> None:
    text = page("table.md").text

    for name, meaning in COLUMNS.items():
        assert f"| `{name}` | {meaning} |" in text


def test_commands_of_the_page_are_taken() -> None:
    commands = re.findall(r"^    (dsascape .*)$", page("table.md").text, re.MULTILINE)

    assert len(commands) == 6
    for command in commands:
        parser().parse_args(shlex.split(command)[1:])
