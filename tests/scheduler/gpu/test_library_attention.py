"""Attention as libraries compute it: times by hand, and beside those recorded on two GPUs, which have set nothing."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.gpu_libraries import FOLDER
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.library import library_ps
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from tests.scheduler.cpu.test_recurrences import op
from tests.tiers import examples
from tests.workloads.onnx_models import model, read

H100 = load_hardware("h100", Gpu)


def attention(batch: int, heads: int, queries: int, keys: int, width: int) -> Graph:
    shapes = {"q": [batch, heads, queries, width], "k": [batch, heads, keys, width], "v": [batch, heads, keys, width]}
    built = model(op("Attention", "q k v"), inputs=shapes)
    built.opset_import[0].version = 23
    return read(built).with_dtype("fp16")


def library_us(graph: Graph, spec: Gpu = H100, dram_bytes: float = 0.0) -> float:
    layer = layer_of(Analysis(graph), range(len(graph.ops)))
    assert layer is not None
    view = GpuView(spec.launched_in_graphs, "fp16", GpuTuning(graphs=True))
    return library_ps(layer, view.of(layer), dram_bytes) / 1e6


def test_a_block_waits_multiplies_takes_exponentials_and_writes() -> None:
    """One head of 128 queries and keys: 2 x 128 x 128 x 64 multiply-accumulates, 16384 scores, 16 KiB of results."""
    products = 2 * 128 * 128 * 64 / (2048 * H100.library_efficiency["tensor"])
    exponentials = 128 * 128 * (1 / 16 + 3.5 / 128)
    by_hand = 1.2 + 3 * 0.358 + (products + exponentials + 128 * 64 * 2 / 48) * H100.cycle_ps / 1e6

    assert library_us(attention(1, 1, 128, 128, 64)) == pytest.approx(by_hand, rel=1e-6)
    assert library_us(attention(1, 132, 128, 128, 64)) == pytest.approx(by_hand, rel=1e-6)
    assert library_us(attention(1, 133, 128, 128, 64)) == pytest.approx(2 * by_hand - 1.2, rel=1e-6)


def test_a_further_step_hides_its_products_behind_exponentials() -> None:
    one, two, three = [library_us(attention(1, 1, 128, keys, 64)) for keys in (128, 256, 384)]

    assert three - two == pytest.approx(two - one, rel=1e-6)
    assert two - one == pytest.approx(128 * 128 * (1 / 16 + 3.5 / 128) * H100.cycle_ps / 1e6, rel=1e-6)


def test_queries_beyond_a_multiple_of_128_take_as_long_as_those_up_to_the_next() -> None:
    assert library_us(attention(1, 100, 197, 197, 64)) == library_us(attention(1, 100, 256, 256, 64))


@settings(max_examples=examples(15), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    heads=st.integers(1, 200), tokens=st.integers(2, 600), width=st.sampled_from([32, 64, 128]),
    more=st.sampled_from(["heads", "tokens", "width", "bytes"]),
)  # fmt: skip
def test_more_of_anything_is_never_faster(heads: int, tokens: int, width: int, more: str) -> None:
    before = library_us(attention(1, heads, tokens, tokens, width))
    heads, tokens, width = heads + (more == "heads"), tokens + (more == "tokens"), width * (1 + (more == "width"))

    assert library_us(attention(1, heads, tokens, tokens, width), dram_bytes=1e6 * (more == "bytes")) >= before


def test_a_single_query_and_a_machine_without_a_library_have_no_such_kernel() -> None:
    assert library_us(attention(1, 8, 1, 512, 64)) == 0
    assert library_us(attention(1, 8, 64, 64, 64), H100.model_copy(update={"library": None})) == 0


def recorded(gpu: str) -> Iterator[tuple[Graph, float]]:
    """Yield attention without a mask, of many queries, in FP16, with its seconds."""
    for each in json.loads((FOLDER / f"{gpu}.json").read_text(encoding="utf-8"))["results"]:
        shape = each["shape"]
        if each["kind"] != "attention" or each["dtype"] != "fp16" or shape["causal"] or shape["queries"] == 1:
            continue
        sizes = [shape[name] for name in ("batch", "heads", "queries", "keys", "width")]
        if shape["queries"] <= 1024 and shape["heads"] == shape["kv_heads"]:
            yield attention(*sizes), each["seconds"]


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_encoders_attention_is_expected_nearer_to_what_was_recorded_than_the_bound(gpu: str) -> None:
    bounds, expected = [], []
    for graph, seconds in recorded(gpu):
        record = simulate(graph, gpu, "eager", dtype="fp16", tuning={"graphs": True, "warm_l2": True}).record
        bounds.append(record.latency_s / seconds)
        expected.append(record.expected_latency_s / seconds)

    assert len(bounds) == 4
    assert min(bounds) < 0.45
    assert all(0.6 < each < 1.1 for each in expected), expected


def test_blocks_share_the_keys_of_few_heads() -> None:
    """Eight groups of eight queries over 16,384 keys: one block each would take 128 steps, on 8 of 132 SMs."""
    one_block = 128 * 64 * 128 * (1 / 16 + 3.5 / 128) * H100.cycle_ps / 1e6
    grouped = library_us(attention(1, 8, 8, 16_384, 128))

    assert grouped < 0.3 * one_block
    assert library_us(attention(16, 8, 8, 16_384, 128)) < 16 * grouped


@settings(max_examples=examples(40), deadline=None)
@given(heads=st.integers(1, 200), queries=st.integers(2, 300), keys=st.integers(2, 9000))
def test_fewer_keys_never_take_longer(heads: int, queries: int, keys: int) -> None:
    longer = library_us(attention(1, heads, queries, keys + 128, 64))

    assert library_us(attention(1, heads, queries, keys, 64)) <= longer * (1 + 1e-9)
