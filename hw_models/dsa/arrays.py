"""Cost model of matrix arrays: cycles of a matrix product, and operand elements read for it.

A product is computed in blocks of the array's rows x columns, each over the whole depth. In addition to the cycles of
its multiply-accumulates, a block pays for filling the array and for draining the results:

- ``systolic``, output stationary: the last cell begins rows + columns - 2 cycles after the first, and results are
  shifted out in as many cycles as there are rows. One block of depth T alone lasts 2 rows + columns + T - 2 cycles
  (Samajdar et al., "A systematic methodology for characterizing scalability of DNN accelerators using SCALE-Sim",
  ISPASS 2020, section III).
- ``outer_product``: operands are broadcast along rows and columns, so that all cells begin at once; accumulators are
  read out one row a cycle, as ARM's Scalable Matrix Extension reads its accumulator array by rows.
- ``dot_product``: every cell is a tree of adders over the native depth, filled in its levels, log2(depth); all results
  leave in one cycle.
- ``weight_stationary``: a block of native depth x columns of the second operand is held in the cells, one row of it
  loaded a cycle, and all rows of the first operand are streamed past it, one a cycle; sums leave the array and are
  added up in accumulators outside (Genc et al., "Gemmini", DAC 2021). An instruction streams at most the native rows,
  of one run (`MatrixShape.run`), and takes ``issue_cycles`` at least. With two sets of weights the next block is loaded
  during one instruction, which then takes as many cycles as the block has rows. The first block is loaded, and the last
  row takes rows and columns of the array, once a product. Operands are never swapped.
- ``ideal``: no fill and no drain; for comparison with models that have neither.

With two sets of accumulators (double-buffered results), a block is drained and the array filled again while the next
one is computed: only the first fill and the last drain are exposed, and blocks follow each other no faster than they
are drained. Blocks at the edge drain only the rows that they have.

An array that adds up over channels alone (``sums_over``) computes each tap of a window as a product of its own: it is
drained for every tap, into accumulators that add the taps up, and filled and drained as often where it has one set.
With ``taps_together``, several taps of few channels fill the native depth together.
Products of one element's depth lie side by side where the unit has ``separate_columns``.

A unit of several arrays deals the blocks out one after another, those at the edge last; its time is that of the first
array, which has the most. The depth is not divided among them, as nothing would add the parts up.
"""

import math

from dsascape.hw_models.dsa.units import MatrixUnit
from dsascape.hw_models.simulation.instructions import MatrixShape


def product_cycles(unit: MatrixUnit, shape: MatrixShape, macs_per_cycle: int) -> float:
    """Return the cycles of ``unit`` for the products of ``shape``; operands are swapped where that is faster.

    ``macs_per_cycle`` is the rate of one array.
    """
    if not shape.macs:
        return 0.0
    if unit.array == "weight_stationary":
        return _streamed_cycles(unit, shape, macs_per_cycle)
    return min(
        _cycles(unit, shape.rows, shape.columns, shape, macs_per_cycle),
        _cycles(unit, shape.columns, shape.rows, shape, macs_per_cycle),
    )


def _cycles(unit: MatrixUnit, height: int, width: int, shape: MatrixShape, macs_per_cycle: int) -> float:
    rows, columns, depth = unit.native_tile
    fill, drain, drain_per_row = fill_and_drain_cycles(unit)
    added_up, taps = depth_and_taps(unit, shape)
    each = -(-added_up // depth) * rows * columns * depth / macs_per_cycle
    share_blocks = unit.separate_columns and added_up == 1
    across = -(-width * shape.count // columns) if share_blocks else -(-width // columns) * shape.count
    whole, edge = -(-(height // rows * across) // unit.count), height % rows
    at_edge = -(-(-(-height // rows) * across) // unit.count) - whole
    blocks = [(whole * taps, rows), (at_edge * taps, edge)] if at_edge else [(whole * taps, rows)]
    drained = [(count, drain + drain_per_row * used) for count, used in blocks]
    if unit.accumulator_sets == 1:
        return sum(count * (fill + each + drain) for count, drain in drained)
    last = drained[-1][1]
    paced = sum(count * max(each, drain) for count, drain in drained)
    return fill + each + paced - max(each, last) + last


def _streamed_cycles(unit: MatrixUnit, shape: MatrixShape, macs_per_cycle: int) -> float:
    """Return the cycles in which all rows are streamed past every block of the weights."""
    rows, columns, depth = unit.native_tile
    added_up, taps = depth_and_taps(unit, shape)
    share_blocks = unit.separate_columns and added_up == 1
    across = -(-shape.columns * shape.count // columns) if share_blocks else -(-shape.columns // columns) * shape.count
    blocks = -(-(across * -(-added_up // depth) * taps) // unit.count)
    run = min(shape.run or shape.rows, shape.rows)

    def instruction(streamed: int) -> float:
        return max(streamed * columns * depth / macs_per_cycle, float(unit.issue_cycles)) if streamed else 0.0

    def one_run(length: int) -> float:
        return length // rows * instruction(rows) + instruction(length % rows)

    each = shape.rows // run * one_run(run) + one_run(shape.rows % run)
    hidden = instruction(min(run, rows)) if unit.accumulator_sets > 1 else 0.0
    return rows + columns - 2 + depth + blocks * (each + max(depth - hidden, 0.0))


def depth_and_taps(unit: MatrixUnit, shape: MatrixShape) -> tuple[int, int]:
    """Return the depth over which ``unit`` adds up at once, and the number of such parts that make up a result."""
    if unit.sums_over == "channels_and_taps" or not 0 < shape.channels < shape.depth:
        return shape.depth, 1
    taps = -(-shape.depth // shape.channels)
    together = min(max(min(unit.taps_together, unit.native_tile[2] // shape.channels), 1), taps)
    return shape.channels * together, -(-taps // together)


def fill_and_drain_cycles(unit: MatrixUnit) -> tuple[int, int, int]:
    """Return the cycles that a block takes to fill the array, to drain it, and further drain cycles per row."""
    rows, columns, depth = unit.native_tile
    if unit.array == "dot_product":
        return math.ceil(math.log2(depth)), 1, 0
    if unit.array == "ideal":
        return 0, 0, 0
    return rows + columns - 2 if unit.array in ("systolic", "weight_stationary") else 0, 0, 1


def operands_read(unit: MatrixUnit, shape: MatrixShape) -> tuple[int, int]:
    """Return the number of elements that ``unit`` reads of the first and the second operand for ``shape``.

    Each operand is read once per block of `MatrixUnit.reuse` rows and columns that needs it.
    """
    rows, columns = unit.reuse
    one_way = (
        shape.rows * shape.depth * -(-shape.columns // columns) * shape.count,
        shape.columns * shape.depth * -(-shape.rows // rows) * shape.count,
    )
    swapped = (
        shape.rows * shape.depth * -(-shape.columns // rows) * shape.count,
        shape.columns * shape.depth * -(-shape.rows // columns) * shape.count,
    )
    return one_way if unit.array == "weight_stationary" else min(one_way, swapped, key=sum)
