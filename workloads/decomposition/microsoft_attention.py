"""Attentions of onnxruntime (domain com.microsoft), written out by what their documentation says they compute."""

import math
from dataclasses import replace

import numpy as np
from onnx import TensorProto

from dsascape.wording import count
from dsascape.workloads.decomposition.attention import (
    Attend,
    Heads,
    Masks,
    Results,
    causal,
    heads_of,
    joined,
    write_attention,
)
from dsascape.workloads.decomposition.rotary import Rotation, write_rotary
from dsascape.workloads.decomposition.writer import MICROSOFT, NodeWriter, decomposed
from dsascape.workloads.operators.registry import UnsupportedOperatorError

_DROPPED = -10000.0
"""Score that is added where a key is padding, unless the node states another."""
_SPLIT_RANK = 5


@decomposed(f"{MICROSOFT}::MultiHeadAttention")
def _multi_head(writer: NodeWriter) -> None:
    """Attention of as many key heads as query heads, behind projections whose bias may be left to it."""
    writer.refuse(8, 9, why="a cache of the longest length, and beams, depend on data")
    heads = int(writer.number("num_heads", 0))
    query, key, value = _three_operands(writer, heads)
    query, key, value = _with_bias(writer, query, key, value)
    past = writer.shape(writer.input(6))[2] if writer.optional(6) else 0
    key = joined(writer, key, writer.optional(6), writer.output(1))
    value = joined(writer, value, writer.optional(7), writer.output(2))
    added, kept = _masked(writer, writer.optional(4), query, key, past)
    if writer.optional(5):
        added.append((writer.input(5), writer.shape(writer.input(5))))
    if writer.flag("unidirectional"):
        name = causal(writer, query.length, key.length, key.length - query.length)
        kept += [(name, (query.length, key.length))] if name else []
    if writer.output(3):
        raise UnsupportedOperatorError("output 3, the products of queries and keys, is not supported")
    _finish(writer, query, key, value, (added, kept), writer.output(0))


def _three_operands(writer: NodeWriter, heads: int) -> tuple[Heads, Heads, Heads]:
    """Return query, key and value; parts of packed ones are taken apart."""
    query = writer.input(0)
    shape = writer.shape(query)
    if len(shape) == _SPLIT_RANK:
        _, length, _, _, width = shape
        parts = [_taken(writer, query, number) for number in range(3)]
        one, two, three = [Heads(name, heads, length, width, packed=True, split=True) for name in parts]
        return one, two, three
    first = heads_of(writer, query, heads)
    key = writer.input(1)
    if len(writer.shape(key)) == _SPLIT_RANK:
        _, length, _, _, width = writer.shape(key)
        parts = [_taken(writer, key, number) for number in range(2)]
        two, three = [Heads(name, heads, length, width, packed=True, split=True) for name in parts]
        return first, two, three
    return first, heads_of(writer, key, heads), heads_of(writer, writer.input(2), heads)


def _taken(writer: NodeWriter, packed: str, number: int) -> str:
    """Write the part ``number`` of [batch, length, heads, parts, width]."""
    return writer.op("Gather", packed, writer.constant(np.asarray(number, np.int64)), axis=3)


def _with_bias(writer: NodeWriter, query: Heads, key: Heads, value: Heads) -> tuple[Heads, Heads, Heads]:
    """Write the additions of a bias of all projections, the query's first."""
    bias = writer.optional(3)
    if not bias:
        return query, key, value
    sizes = [part.heads * part.width for part in (query, key, value)]
    names = tuple([writer.fresh(f"bias{number}_") for number in range(3)])
    writer.split("Split", bias, writer.ints(*sizes), to=names, axis=0)
    found = []
    for part, own in zip((query, key, value), names, strict=True):
        if not part.packed:
            found.append(part)
            continue
        factor = writer.reshape(own, part.heads, part.width) if part.split else own
        found.append(replace(part, name=writer.op("Add", part.name, factor)))
    return found[0], found[1], found[2]


def _masked(writer: NodeWriter, mask: str, query: Heads, key: Heads, past: int) -> tuple[Masks, Masks]:
    """Write a mask of padding: what is added to scores, and conditions under which they are kept.

    It has a length for each sequence, or 0 (padding) and 1 for each key, or for each query and key.
    """
    if not mask:
        return [], []
    shape = writer.shape(mask)
    dropped = writer.number("mask_filter_value", _DROPPED)
    is_of_new = past and shape[1:] == (key.length - past,)
    if is_of_new:
        raise UnsupportedOperatorError(f"mask {mask!r} of {count(shape[1], 'new key')} beside {past} of the past")
    if len(shape) == 1 and shape[0] > 1 and shape[0] != _batch(writer):
        raise UnsupportedOperatorError(f"mask {mask!r} of shape {list(shape)}, beginnings and ends of sequences")
    if len(shape) == 1:
        each = writer.reshape(writer.whole_numbers(mask), -1, 1, 1, 1)
        open_ = writer.op("Less", writer.constant(np.arange(key.length)), each)
        sizes: tuple[int, ...] = (shape[0], 1, 1, key.length)
    elif shape[1:] in ((key.length,), (query.length, key.length)):
        sizes = (shape[0], 1, *((1,) if len(shape) == 2 else ()), *shape[1:])  # noqa: PLR2004 - batch and keys
        open_ = writer.op("Cast", writer.reshape(mask, *(0, *sizes[1:])), to_=TensorProto.BOOL)
    else:
        raise UnsupportedOperatorError(f"mask {mask!r} of shape {list(shape)}; needs {[shape[0], key.length]}")
    element = _element(writer)
    zero, low = writer.scalar(0.0, element), writer.scalar(dropped, element)
    return [(writer.op("Where", open_, zero, low), sizes)], []


def _batch(writer: NodeWriter) -> int:
    return writer.shape(writer.input(0))[0]


def _element(writer: NodeWriter) -> int:
    """Return the element type of the scores: that of the query, or of the bias where the query is quantised."""
    own = writer.element(writer.input(0))
    return writer.element(writer.input(2)) if own in (TensorProto.INT8, TensorProto.UINT8) else own


def _finish(
    writer: NodeWriter, query: Heads, key: Heads, value: Heads, masks: tuple[Masks, Masks], output: str,
    softcap: float = 0.0,
) -> None:  # fmt: skip
    added, kept = masks
    scale = writer.number("scale", 0) or 1 / math.sqrt(query.width)
    given = Attend(query, key, value, scale, _element(writer), softcap, tuple(added), tuple(kept))
    write_attention(writer, given, Results(output or writer.fresh("output"), packed=True))


@decomposed(f"{MICROSOFT}::GroupQueryAttention")
def _group_query(writer: NodeWriter) -> None:
    """Attention of query heads that share key heads, with a cache: one that grows, or one of the longest length.

    A cache of the longest length is written in place, and all of it counts as in use. One that grows holds as many
    tokens in each sequence as its shape says. Raises ``UnsupportedOperatorError`` for quantised and windowed caches,
    chunks with padding, sinks, and normalised heads.
    """
    writer.refuse(11, 12, 13, 14, 15, 16, why="export without sinks, quantised caches, normalised heads, padded chunks")
    if writer.flag("sliding_window_cache") or writer.flag("smooth_softmax") or writer.output(3):
        raise UnsupportedOperatorError("windowed caches, smooth softmax and the output of scores are not supported")
    heads, key_heads = int(writer.number("num_heads", 0)), int(writer.number("kv_num_heads", 0))
    query, key, value = _of_groups(writer, heads, key_heads)
    past_key, past_value = writer.optional(3), writer.optional(4)
    own, past = query.length, writer.shape(past_key)[2] if past_key else 0
    is_in_place = past > 0 and _present_length(writer, past + own) == past
    if writer.flag("do_rotary"):
        positions = writer.optional(9) or _positions(writer, own, None if is_in_place else past)
        query, key = [_rotated(writer, part, positions) for part in (query, key)]
    if is_in_place:
        first = _first_position(writer, own)
        key = _scattered(writer, key, past_key, first, writer.output(1))
        value = _scattered(writer, value, past_value, first, writer.output(2))
    else:
        key = joined(writer, key, past_key, writer.output(1))
        value = joined(writer, value, past_value, writer.output(2))
    added: Masks = []
    if writer.optional(10):
        added.append((writer.input(10), writer.shape(writer.input(10))))
    kept = _seen(writer, query, key, is_in_place=is_in_place)
    _finish(writer, query, key, value, (added, kept), writer.output(0), writer.number("softcap", 0))


def _of_groups(writer: NodeWriter, heads: int, key_heads: int) -> tuple[Heads, Heads, Heads]:
    """Return query, key and value; packed ones lie one behind the other in the last dimension of the query."""
    name = writer.input(0)
    if writer.optional(1):
        return (
            heads_of(writer, name, heads), heads_of(writer, writer.input(1), key_heads),
            heads_of(writer, writer.input(2), key_heads),
        )  # fmt: skip
    _, length, size = writer.shape(name)
    width, left = divmod(size, heads + 2 * key_heads)
    if left:
        needed = f"{heads} + 2 x {count(key_heads, 'head')}"
        raise UnsupportedOperatorError(f"{count(size, 'element')} a token, not those of {needed}")
    numbers = (heads, key_heads, key_heads)
    names = tuple([writer.fresh(f"part{number}_") for number in range(3)])
    writer.split("Split", name, writer.ints(*[number * width for number in numbers]), to=names, axis=2)
    one, two, three = [Heads(n, count, length, width, packed=True) for n, count in zip(names, numbers, strict=True)]
    return one, two, three


def _present_length(writer: NodeWriter, grown: int) -> int:
    """Return how long the cache is behind the node: as the file states, or as the total length says, else ``grown``."""
    stated = writer.recorded.get(writer.output(1))
    if stated is not None and len(stated.shape) > 2:  # noqa: PLR2004 - batch, heads, length
        return stated.shape[2]
    total = writer.value(writer.input(6))
    past = writer.shape(writer.input(3))[2]
    return grown if total is None else max(past, int(total.reshape(-1)[0]))


def _first_position(writer: NodeWriter, own: int) -> str:
    """Write the number of each sequence's first new token: [batch]."""
    lengths = writer.reshape(writer.whole_numbers(writer.input(5)), -1)
    return writer.op("Add", lengths, writer.constant(np.asarray(1 - own, np.int64)))


def _positions(writer: NodeWriter, own: int, past: int | None) -> str:
    """Write the numbers of the new tokens; ``past`` None: as the sequences' lengths say."""
    if past is not None:
        return writer.constant(np.arange(past, past + own).reshape(1, -1))
    first = writer.reshape(_first_position(writer, own), -1, 1)
    return writer.op("Add", first, writer.constant(np.arange(own)))


def _rotated(writer: NodeWriter, part: Heads, positions: str) -> Heads:
    split = writer.reshape(part.name, 0, 0, part.heads, part.width)
    is_interleaved = writer.flag("rotary_interleaved")
    turn = Rotation((writer.input(7), writer.input(8)), positions, part.width, is_interleaved)
    name = write_rotary(writer, split, turn)
    return replace(part, name=name, split=True)


def _scattered(writer: NodeWriter, part: Heads, past: str, first: str, present: str) -> Heads:
    """Write new keys or values into a cache of the longest length."""
    split = part.name if part.split else writer.reshape(part.name, 0, 0, part.heads, part.width)
    turned = writer.op("Transpose", split, perm=[0, 2, 1, 3])
    name = writer.op("TensorScatter", past, turned, first, axis=2, to=present)
    return Heads(name, part.heads, writer.shape(past)[2], part.width, packed=False)


def _seen(writer: NodeWriter, query: Heads, key: Heads, *, is_in_place: bool) -> Masks:
    """Write the conditions under which a query sees a key: not behind itself, and inside of the window."""
    window = int(writer.number("local_window_size", -1))
    if not writer.flag("causal", default=True):
        return []
    if not is_in_place:
        name = causal(writer, query.length, key.length, key.length - query.length, max(window, 0))
        return [(name, (query.length, key.length))] if name else []
    lengths = writer.reshape(writer.whole_numbers(writer.input(5)), -1, 1, 1, 1)
    own = np.arange(1 - query.length, 1).reshape(-1, 1)
    positions = writer.constant(np.arange(key.length))
    last = writer.op("Add", lengths, writer.constant(own))
    kept = writer.op("LessOrEqual", positions, last)
    if window > 0:
        earliest = writer.op("Add", lengths, writer.constant(own - window))
        kept = writer.op("And", kept, writer.op("Greater", positions, earliest))
    return [(kept, (_batch(writer), 1, query.length, key.length))]


@decomposed(f"{MICROSOFT}::Attention")
def _with_projections(writer: NodeWriter) -> None:
    """Attention with the products in front of it; columns of the weights are those of query, key and value."""
    writer.refuse(6, why="a cache of the longest length depends on data")
    if writer.flag("do_rotary") or writer.flag("past_present_share_buffer"):
        raise UnsupportedOperatorError("rotary embeddings and shared buffers of com.microsoft::Attention are not taken")
    data, weights = writer.input(0), writer.input(1)
    total = writer.shape(weights)[1]
    sizes = [int(size) for size in writer.attributes.get("qkv_hidden_sizes", ())] or [total // 3] * 3
    columns = tuple([writer.fresh(f"weights{number}_") for number in range(3)])
    writer.split("Split", weights, writer.ints(*sizes), to=columns, axis=1)
    products = [writer.op("MatMul", data, own) for own in columns]
    write_projected(writer, products, sizes, bias=writer.optional(2), mask=writer.optional(3), past=writer.optional(4))


def write_projected(
    writer: NodeWriter, products: list[str], sizes: list[int], *, bias: str, mask: str, past: str
) -> None:
    """Write the attention behind the products of query, key and value: [batch, length, size]."""
    heads = int(writer.number("num_heads", 0))
    length = writer.shape(writer.input(0))[1]
    if any(size % max(heads, 1) for size in sizes) or heads < 1:
        raise UnsupportedOperatorError(f"sizes {sizes} of query, key and value are not {count(heads, 'head')}")
    if bias:
        parts = tuple([writer.fresh(f"bias{number}_") for number in range(3)])
        writer.split("Split", bias, writer.ints(*sizes), to=parts, axis=0)
        products = [writer.op("Add", one, own) for one, own in zip(products, parts, strict=True)]
    made = [
        Heads(name, heads, length, size // heads, packed=True)
        for name, size in zip(products, sizes, strict=True)
    ]  # fmt: skip
    query, key, value = made
    before = 0
    if past or writer.output(1):
        before = writer.shape(past)[3] if past else 0
        key, value = _with_stacked_past(writer, key, value, past)
    added, kept = _masked(writer, mask, query, key, before)
    if writer.optional(5) and writer.node.op_type == "Attention":
        added.append((writer.input(5), writer.shape(writer.input(5))))
    if writer.flag("unidirectional"):
        name = causal(writer, length, key.length, key.length - length)
        kept += [(name, (length, key.length))] if name else []
    _finish(writer, query, key, value, (added, kept), writer.output(0))


def _with_stacked_past(writer: NodeWriter, key: Heads, value: Heads, past: str) -> tuple[Heads, Heads]:
    """Write keys and values joined with a past that holds both, [2, batch, heads, length, width], and the new one."""
    found, stacked = [], []
    for number, part in enumerate((key, value)):
        split = writer.reshape(part.name, 0, 0, part.heads, part.width)
        own = writer.op("Transpose", split, perm=[0, 2, 1, 3])
        length = part.length
        if past:
            before = writer.op("Gather", past, writer.constant(np.asarray(number, np.int64)), axis=0)
            own = writer.op("Concat", before, own, axis=2)
            length += writer.shape(past)[3]
        found.append(Heads(own, part.heads, length, part.width, packed=False))
        stacked.append(writer.reshape(own, 1, _batch(writer), part.heads, length, part.width))
    if writer.output(1):
        writer.op("Concat", *stacked, axis=0, to=writer.output(1))
    return found[0], found[1]
