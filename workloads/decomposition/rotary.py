"""Rotary embeddings written out: pairs of elements of each head, turned by an angle that depends on the token."""

from dataclasses import dataclass

from dsascape.wording import count
from dsascape.workloads.decomposition.writer import MICROSOFT, NodeWriter, decomposed
from dsascape.workloads.operators.registry import UnsupportedOperatorError

_PACKED_RANK = 3


@dataclass(frozen=True, slots=True)
class Rotation:
    """How heads are turned."""

    caches: tuple[str, str]
    """Cosines and sines of each position or each token; the last dimension is half of the elements that are turned."""
    positions: str
    """Number of each token, [batch or 1, length]; empty where the caches are [batch, length, half] already."""
    width: int
    """Elements of a head; those behind the ones that are turned stay as they are."""
    is_interleaved: bool
    """Whether pairs are neighbours; otherwise they are half of the turned elements apart."""
    heads_first: bool = False
    """Whether heads come before the length."""


def write_rotary(writer: NodeWriter, split: str, how: Rotation, to: str = "") -> str:
    """Write the rotation of ``split``, [batch, length, heads, width] or with heads first; return the result's name."""
    half = writer.shape(how.caches[0])[-1]
    width, is_interleaved = how.width, how.is_interleaved
    turned = 2 * half
    data, rest = split, ""
    if turned < width:
        data, rest = writer.split(
            "Split", split, writer.ints(turned, width - turned), to=(writer.fresh("turned"), writer.fresh("rest_")),
            axis=3,
        )  # fmt: skip
    place = writer.ints(1 if how.heads_first else 2)
    cosine, sine = [
        writer.op("Unsqueeze", writer.op("Gather", cache, how.positions, axis=0) if how.positions else cache, place)
        for cache in how.caches
    ]
    one, other = _pairs(writer, data, half, is_interleaved=is_interleaved)
    first = writer.op("Sub", writer.op("Mul", one, cosine), writer.op("Mul", other, sine))
    second = writer.op("Add", writer.op("Mul", other, cosine), writer.op("Mul", one, sine))
    if is_interleaved:
        first, second = [writer.op("Unsqueeze", part, writer.ints(4)) for part in (first, second)]
        joined = writer.op("Concat", first, second, axis=4)
        result = writer.reshape(joined, 0, 0, 0, turned, to="" if rest else to)
        return writer.op("Concat", result, rest, axis=3, to=to) if rest else result
    parts = (first, second, rest) if rest else (first, second)
    return writer.op("Concat", *parts, axis=3, to=to)


def _pairs(writer: NodeWriter, data: str, half: int, *, is_interleaved: bool) -> tuple[str, str]:
    """Write the first and the second elements of all pairs: neighbours, or a half of the head apart."""
    if is_interleaved:
        starts, steps, ends = (0, 1), 2, (2 * half, 2 * half)
    else:
        starts, steps, ends = (0, half), 1, (half, 2 * half)
    one, other = [
        writer.op("Slice", data, writer.ints(start), writer.ints(end), writer.ints(3), writer.ints(steps))
        for start, end in zip(starts, ends, strict=True)
    ]
    return one, other


@decomposed("RotaryEmbedding")
def _standard_rotary(writer: NodeWriter) -> None:
    """Rotary embedding of opset 23: positions come last, and are left out where caches are those of the tokens."""
    data, caches = writer.input(0), (writer.input(1), writer.input(2))
    shape, half = writer.shape(data), writer.shape(caches[0])[-1]
    turned = int(writer.number("rotary_embedding_dim", 0))
    if turned not in (0, 2 * half):
        raise UnsupportedOperatorError(
            f"rotary_embedding_dim is {turned}; the caches turn {count(2 * half, 'element')}"
        )
    is_interleaved = writer.flag("interleaved")
    if len(shape) != _PACKED_RANK:
        turn = Rotation(caches, writer.optional(3), shape[3], is_interleaved, heads_first=True)
        write_rotary(writer, data, turn, writer.output(0))
        return
    heads = int(writer.number("num_heads", 0))
    if not heads or shape[2] % heads:
        raise UnsupportedOperatorError(f"{count(shape[2], 'element')} a token: no {count(heads, 'head')}")
    split = writer.reshape(data, 0, 0, heads, shape[2] // heads)
    turn = Rotation(caches, writer.optional(3), shape[2] // heads, is_interleaved)
    writer.reshape(write_rotary(writer, split, turn), 0, 0, shape[2], to=writer.output(0))


@decomposed(f"{MICROSOFT}::RotaryEmbedding")
def _rotary(writer: NodeWriter) -> None:
    """Rotary embedding of onnxruntime. Raises ``UnsupportedOperatorError`` for batches without padding between them."""
    if writer.flag("is_packed_batching"):
        raise UnsupportedOperatorError("batches without padding between sequences depend on data")
    data, positions = writer.input(0), writer.input(1)
    shape = writer.shape(data)
    caches = writer.input(2), writer.input(3)
    is_interleaved = writer.flag("interleaved")
    scale = writer.number("scale", 1)
    if scale != 1:
        data = writer.op("Mul", data, writer.scalar(scale, writer.element(data)))
    is_packed = len(shape) == _PACKED_RANK
    length = shape[1 if is_packed else 2]
    where = writer.whole_numbers(positions)
    if len(writer.shape(positions)) == 1:  # the position of the first token of all sequences
        first = writer.reshape(where, 1, 1)
        where = writer.op("Add", first, writer.ints(*range(length)))
    if not is_packed:
        turn = Rotation(caches, where, shape[3], is_interleaved, heads_first=True)
        write_rotary(writer, data, turn, writer.output(0))
        return
    heads = int(writer.number("num_heads", 0))
    width = shape[2] // heads if heads else 2 * writer.shape(caches[0])[1]
    if shape[2] % width:
        raise UnsupportedOperatorError(f"{count(shape[2], 'element')} a token: no whole heads of {width}")
    split = writer.reshape(data, 0, 0, -1, width)
    turned = write_rotary(writer, split, Rotation(caches, where, width, is_interleaved))
    writer.reshape(turned, 0, 0, shape[2], to=writer.output(0))
