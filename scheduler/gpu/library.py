"""Products as a library computes them: how long its kernel takes, beside the tiles that a search finds.

A library has kernels of some tiles (`hw_models.gpu.library.LibraryProducts`) and takes one that fits. Its kernel begins
with trips to memory that nothing hides: for descriptors, for the first operands, and for results at the end. Between
them every SM computes its tiles one after the other, step by step of the depth; the busiest SM sets the time, unless
what all move between SMs, L2 and DRAM takes longer. A step takes no less than its instructions need one after the
other, however small the tile. The results of a tile leave before the SM begins with the next one. Where tiles are few,
blocks share a reduction and another kernel adds up what they have. Rows that are no multiple of 16 B cannot be copied
in pieces of 16 B behind the threads: these copy smaller ones themselves, as kernels of earlier GPUs do.
"""

import itertools
import math
import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dsascape.hw_models import Gpu
from dsascape.hw_models.common.spec_types import MEMORY, TENSOR
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.library_attention import attention_ps
from dsascape.scheduler.gpu.library_elements import elements_ps, took_ps
from dsascape.scheduler.gpu.library_grids import padding
from dsascape.scheduler.gpu.nests import Product, nests_of
from dsascape.scheduler.gpu.tiles import ComputeUnit
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.compiled import sizes_by_role
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.kernel_kinds import CONVOLUTION, DEPTHWISE, kind_of_kernel

_SUM_BYTES = 4
_COPY_BYTES = 16
"""Bytes of an asynchronous copy, and of a thread's widest access, which takes a warp four passes."""
_PASSES = 4
_MOST_THIN = 16
"""Rows from which a library has no kernel of its own for thin products on lanes (``gemmSN`` of cuBLAS)."""
_LEAST_STEP = 32
"""Channels of one position of a window that a step takes at least: so the names of cuDNN's kernels end."""
_SHARES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Blocks that share a reduction."""
_SCRATCH_REGISTERS = 64
"""Registers of a thread besides its sums, on lanes: operands, addresses."""
_LOOP_INSTRUCTIONS = 1.0
"""Instructions of a warp at every element of the depth besides those on data, on lanes: a barrier, a branch and
addresses of a step of eight."""


class _Tiles(NamedTuple):
    """Choices of a library, an element each."""

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]
    shares: NDArray[np.float64]


def library_ps(layer: Layer, view: GpuView, dram_bytes: float, *, is_function: bool = False) -> float:
    """Return picoseconds of a library's kernel for a layer, the launch included; 0 where nothing is known of it.

    ``dram_bytes``: moved between L2 and DRAM; ``is_function``: whether a framework calls a kernel of its own for each
    function, as PyTorch does (`scheduler.gpu.library_elements`).
    """
    nests, spec = nests_of(layer), view.spec
    if spec.library is None:
        return 0.0
    if nests.fronts:
        return attention_ps(layer, view, dram_bytes)
    if nests.anchor < 0 or kind_of_kernel([nests.nests[nests.anchor].compiled.nest]) == DEPTHWISE:
        return elements_ps(layer, spec, dram_bytes) if is_function else 0.0
    if nests.statistics:
        return attention_ps(layer, view, dram_bytes)
    return _product_ps(layer, view, dram_bytes)


def _product_ps(layer: Layer, view: GpuView, dram_bytes: float) -> float:
    """Return picoseconds of a product or a convolution, the last of a layer; 0 where nothing is known of it."""
    nests, spec, library = nests_of(layer), view.spec, view.spec.library
    product = nests.product(layer, layer.sink.shape)
    if library is None or product is None or min(product.rows, product.columns) < 1:
        return 0.0
    unit = _unit_of(product, view)
    if unit == "tensor" and not library.tile_sides:
        return 0.0
    anchor = nests.nests[nests.anchor]
    width = max([read.element_bytes for read in anchor.reads[:2]])
    moved_ps = dram_bytes * PS_PER_S / (spec.dram.sustained_bytes_per_s * spec.library_efficiency.get(MEMORY, 1.0))
    if unit == "lanes" and min(product.rows, product.columns) == 1:
        return _thin_ps(product, view, moved_ps)
    if unit != "tensor":
        tiled_ps = float(_on_lanes(product, view, width, moved_ps).min())
        is_thin = min(product.rows, product.columns) < _MOST_THIN
        return min(tiled_ps, _thin_ps(product, view, moved_ps)) if is_thin else tiled_ps
    nest, roles = anchor.compiled.nest, anchor.compiled.roles
    if kind_of_kernel([nest]) == CONVOLUTION and roles is not None:
        channels = sizes_by_role(roles, nest.extents)[4]
        return _convolution_ps(product, channels, math.prod(nest.reads[0].shape), view, width, moved_ps)
    piece = min([math.gcd(int(size * width), _COPY_BYTES) for size in (product.depth, product.columns)])
    tiles = _choices(library.tile_sides, library.other_sides, library.most_sums)
    return float(_on_tensor_units(product, view, tiles, width, max(piece, 1.0), moved_ps).min())


def _thin_ps(product: Product, view: GpuView, moved_ps: float) -> float:
    """Return the time of a kernel for a matrix by a vector or a few, on lanes: each element is used as it arrives."""
    spec = view.spec
    assert spec.library is not None
    macs = product.number * product.rows * product.columns * product.depth
    by_lanes = spec.sms.count * spec.lanes(view.dtype) * spec.library_efficiency.get("product", 1.0)
    computed_ps = macs / by_lanes * spec.cycle_ps
    return spec.launch_ps + spec.library.round_trips * spec.dram.latency_ps + max(moved_ps, computed_ps)


def _convolution_ps(
    product: Product, channels: int, elements: int, view: GpuView, width: float, moved_ps: float
) -> float:
    """Return the time of a convolution with a window, of so many ``channels`` and ``elements`` of data.

    Its steps go through the channels of one position of the window after the other. Where these are no multiple of
    16 B, threads copy smaller pieces, or a kernel in front puts zeros behind them.
    """
    library = view.spec.library
    assert library is not None
    taps, most = math.ceil(product.depth / channels), library.most_sums
    sides = library.window_sides or library.tile_sides
    tiles = _choices(sides, sides, most, (1,))

    def took(of_tap: int, piece: float) -> float:
        return float(
            _on_tensor_units(product._replace(depth=taps * of_tap), view, tiles, width, piece, moved_ps).min()
        )

    piece = math.gcd(int(channels * width), _COPY_BYTES)
    if piece == _COPY_BYTES:
        return took(math.ceil(channels / _LEAST_STEP) * _LEAST_STEP, piece)
    whole = math.ceil(channels * width / _COPY_BYTES) * _COPY_BYTES / width
    before = padding(int(elements / channels * whole), view.spec)
    before_ps = took_ps(before, view.spec, view.spec.l2.latency_ps, view.spec.l2.latency_ps)
    return min(took(channels, piece), before_ps + took(int(whole), _COPY_BYTES))


def _unit_of(product: Product, view: GpuView) -> ComputeUnit:
    """Return what a library's kernel computes a product on: tensor units wherever these have its dtype.

    Its kernels pad rows, columns and depth to whole instructions; a matrix by a vector has a kernel of its own, on
    lanes.
    """
    return "tensor" if view.tensor is not None and min(product.rows, product.columns) > 1 else "lanes"


@cache
def _choices(
    sides: tuple[int, ...], others: Sequence[int], most: int, of_reduction: tuple[int, ...] = _SHARES
) -> _Tiles:
    """Return tiles with one side of ``sides`` and the other of ``others``, both ways, by shares of the reduction."""
    pairs = [pair for side, other in itertools.product(sides, others) for pair in ((side, other), (other, side))]
    kept = [(rows, columns, shares) for rows, columns in dict.fromkeys(pairs) if rows * columns <= most
            for shares in of_reduction]  # fmt: skip
    rows, columns, shares = np.array(kept, dtype=np.float64).T
    return _Tiles(rows, columns, shares)


def _on_tensor_units(
    product: Product, view: GpuView, tiles: _Tiles, width: float, piece: float, moved_ps: float
) -> NDArray[np.float64]:
    """Return the time of each of ``tiles`` where a block computes its sums on tensor units, one an SM at a time."""
    spec, units = view.spec, view.tensor
    assert spec.library is not None
    assert units is not None
    step = spec.library.step_bytes / width
    efficiency = spec.library_efficiency.get(TENSOR, 1.0)
    path = spec.library.copied_bytes_per_cycle
    staged = (tiles.rows + tiles.columns) * step * width
    computed = tiles.rows * tiles.columns * step / units.macs_per_cycle / efficiency
    least = step / units.depth * units.latency_cycles + 2 * spec.sms.shared.latency_cycles
    if piece == _COPY_BYTES:
        cycles = np.maximum(np.maximum(computed, least), staged / path)
    else:
        by_threads = 2 * staged / piece / spec.sms.accesses_per_cycle
        cycles = computed / spec.library.older_rate + by_threads + spec.l2.latency_ps / spec.cycle_ps
    return _time(product, spec, tiles, step, cycles, width, moved_ps)


@cache
def _lane_tiles(tiles: Sequence[str]) -> tuple[_Tiles, NDArray[np.float64]]:
    """Return tiles that a machine's file states, by shares of the reduction, and the threads of each."""
    stated = [[float(part) for part in re.split("[x/]", tile)] for tile in tiles]
    kept = [(rows, columns, shares, threads) for rows, columns, threads in stated for shares in _SHARES]
    rows, columns, shares, threads = np.array(kept, dtype=np.float64).T
    return _Tiles(rows, columns, shares), threads


def _on_lanes(product: Product, view: GpuView, width: float, moved_ps: float) -> NDArray[np.float64]:
    """Return the time of each choice where every thread computes a part of a tile, on lanes.

    For each element of the depth, warps issue their multiply-adds, loads of operands from shared memory in pieces of
    16 B, a share of the copies there and back, and the loop. Warps run in order, so what reads of shared memory and
    arithmetic take adds up for one warp alone; the more warps take turns, the more of the shorter is hidden.
    """
    spec = view.spec
    assert spec.library is not None
    stated = (product.number > 1 and spec.library.batched_lane_tiles) or spec.library.lane_tiles
    tiles, threads = _lane_tiles(stated)
    sms, sums = spec.sms, tiles.rows * tiles.columns
    of_thread, warps = sums / threads, threads / sms.warp
    loads = 2 * np.sqrt(of_thread) * width / _COPY_BYTES
    copies = 2 * (tiles.rows + tiles.columns) * width / _COPY_BYTES / threads
    lanes = spec.lanes(view.dtype)
    issued = warps * (of_thread * sms.lanes["fp32"] / lanes + loads + copies + _LOOP_INSTRUCTIONS)
    computed = np.maximum(sums / lanes, issued / sms.issued_per_cycle)
    read = loads * warps * _PASSES
    along = np.ceil(product.rows / tiles.rows) * np.ceil(product.columns / tiles.columns)
    there = np.ceil(product.number * along * tiles.shares / sms.count)
    held = np.maximum(sms.registers // ((of_thread + _SCRATCH_REGISTERS) * threads), 1)
    taking_turns = np.minimum(there, held) * warps / sms.issued_per_cycle
    shorter = np.minimum(computed, read) / np.maximum(taking_turns, 1)
    step = spec.library.step_bytes / width
    cycles = (np.maximum(computed, read) + shorter) * step
    return _time(product, spec, tiles, step, cycles, width, moved_ps)


def _time(
    product: Product, spec: Gpu, tiles: _Tiles, step: float, cycles: NDArray[np.float64], width: float, moved_ps: float
) -> NDArray[np.float64]:
    """Return picoseconds of each choice whose steps of the depth take so many ``cycles`` on an SM."""
    assert spec.library is not None
    along = np.ceil(product.rows / tiles.rows) * np.ceil(product.columns / tiles.columns)
    steps = np.ceil(np.ceil(product.depth / tiles.shares) / step)
    blocks = product.number * along * tiles.shares
    turns = np.ceil(blocks / spec.sms.count)
    written = np.where(tiles.shares > 1, _SUM_BYTES, width)
    left = tiles.rows * tiles.columns * written / spec.library.copied_bytes_per_cycle
    busiest_ps = turns * (steps * cycles + left) * spec.cycle_ps
    shared = np.where(blocks > 1, (1 + 1 / spec.sms.cluster) / 2, 1.0)
    through = blocks * steps * (tiles.rows + tiles.columns) * step * width * shared
    through_ps = through * PS_PER_S / spec.l2.bandwidth_bytes_per_s
    trips_ps = spec.library.round_trips * spec.dram.latency_ps
    sums = product.number * product.rows * product.columns
    added_ps = spec.launch_ps + 2 * spec.l2.latency_ps + (
        sums * (_SUM_BYTES * tiles.shares + width) * PS_PER_S / spec.l2.bandwidth_bytes_per_s
    )  # fmt: skip
    taken = spec.launch_ps + trips_ps + np.maximum(np.maximum(busiest_ps, through_ps), moved_ps)
    result: NDArray[np.float64] = taken + np.where(tiles.shares > 1, added_ps, 0.0)
    return result
