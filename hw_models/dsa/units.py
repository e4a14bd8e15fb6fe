"""Compute units of a scratchpad accelerator's core: matrix arrays, and lanes for vectors and scalars."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from dsascape.hw_models.common.product_types import ProductType
from dsascape.hw_models.common.spec_types import STRICT, DType, Efficiency, PerCycle

Extent = Annotated[int, Field(gt=0, le=2**16)]


class MatrixUnit(BaseModel):
    """Multiply-accumulate array, or several identical ones; a partly filled block costs as much as a full one.

    Fill and drain cycles are included (`hw_models.dsa.arrays`).
    """

    model_config = STRICT

    kind: Literal["matrix"]
    """Kind of unit; each kind has its own parameters."""
    macs_per_cycle: dict[ProductType, PerCycle] = Field(min_length=1)
    """Multiply-accumulates per cycle of one whole array, for each dtype that it computes, or pair of dtypes where it
    multiplies a wide operand with a narrow one, as ``fp16 x int4``."""
    native_tile: tuple[Extent, Extent, Extent] = Field(strict=False)
    """Rows, columns and depth of one pass of the array.

    A pass lasts rows x columns x depth / macs_per_cycle cycles.
    """
    count: Annotated[int, Field(gt=0, le=256)] = 1
    """Number of identical arrays that share every instruction: each computes an equal number of a product's blocks of
    native rows x columns, over the whole depth, so a product of one block uses one array. All of them read operands
    through the local buffer, whose bandwidth stays that of the core."""
    array: Literal["outer_product", "systolic", "weight_stationary", "dot_product", "ideal"] = "outer_product"
    """Array type: how operands reach the cells and results leave them; ``ideal`` takes no time for either."""
    issue_cycles: Annotated[int, Field(gt=0, le=1024)] = 1
    """Fewest cycles between two instructions of a ``weight_stationary`` array, each of which streams at most the native
    tile's rows past the weights. Other arrays do not read it."""
    accumulator_sets: Literal[1, 2] = 2
    """Accumulator sets; with two (double-buffered) the results of a block are drained while the next is computed. Of a
    ``weight_stationary`` array: sets of weights; with two the next block of weights is loaded meanwhile."""
    operand_reuse: tuple[Extent, Extent] | None = Field(default=None, strict=False)
    """Rows and columns of the block of results for which operands are read from the local buffer once; more than the
    native tile where the array has operand buffers of its own, which all arrays of the unit then share. The default is
    the native tile's rows and columns: each array reads the operands of its blocks for itself."""
    sums_over: Literal["channels", "channels_and_taps"] = "channels_and_taps"
    """What one product adds up. ``channels``: input channels at one tap of a window; each tap of a convolution is a
    product of its own, whose results are added to those of the taps before, so few channels leave most of the depth
    idle. ``channels_and_taps``: all that a result needs, as where windows are laid out in rows (im2col)."""
    taps_together: Annotated[int, Field(gt=0, le=256)] = 1
    """Most taps of a window that an array adds up at once together with their channels, where ``sums_over`` is
    ``channels``: as many of them as fit the native depth, which few channels, such as an image's, fill better so."""
    separate_columns: bool = False
    """Whether products of which each adds up a single element may share a block, in columns of their own: taps of a
    depthwise convolution then fill the columns with channels, where ``sums_over`` is ``channels``. Otherwise such
    products follow each other."""
    efficiency: Efficiency = 1.0
    """Share of the peak that an instruction reaches whose operands fill the array and arrive in time."""

    @property
    def reuse(self) -> tuple[int, int]:
        """Rows and columns of the block of results for which operands are read once."""
        return self.operand_reuse or self.native_tile[:2]

    @property
    def rates(self) -> Mapping[str, int]:
        """Multiply-accumulates per cycle of all arrays, by dtype or pair of dtypes."""
        return {str(product): rate * self.count for product, rate in self.macs_per_cycle.items()}


class VectorUnit(BaseModel):
    """SIMD lanes: one multiply-accumulate, addition or comparison per lane and cycle."""

    model_config = STRICT

    kind: Literal["vector", "scalar"]
    """Kind of unit; vector and scalar units have the same parameters."""
    lanes: dict[DType, PerCycle] = Field(min_length=1)
    """Operations per cycle, for each dtype that it computes."""
    special_cycles: Annotated[float, Field(gt=0, le=1e6)] = 4.0
    """Cycles per lane for one division, square root, exponential or the like."""
    products: bool = True
    """Whether it also computes products of two operands, such as convolutions; false where its lanes stand behind an
    array alone, for scaling, activation and pooling of its results."""
    efficiency: Efficiency = 1.0
    """Share of the peak that an instruction with all lanes filled reaches."""

    @property
    def rates(self) -> Mapping[str, int]:
        """Operations per cycle, by dtype."""
        return {str(dtype): lanes for dtype, lanes in self.lanes.items()}


ComputeUnit = Annotated[MatrixUnit | VectorUnit, Field(discriminator="kind")]
