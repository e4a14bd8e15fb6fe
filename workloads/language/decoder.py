"""Decoders of attention and feed-forward networks, of the Llama family and behind an encoder, as ONNX models."""

from typing import Any

from onnx import TensorProto

from dsascape.workloads.decomposition.writer import OWN
from dsascape.workloads.language.configurations import BATCH, CONTEXT, TOKENS, Decoder
from dsascape.workloads.language.model_writer import ModelWriter, last_token

_EPSILON = 1e-5


def decoder_model(name: str, sizes: Decoder) -> bytes:
    """Return the decoder as an ONNX file without weights: tokens and caches in, the last token's scores and caches out.

    Attention, rotary embeddings and normalisation are the standard's operators, as exporters write them; a mixture of
    experts is onnxruntime's. Keys and values are put behind those that the caches hold.
    """
    model = ModelWriter(name)
    model.output("scores")
    tokens = model.input("tokens", BATCH, TOKENS, element=TensorProto.INT64)
    positions = model.input("positions", BATCH, TOKENS, element=TensorProto.INT64)
    table = model.weight("embedding.weight", sizes.vocabulary, sizes.hidden)
    data = model.op("Gather", table, tokens, to="embedding", axis=0)
    turns: tuple[str, str] | None = None
    if sizes.encoded:
        places = model.weight("positions.weight", sizes.longest, sizes.hidden)
        data = model.op("Add", data, model.op("Gather", places, positions, to="placed", axis=0), to="embedded")
    else:
        half = sizes.head_width // 2
        cosines, sines = [
            model.op("Gather", model.input(f"{kind}.table", sizes.longest, half), positions, to=kind, axis=0)
            for kind in ("cosines", "sines")
        ]
        turns = cosines, sines
    for number in range(sizes.layers):
        data = _layer(model, sizes, data, f"layer{number}", turns)
    data = _normalised(model, sizes, last_token(model, data), "norm")
    if sizes.is_tied:
        model.op("Einsum", data, table, to="scores", equation="bth,vh->btv")
    else:
        model.product(data, sizes.hidden, sizes.vocabulary, to="scores")
    return model.content()


def _layer(model: ModelWriter, sizes: Decoder, data: str, layer: str, turns: tuple[str, str] | None) -> str:
    own = _normalised(model, sizes, data, f"{layer}.attention_norm")
    data = model.op("Add", data, _self_attention(model, sizes, own, layer, turns), to=f"{layer}.attended")
    if sizes.encoded:
        own = _normalised(model, sizes, data, f"{layer}.cross_norm")
        data = model.op("Add", data, _cross_attention(model, sizes, own, layer), to=f"{layer}.crossed")
    own = _normalised(model, sizes, data, f"{layer}.feed_forward_norm")
    return model.op("Add", data, _feed_forward(model, sizes, own, layer), to=layer)


def _normalised(model: ModelWriter, sizes: Decoder, data: str, to: str) -> str:
    weight = model.weight(f"{to}.weight", sizes.hidden)
    if sizes.encoded:
        bias = model.weight(f"{to}.bias", sizes.hidden)
        return model.op("LayerNormalization", data, weight, bias, to=to, axis=-1, epsilon=_EPSILON)
    return model.op("RMSNormalization", data, weight, to=to, axis=-1, epsilon=_EPSILON)


def _self_attention(model: ModelWriter, sizes: Decoder, data: str, layer: str, turns: tuple[str, str] | None) -> str:
    """Write attention to the cache and to what this pass puts behind it, causal; the cache leaves, too."""
    is_biased = bool(sizes.encoded)
    queries, keys = sizes.heads * sizes.head_width, sizes.key_heads * sizes.head_width
    query = model.product(data, sizes.hidden, queries, to=f"{layer}.query", is_biased=is_biased)
    key = model.product(data, sizes.hidden, keys, to=f"{layer}.key")
    value = model.product(data, sizes.hidden, keys, to=f"{layer}.value", is_biased=is_biased)
    if sizes.has_query_norm:
        query = _heads_normalised(model, sizes, query, sizes.heads)
        key = _heads_normalised(model, sizes, key, sizes.key_heads)
    if turns is not None:
        query = model.op("RotaryEmbedding", query, *turns, to=f"{query}.turned", num_heads=sizes.heads)
        key = model.op("RotaryEmbedding", key, *turns, to=f"{key}.turned", num_heads=sizes.key_heads)
    shape = BATCH, sizes.key_heads, CONTEXT, sizes.head_width
    past = [model.input(f"{layer}.past_{part}", *shape) for part in ("key", "value")]
    present = [f"{layer}.present_{part}" for part in ("key", "value")]
    heads: dict[str, Any] = {"q_num_heads": sizes.heads, "kv_num_heads": sizes.key_heads}
    to = f"{layer}.attention"
    model.several("Attention", query, key, value, "", *past, to=(to, *present), is_causal=1, **heads)
    for name in present:
        model.output(name)
    return model.product(to, queries, sizes.hidden, to=f"{layer}.projection", is_biased=is_biased)


def _heads_normalised(model: ModelWriter, sizes: Decoder, data: str, heads: int) -> str:
    split = model.op(
        "Reshape", data, model.ints(f"{data}.split_sizes", 0, 0, heads, sizes.head_width), to=f"{data}.split"
    )
    weight = model.weight(f"{data}.norm.weight", sizes.head_width)
    normed = model.op("RMSNormalization", split, weight, to=f"{data}.norm", axis=-1, epsilon=_EPSILON)
    return model.op("Reshape", normed, model.ints(f"{data}.joined_sizes", 0, 0, -1), to=f"{data}.joined")


def _cross_attention(model: ModelWriter, sizes: Decoder, data: str, layer: str) -> str:
    """Write attention to the encoder's output, whose keys and values are inputs: they are computed once a recording."""
    query = model.product(data, sizes.hidden, sizes.hidden, to=f"{layer}.cross_query", is_biased=True)
    shape = BATCH, sizes.key_heads, sizes.encoded, sizes.head_width
    key, value = (model.input(f"{layer}.encoded_{part}", *shape) for part in ("key", "value"))
    split = model.ints(f"{query}.split_sizes", 0, 0, sizes.heads, sizes.head_width)
    heads = model.op("Reshape", query, split, to=f"{query}.split")
    turned = model.op("Transpose", heads, to=f"{query}.heads", perm=[0, 2, 1, 3])
    each = model.op("Attention", turned, key, value, to=f"{layer}.cross_heads")
    back = model.op("Transpose", each, to=f"{layer}.cross_turned", perm=[0, 2, 1, 3])
    attended = model.op("Reshape", back, model.ints(f"{layer}.cross_sizes", 0, 0, -1), to=f"{layer}.cross")
    return model.product(attended, sizes.hidden, sizes.hidden, to=f"{layer}.cross_projection", is_biased=True)


def _feed_forward(model: ModelWriter, sizes: Decoder, data: str, layer: str) -> str:
    if sizes.encoded:
        inner = model.product(data, sizes.hidden, sizes.inner, to=f"{layer}.up", is_biased=True)
        active = model.op("Gelu", inner, to=f"{layer}.active")
        return model.product(active, sizes.inner, sizes.hidden, to=f"{layer}.down", is_biased=True)
    if sizes.experts is not None:
        return _experts(model, sizes, data, layer)
    gate = model.op("Swish", model.product(data, sizes.hidden, sizes.inner, to=f"{layer}.gate"), to=f"{layer}.swish")
    up = model.product(data, sizes.hidden, sizes.inner, to=f"{layer}.up")
    return model.product(model.op("Mul", gate, up, to=f"{layer}.gated"), sizes.inner, sizes.hidden, to=f"{layer}.down")


def _experts(model: ModelWriter, sizes: Decoder, data: str, layer: str) -> str:
    assert sizes.experts is not None
    count = sizes.experts.count
    rows = model.op("Reshape", data, model.ints(f"{layer}.row_sizes", -1, sizes.hidden), to=f"{layer}.rows")
    scores = model.product(rows, sizes.hidden, count, to=f"{layer}.router")
    gate, up, down = [
        model.weight(f"{layer}.experts.{part}", count, *shape)
        for part, shape in (
            ("gate", (sizes.inner, sizes.hidden)), ("up", (sizes.inner, sizes.hidden)),
            ("down", (sizes.hidden, sizes.inner)),
        )
    ]  # fmt: skip
    return model.op(
        "BalancedExperts", data, scores, gate, up, down, to=f"{layer}.experts", domain=OWN, chosen=sizes.experts.chosen
    )
