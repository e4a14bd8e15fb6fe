"""Grids of kernels of PyTorch's ATen by the shape of what they compute: pooling, sums, concatenation, normalisation.

Each follows the launch of its source, a file of ``aten/src/ATen/native/cuda`` in github.com/pytorch/pytorch, with the
names of that file; so many waits and instructions has one thread.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dsascape.hw_models import Gpu
from dsascape.workloads.loopnest import LoopNest

_DIVISION = 20
"""Instructions of a division of whole numbers of 32 bits by one that is known at run time, its remainder included."""
_CHANNELS_LAST = 0, 2, 3, 1
_WARP = 32
_HALF = 2
"""Bytes of an element of which `concatenation` loads 8 B at once, else 16."""
_MOST_VALUES = 256
"""Values of a thread from which blocks share a sum."""
_MOST_THREADS = 1024
LEAST = 20
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
    shape: Sequence[int], order: Sequence[int], window: Sequence[tuple[int, int]], *, is_mean: bool
) -> Grid:
    """Return the grid of a pooling with a result of ``shape`` and a ``window`` of (size, stride) per dimension.

    Neighbouring windows share what they read, so that the first cache has it; only what the window reaches by moving
    on is new. Maxima with channels last have blocks that divide an image (``DilatedMaxPool2d.cu``); all else has a
    thread for each result.
    """
    size = math.prod([extent for extent, _ in window])
    fresh = math.prod([min(extent, stride) for extent, stride in window])
    if is_mean or tuple(order) != _CHANNELS_LAST:
        threads = _MOST_THREADS if is_mean else 256
        each = 3 * _DIVISION + LEAST + 12 * size
        return Grid(math.ceil(math.prod(shape) / threads), threads, fresh, each, size - fresh)
    return _largest(shape, size, fresh)


def depthwise(results: int, window: Sequence[tuple[int, int]]) -> Grid:
    """Return the grid of ``conv2d_c1_k1_nhwc`` of cuDNN for so many results [profile]: four of a thread, 256 threads.

    Each position of the window takes some 25 instructions: bounds and addresses 8, two loads, eight conversions, four
    multiply-accumulates, the loop. Neighbouring windows share data as in `pooling`.
    """
    size = math.prod([extent for extent, _ in window])
    fresh = math.prod([min(extent, stride) for extent, stride in window])
    return Grid(math.ceil(results / 1024), 256, fresh, LEAST + _DIVISION * 3 + 25 * size, size - fresh, chains=4)


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
        images * parts * across * down, x * y * z, results * fresh, LEAST + 25 * results * (size + 1),
        results * (size - fresh),
    )  # fmt: skip


def concatenation(parts: Sequence[int], shape: Sequence[int], order: Sequence[int], width: int, spec: Gpu) -> Grid:
    """Return the grid of ``CatArrayBatchedCopy_alignedK_contig`` (``Shape.cu``) for parts of so many elements.

    A thread loads some neighbours at once, and finds the place of each by a division for every dimension but the
    first; where the last dimension is whole in memory, once for all of them.
    """
    is_plain = tuple(order) == tuple(range(len(shape)))
    bytes_at_once = 8 if width == _HALF and not is_plain else 16
    elements, threads = max(bytes_at_once // width, 1), 128
    most = min(math.ceil(max(parts) / (elements * threads)), 32 * spec.sms.count)
    blocks = sum([min(math.ceil(part / (elements * threads)), most) for part in parts])
    rounds = max(parts) / (elements * threads * most)
    places = 1 if is_plain else elements
    each = LEAST / 2 + places * ((len(shape) - 1) * (_DIVISION + 2) + 4)
    return Grid(blocks, threads, rounds, LEAST + rounds * each, chains=places)


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
        math.ceil(channels / x) * down, x * y, 1 + rounds, LEAST + 2 * LEAST + 4 * 12 * rounds, chains=4, before=2
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
    waits, is_shared = 0.0, values >= min(16 * height, _MOST_VALUES)
    if is_shared:
        values, stages = math.ceil(values / height), stages + height.bit_length() - 1
    else:
        blocks = math.ceil(blocks / height)
    shares = 1
    target = spec.sms.count * (spec.sms.threads // (width * height))
    if is_shared and values >= _MOST_VALUES and blocks <= target:
        shares = max(min(math.ceil(target / blocks), math.ceil(values / 16)), math.ceil(values / _MOST_VALUES))
        values = math.ceil(values / shares)
        waits = 3 + math.ceil(shares / (width if is_fastest else height))
        stages += height.bit_length() - 1
    rounds = math.ceil(values / 4)
    instructions = 3 * LEAST + rounds * 4 * vector * 6 + stages * 2 * LEAST
    return Grid(int(blocks) * shares, width * height, rounds + waits, instructions, chains=4 * vector)


def padding(elements: int, spec: Gpu) -> Grid:
    """Return the grid of ``nhwcAddPaddingKernel`` of cuDNN for so many results: as many blocks as SMs hold [profile].

    A thread goes on to its next element, and finds its place by a division for each dimension but the first. In front
    of it the results are cleared, and so are those of the filters, which are padded too [profile].
    """
    blocks = spec.sms.count * (spec.sms.threads // _MOST_THREADS)
    each = math.ceil(elements / (blocks * _MOST_THREADS))
    return Grid(blocks, _MOST_THREADS, each, LEAST + each * (3 * _DIVISION + 12), before=3)


def _pow2(number: int) -> int:
    """Return the largest power of two that is no larger."""
    return 1 << (max(number, 1).bit_length() - 1)
