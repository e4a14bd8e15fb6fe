"""The tuned numbers of the CPU's scheduler, all in one place.

None of them describes a machine: they say where the search stops, what the generated code looks like in its details,
and what is asked of a run. ``--set tuning.NAME=VALUE`` changes one, and an experiment sweeps it like a value of the
machine.
"""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

Few = Annotated[int, Field(ge=1, le=1024)]


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class CpuTuning:
    """Numbers that tiling and lowering on a CPU use."""

    threads: Annotated[int, Field(ge=0, le=4096)] = 0
    """Threads that there are, on the fastest cores first: each kernel runs on all of them, or on one, or on those on
    faster kinds of cores, where that is faster; 0: on what is best among all cores of the fastest kinds, half of the
    slowest of these, a quarter and so on, and one thread."""
    warm_caches: bool = False
    """Whether caches hold what the run before has left, as when a network runs again and again; else a run begins with
    empty caches."""
    skips_masked: bool = True
    """Whether scores that an attention's mask leaves out are not computed (`workloads.bounded`); code for CPUs does not
    either."""
    folds_dequantisation: bool = True
    """Whether dequantisation is part of the products that use it, under policies that fuse. In generated code it is
    not, so runs that are measured have false."""
    winograd: Literal[0, 1, 2, 4, 6] = 4
    """Largest tile of Winograd's algorithm that 3x3 convolutions may be computed in, where that is estimated to be
    faster: results along each side. From 1 on, convolutions may be products over patches (`workloads.patches`), too; 0:
    all are direct. Results of tiles of 4 and 6 have ten times the rounding error (`workloads.winograd.accuracy`); in
    half precision none above 2 are used unless ``coarse_winograd``."""
    coarse_winograd: bool = False
    """Whether half precision has the same tiles as single: with 4 and 6, the largest error is a tenth of the largest
    result. INT8 has tiles of 4 besides those of 2, with weights that are rounded to 16 bits. ncnn computes so."""
    most_accumulators: Few = 64
    """Register tiles with more are not tried."""
    costed: Few = 3
    """Tiles of a kernel that are costed as loop programs, of those tried the ones with the least rough times."""
    depth_iterations: Annotated[int, Field(ge=8, le=2**20)] = 512
    """Iterations of the anchor's whole reduction between two passes over partial sums, where the depth loop is cut: the
    largest even step that makes no more is tried beside the whole."""
    depth_iterations_apart: Annotated[int, Field(ge=8, le=2**20)] = 128
    """Iterations like ``depth_iterations`` where rows of an operand lie apart, as it cannot be stored in panels; both
    steps are tried. Such rows often share the same few sets of a cache: 128 rows that follow each other by 4 KiB fill
    half of an L2 of 16 ways."""
    chunks_per_thread: Few = 4
    """So many tiles per thread are aimed at when loops are fused into the parallel one: the last chunks then differ
    little from the others."""
    loop_instructions: Few = 2
    """Scalar instructions of one loop iteration: count and branch."""
    unrolled: Few = 4
    """Iterations of an innermost loop between two branches."""
    written_out: Few = 300
    """Instructions up to which compilers write an innermost loop of known length out whole, then perhaps the loop
    around it: LLVM's threshold at O3, as code made by it shows (`scheduler.kernels.cost.written_out`)."""
    unrolled_whole: Few = 16
    """Iterations of a reduction that has no loop of its own: nothing is lost at its end."""
    kept_operands: Few = 3
    """Vectors of an operand that registers hold for each accumulator, where each has its own (depthwise convolutions,
    pooling): of a window, compilers unroll a loop, and keep what its iterations read."""
    tile_instructions: Few = 16
    """Scalar instructions around one register tile: addresses and bounds."""
