"""What attentions and fused operators are written out as computes what onnxruntime computes of them."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from dsascape.workloads import Graph, WorkloadError, import_onnx
from dsascape.workloads.executable import executable

MICROSOFT = "com.microsoft"
BATCH, HEADS, NEW, KEYS, WIDTH = 2, 4, 3, 5, 16
SIZE, SHARED = HEADS * WIDTH, 2 * WIDTH
Feeds = dict[str, Any]


def drawn(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def network(
    kind: str, feeds: Feeds, *, inputs: str, outputs: str = "y", known: str = "", opset: int = 21, **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one node; ``-`` in ``inputs`` and ``outputs`` stands for one that is left out."""
    names, results = [[name.strip("-") for name in text.split()] for text in (inputs, outputs)]
    standard = opset > 22 or kind == "SimplifiedLayerNormalization"
    node = helper.make_node(kind, names, results, domain="" if standard else MICROSOFT, **attributes)
    arrays = {name: np.asarray(value) for name, value in feeds.items()}
    entries = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in arrays.items() if name not in known.split()
    ]  # fmt: skip
    weights = [numpy_helper.from_array(arrays[name], name) for name in known.split()]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results if name]
    graph = helper.make_graph([node], "one", entries, made, weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def read(built: onnx.ModelProto) -> Graph:
    return import_onnx(built.SerializeToString(), name="one")


def results(built: onnx.ModelProto, feeds: Feeds) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(built.SerializeToString(), providers=["CPUExecutionProvider"])
    taken = {entry.name for entry in session.get_inputs()}
    found = session.run(None, {name: np.asarray(value) for name, value in feeds.items() if name in taken})
    return dict(zip([entry.name for entry in session.get_outputs()], found, strict=True))


def agrees(built: onnx.ModelProto, feeds: Feeds) -> None:
    wanted, got = results(built, feeds), results(executable(read(built)).model(), feeds)
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, atol=1e-5, rtol=1e-4)


FOUR = {"q": drawn(BATCH, HEADS, NEW, WIDTH), "k": drawn(BATCH, HEADS, KEYS, WIDTH), "v": drawn(BATCH, HEADS, KEYS, 8)}
GROUPED = {"q": FOUR["q"], "k": FOUR["k"][:, :2], "v": FOUR["v"][:, :2]}
PAST = {"pk": drawn(BATCH, 2, 2, WIDTH), "pv": drawn(BATCH, 2, 2, 8)}
PACKED = {"q": drawn(BATCH, NEW, SIZE), "k": drawn(BATCH, KEYS, SHARED), "v": drawn(BATCH, KEYS, SHARED)}
ATTENTIONS: dict[str, tuple[Feeds, dict[str, Any]]] = {
    "plain": (FOUR, {"inputs": "q k v"}),
    "causal, capped, scaled": (FOUR, {"inputs": "q k v", "is_causal": 1, "softcap": 2.0, "scale": 0.3}),
    "grouped": (GROUPED, {"inputs": "q k v"}),
    "added mask": (FOUR | {"m": drawn(NEW, KEYS)}, {"inputs": "q k v m"}),
    "mask of each head": (GROUPED | {"m": drawn(HEADS, NEW, KEYS)}, {"inputs": "q k v m"}),
    "mask of each head and batch": (
        GROUPED | {"m": drawn(BATCH, HEADS, NEW, KEYS) > -1}, {"inputs": "q k v m"},
    ),
    "past": (GROUPED | PAST, {"inputs": "q k v - pk pv", "outputs": "y nk nv", "is_causal": 1}),
    "packed": (PACKED, {"inputs": "q k v", "q_num_heads": HEADS, "kv_num_heads": 2}),
    "packed, with a past": (
        PACKED | {"pk": PAST["pk"], "pv": drawn(BATCH, 2, 2, WIDTH)},
        {"inputs": "q k v - pk pv", "outputs": "y nk nv", "q_num_heads": HEADS, "kv_num_heads": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_an_attention_of_the_standard_computes_what_onnxruntime_computes(name: str, opset: int) -> None:
    feeds, how = ATTENTIONS[name]
    agrees(network("Attention", feeds, opset=opset, **how), feeds)


@pytest.mark.parametrize("mode", range(4))
def test_an_attention_shows_its_scores_at_each_stage(mode: int) -> None:
    feeds = GROUPED | {"m": drawn(NEW, KEYS)}
    built = network(
        "Attention", feeds, inputs="q k v m", outputs="y - - s", opset=24, softcap=1.5, qk_matmul_output_mode=mode
    )
    agrees(built, feeds)


def test_lengths_of_sequences_bound_their_keys() -> None:
    feeds = FOUR | {"l": np.array([4, 5])}
    agrees(network("Attention", feeds, inputs="q k v - - - l", opset=24, is_causal=1), feeds)


ALIKE = {"q": drawn(BATCH, NEW, SIZE), "k": drawn(BATCH, KEYS, SIZE), "v": drawn(BATCH, KEYS, SIZE)}
OWN = {name: drawn(BATCH, NEW, SIZE) for name in "qkv"}
HALF = {name: drawn(16, WIDTH // 2) for name in "cs"}
NEW_ONLY: Feeds = {"sl": np.full(BATCH, NEW - 1, np.int32), "tl": np.array(NEW, np.int32)}
GROUP: Feeds = {"q": drawn(BATCH, NEW, SIZE), "k": drawn(BATCH, NEW, SHARED), "v": drawn(BATCH, NEW, SHARED)} | NEW_ONLY
ONE: Feeds = {"q": drawn(BATCH, 1, SIZE), "k": drawn(BATCH, 1, SHARED), "v": drawn(BATCH, 1, SHARED)}


def cached(length: int, *used: int) -> Feeds:
    last = np.array(used, np.int32)
    return ONE | HALF | {
        "pk": drawn(BATCH, 2, length, WIDTH), "pv": drawn(BATCH, 2, length, WIDTH), "sl": last,
        "tl": np.array(max(used) + 1, np.int32),
    }  # fmt: skip


MULTI, SHARING = "MultiHeadAttention", "GroupQueryAttention"
PROJECTED = {"x": drawn(BATCH, NEW, SIZE), "w": drawn(SIZE, 3 * SIZE) / 8, "b": drawn(3 * SIZE)}
WHOLE = np.random.default_rng(0).integers
QUANTISED: Feeds = {
    "x": WHOLE(0, 255, (BATCH, NEW, SIZE)).astype(np.uint8), "w": WHOLE(0, 255, (SIZE, 3 * SIZE)).astype(np.uint8),
    "b": drawn(3 * SIZE), "xs": np.float32(0.02), "ws": np.float32(0.01), "xz": np.uint8(120), "wz": np.uint8(128),
    "m": np.array([[1, 1, 0], [1, 1, 1]], np.int32),
}  # fmt: skip
VENDOR: dict[str, tuple[str, Feeds, dict[str, Any]]] = {
    "heads": (MULTI, ALIKE, {"inputs": "q k v"}),
    "heads, bias": (MULTI, ALIKE | {"b": drawn(3 * SIZE)}, {"inputs": "q k v b", "known": "b"}),
    "heads, padding": (
        MULTI, ALIKE | {"m": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)}, {"inputs": "q k v - m"},
    ),
    "heads, lengths": (MULTI, ALIKE | {"m": np.array([3, 4], np.int32)}, {"inputs": "q k v - m"}),
    "heads, mask of queries": (
        MULTI, ALIKE | {"m": (drawn(BATCH, NEW, KEYS) > -1).astype(np.int32)}, {"inputs": "q k v - m"},
    ),
    "heads, added": (MULTI, ALIKE | {"a": drawn(1, HEADS, NEW, KEYS)}, {"inputs": "q k v - - a"}),
    "heads, past": (
        MULTI, OWN | {"pk": drawn(BATCH, HEADS, 2, WIDTH), "pv": drawn(BATCH, HEADS, 2, WIDTH)},
        {"inputs": "q k v - - - pk pv", "outputs": "y nk nv", "unidirectional": 1},
    ),
    "groups": (SHARING, GROUP, {"inputs": "q k v - - sl tl", "outputs": "y nk nv"}),
    "groups, window, cap": (
        SHARING, GROUP, {"inputs": "q k v - - sl tl", "outputs": "y nk nv", "local_window_size": 2, "softcap": 2.0},
    ),
    "groups, rotary": (
        SHARING, GROUP | HALF, {"inputs": "q k v - - sl tl c s", "outputs": "y nk nv", "do_rotary": 1},
    ),
    "groups, packed": (
        SHARING, NEW_ONLY | HALF | {"q": drawn(BATCH, NEW, SIZE + 2 * SHARED)},
        {"inputs": "q - - - - sl tl c s", "outputs": "y nk nv", "do_rotary": 1, "rotary_interleaved": 1},
    ),
    "groups, cache that grows": (
        SHARING, cached(6, 6, 6), {"inputs": "q k v pk pv sl tl c s", "outputs": "y nk nv", "do_rotary": 1},
    ),
    "groups, cache in place": (
        SHARING, cached(10, 6, 4), {"inputs": "q k v pk pv sl tl c s", "outputs": "y nk nv", "do_rotary": 1},
    ),
    "projections": ("Attention", PROJECTED | {"m": QUANTISED["m"]}, {"inputs": "x w b m", "known": "w b"}),
    "projections, past": (
        "Attention", PROJECTED | {"p": drawn(2, BATCH, HEADS, 2, WIDTH)},
        {"inputs": "x w b - p", "outputs": "y np", "known": "w b", "unidirectional": 1},
    ),
    "projections of whole numbers": (
        "QAttention", QUANTISED, {"inputs": "x w b xs ws m xz wz", "known": "w b xs ws xz wz"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VENDOR)
def test_an_attention_of_onnxruntime_computes_what_it_computes_there(name: str) -> None:
    kind, feeds, how = VENDOR[name]
    heads: dict[str, Any] = {"num_heads": HEADS} | ({"kv_num_heads": 2, "known": "tl"} if kind == SHARING else {})
    built = network(kind, feeds, **heads, **how)
    if name == "groups, cache in place":  # rows behind the sequence are unspecified
        ours, theirs = results(executable(read(built)).model(), feeds), results(built, feeds)
        np.testing.assert_allclose(ours["y"], theirs["y"], atol=1e-5)
        return
    agrees(built, feeds)


LINES = {name: drawn(BATCH, NEW, SIZE) for name in "xs"} | {name: drawn(SIZE) for name in "gbo"}
PLACES = np.array([[1, 2, 3], [0, 1, 2]])
FUSED: dict[str, tuple[str, Feeds, dict[str, Any]]] = {
    "normalised sum": ("SkipLayerNormalization", LINES, {"inputs": "x s g b o", "outputs": "y - - z"}),
    "normalised sum, by its squares": (
        "SkipSimplifiedLayerNormalization", LINES, {"inputs": "x s g", "outputs": "y - - z", "epsilon": 1e-5},
    ),
    "squares": ("SimplifiedLayerNormalization", LINES, {"inputs": "x g", "epsilon": 1e-5}),
    **{
        f"rotary, {rank}, {inter}": (
            "RotaryEmbedding",
            HALF | ({"x": drawn(BATCH, NEW, SIZE), "p": PLACES} if rank == 3 else
                    {"x": drawn(BATCH, HEADS, NEW, WIDTH), "p": np.array([2])}),
            {"inputs": "x p c s", "interleaved": inter},
        )
        for rank in (3, 4) for inter in (0, 1)
    },
    "rotary, in part": (
        "RotaryEmbedding", {"x": drawn(BATCH, NEW, SIZE), "p": PLACES, "c": drawn(16, 4), "s": drawn(16, 5)[:, :4]},
        {"inputs": "x p c s", "num_heads": HEADS, "rotary_embedding_dim": 8},
    ),
    **{
        f"product, {left}{right}": (
            "FusedMatMul",
            {"a": drawn(2, 3, *((5, 4) if left else (4, 5))), "b": drawn(3, *((6, 5) if right else (5, 6)))},
            {"inputs": "a b", "transA": left, "transB": right, "alpha": 0.5},
        )
        for left in (0, 1) for right in (0, 1)
    },
    "product, batch inside": (
        "FusedMatMul", {"a": drawn(4, 2, 3, 5), "b": drawn(5, 2, 3, 6)},
        {"inputs": "a b", "transBatchA": 1, "transBatchB": 1},
    ),
    "gelu of a sum": ("BiasGelu", {"x": drawn(2, 3), "b": drawn(3)}, {"inputs": "x b"}),
    **{kind: (kind, {"x": drawn(2, 3)}, {"inputs": "x"}) for kind in ("Gelu", "FastGelu", "QuickGelu")},
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_operator_computes_what_onnxruntime_computes(name: str) -> None:
    kind, feeds, how = FUSED[name]
    used = {name: value for name, value in feeds.items() if name in how["inputs"].split()}
    agrees(network(kind, used, **how), used)


OF_TOKENS = {name: drawn(BATCH, NEW, WIDTH // 2) for name in "cs"}
TURNED: dict[str, tuple[Feeds, dict[str, Any]]] = {
    "of tokens": ({"x": drawn(BATCH, NEW, SIZE)} | OF_TOKENS, {"inputs": "x c s", "num_heads": HEADS}),
    "of positions": (HALF | {"x": drawn(BATCH, HEADS, NEW, WIDTH), "p": PLACES}, {"inputs": "x c s p"}),
    "of neighbours": (
        HALF | {"x": drawn(BATCH, NEW, SIZE), "p": PLACES}, {"inputs": "x c s p", "num_heads": HEADS, "interleaved": 1},
    ),
    "in part": (
        {"x": drawn(BATCH, NEW, SIZE), "p": PLACES, "c": drawn(16, 4), "s": drawn(16, 5)[:, :4]},
        {"inputs": "x c s p", "num_heads": HEADS, "rotary_embedding_dim": 8},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNED)
def test_a_rotary_embedding_of_the_standard_computes_what_onnxruntime_computes(name: str) -> None:
    feeds, how = TURNED[name]
    agrees(network("RotaryEmbedding", feeds, opset=23, **how), feeds)


def test_query_heads_that_share_a_key_head_are_rows_of_one_product() -> None:
    graph = read(network("Attention", GROUPED, inputs="q k v", opset=24))
    scores = next(op for op in graph.ops if op.kind == "Einsum").nests[0]
    keys = next(each for each in scores.reads if each.tensor == "k")

    assert {loop.name: loop.extent for loop in scores.loops} == {"b": 2, "h": 2, "g": 2, "q": 3, "k": 5, "w": 16}
    assert not keys.uses([loop.name for loop in scores.loops].index("g"))


def test_one_token_behind_a_cache_needs_no_mask() -> None:
    past = {"pk": drawn(1, 2, 9, 8), "pv": drawn(1, 2, 9, 8)}
    feeds = {name: drawn(1, 2, 1, 8) for name in "qkv"} | past
    kinds = [op.kind for op in read(network("Attention", feeds, inputs="q k v - pk pv", opset=24, is_causal=1)).ops]

    assert kinds == ["Concat", "Concat", "Einsum", "Mul", "Softmax", "MatMul"]


@pytest.mark.parametrize("packed", [False, True])
def test_an_attention_takes_another_batch(packed: bool) -> None:
    feeds, how = ATTENTIONS["packed" if packed else "grouped"]
    own = {name: value[:1] for name, value in feeds.items()}
    graph = read(network("Attention", own, opset=24, **how))
    larger = graph.with_batch(6)

    assert larger.tensors["y"].shape == (6, *graph.tensors["y"].shape[1:])
    assert larger.operations == graph.operations * 6


def test_an_attention_whose_heads_do_not_divide_it_is_refused_by_name() -> None:
    built = network(MULTI, {name: drawn(1, 2, 10) for name in "qkv"}, inputs="q k v", num_heads=4)

    with pytest.raises(WorkloadError, match=r"MultiHeadAttention\).*\[1, 2, 10\] is to be split into 4 heads"):
        read(built)


def test_an_attention_of_an_older_opset_than_it_came_with_is_refused() -> None:
    built = network("Attention", FOUR, inputs="q k v", opset=24)
    built.opset_import[0].version = 22

    with pytest.raises(WorkloadError, match="is not an operator of ONNX opset 22"):
        read(built)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_of_few_bits_are_read_as_bits(bits: int) -> None:
    """64 x 128 weights in blocks of 32, with a scale each: bytes by hand."""
    packed = np.zeros((64, 4, 32 * bits // 8), np.uint8)
    feeds = {"a": drawn(3, 128), "b": packed, "s": drawn(64, 4)}
    built = network("MatMulNBits", feeds, inputs="a b s", known="b s", K=128, N=64, bits=bits, block_size=32)
    graph = read(built)

    assert graph.weight_bytes == 64 * 128 * bits // 8 + 64 * 4 * 4
    assert graph.operations.macs == 3 * 64 * 128
    assert graph.tensors["y"].shape == (3, 64)


def test_weights_of_few_bits_stand_where_the_nests_say() -> None:
    """Numbers read through the nests' indices give what onnxruntime computes."""
    generator = np.random.default_rng(0)
    packed = generator.integers(0, 256, (6, 2, 8)).astype(np.uint8)
    feeds = {"a": drawn(3, 32), "b": packed, "s": drawn(6, 2)}
    built = network("MatMulNBits", feeds, inputs="a b s", known="b s", K=32, N=6, bits=4, block_size=16)
    widen, product = read(built).ops[0].nests
    weights = np.zeros((6, 2, 16), np.float32)
    for point in np.ndindex(*widen.extents):
        ranges = [(at, at + 1) for at in point]
        (n, _), (block, _), (byte, _) = widen.reads[0].region(ranges) or ()
        nibble = packed[n, block, byte] >> 4 * (point[2] % 2) & 15
        (row, _), (of_block, _) = widen.reads[1].region(ranges) or ()
        weights[point] = (nibble - 8.0) * feeds["s"][row, of_block]
    assert [read.tensor for read in product.reads] == ["a", "y:weights"]

    wanted = results(built, feeds)["y"]
    np.testing.assert_allclose(feeds["a"] @ weights.reshape(6, 32).T, wanted, atol=1e-4)
