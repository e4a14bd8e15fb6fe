"""Products as a library computes them: how long its kernel takes, beside the tiles that a search finds.

A library has kernels of some tiles (`hw_models.gpu.library.LibraryProducts`) and takes one that fits. Its kernel begins
with trips to memory that nothing hides: for descriptors, for the first operands, and for results at the end. Between
them every SM computes its tiles one after the other, step by step of the depth; the busiest SM sets the time, unless
what all move between SMs, L2 and DRAM takes longer. A step takes no less than its instructions need one after the
other, however small the tile. The results of a tile leave before the SM begins with the next one. Where tiles are few,
blocks share a reduction and another kernel adds up what they have. Rows that are no multiple of 16 B cannot be copied
in pieces of 16 B behind the threads: these copy smaller ones themselves, as kernels of earlier GPUs do.

An operator of elements with an operand that is repeated (a bias along channels) is computed by threads that take a few
elements each, one after the other, with a division for every address, as PyTorch does it.
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
from dsascape.scheduler.gpu.fronts import unit_of
from dsascape.scheduler.gpu.nests import Product, nests_of
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.kernel_kinds import DEPTHWISE, PRODUCT, kind_of_kernel

_SUM_BYTES = 4
_COPY_BYTES = 16
"""Bytes of an asynchronous copy, and of a thread's widest access, which takes a warp four passes."""
_PASSES = 4
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


def library_ps(layer: Layer, view: GpuView, dram_bytes: float) -> float:
    """Return picoseconds of a library's kernel for a layer, the launch included; 0 where nothing is known of it.

    ``dram_bytes``: moved between L2 and DRAM.
    """
    nests, spec = nests_of(layer), view.spec
    if spec.library is None or nests.fronts or nests.statistics:
        return 0.0
    if nests.anchor < 0:
        return _of_elements(layer, spec, dram_bytes) if _repeats(layer) else 0.0
    product = nests.product(layer, layer.sink.shape)
    if product is None or min(product.rows, product.columns) < 1:
        return 0.0
    unit = unit_of(max(product.rows, 1), max(product.columns, 1), product.depth, view)
    anchor = nests.nests[nests.anchor]
    kind = kind_of_kernel([anchor.compiled.nest])
    if kind == DEPTHWISE or (unit == "tensor" and not spec.library.tile_sides):
        return 0.0
    width = max([read.element_bytes for read in anchor.reads[:2]])
    piece = float(_COPY_BYTES)
    if kind == PRODUCT:
        piece = min([math.gcd(int(size * width), _COPY_BYTES) for size in (product.depth, product.columns)])
    moved_ps = dram_bytes * PS_PER_S / (spec.dram.sustained_bytes_per_s * spec.library_efficiency.get(MEMORY, 1.0))
    if unit == "lanes" and min(product.rows, product.columns) == 1:  # a matrix by a vector: a kernel of its own
        return spec.launch_ps + spec.library.round_trips * spec.dram.latency_ps + moved_ps
    timed = _on_tensor_units if unit == "tensor" else _on_lanes
    return float(timed(product, view, width, max(piece, 1.0), moved_ps).min())


def _repeats(layer: Layer) -> bool:
    """Return whether a layer is one elementwise operator with an operand of several elements that is repeated."""
    nests = [each.nest for each in layer.nests]
    if len(nests) != 1 or nests[0].has_reduction or nests[0].ordered:
        return False
    written, reads = nests[0].write, nests[0].reads
    are_whole = [read.shape == written.shape and read.indices == written.indices for read in reads]
    return any(are_whole) and any(
        not is_whole and math.prod(read.shape) > 1 for is_whole, read in zip(are_whole, reads, strict=True)
    )


def _of_elements(layer: Layer, spec: Gpu, dram_bytes: float) -> float:
    """Return the time of blocks whose threads compute some elements each, one after the other."""
    library, sms = spec.library, spec.sms
    assert library is not None
    blocks = math.prod(layer.sink.shape) / (library.element_threads * library.elements)
    held = min(sms.threads // library.element_threads, max(math.ceil(blocks / sms.count), 1))
    warps = held * library.element_threads / sms.warp
    latency_ps = spec.dram.latency_ps if dram_bytes else spec.l2.latency_ps
    each_ps = latency_ps + library.element_instructions * warps / sms.issued_per_cycle * spec.cycle_ps
    return spec.launch_ps + max(blocks / (held * sms.count), 1.0) * library.elements * each_ps


@cache
def _choices(sides: tuple[int, ...], others: Sequence[int], most: int) -> _Tiles:
    """Return tiles with one side of ``sides`` and the other of ``others``, both ways, by shares of the reduction."""
    pairs = [pair for side, other in itertools.product(sides, others) for pair in ((side, other), (other, side))]
    kept = [(rows, columns, shares) for rows, columns in dict.fromkeys(pairs) if rows * columns <= most
            for shares in _SHARES]  # fmt: skip
    rows, columns, shares = np.array(kept, dtype=np.float64).T
    return _Tiles(rows, columns, shares)


def _on_tensor_units(
    product: Product, view: GpuView, width: float, piece: float, moved_ps: float
) -> NDArray[np.float64]:
    """Return the time of each choice where blocks compute a tile of sums on tensor units, one block an SM at a time."""
    spec, units = view.spec, view.tensor
    assert spec.library is not None
    assert units is not None
    tiles = _choices(spec.library.tile_sides, spec.library.other_sides, spec.library.most_sums)
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


def _on_lanes(product: Product, view: GpuView, width: float, piece: float, moved_ps: float) -> NDArray[np.float64]:
    """Return the time of each choice where every thread computes a part of a tile, on lanes.

    For each element of the depth, warps issue their multiply-adds, loads of operands from shared memory in pieces of
    16 B, a share of the copies there and back, and the loop. Warps run in order, so what reads of shared memory and
    arithmetic take adds up for one warp alone; the more warps take turns, the more of the shorter is hidden.
    """
    del piece  # operands go through registers anyway
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
