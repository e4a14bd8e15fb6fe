"""Grids of kernels of PyTorch's ATen by the shape of what they compute: pooling, sums, concatenation, normalisation.

Each follows the launch of its source, a file of ``aten/src/ATen/native/cuda`` in github.com/pytorch/pytorch, with the
names of that file; so many waits and instructions has one thread.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models import Gpu
from dsascape.workloads.loopnest import LoopNest

DIVISION = 20
"""Instructions of a division of whole numbers of 32 bits by one that is known at run time, its remainder included."""
_WARP = 32
_MOST_THREADS = 1024
_LEAST = 20
"""Instructions of a thread before its loop: its number, bounds, pointers."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Launch of a kernel without tiles, and what one of its threads does, in sequence."""

    blocks: int
    threads: int
    """Threads of a block."""
    waits: float
    """Trips to the L2, or to DRAM, one after the other."""
    instructions: float
    hits: float = 0
    """Trips to the first cache, for what another load has brought there."""
    chains: float = 1
    """Sequences of instructions of a thread that do not depend on each other."""
    passes: float = 0
    """Cycles of the first cache that accesses of a warp take beyond one each, for lines that they touch."""
    before: int = 0
    """Kernels of a single block that are launched in front of it."""


def pooling(
    shape: Sequence[int], order: Sequence[int], window: Sequence[tuple[int, int]], spec: Gpu, *, is_mean: bool
) -> Grid:
    """Return the grid of a pooling with a result of ``shape`` and a ``window`` of (size, stride) per dimension.

    Neighbouring windows share what they read, so that the first cache has it; only what the window reaches by moving
    on is new. Maxima with channels last have blocks that divide an image (``DilatedMaxPool2d.cu``); all else has a
    thread for each result.
    """
    size = math.prod([extent for extent, _ in window])
    fresh = math.prod([min(extent, stride) for extent, stride in window])
    has_channels_last = len(shape) == 4 and tuple(order) == (0, 2, 3, 1)  # noqa: PLR2004
    if is_mean or not has_channels_last:
        threads = _MOST_THREADS if is_mean else 256
        each = 3 * DIVISION + _LEAST + 12 * size
        return Grid(math.ceil(math.prod(shape) / threads), threads, fresh, each, size - fresh)
    return _largest(shape, size, fresh)


def _largest(shape: Sequence[int], size: int, fresh: int) -> Grid:
    """Return the grid of ``max_pool_forward_nhwc``.

    A thread has some rows, columns and channels; it keeps the maximum and its place in shared memory, and loads one
    element of the window after the other: some 25 instructions for 64-bit addresses, comparison, test for NaN,
    two predicated stores, loop. The two results take as many.
    """
    images, channels, rows, columns = shape
    x = min(_pow2(channels), _WARP)
    y = min(_pow2(columns), _MOST_THREADS // x)
    z = min(_pow2(rows), _MOST_THREADS // (x * y))
    x = min(_pow2(channels), _MOST_THREADS // (y * z))
    parts = math.ceil(channels / (4 * x))
    across, down = math.ceil(columns / (2 * y)), math.ceil(rows / (2 * z))
    results = math.ceil(channels / (x * parts)) * math.prod(
        [math.ceil(math.ceil(extent / blocks) / threads) for extent, blocks, threads in
         ((columns, across, y), (rows, down, z))]
    )  # fmt: skip
    return Grid(
        images * parts * across * down, x * y * z, results * fresh, _LEAST + 25 * results * (size + 1),
        results * (size - fresh),
    )  # fmt: skip


def concatenation(parts: Sequence[int], shape: Sequence[int], order: Sequence[int], width: int, spec: Gpu) -> Grid:
    """Return the grid of ``CatArrayBatchedCopy_alignedK_contig`` (``Shape.cu``) for parts of so many elements.

    A thread loads some neighbours at once, and finds the place of each by a division for every dimension but the
    first; where the last dimension is whole in memory, once for all of them.
    """
    is_plain = tuple(order) == tuple(range(len(shape)))
    bytes_at_once = 16 if is_plain or width != 2 else 8  # noqa: PLR2004
    elements, threads = max(bytes_at_once // width, 1), 128
    most = min(math.ceil(max(parts) / (elements * threads)), 32 * spec.sms.count)
    blocks = sum([min(math.ceil(part / (elements * threads)), most) for part in parts])
    rounds = max(parts) / (elements * threads * most)
    places = 1 if is_plain else elements
    each = _LEAST / 2 + places * ((len(shape) - 1) * (DIVISION + 2) + 4)
    return Grid(blocks, threads, rounds, _LEAST + rounds * each, chains=places)


def normalisation(shape: Sequence[int]) -> Grid:
    """Return the grid of ``batch_norm_transform_input_channels_last_kernel`` (``Normalization.cuh``).

    Threads lie along channels, 16 elements of a channel for each, of which four are loaded at once; before that it
    loads the statistics. Two kernels in front of it make a scale of the variance and convert it.
    """
    channels = shape[1]
    others = math.prod(shape) // channels
    x = min(_pow2(channels), _WARP)
    y = min(_pow2(math.ceil(others / 16)), 512 // x)
    x = min(_pow2(channels), 512 // y)
    down = math.ceil(others / (16 * y))
    rounds = math.ceil(math.ceil(others / (down * y)) / 4)
    return Grid(
        math.ceil(channels / x) * down, x * y, 1 + rounds, _LEAST + 2 * _LEAST + 4 * 12 * rounds, chains=4, before=2
    )


def reduction(nest: LoopNest, order: Sequence[int], spec: Gpu) -> Grid:
    """Return the grid of ``reduce_kernel`` (``Reduce.cuh``, ``setReduceConfig``) for sums or means.

    A thread loads four elements at once, of up to four results that lie next to each other. Where a result has many
    elements and there are few, warps of a block or blocks share them, and put their sums together in shared memory
    and in the L2: they store, wait until that is seen, count, and the last one loads again.
    """
    read = nest.reads[0]
    results = math.prod([loop.extent for loop in nest.loops if not loop.reduction])
    inputs = math.prod([loop.extent for loop in nest.loops if loop.reduction])
    last = next((place for place in reversed(order) if read.shape[place] > 1), 0)
    along = [loop for loop, _ in read.indices[last].terms]
    is_fastest = any(nest.loops[loop].reduction for loop in along)
    vector = 1 if is_fastest else math.gcd(4, read.shape[last])
    first, second = (inputs, results) if is_fastest else (read.shape[last] // vector, inputs)
    most = 512 // vector
    width = min(_pow2(first), _WARP)
    height = min(_pow2(second), most // width)
    width = min(_pow2(first), most // height)
    values, blocks, stages = float(inputs), float(results // vector), 0
    if is_fastest:
        values, stages = math.ceil(values / width), width.bit_length() - 1
    else:
        blocks = math.ceil(blocks / width)
    waits, is_shared = 0.0, values >= min(16 * height, 256)
    if is_shared:
        values, stages = math.ceil(values / height), stages + height.bit_length() - 1
    else:
        blocks = math.ceil(blocks / height)
    shares = 1
    target = spec.sms.count * (spec.sms.threads // (width * height))
    if is_shared and values >= 256 and blocks <= target:  # noqa: PLR2004
        shares = max(min(math.ceil(target / blocks), math.ceil(values / 16)), math.ceil(values / 256))
        values = math.ceil(values / shares)
        waits = 3 + math.ceil(shares / (width if is_fastest else height))
        stages += height.bit_length() - 1
    rounds = math.ceil(values / 4)
    return Grid(
        int(blocks) * shares, width * height, rounds + waits, 3 * _LEAST + rounds * 4 * vector * 6 + stages * 2 * _LEAST,
        chains=4 * vector,
    )  # fmt: skip


def _pow2(number: int) -> int:
    """Return the largest power of two that is no larger."""
    return 1 << (max(number, 1).bit_length() - 1)
