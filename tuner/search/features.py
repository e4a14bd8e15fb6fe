"""The 164 features of an innermost statement in its program (Ansor, appendix B), from the tree of loops.

Numbers are scaled by ``log2(1 + x)``, as they reach over many orders of magnitude. Where the paper's list leaves open
what is counted, the count is mostly that of TVM's extractor; docs/tune.md lists what differs. What a tree of loops does
not tell is 0: additions, products and comparisons are one class there, and count as additions; a statement's integers
are those of its addresses.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import Loop, LoopKind, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Unroll
from dsascape.tuner.search.accesses import Accesses, BufferAccess, Uses, stride_of, touched
from dsascape.tuner.search.genes import step_of

_OPERATIONS = ("mad", "addsub", "mul", "divmod", "cmp", "math_func", "other_func")
_POSITIONS = (
    "none", "inner_spatial", "middle_spatial", "outer_spatial", "inner_reduce", "middle_reduce", "outer_reduce",
    "mixed",
)  # fmt: skip
_BUFFER = (
    "read", "write", "read_write", "bytes", "unique_bytes", "lines", "unique_lines", "loop_reuse", "serial_reuse",
    "no_reuse", "reuse_distance_iterations", "reuse_distance_bytes", "reuse_count", "bytes_by_reuse",
    "unique_bytes_by_reuse", "lines_by_reuse", "unique_lines_by_reuse", "stride",
)  # fmt: skip
_KINDS: tuple[tuple[str, LoopKind], ...] = (("vector", "vector"), ("unroll", "unrolled"), ("parallel", "parallel"))
_BUFFERS = 5
_NO_REUSE = 0.5
"""Number in place of the reuse count, by which others are divided, of what is not used again."""
_CURVE = 10
FEATURES: tuple[str, ...] = (
    *[f"float_{each}" for each in _OPERATIONS], *[f"int_{each}" for each in _OPERATIONS], "bool_op", "select_op",
    *[f"{kind}_{each}" for kind, _ in _KINDS for each in ("count", "product", "extent", *_POSITIONS)],
    "is_gpu", "block_x", "block_y", "block_z", "thread_x", "thread_y", "thread_z", "vthread",
    *[f"buffer{number}_{each}" for number in range(_BUFFERS) for each in _BUFFER],
    *[f"intensity_{number}" for number in range(_CURVE)],
    "allocated_bytes", "allocations", "iterations_of_an_allocation", "allocated_in_all",
    "outer_product", "outer_loops", "unroll_max_step",
)  # fmt: skip
"""Names of the features, in order."""


@dataclass(frozen=True)
class _Touched:
    """Use of one buffer by a statement while its innermost loops run, level by level, innermost first."""

    access: BufferAccess
    bytes_by_level: tuple[int, ...]
    lines: float
    """Cache lines that all loops touch, each once."""


def features_of(naive: NaiveProgram, program: LoopProgram, line_bytes: int) -> NDArray[np.float64]:
    """Return one row of features for each innermost statement of ``program``, in the order in which they stand."""
    accesses = Accesses(naive, program)
    computed = {each.stage for _, each in statements_of(program.body)}
    rows = [
        _row(program, accesses.of(around, statement), line_bytes, computed)
        for around, statement in statements_of(program.body)
    ]
    found: NDArray[np.float64] = np.array(rows, dtype=np.float64).reshape(-1, len(FEATURES))
    scaled: NDArray[np.float64] = np.log2(1 + found)
    return scaled


def _row(program: LoopProgram, uses: Uses, line_bytes: int, computed: set[str]) -> list[float]:
    loops = uses.around
    outer = math.prod([loop.extent for loop in loops])
    inside = tuple(reversed(loops))
    found = [_touched(program, access, inside, line_bytes) for access in uses.accesses]
    reduced = {loop for _, value in uses.statement.reduced for loop, _ in value.terms}
    if uses.statement.run is not None:
        reduced |= {loop for loop, _ in uses.statement.run.terms}
    unroll = step_of(program.steps, uses.statement.stage, Unroll)
    return [
        *_counts(uses, outer),
        *[each for _, kind in _KINDS for each in _annotated(loops, kind, reduced)],
        *_gpu(loops),
        *_buffers(found, inside, outer, line_bytes, computed - {uses.statement.stage}),
        *_curve(uses.operations.flops, found, inside),
        *_allocation(program, uses, loops, outer),
        outer, len(loops), 0 if unroll is None else unroll.most,
    ]  # fmt: skip


def _counts(uses: Uses, outer: int) -> list[float]:
    """Return operations by class, of all iterations: of numbers, of addresses, of conditions."""
    own = uses.operations
    floats = [own.macs, own.simple, 0, 0, 0, own.special, 0]
    terms = [each.terms for access in uses.accesses for place in access.places for each in place]
    added = sum(max(len(each) - 1, 0) for each in terms)
    multiplied = sum(stride != 1 for each in terms for _, stride in each)
    integers = [0, added, multiplied, 0, 2 * uses.padded, 0, 0]
    return [outer * each for each in (*floats, *integers, uses.padded, uses.padded)]


def _annotated(loops: Sequence[Loop], kind: LoopKind, reduced: set[str]) -> list[float]:
    """Return count, product and extent of the loops of a kind, and where the innermost of them stands."""
    own = [number for number, loop in enumerate(loops) if loop.kind == kind]
    if not own:
        return [0, 0, 0, 1, *[0] * (len(_POSITIONS) - 1)]
    extents = [loops[number].extent for number in own]
    place = _POSITIONS.index(_position(loops, own[-1], reduced))
    return [len(own), math.prod(extents), extents[-1], *[float(place == each) for each in range(len(_POSITIONS))]]


def _position(loops: Sequence[Loop], number: int, reduced: set[str]) -> str:
    kinds = [_is_reduced(loop, reduced) for loop in loops]
    own = kinds[number]
    if own is None:
        return "mixed"
    alike = [place for place, kind in enumerate(kinds) if kind == own]
    what = "reduce" if own else "spatial"
    if number == alike[-1]:
        return f"inner_{what}"
    return f"outer_{what}" if number == alike[0] else f"middle_{what}"


def _is_reduced(loop: Loop, reduced: set[str]) -> bool | None:
    """Whether a loop goes along a reduction; None where it stands for loops of both kinds."""
    own = {name in reduced for name, _ in loop.fused or ((loop.name, loop.extent),)}
    return own.pop() if len(own) == 1 else None


def _gpu(loops: Sequence[Loop]) -> list[float]:
    """Return the extents of what a GPU's loops are bound to: blocks and threads by number, virtual threads together."""
    blocks = [loop.extent for loop in loops if loop.kind == "block"]
    threads = [loop.extent for loop in loops if loop.kind == "thread"]
    virtual = math.prod([loop.extent for loop in loops if loop.kind == "vthread"])
    if not blocks and not threads:
        return [0.0, *[1.0] * 7]
    padded = [[*own, 1, 1, 1][:3] for own in (blocks, threads)]
    return [1, *padded[0], *padded[1], virtual]


def _touched(
    program: LoopProgram, access: BufferAccess, inside: Sequence[Loop], line_bytes: int
) -> _Touched:
    boxes = list(touched(access, inside, program.extents))
    sizes = tuple([math.prod(box) * access.element_bytes for box in boxes])
    box, run = boxes[-1], 1
    for own, whole in zip(reversed(box), reversed(access.shape), strict=True):
        run *= own
        if own < whole:
            break
    elements = math.prod(box)
    lines = elements / run * math.ceil(run * access.element_bytes / line_bytes) if elements else 0.0
    return _Touched(access, sizes, lines)


def _buffers(
    found: Sequence[_Touched], inside: Sequence[Loop], outer: int, line_bytes: int, others: set[str]
) -> Iterator[float]:
    """Yield the features of the five buffers of most bytes, zeros in place of those that there are not."""
    ranked = sorted(found, key=lambda each: -each.bytes_by_level[-1])[:_BUFFERS]
    for own in ranked:
        yield from _buffer(own, found, inside, outer, line_bytes, others)
    yield from [0.0] * (len(_BUFFER) * (_BUFFERS - len(ranked)))


def _buffer(
    own: _Touched, found: Sequence[_Touched], inside: Sequence[Loop], outer: int, line_bytes: int, others: set[str]
) -> list[float]:
    access = own.access
    size = outer * access.element_bytes * len(access.places)
    unique, lines = own.bytes_by_level[-1], own.lines
    fetched = _fetched(access, inside, outer, line_bytes)
    kind, iterations, between, times = _reuse(own, found, inside, others)
    by = times if times else _NO_REUSE
    both = access.is_read and access.is_written
    return [
        float(access.is_read and not both), float(access.is_written and not both), float(both),
        size, unique, fetched, lines,
        *[float(kind == each) for each in ("loop", "serial", "none")],
        iterations, between, times, size / by, unique / by, fetched / by, lines / by,
        _moved(access, inside[0]) if inside else 0,
    ]  # fmt: skip


def _fetched(access: BufferAccess, inside: Sequence[Loop], outer: int, line_bytes: int) -> float:
    """Return the cache lines that all iterations touch, one after the other.

    Iterations of the innermost loops that do not move the buffer stay on a line.
    """
    staying = 1
    for loop in inside:
        stride = _moved(access, loop)
        if stride:
            return max(outer / staying * min(stride * access.element_bytes / line_bytes, 1.0), 1.0)
        staying *= loop.extent
    return 1.0


def _reuse(
    own: _Touched, found: Sequence[_Touched], inside: Sequence[Loop], others: set[str]
) -> tuple[str, float, float, float]:
    """Return where data is used again: kind, iterations and bytes in between, how often.

    The innermost loop that does not move the buffer uses all of it again in each iteration. Without one, it is used
    again where another statement has computed it, or reads it.
    """
    iterations = 1
    for level, loop in enumerate(inside):
        if loop.extent > 1 and not _moved(own.access, loop):
            return "loop", iterations, sum([each.bytes_by_level[level] for each in found]), loop.extent
        iterations *= loop.extent
    if own.access.buffer in others:
        return "serial", iterations, sum([each.bytes_by_level[-1] for each in found]), 1
    return "none", 0, 0, 0


def _moved(access: BufferAccess, loop: Loop) -> int:
    """Return the least elements by which a place moves with a loop, or with one of those that it stands for."""
    strides = [stride_of(access, name) for name, _ in loop.fused or ((loop.name, loop.extent),)]
    return min([each for each in strides if each], default=0)


def _curve(flops: int, found: Sequence[_Touched], inside: Sequence[Loop]) -> list[float]:
    """Return the operations per byte of each level of loops, at ten places from the innermost to the outermost."""
    iterations = [1, *itertools.accumulate([loop.extent for loop in inside], lambda one, other: one * other)]
    values = [
        count * flops / max(sum([each.bytes_by_level[level] for each in found]), 1)
        for level, count in enumerate(iterations)
    ]
    if len(values) == 1:
        return values * _CURVE
    step = (len(values) - 1) / (_CURVE - 1)
    sampled = []
    for number in range(_CURVE):
        place = number * step
        low = min(int(place), len(values) - 2)
        sampled.append(values[low] + (place - low) * (values[low + 1] - values[low]))
    return sampled


def _allocation(program: LoopProgram, uses: Uses, loops: Sequence[Loop], outer: int) -> list[float]:
    """Return size of the buffer that is written, how often it is allocated, iterations of each, bytes of all."""
    buffer = program.buffer(uses.statement.stage)
    names = [loop.name for loop in loops]
    around = names.index(buffer.inside) + 1 if buffer.inside in names else 0
    times = math.prod([loop.extent for loop in loops[:around]])
    return [buffer.size_bytes, times, outer / times, buffer.size_bytes * times]
