"""Attention written out: a product of queries and keys, scaled and masked, a softmax, a product with the values.

Operands are read as they lie: heads that are packed into one dimension are a view with a dimension of their own, over
which an Einsum steps, and query heads that share a key head are further rows of that key head's products. So the
standard's operator, its written-out form and the operators of onnxruntime become the same products.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto

from dsascape.wording import count
from dsascape.workloads.decomposition.writer import NodeWriter, decomposed
from dsascape.workloads.operators.registry import UnsupportedOperatorError

_PACKED_RANK = 3
_MASK_RANK = 4
Masks = list[tuple[str, tuple[int, ...]]]
"""What decides about scores, with its shape."""


@dataclass(frozen=True, slots=True)
class Heads:
    """A query, key or value: [batch, heads, length, width] or, ``packed``, [batch, length, heads x width].

    ``split``: a packed one that has a dimension of heads already, [batch, length, heads, width].
    """

    name: str
    heads: int
    length: int
    width: int
    packed: bool
    split: bool = False


@dataclass(frozen=True, slots=True)
class Results:
    """Names of what an attention writes; empty for what it does not."""

    output: str
    packed: bool
    """Whether the output is [batch, length, heads x width]."""
    products: str = ""
    capped: str = ""
    masked: str = ""
    weights: str = ""


@dataclass(frozen=True, slots=True)
class Attend:
    """One attention, its operands joined with caches already."""

    query: Heads
    key: Heads
    value: Heads
    scale: float
    element: int
    """ONNX element type of the scores."""
    softcap: float = 0.0
    added: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Biases that are added to the scores, with their shapes: broadcast to [batch, heads, queries, keys]."""
    kept: tuple[tuple[str, tuple[int, ...]], ...] = field(default=())
    """Conditions under which scores are kept, likewise."""
    dropped: float = -math.inf
    """Score in place of those that are not kept."""


def heads_of(writer: NodeWriter, name: str, heads: int) -> Heads:
    """Return the query, key or value ``name`` of ``heads`` heads, which a rank of 4 states by itself.

    Raises ``UnsupportedOperatorError`` where heads do not divide it.
    """
    shape = writer.shape(name)
    if len(shape) == _PACKED_RANK:
        if heads < 1 or shape[-1] % heads:
            raise UnsupportedOperatorError(f"{list(shape)} is to be split into {count(heads, 'head')}")
        return Heads(name, heads, shape[1], shape[2] // heads, packed=True)
    if len(shape) != _PACKED_RANK + 1:
        raise UnsupportedOperatorError(f"{name!r} has shape {list(shape)}; needs 3 or 4 dimensions")
    return Heads(name, shape[1], shape[2], shape[3], packed=False)


def causal(writer: NodeWriter, queries: int, keys: int, offset: int, window: int = 0) -> str:
    """Write the condition that a query sees keys up to ``offset`` behind its own number; empty where it sees all.

    ``window``: the number of keys that it sees at most, 0 for all of them. The result has shape [queries, keys].
    """
    own = np.arange(queries).reshape(-1, 1) + offset
    is_open = offset >= keys - 1
    is_narrow = 0 < window < min(queries + offset, keys)
    if is_open and not is_narrow:
        return ""
    positions = writer.constant(np.arange(keys).reshape(1, -1))
    last = writer.constant(own)
    kept = "" if is_open else writer.op("LessOrEqual", positions, last)
    if is_narrow:
        recent = writer.op("Greater", positions, writer.constant(own - window))
        kept = writer.op("And", kept, recent) if kept else recent
    return kept


def write_attention(writer: NodeWriter, given: Attend, results: Results) -> None:
    """Write ``given`` out; raise ``UnsupportedOperatorError`` if query heads do not share key heads evenly."""
    query, key, value = given.query, given.key, given.value
    if query.heads % key.heads or key.heads != value.heads:
        raise UnsupportedOperatorError(
            f"{count(query.heads, 'query head')} do not share {count(key.heads, 'key head')} evenly"
        )
    share = query.heads // key.heads
    ahead = query.heads, query.length, key.length
    scores = _scores(writer, given, share, results.products)
    if given.softcap:
        cap = writer.scalar(given.softcap, given.element)
        scores = writer.op("Mul", writer.op("Tanh", writer.op("Div", scores, cap)), cap)
    _show(writer, scores, results.capped, ahead, share)
    for name, shape in given.added:
        scores = writer.op("Add", scores, _spread(writer, name, shape, share, key.heads))
    kept = [_spread(writer, name, shape, share, key.heads) for name, shape in given.kept]
    if kept:
        together = kept[0]
        for other in kept[1:]:
            together = writer.op("And", together, other)
        scores = writer.op("Where", together, scores, writer.scalar(given.dropped, given.element))
    _show(writer, scores, results.masked, ahead, share)
    weights = writer.op("Softmax", scores, axis=-1)
    _show(writer, weights, results.weights, ahead, share)
    _weigh(writer, given, share, weights, results)


def _letters(packed: bool, share: int, line: str) -> str:
    """Return the dimensions of an operand: b batch, h key heads, g query heads of each, ``line``, w width."""
    group = "g" if share > 1 else ""
    return f"b{line}h{group}w" if packed else f"bh{group}{line}w"


def _view(writer: NodeWriter, operand: Heads, share: int, key_heads: int) -> str:
    """Write the view of an operand that has a dimension of heads, and one of heads that share a key head."""
    heads = (key_heads, share) if share > 1 else (key_heads,)
    if operand.packed and (share > 1 or not operand.split):
        return writer.reshape(operand.name, 0, 0, *heads, operand.width)
    if not operand.packed and share > 1:
        return writer.reshape(operand.name, 0, *heads, -1, operand.width)
    return operand.name


def _product(writer: NodeWriter, left: tuple[str, str], right: tuple[str, str], result: tuple[str, str]) -> str:
    """Write the product of two operands, each a name and its letters, as a MatMul where it is one."""
    (one, of_one), (other, of_other), (name, wanted) = left, right, result
    is_plain = of_one[:-1] == wanted[:-1] and of_other == wanted[:-2] + of_one[-1] + wanted[-1]
    if is_plain:
        return writer.op("MatMul", one, other, to=name)
    return writer.op("Einsum", one, other, to=name, equation=f"{of_one},{of_other}->{wanted}")


def _scores(writer: NodeWriter, given: Attend, share: int, shown: str) -> str:
    query, key = given.query, given.key
    left = _view(writer, query, share, key.heads), _letters(query.packed, share, "q")
    right = _view(writer, key, 1, key.heads), _letters(key.packed, 1, "k")
    product = _product(writer, left, right, ("", "bhgqk" if share > 1 else "bhqk"))
    scaled = writer.op("Mul", product, writer.scalar(given.scale, given.element))
    _show(writer, scaled, shown, (query.heads, query.length, key.length), share)
    return scaled


def _weigh(writer: NodeWriter, given: Attend, share: int, weights: str, results: Results) -> None:
    value, query = given.value, given.query
    left = weights, "bhgqk" if share > 1 else "bhqk"
    right = _view(writer, value, 1, value.heads), _letters(value.packed, 1, "k")
    is_viewed = results.packed or share > 1
    wanted = _letters(results.packed, share, "q")
    product = _product(writer, left, right, ("" if is_viewed else results.output, wanted))
    if results.packed:
        writer.reshape(product, 0, 0, query.heads * value.width, to=results.output)
    elif share > 1:
        writer.reshape(product, 0, query.heads, -1, value.width, to=results.output)


def _spread(writer: NodeWriter, name: str, shape: tuple[int, ...], share: int, key_heads: int) -> str:
    """Write the view of a mask that broadcasts to scores with a dimension of heads that share a key head."""
    if share == 1 or len(shape) < _MASK_RANK - 1:
        return name
    heads, *rest = shape[-_PACKED_RANK:]
    split = (1, 1) if heads == 1 else (key_heads, share)
    return writer.reshape(name, *((0,) if len(shape) == _MASK_RANK else (1,)), *split, *rest)


def _show(writer: NodeWriter, scores: str, shown: str, sizes: tuple[int, int, int], share: int) -> None:
    """Write a result that shows the scores as they are at that point: [batch, heads, queries, keys]."""
    if shown and share > 1:
        writer.reshape(scores, 0, *sizes, to=shown)
    elif shown:
        writer.op("Identity", scores, to=shown)


@decomposed("Attention")
def _attention(writer: NodeWriter) -> None:
    """Attention of opsets 23 and later. A row in which no score is kept is not set to zero."""
    key_heads = int(writer.number("kv_num_heads", 0))
    query = heads_of(writer, writer.input(0), int(writer.number("q_num_heads", 0)))
    key, value = (heads_of(writer, writer.input(place), key_heads) for place in (1, 2))
    element, own = writer.element(query.name), query.length
    past = writer.shape(writer.input(4))[2] if writer.optional(4) else 0
    key = joined(writer, key, writer.optional(4), writer.output(1))
    value = joined(writer, value, writer.optional(5), writer.output(2))
    added: Masks = []
    kept: Masks = []
    mask, lengths = writer.optional(3), writer.optional(6)
    if mask:
        shape = writer.shape(mask)
        padded, shape = _padded(writer, mask, shape, key.length)
        (kept if writer.element(mask) == TensorProto.BOOL else added).append((padded, shape))
    if lengths:
        kept.append(_within(writer, lengths, key.length, 0))
    if writer.flag("is_causal") and lengths:
        kept.append(_before(writer, lengths, own, key.length))
    elif writer.flag("is_causal"):
        name = causal(writer, own, key.length, past)
        kept += [(name, (own, key.length))] if name else []
    mode, shown = int(writer.number("qk_matmul_output_mode", 0)), writer.output(3)
    at_stage = [shown if mode == stage else "" for stage in range(4)]
    scale = writer.number("scale", 0) or 1 / math.sqrt(query.width)
    given = Attend(query, key, value, scale, element, writer.number("softcap", 0), tuple(added), tuple(kept))
    write_attention(writer, given, Results(writer.output(0) or writer.fresh("output"), query.packed, *at_stage))


def joined(writer: NodeWriter, part: Heads, past: str, present: str) -> Heads:
    """Write the keys or values of ``past`` and ``part`` as one; return ``part`` itself without past and present.

    ``present``: the result that holds them, empty where the node has none.
    """
    if not past and not present:
        return part
    own = part.name
    if part.packed:
        split = part.name if part.split else writer.reshape(part.name, 0, 0, part.heads, part.width)
        own = writer.op("Transpose", split, perm=[0, 2, 1, 3], to="" if past else present)
    elif not past:
        own = writer.op("Identity", part.name, to=present)
    before = writer.shape(past)[2] if past else 0
    name = writer.op("Concat", past, own, axis=2, to=present) if past else own
    return Heads(name, part.heads, before + part.length, part.width, packed=False)


def _padded(writer: NodeWriter, mask: str, shape: tuple[int, ...], keys: int) -> tuple[str, tuple[int, ...]]:
    """Write a mask that is shorter than the keys with what lets no further key pass; return its name and shape."""
    missing = keys - shape[-1] if shape else 0
    if missing <= 0 or shape[-1] == 1:
        return mask, shape
    element = writer.element(mask)
    fill = writer.scalar(0 if element == TensorProto.BOOL else -math.inf, element)
    pads = writer.ints(*[0] * (2 * len(shape) - 1), missing)
    return writer.op("Pad", mask, pads, fill), (*shape[:-1], keys)


def _within(writer: NodeWriter, lengths: str, keys: int, more: int) -> tuple[str, tuple[int, ...]]:
    """Write the condition that a key's number is less than its sequence's length and ``more``."""
    positions = writer.constant(np.arange(keys) - more)
    each = writer.reshape(writer.whole_numbers(lengths), -1, 1, 1, 1)
    return writer.op("Less", positions, each), (writer.shape(lengths)[0], 1, 1, keys)


def _before(writer: NodeWriter, lengths: str, queries: int, keys: int) -> tuple[str, tuple[int, ...]]:
    """Write the condition that a key is not behind its query, where queries are the last of each sequence."""
    each = writer.reshape(writer.whole_numbers(lengths), -1, 1, 1, 1)
    last = writer.op("Add", each, writer.constant((np.arange(queries) - queries).reshape(-1, 1)))
    kept = writer.op("LessOrEqual", writer.constant(np.arange(keys)), last)
    return kept, (writer.shape(lengths)[0], 1, queries, keys)
