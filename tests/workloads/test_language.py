"""Language models are written from their published sizes: parameters, caches and passes come out as by hand."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

from dsascape.workloads import Graph, WorkloadError, load_network
from dsascape.workloads.decomposition.experts import experts_in_use
from dsascape.workloads.decomposition.state_space import CHUNK
from dsascape.workloads.language import LANGUAGE_MODELS, Decoder
from dsascape.workloads.language.decoder import decoder_model
from dsascape.workloads.state import graph_with_state_in_place

# Totals that the files of weights on the model cards state; of whisper-small (241,734,912) less its encoder.
PUBLISHED = {
    "llama-3.2-1b": 1_235_814_400, "llama-3-8b": 8_030_261_248, "qwen3-8b": 8_190_735_360,
    "phi-3-mini": 3_821_079_552, "mixtral-8x7b": 46_702_792_704, "qwen3-30b-a3b": 30_532_122_624,
    "whisper-decoder": 241_734_912 - 88_154_112, "mamba-130m": 129_135_360, "mamba-2.8b": 2_768_345_600,
}  # fmt: skip


def at(name: str, batch: int = 1, **dims: int) -> Graph:
    """Return a model's network at a batch, a context and a number of tokens, its caches changed in place."""
    return graph_with_state_in_place(load_network(name, batch=batch, dims=dims))


def weights(graph: Graph) -> int:
    """Return the elements of all weights; scalars are constants of operators."""
    floating = [t for t in graph.tensors.values() if t.role == "weight" and t.dtype == "fp32"]
    return sum(t.elements for t in floating if t.elements > 1)


def test_every_model_has_a_published_count() -> None:
    assert {name: model.parameters for name, model in LANGUAGE_MODELS.items()} == PUBLISHED


@pytest.mark.sampled(4, long=["qwen3-30b-a3b", "mamba-2.8b", "mixtral-8x7b", "qwen3-8b"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_graph_of_a_prompt_has_the_published_parameters(name: str) -> None:
    once_a_recording = 12 * (2 * 768**2 + 768) if name == "whisper-decoder" else 0

    assert weights(at(name, tokens=256)) == PUBLISHED[name] - once_a_recording


def test_an_encoders_parameters_are_those_of_whisper_less_its_decoder() -> None:
    width, inner, layers = 768, 3072, 12
    attention = 4 * width * width + 3 * width
    convolutions = 3 * width * (80 + width) + 2 * width
    each = attention + 2 * width * inner + inner + width + 2 * 2 * width

    assert convolutions + 1500 * width + layers * each + 2 * width == 88_154_112


def test_a_token_is_put_into_the_caches_where_they_lie() -> None:
    graph = at("llama-3.2-1b", batch=2, context=100)

    written = [graph.tensors[name] for name in graph.outputs[1:]]
    read = [graph.tensors[name] for name in graph.inputs if ".present_" in name]
    assert {t.shape for t in written} == {(2, 8, 1, 64)}
    assert {t.shape for t in read} == {(2, 8, 101, 64)}
    assert len(written) == len(read) == 2 * 16
    assert not any(op.kind == "Where" for op in graph.ops)


def test_a_pass_multiplies_each_token_with_all_weights_but_the_table_and_scores_the_last() -> None:
    sizes = LANGUAGE_MODELS["llama-3.2-1b"]
    table = sizes.vocabulary * sizes.hidden
    norms = 2 * 16 * 2048 + 2048
    graph = at("llama-3.2-1b", context=99, tokens=3)

    attention = 16 * 2 * 32 * 64 * 3 * 102
    assert graph.operations.macs == 3 * (sizes.parameters - table - norms) + table + attention + _of_norms(graph)


def _of_norms(graph: Graph) -> int:
    return sum(op.operations.macs for op in graph.ops if op.kind == "RMSNormalization")


SMALL = Decoder(
    card="", hidden=16, layers=2, heads=4, key_heads=2, head_width=8, inner=32, vocabulary=11, longest=16,
    has_query_norm=True,
)  # fmt: skip


def test_a_prompt_in_two_passes_scores_as_in_one() -> None:
    session = onnxruntime.InferenceSession(decoder_model("small", SMALL), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    named = {entry.name: entry for entry in session.get_inputs()}
    fixed = {
        name: random.standard_normal(entry.shape).astype(np.float32) / 2
        for name, entry in named.items()
        if all(isinstance(size, int) for size in entry.shape)
    }
    tokens = random.integers(0, 11, (2, 6))

    def scores(first: int, last: int, caches: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        positions = np.tile(np.arange(first, last), (2, 1))
        feeds = fixed | caches | {"tokens": tokens[:, first:last], "positions": positions}
        names = [entry.name for entry in session.get_outputs()]
        found = dict(zip(names, session.run(names, feeds), strict=True))
        return found.pop("scores"), {name.replace("present", "past"): value for name, value in found.items()}

    empty = {name: np.zeros((2, 2, 0, 8), np.float32) for name in named if ".past_" in name}
    at_once, _ = scores(0, 6, empty)
    _, caches = scores(0, 4, empty)
    behind, _ = scores(4, 6, caches)

    assert at_once.shape == (2, 1, 11)
    np.testing.assert_allclose(behind, at_once, rtol=1e-4, atol=1e-5)


class TestExperts:
    def test_few_tokens_use_few_and_many_use_all(self) -> None:
        assert [experts_in_use(128, 8, rows) for rows in (1, 2, 4, 2048)] == [8, 16, 29, 128]
        assert [experts_in_use(8, 2, rows) for rows in (1, 2, 100)] == [2, 4, 8]

    @pytest.mark.parametrize("rows", [1, 3, 10])
    def test_the_expectation_is_that_of_drawing(self, rows: int) -> None:
        random = np.random.default_rng(rows)
        drawn = [
            len({expert for _ in range(rows) for expert in random.choice(16, 4, replace=False)}) for _ in range(400)
        ]

        assert experts_in_use(16, 4, rows) == pytest.approx(np.mean(drawn), abs=0.7)

    def test_one_token_reads_the_weights_of_its_experts(self) -> None:
        sizes = LANGUAGE_MODELS["mixtral-8x7b"]
        unused = sizes.layers * 6 * 3 * 4096 * 14_336

        assert weights(at("mixtral-8x7b", context=64)) == sizes.parameters - unused


class TestStateSpace:
    def test_a_state_does_not_grow_with_the_context(self) -> None:
        assert at("mamba-130m", context=8) == at("mamba-130m", context=4000)

    def test_chunks_carry_the_state_from_one_to_the_next(self) -> None:
        graph = load_network("mamba-130m", dims={"tokens": 2 * CHUNK + 1})
        chunks = [op for op in graph.ops if op.kind == "dsascape::ScanChunk" and op.name.startswith("layer0.")]

        assert [op.nests[0].loops[1].extent for op in chunks] == [CHUNK, CHUNK, 1]
        last = {op.inputs[0]: op.outputs[0] for op in graph.ops if op.kind == "Gather"}
        ends = [last[op.outputs[0]] for op in chunks]
        assert [op.inputs[-1] for op in chunks] == ["layer0.past_state", *ends[:2]]
        assert ends[-1] == "layer0.present_state"

    def test_operations_of_a_scan_are_those_of_each_state_at_each_token(self) -> None:
        graph = load_network("mamba-130m", batch=2, dims={"tokens": CHUNK + 5})
        scans = [op.operations for op in graph.ops if op.kind == "dsascape::ScanChunk"]
        states = 24 * 2 * (CHUNK + 5) * 1536 * 16

        assert sum(each.special for each in scans) == states
        assert sum(each.simple for each in scans) == 4 * states


def test_more_tokens_than_a_model_takes_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"context and tokens are 449 together \(448, 1\); needs 448 at most"):
        load_network("whisper-decoder", dims={"context": 448})
