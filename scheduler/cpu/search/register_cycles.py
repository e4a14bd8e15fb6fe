"""Cycles of one register tile: what the search for register tiles ranks them by.

Counted are the instructions of the anchor's reduction alone, all data at hand. What follows it, and what copies it
needs, differs little between register tiles; a kernel's cost comes from its loop program (`scheduler.cpu.cost`).
"""

import math
from typing import NamedTuple

from dsascape.hw_models.cpu.core_kinds import VectorShape
from dsascape.hw_models.cpu.cores import issue_cycles
from dsascape.hw_models.simulation.instructions import Issued
from dsascape.scheduler.cpu.structure.anchors import most_lanes
from dsascape.scheduler.cpu.structure.nests import Read, anchor_work
from dsascape.scheduler.cpu.view import IssueView
from dsascape.scheduler.kernels.lanes import dividing
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.structure.anchors import anchored_nest
from dsascape.workloads.loopnest import Extents
from dsascape.workloads.memo import memoized


class RegisterCost(NamedTuple):
    """What one register tile takes, for all of its reduction."""

    cycles: float
    """On the fastest cores."""
    instructions: int


@memoized
def register_cost(layer: Layer, register: Extents, vector_dim: int, dtype: str, view: IssueView) -> RegisterCost:
    """Return what a register tile of the anchor of ``layer`` takes, with vectors along ``vector_dim``."""
    nest, work = anchored_nest(layer), anchor_work(layer)
    assert nest is not None
    simd, tuning = view.code.simd, view.code.tuning
    vector, made = simd.vector(dtype), nest.per_iteration
    lanes = math.gcd(dividing(register[vector_dim], vector.lanes), most_lanes(layer, vector_dim, vector.lanes))
    columns, rows = register[vector_dim] // lanes, math.prod(register) // register[vector_dim]
    in_tile = rows * columns
    depth = vector.depth if work.sums_in_depth else 1
    steps = -(-work.iterations // depth)
    loads = arithmetic = 0.0
    for read in work.reads:
        own, converted = _loads(read, register, vector_dim, lanes, vector, view)
        times = steps if read.moves_with_depth else 1
        loads += own * times
        arithmetic += converted * times
    arithmetic += in_tile * steps * made.simple
    issued = Issued(
        fma=math.ceil(in_tile * steps * made.macs * (vector.instructions if work.sums_in_depth else 1)),
        arithmetic=math.ceil(arithmetic), special=math.ceil(in_tile * steps * made.special), load=math.ceil(loads),
        store=in_tile, accumulators=in_tile, loops=int(work.iterations > tuning.unrolled_whole * depth),
        scalar=math.ceil(steps / tuning.unrolled) * tuning.loop_instructions + tuning.tile_instructions,
    )  # fmt: skip
    return RegisterCost(issue_cycles(view.core, issued, dtype), issued.total)


def _loads(
    read: Read, register: Extents, vector_dim: int, lanes: int, vector: VectorShape, view: IssueView
) -> tuple[float, float]:
    """Return the loads of an operand in one iteration of the reduction, and what converts or inserts what they load.

    Accumulators that use the same element share its load; what is the same for a row is loaded once for the row.
    """
    rows = math.prod([read.loads_along(dim, size) for dim, size in enumerate(register) if dim != vector_dim])
    columns = register[vector_dim] // lanes
    simd = view.code.simd
    if read.along_vector == "together":
        loads = float(rows * columns)
        converted = loads * vector.converts
    elif read.along_vector == "apart":
        loads = float(rows * columns * lanes)
        converted = loads if lanes > 1 else 0.0  # each is put into its lane
    elif simd.multiplies_by_lane and read.lies_along_depth:
        loads = rows / (lanes * vector.depth)
        converted = loads * vector.converts
    else:
        loads, converted = float(rows), 0.0
    if read.widening is None:
        return loads, converted
    return loads * sum([share for _, share in read.widening.loads]), loads * read.widening.arithmetic
