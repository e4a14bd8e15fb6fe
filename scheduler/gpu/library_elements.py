"""Kernels of PyTorch without tiles (ATen): their threads, what one of them does in sequence, how long all take.

Such a kernel has a rule for its grid, and a thread has a loop: it waits for loads, computes, stores, and goes on. What
limits it follows from the shape: few blocks leave SMs without work, one load at a time waits for the memory each time,
divisions for addresses take instructions, a warp whose threads read apart takes a pass of the first cache for each
line. Nor is it faster than DRAM is for libraries. Grids are those of ATen's sources, files of
``aten/src/ATen/native/cuda`` in github.com/pytorch/pytorch; instructions are counted there by hand. Times of a
profile have been looked at beside these counts, not fitted.
"""

import math
from collections.abc import Sequence

from dsascape.hw_models import Gpu
from dsascape.hw_models.common.spec_types import MEMORY
from dsascape.hw_models.gpu.spec import WORD_BYTES
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.scheduler.gpu.library_grids import (
    LEAST,
    Grid,
    concatenation,
    depthwise,
    normalisation,
    pooling,
    reduction,
)
from dsascape.scheduler.kernels.layer import Layer
from dsascape.workloads.kernel_kinds import DEPTHWISE, kind_of_kernel
from dsascape.workloads.loopnest import Access, LoopNest

_VECTOR_BYTES, _VECTOR_THREADS = 16, 128
"""Bytes of an access, threads of a block of ``vectorized_elementwise_kernel`` (``CUDALoops.cuh``)."""
_INSTRUCTIONS = 4
"""Instructions for an element besides its operator: two conversions, a share of access and address."""
_SPECIAL = 8
"""Instructions of a division or an exponential besides the one of the unit for them: ranges, refinement."""
_VIEWS = "Slice", "Split"
"""Nests of operators for which PyTorch launches nothing: who reads them reads apart."""


def elements_ps(layer: Layer, spec: Gpu, dram_bytes: float) -> float:
    """Return picoseconds of ATen's kernels for a layer without products, the launch included; 0: none is known.

    ``dram_bytes``: moved between L2 and DRAM.
    """
    grid = grid_of(layer, spec)
    return 0.0 if grid is None else grid_ps(grid, layer, spec, dram_bytes)


def grid_ps(grid: Grid, layer: Layer, spec: Gpu, dram_bytes: float) -> float:
    """Return picoseconds of a grid that computes a layer, the launch included.

    The first blocks wait for DRAM, if anything comes from there; of the loads of all others as many do as
    ``dram_bytes``, moved between L2 and DRAM, are of all bytes.
    """
    moved_bytes = sum([math.prod(layer.described(name).shape) * layer.described(name).element_bytes
                       for name in dict.fromkeys((*layer.inputs, *layer.outputs))])  # fmt: skip
    share = min(dram_bytes / moved_bytes, 1.0)
    first_ps = spec.dram.latency_ps if dram_bytes else spec.l2.latency_ps
    taken_ps = took_ps(grid, spec, first_ps, share * spec.dram.latency_ps + (1 - share) * spec.l2.latency_ps)
    efficiency = spec.library_efficiency.get(MEMORY, 1.0)
    return max(taken_ps, spec.launch_ps + dram_bytes * PS_PER_S / (spec.dram.sustained_bytes_per_s * efficiency))


def took_ps(grid: Grid, spec: Gpu, first_ps: float, latency_ps: float) -> float:
    """Return the time of a grid: blocks of the busiest SM, as many at a time as it holds, and small kernels before.

    ``first_ps``, ``latency_ps``: latency of the memory for the blocks that an SM holds first, and for all others.

    Warps of an SM go on in step: they wait, and then take turns. One that is alone issues its instructions no faster
    than they depend on each other, in as many chains as a thread has.
    """
    sms = spec.sms
    there = math.ceil(grid.blocks / sms.count)
    held = max(min(sms.threads // grid.threads, sms.blocks), 1)
    full, rest = divmod(there, held)

    def wave_ps(blocks: int) -> float:
        warps = blocks * grid.threads / sms.warp
        between = max(warps / sms.issued_per_cycle, sms.fma_latency_cycles / grid.chains)
        cycles = grid.hits * sms.shared.latency_cycles + grid.instructions * between + grid.passes * warps
        return grid.waits * latency_ps + cycles * spec.cycle_ps

    before_ps = grid.before * (spec.launch_ps + spec.l2.latency_ps)
    waves_ps = full * wave_ps(held) + (wave_ps(rest) if rest else 0.0)
    return before_ps + spec.launch_ps + waves_ps + grid.waits * (first_ps - latency_ps)


def grid_of(layer: Layer, spec: Gpu) -> Grid | None:
    """Return the grid of ATen's kernel for a layer, one function; None where it is not known."""
    nests = [each.nest for each in layer.nests if not each.is_view]
    if not nests or any(nest.ordered or nest.running for nest in nests):
        return None
    if layer.puts_together:
        result = layer.described(nests[0].write.tensor)
        parts = [math.prod(nest.extents) for nest in nests]
        return concatenation(parts, result.shape, result.order, int(result.element_bytes), spec)
    if any(nest.has_reduction for nest in nests):
        return _reducing(nests[0], layer, spec) if len(nests) == 1 else None
    return _of_elements(nests, layer, spec)


def _reducing(nest: LoopNest, layer: Layer, spec: Gpu) -> Grid | None:
    """Return the grid of a depthwise convolution, a pooling, a sum or a mean; None for what else reduces."""
    window = window_of(nest)
    if kind_of_kernel([nest]) == DEPTHWISE:
        return depthwise(math.prod(nest.write.shape), window)
    if len(nest.reads) != 1 or nest.per_iteration.macs or any(index.opaque for index in nest.reads[0].indices):
        return None
    if window:
        order = layer.described(nest.write.tensor).order
        return pooling(nest.write.shape, order, window, is_mean=bool(nest.per_output))
    return reduction(nest, layer.described(nest.reads[0].tensor).order, spec)


def _of_elements(nests: Sequence[LoopNest], layer: Layer, spec: Gpu) -> Grid | None:
    """Return the grid of what computes or moves elements one by one; None where their places depend on data.

    Nor is a grid known for parts of a tensor, which a framework passes on as they lie.
    """
    first = nests[0]
    result = layer.described(first.write.tensor)
    if first.name == "BatchNormalization" and result.order[-1] == 1:
        return normalisation(first.write.shape)
    if all(_is_in_step(nest, layer, read) for nest in nests for read in nest.reads):
        return _vectorised(nests, int(result.element_bytes))
    if len(nests) > 1 or first.name in _VIEWS:
        return None
    is_affine = not any(index.opaque for read in first.reads for index in read.indices)
    return _one_by_one(first, layer, spec) if is_affine else None


def _vectorised(nests: Sequence[LoopNest], width: int) -> Grid:
    """Return the grid of ``vectorized_elementwise_kernel``: each thread computes 16 B of neighbours at once."""
    elements = max(_VECTOR_BYTES // max(width, 1), 1)
    each = sum([nest.per_output.simple + (1 + _SPECIAL) * nest.per_output.special for nest in nests]) + _INSTRUCTIONS
    blocks = math.ceil(math.prod(nests[0].write.shape) / (elements * _VECTOR_THREADS))
    return Grid(blocks, _VECTOR_THREADS, waits=1, instructions=LEAST + elements * each, chains=elements)


def _one_by_one(nest: LoopNest, layer: Layer, spec: Gpu) -> Grid | None:
    """Return the grid of ``elementwise_kernel``, which finds the addresses of each element by divisions.

    Operands are repeated (a bias along channels) or lie otherwise than the result, so that neighbouring threads read
    apart. A thread takes a few elements, and cannot load the next one before it has stored the last.
    """
    library = spec.library
    if library is None:
        return None
    size = math.prod(nest.write.shape)
    blocks = math.ceil(size / (library.element_threads * library.elements))
    elements = min(library.elements, math.ceil(size / library.element_threads))
    lines = sum([_lines(nest, layer, read, spec) - 1 for read in nest.reads])
    return Grid(
        blocks, library.element_threads, elements, elements * library.element_instructions, passes=elements * lines,
    )  # fmt: skip


def _lines(nest: LoopNest, layer: Layer, read: Access, spec: Gpu) -> int:
    """Return the lines of the first cache that the threads of a warp touch where each reads one element."""
    written, own = _steps(nest, layer, nest.write), _steps(nest, layer, read)
    fastest = min(written, key=lambda loop: written[loop], default=-1)
    line = spec.sms.shared.banks * WORD_BYTES
    reach = spec.sms.warp * own.get(fastest, 0) * layer.described(read.tensor).element_bytes
    return int(min(max(math.ceil(reach / line), 1), spec.sms.warp))


def _steps(nest: LoopNest, layer: Layer, access: Access) -> dict[int, int]:
    """Return by how many elements each loop moves through a tensor as it lies in memory; loops of one are left out."""
    found, step = dict[int, int](), 1
    for place in reversed(layer.described(access.tensor).order):
        for loop, stride in access.indices[place].terms:
            if nest.loops[loop].extent > 1:
                found[loop] = found.get(loop, 0) + stride * step
        step *= access.shape[place]
    return found


def _is_in_step(nest: LoopNest, layer: Layer, read: Access) -> bool:
    """Return whether a read goes through memory as the result does, or takes one element for all of them."""
    return math.prod(read.shape) == 1 or _steps(nest, layer, read) == _steps(nest, layer, nest.write)


def window_of(nest: LoopNest) -> tuple[tuple[int, int], ...]:
    """Return size and stride of a window, for each dimension that it moves along; empty: there is none."""
    found = []
    for index in nest.reads[0].indices:
        inside = [loop for loop, _ in index.terms if nest.loops[loop].reduction]
        moving = [stride for loop, stride in index.terms if not nest.loops[loop].reduction]
        if inside and moving:
            found.append((nest.loops[inside[0]].extent, moving[0]))
    return tuple(found)


