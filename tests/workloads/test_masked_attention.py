"""Masked attention is computed inside of its mask, in whatever form that is written, if nothing sees the rest."""

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from dsascape import Graph, load_network
from dsascape.workloads import import_onnx
from dsascape.workloads.bounded import graph_with_bounded_nests
from dsascape.workloads.graph_json import from_plain, to_plain
from dsascape.workloads.loopnest import Band

HEADS, WIDTH = 2, 4
MICROSOFT = "com.microsoft"


def network(
    nodes: list[NodeProto], inputs: dict[str, list[int]], known: dict[str, Any], results: tuple[str, ...] = ("y",)
) -> Graph:
    entries = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    if any("sl" in node.input for node in nodes):
        entries.append(helper.make_tensor_value_info("sl", TensorProto.INT32, [1]))
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()]
    shown = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    body = helper.make_graph(nodes, "masked", entries, shown, constants)
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid(MICROSOFT, 1)]
    return import_onnx(helper.make_model(body, opset_imports=opsets).SerializeToString(), name="masked")


def attention(queries: int, keys: int, past: int = 0, **attributes: Any) -> Graph:
    own = {"q": [1, HEADS, queries, WIDTH], "k": [1, HEADS, keys, WIDTH], "v": [1, HEADS, keys, WIDTH]}
    names, results = ["q", "k", "v"], ["y"]
    if past:
        own |= {"pk": [1, HEADS, past, WIDTH], "pv": [1, HEADS, past, WIDTH]}
        names, results = [*names, "", "pk", "pv"], ["y", "k1", "v1"]
    return network([helper.make_node("Attention", names, results, **attributes)], own, {}, tuple(results))


def packed(kind: str, tokens: int, **attributes: Any) -> Graph:
    is_grouped = kind == "GroupQueryAttention"
    names = ["q", "k", "v", "", "", "sl", "tl"] if is_grouped else ["q", "k", "v"]
    heads: dict[str, Any] = {"num_heads": HEADS} | ({"kv_num_heads": HEADS} if is_grouped else {})
    node = helper.make_node(kind, names, ["y"], domain=MICROSOFT, **heads, **attributes)
    known = {"tl": np.array(tokens, np.int32)} if is_grouped else {}
    return network([node], {name: [1, tokens, HEADS * WIDTH] for name in "qkv"}, known)


def written_out(tokens: int, mask: str, results: tuple[str, ...] = ("y",), kept: Any = None) -> Graph:
    """Return an attention with its mask as a constant: ``where``, ``filled`` or ``added``."""
    seen = np.tril(np.ones((tokens, tokens), bool)) if kept is None else kept
    masks = {
        "where": (helper.make_node("Where", ["m", "s", "low"], ["t"]), seen),
        "filled": (helper.make_node("Where", ["m", "low", "s"], ["t"]), ~seen),
        "added": (helper.make_node("Add", ["s", "m"], ["t"]), np.where(seen, 0, -1e9).astype(np.float32)),
    }
    node, values = masks[mask]
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]), node, helper.make_node("Softmax", ["t"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    shapes = {
        "q": [1, HEADS, tokens, WIDTH], "k": [1, HEADS, WIDTH, tokens], "v": [1, HEADS, tokens, WIDTH],
    }  # fmt: skip
    return network(nodes, shapes, {"m": values.reshape(1, 1, tokens, tokens), "low": np.float32(-np.inf)}, results)


def macs(pairs: int) -> int:
    """Return the multiply-accumulates of both products for so many pairs of a query and a key."""
    return 2 * pairs * HEADS * WIDTH


FORMS = {
    "Attention": lambda: attention(8, 8, is_causal=1),
    "GroupQueryAttention": lambda: packed("GroupQueryAttention", 8),
    "MultiHeadAttention": lambda: packed("MultiHeadAttention", 8, unidirectional=1),
    "where": lambda: written_out(8, "where"),
    "filled": lambda: written_out(8, "filled"),
    "added": lambda: written_out(8, "added"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_causal_form_computes_a_triangle(form: str) -> None:
    """36 of 64 pairs; masks are not read, nor what makes them computed."""
    graph = FORMS[form]()
    bounded = graph_with_bounded_nests(graph)

    assert graph.operations.macs == macs(64)
    assert bounded.operations.macs == macs(36)
    assert not any(op.masks and set(op.masks) & set(op.inputs) for op in bounded.ops)
    assert not any(op.kind in ("LessOrEqual", "Greater", "And") for op in bounded.ops)


def test_queries_behind_a_past_see_it_whole() -> None:
    """4 queries behind 5 keys: 6 + 7 + 8 + 9 pairs."""
    assert graph_with_bounded_nests(attention(4, 4, past=5, is_causal=1)).operations.macs == macs(30)


def test_a_window_bounds_on_both_sides() -> None:
    """8 queries that see 3 keys at most: 1 + 2 + 6 x 3 pairs."""
    graph = packed("GroupQueryAttention", 8, local_window_size=3)

    assert graph_with_bounded_nests(graph).operations.macs == macs(21)


def test_all_between_the_products_is_bounded() -> None:
    """Scaling, mask and softmax are 6 passes over 36 elements of each head, and one division a row."""
    bounded = graph_with_bounded_nests(attention(8, 8, is_causal=1))

    assert bounded.operations.simple == 6 * HEADS * 36
    assert bounded.operations.special == HEADS * (36 + 8)
    assert {nest.bound.band for op in bounded.ops for nest in op.nests if nest.bound is not None} == {Band(0)}


@pytest.mark.parametrize("name", ["one that is not a band", "one beside open keys", "no mask"])
def test_other_masks_bound_nothing(name: str) -> None:
    holed = np.tril(np.ones((8, 8), bool))
    holed[5, 2] = False
    graphs = {
        "one that is not a band": lambda: written_out(8, "where", kept=holed),
        "one beside open keys": lambda: written_out(8, "where", kept=np.ones((8, 8), bool)),
        "no mask": lambda: attention(8, 8),
    }
    graph = graphs[name]()

    assert graph_with_bounded_nests(graph) is graph


@pytest.mark.parametrize("shown", ["t", "p"])
def test_scores_that_leave_the_network_are_computed_in_full(shown: str) -> None:
    graph = written_out(8, "where", ("y", shown))

    assert graph_with_bounded_nests(graph) is graph


def test_products_that_leave_the_network_are_computed_in_full() -> None:
    """The first product has to be whole, what follows the mask does not."""
    bounded = graph_with_bounded_nests(written_out(8, "where", ("y", "s")))

    assert bounded.operations.macs == (macs(64) + macs(36)) // 2


def test_bands_and_bounds_are_written_and_read() -> None:
    for graph in (attention(8, 8, is_causal=1), graph_with_bounded_nests(attention(8, 8, is_causal=1))):
        assert from_plain(to_plain(graph), graph.rebuild) == graph


LOW = np.float32(-1e9)


def computed_mask(made: list[NodeProto], known: dict[str, Any], use: str = "Add") -> Graph:
    """Return an attention of 8 tokens whose mask ``m`` other nodes make; ``pad`` says which keys are no padding."""
    masking = {
        "Add": helper.make_node("Add", ["s", "m"], ["t"]), "Where": helper.make_node("Where", ["m", "s", "low"], ["t"]),
    }  # fmt: skip
    nodes = [
        *made, helper.make_node("MatMul", ["q", "k"], ["s"]), masking[use],
        helper.make_node("Softmax", ["t"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]  # fmt: skip
    shapes = {"q": [1, HEADS, 8, WIDTH], "k": [1, HEADS, WIDTH, 8], "v": [1, HEADS, 8, WIDTH], "pad": [1, 1, 1, 8]}
    return network(nodes, shapes, {"low": LOW, "zero": np.float32(0), **known})


def node(kind: str, *names: str, **attributes: Any) -> NodeProto:
    """Return a node; its result is the last of ``names``."""
    return helper.make_node(kind, list(names[:-1]), [names[-1]], **attributes)


TRIANGLE = np.tril(np.ones((8, 8), bool))
PADDED = [node("Cast", "pad", "seen", to=TensorProto.BOOL), node("And", "causal", "seen", "kept")]
SLICED = {"starts": np.array([0, 3]), "ends": np.array([8, 11]), "axes": np.array([2, 3])}
FILLED = numpy_helper.from_array(np.array([LOW]))
MADE: dict[str, tuple[list[NodeProto], dict[str, Any], str]] = {
    "a choice beside padding": ([*PADDED, node("Where", "kept", "zero", "low", "m")], {"causal": TRIANGLE}, "Add"),
    "a condition beside padding": ([*PADDED, node("Identity", "kept", "m")], {"causal": TRIANGLE}, "Where"),
    "the opposite": ([node("Not", "over", "m")], {"over": ~TRIANGLE}, "Where"),
    "a triangle of ones": (
        [node("ConstantOfShape", "shape", "ones", value=numpy_helper.from_array(np.array([True]))),
         node("Trilu", "ones", "m", upper=0)], {"shape": np.array([8, 8])}, "Where",
    ),
    "a triangle of low numbers": (
        [node("ConstantOfShape", "shape", "lows", value=FILLED), node("Trilu", "lows", "one", "m", upper=1)],
        {"shape": np.array([8, 8]), "one": np.array(1)}, "Add",
    ),
    "a slice of a larger one": (
        [node("Slice", "whole", "starts", "ends", "axes", "part"), node("And", "part", "seen", "m"),
         PADDED[0]], {"whole": np.tril(np.ones((1, 1, 16, 16), bool), 3), **SLICED}, "Where",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", MADE)
def test_masks_that_nodes_make_are_bands(form: str) -> None:
    graph = computed_mask(*MADE[form])

    assert graph_with_bounded_nests(graph).operations.macs == macs(36)
    assert [op.band for op in graph.ops if op.band is not None] == [Band(0)]


def test_what_padding_leaves_out_is_still_read() -> None:
    bounded = graph_with_bounded_nests(computed_mask(*MADE["a choice beside padding"]))

    assert "m" in next(op for op in bounded.ops if op.band is not None).inputs


def test_masks_that_data_alone_makes_bound_nothing() -> None:
    made = [PADDED[0], node("Where", "seen", "zero", "low", "m")]
    graph = computed_mask(made, {})

    assert graph_with_bounded_nests(graph) is graph


@pytest.mark.parametrize("sequence", [384, 128])
def test_gpt2_computes_what_its_queries_see(sequence: int) -> None:
    """12 layers of 12 heads of 64; its mask is a constant of 384 x 384 beside the padding of its input."""
    graph = load_network("gpt2", sequence=sequence)
    left_out = sequence * sequence - sequence * (sequence + 1) // 2

    assert graph.operations.macs - graph_with_bounded_nests(graph).operations.macs == 2 * 12 * 12 * 64 * left_out
