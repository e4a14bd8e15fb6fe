"""Scaled dot-product attention: scores, softmax, weighted sum; grouped key heads and key-value caches."""

from dataclasses import dataclass

from dsascape.wording import count
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import at, whole
from dsascape.workloads.operators.normalisation import softmax_nests
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator

_MAC = Operations(macs=1)
_PACKED_RANK = 3
_SCORE_OUTPUT = 3
_AFTER_SOFTMAX = 3


@dataclass(frozen=True, slots=True)
class _Heads:
    """Query, key or value tensor: [batch, heads, length, width] or, packed, [batch, length, heads x width]."""

    tensor: Tensor
    heads: int

    @property
    def packed(self) -> bool:
        return len(self.tensor.shape) == _PACKED_RANK

    @property
    def length(self) -> int:
        return self.tensor.shape[-2]

    @property
    def width(self) -> int:
        return self.tensor.shape[-1] // (self.heads if self.packed else 1)

    def access(self, batch: Index, head: tuple[tuple[int, int], ...], line: Index, unit: int) -> Access:
        """Return the access by the loops of a head (terms), a line and a unit inside the head."""
        if self.packed:
            scaled = tuple((loop, stride * self.width) for loop, stride in head)
            indices: tuple[Index, ...] = (batch, line, Index((*scaled, (unit, 1))))
        else:
            indices = (batch, Index(head), line, at(unit))
        return Access(self.tensor.name, self.tensor.shape, indices)


def _heads(context: NodeContext, place: int, attribute: str) -> _Heads:
    tensor = context.input(place)
    if len(tensor.shape) == _PACKED_RANK:
        heads = int(context.attributes.get(attribute, 0))
        if heads < 1 or tensor.shape[-1] % heads:
            raise UnsupportedOperatorError(
                f"{attribute} is {heads}, but {list(tensor.shape)} is to be split by it"
            )
        return _Heads(tensor, heads)
    return _Heads(tensor, tensor.shape[1])


@operator("Attention", layout="row_major")
def _attention(context: NodeContext) -> Lowered:
    query = _heads(context, 0, "q_num_heads")
    key, value = _heads(context, 1, "kv_num_heads"), _heads(context, 2, "kv_num_heads")
    if query.heads % key.heads:
        raise UnsupportedOperatorError(
            f"{count(query.heads, 'query head')} do not share {count(key.heads, 'key head')} evenly"
        )
    name, dtype = context.results[0].name, query.tensor.dtype
    nests: list[LoopNest] = []
    internals: list[Tensor] = []
    full = []
    for place, part, label in ((4, key, "keys"), (5, value, "values")):
        past = context.optional_input(place)
        present = context.optional_output(place - 3)
        if past is None and present is None:
            full.append(part)
            continue
        before = 0 if past is None else past.shape[2]
        shape = (part.tensor.shape[0], part.heads, before + part.length, part.width)
        joined = present or Tensor(f"{name}:{label}", shape, dtype, "activation")
        internals += [] if present else [joined]
        nests += _join(past, part, joined, before)
        full.append(_Heads(joined, part.heads))
    keys, values = full
    shape = (query.tensor.shape[0], query.heads, query.length, keys.length)
    shown = context.optional_output(_SCORE_OUTPUT)
    late = int(context.attributes.get("qk_matmul_output_mode", 0)) == _AFTER_SOFTMAX
    scores = (None if late else shown) or Tensor(f"{name}:scores", shape, dtype, "activation")
    weights = (shown if late else None) or Tensor(f"{name}:weights", shape, dtype, "activation")
    softmax = softmax_nests(scores, weights, (3,))
    nests += [_scores(context, query, keys, scores), *softmax.nests]
    internals += [*(t for t in (scores, weights) if t is not shown), *softmax.internals]
    output = context.optional_output(0)
    if output is not None:
        nests.append(_weighted(query, values, weights, output))
    return Lowered(tuple(nests), tuple(internals))


def _join(past: Tensor | None, part: _Heads, joined: Tensor, before: int) -> list[LoopNest]:
    """Return the copies of the past and the new keys or values into one tensor."""
    batch, heads, _, width = joined.shape
    nests = []
    if past is not None:
        loops = tuple(Loop(n, size) for n, size in zip("bhsw", past.shape, strict=True))
        write = Access(joined.name, joined.shape, whole(past, range(4)).indices)
        nests.append(LoopNest("past", loops, (whole(past, range(4)),), write))
    loops = (Loop("b", batch), Loop("h", heads), Loop("s", part.length), Loop("w", width))
    write = Access(joined.name, joined.shape, (at(0), at(1), Index(((2, 1),), offset=before), at(3)))
    nests.append(LoopNest("present", loops, (part.access(at(0), ((1, 1),), at(2), 3),), write))
    return nests


def _shared(
    query: _Heads, key: _Heads
) -> tuple[list[Loop], tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Return loops over batch, key heads and query heads per key head; index terms of query head and key head."""
    share = query.heads // key.heads
    loops = [Loop("b", query.tensor.shape[0]), Loop("h", key.heads), Loop("s", share)]
    return loops, ((1, share), (2, 1)), ((1, 1),)


def _scores(context: NodeContext, query: _Heads, key: _Heads, scores: Tensor) -> LoopNest:
    """Return the nest of query x key, scaled and masked; masked positions are computed too."""
    loops, query_head, key_head = _shared(query, key)
    loops += [Loop("q", query.length), Loop("k", key.length), Loop("w", query.width, reduction=True)]
    q, k, w = 3, 4, 5
    reads = [query.access(at(0), query_head, at(q), w), key.access(at(0), key_head, at(k), w)]
    write = Access(scores.name, scores.shape, (at(0), Index(query_head), at(q), at(k)))
    mask = context.optional_input(3)
    if mask is not None:
        lead = 4 - len(mask.shape)
        reads.append(
            Access(
                mask.name,
                mask.shape,
                tuple(
                    Index() if size == 1 and scores.shape[lead + d] != 1 else write.indices[lead + d]
                    for d, size in enumerate(mask.shape)
                ),
            )
        )
    limits = context.optional_input(6)
    if limits is not None:
        reads.append(Access(limits.name, limits.shape, (at(0),)))
    last = Operations(simple=1 + int(mask is not None))
    return LoopNest("scores", tuple(loops), tuple(reads), write, _MAC, last)


def _weighted(query: _Heads, value: _Heads, weights: Tensor, output: Tensor) -> LoopNest:
    loops, query_head, key_head = _shared(query, value)
    loops += [Loop("q", query.length), Loop("w", value.width), Loop("k", value.length, reduction=True)]
    q, w, k = 3, 4, 5
    reads = (
        Access(weights.name, weights.shape, (at(0), Index(query_head), at(q), at(k))),
        value.access(at(0), key_head, at(k), w),
    )
    result = _Heads(output, query.heads).access(at(0), query_head, at(q), w)
    return LoopNest("weigh", tuple(loops), reads, result, _MAC)
