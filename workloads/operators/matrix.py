"""Matrix products and Einstein sums, also of integers with scales."""

import string
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod

from dsascape.wording import count
from dsascape.workloads.graph import Tensor
from dsascape.workloads.loopnest import Access, Index, Loop, LoopNest, Operations
from dsascape.workloads.operators.access import at, broadcast, whole
from dsascape.workloads.operators.registry import Lowered, NodeContext, UnsupportedOperatorError, operator

_PAIR = 2
_MAC = Operations(macs=1)
_NONE = Operations()
_REQUANTISE = Operations(simple=3)


@operator("Gemm", layout="row_major")
def _gemm(context: NodeContext) -> Lowered:
    left, right, output = context.input(0), context.input(1), context.output
    m, n, k = 0, 1, 2
    depth = left.shape[0 if context.flag("transA") else 1]
    loops = (Loop("m", output.shape[0]), Loop("n", output.shape[1]), Loop("k", depth, reduction=True))
    reads = [
        whole(left, (k, m) if context.flag("transA") else (m, k)),
        whole(right, (n, k) if context.flag("transB") else (k, n)),
    ]
    bias = context.optional_input(2)
    if bias is not None:
        reads.append(broadcast(bias, (m, n), output.shape))
    last = Operations(simple=int(bias is not None))
    return Lowered((LoopNest("Gemm", loops, tuple(reads), whole(output, (m, n)), _MAC, last),))


@operator("MatMul", layout="row_major")
def _matmul(context: NodeContext) -> Lowered:
    return Lowered((_product(context, (context.input(0), context.input(1)), ((), ()), _NONE),))


@operator("MatMulInteger", layout="row_major")
def _matmul_integer(context: NodeContext) -> Lowered:
    parameters = (context.unknown(2), context.unknown(3))
    return Lowered((_product(context, (context.input(0), context.input(1)), parameters, _NONE),))


@operator("QLinearMatMul", layout="row_major")
def _quantised_matmul(context: NodeContext) -> Lowered:
    """Multiply integers, then scale each output back to the output's steps."""
    parameters = ((*context.unknown(1, 2), *context.unknown(6, 7)), context.unknown(4, 5))
    return Lowered((_product(context, (context.input(0), context.input(3)), parameters, _REQUANTISE),))


def _product(
    context: NodeContext,
    operands: tuple[Tensor, Tensor],
    parameters: tuple[Sequence[Tensor], Sequence[Tensor]],
    last: Operations,
) -> LoopNest:
    """Return the nest of numpy's ``matmul``: leading dimensions broadcast, one-dimensional operands drop theirs.

    ``parameters`` (scales, zero points) lie along the rows of the left and the columns of the right operand.
    """
    (left, right), output = operands, context.output
    rows, columns = len(left.shape) > 1, len(right.shape) > 1
    lead = len(output.shape) - rows - columns
    names = [f"b{d}" for d in range(lead)] + ["m"] * rows + ["n"] * columns
    space = tuple(Loop(name, size) for name, size in zip(names, output.shape, strict=True))
    k = len(space)
    loops = (*space, Loop("k", left.shape[-1], reduction=True))
    left_positions = [*range(lead), lead, k] if rows else [k]
    right_positions = [*range(lead), k, lead + rows] if columns else [k]
    reads = [_aligned(left, left_positions, loops), _aligned(right, right_positions, loops)]
    reads += [_parameter(t, left_positions, lead, loops) for t in parameters[0]]
    reads += [_parameter(t, right_positions, lead + rows, loops) for t in parameters[1]]
    return LoopNest(context.kind, loops, tuple(reads), whole(output, range(k)), _MAC, last)


def _aligned(tensor: Tensor, positions: Sequence[int], loops: Sequence[Loop]) -> Access:
    """Return the access by the last of ``positions``; dimensions of size one stay put."""
    used = positions[len(positions) - len(tensor.shape) :]
    indices = (_at(loop, size, loops) for size, loop in zip(tensor.shape, used, strict=True))
    return Access(tensor.name, tensor.shape, tuple(indices))


def _parameter(tensor: Tensor, positions: Sequence[int], line: int, loops: Sequence[Loop]) -> Access:
    """Return the access to a scale: one for all, one per row or column ``line``, or like its operand."""
    used = [line] if len(tensor.shape) == 1 else positions[len(positions) - len(tensor.shape) :]
    indices = (Index() if size == 1 else at(loop) for size, loop in zip(tensor.shape, used, strict=True))
    return Access(tensor.name, tensor.shape, tuple(indices))


def _at(loop: int, size: int, loops: Sequence[Loop]) -> Index:
    return Index() if size == 1 and loops[loop].extent > 1 else at(loop)


@operator("Einsum", layout="row_major")
def _einsum(context: NodeContext) -> Lowered:
    """Use one loop per letter; letters that the output lacks are reductions. An ellipsis stands for fresh letters.

    Three or more operands are multiplied two at a time, as frameworks do.
    """
    tensors = [context.input(position) for position in range(len(context.inputs))]
    operands, result = _letters(context.text("equation", ""), tensors)
    sizes: dict[str, int] = {}
    for letters, tensor in zip(operands, tensors, strict=True):
        for letter, size in zip(letters, tensor.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    held = list(zip(tensors, operands, strict=True))
    nests: list[LoopNest] = []
    passed: list[Tensor] = []
    while len(held) > _PAIR:
        first, second = _cheapest([letters for _, letters in held], result, sizes)
        pair = (held[first], held[second])
        held = [one for place, one in enumerate(held) if place not in (first, second)]
        kept = _kept([letters for _, letters in pair], [letters for _, letters in held], result)
        shape = tuple(sizes[letter] for letter in kept)
        name = f"{context.output.name}:product{len(passed)}"
        passed.append(Tensor(name, shape, context.output.dtype, "activation"))
        nests.append(_contraction(pair, (passed[-1], kept), sizes))
        held.append((passed[-1], kept))
    nests.append(_contraction(held, (context.output, result), sizes))
    return Lowered(tuple(nests), tuple(passed))


def _contraction(
    operands: Sequence[tuple[Tensor, str]], target: tuple[Tensor, str], sizes: Mapping[str, int]
) -> LoopNest:
    """Return the sum over the letters of ``operands`` that ``target`` lacks."""
    output, result = target
    order = [*result, *sorted({c for _, letters in operands for c in letters} - set(result))]
    loops = tuple(Loop(letter, sizes[letter], reduction=letter not in result) for letter in order)
    reads = tuple(_aligned(tensor, [order.index(c) for c in letters], loops) for tensor, letters in operands)
    summed = len(order) > len(result)
    factors = len(operands) - 1
    products, others = (factors, 0) if summed else (0, factors)
    each = Operations(macs=products, simple=others or int(summed and not factors))
    return LoopNest("Einsum", loops, reads, whole(output, range(len(result))), each)


def _kept(pair: Sequence[str], others: Sequence[str], result: str) -> str:
    """Return the letters of ``pair`` that other operands or the result have, each once."""
    wanted = set(result).union(*others)
    return "".join(c for c in dict.fromkeys("".join(pair)) if c in wanted)


def _cheapest(operands: Sequence[str], result: str, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return the pair whose product adds least to the tensors held; among equals, that of fewest multiplications.

    The greedy order of opt_einsum (Smith and Gray, 2018): size of the product less the sizes of its two operands.
    """

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        chosen = [operands[place] for place in pair]
        others = [letters for place, letters in enumerate(operands) if place not in pair]
        product = _elements(_kept(chosen, others, result), sizes)
        return product - sum(_elements(letters, sizes) for letters in chosen), _elements("".join(chosen), sizes)

    return min(combinations(range(len(operands)), 2), key=cost)


def _elements(letters: str, sizes: Mapping[str, int]) -> int:
    return prod(sizes[letter] for letter in set(letters))


def _letters(equation: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return the letters of every operand and of the result, ellipses written out."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    operands = terms.split(",")
    if len(operands) != len(tensors):
        raise UnsupportedOperatorError(f"equation {equation!r} does not have {count(len(tensors), 'operand')}")
    fresh = [letter for letter in string.ascii_letters if letter not in equation]
    hidden = max(len(t.shape) - len(o.replace("...", "")) for o, t in zip(operands, tensors, strict=True))
    lead = fresh[: max(hidden, 0)]
    if not arrow:
        single = sorted(c for c in set(terms) if c.isalpha() and terms.count(c) == 1)
        result = ("..." if "..." in terms else "") + "".join(single)

    def spelled(term: str, rank: int) -> str:
        missing = rank - len(term.replace("...", ""))
        return term.replace("...", "".join(lead[len(lead) - missing :]) if missing else "")

    written = [spelled(term, len(tensor.shape)) for term, tensor in zip(operands, tensors, strict=True)]
    if any(len(letters) != len(tensor.shape) for letters, tensor in zip(written, tensors, strict=True)):
        raise UnsupportedOperatorError(f"equation {equation!r} does not fit its operands' dimensions")
    return written, result.replace("...", "".join(lead))
