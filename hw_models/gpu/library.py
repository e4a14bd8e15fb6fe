"""What a machine's file states of the kernels that a library has for products on a GPU."""

from typing import Annotated

from pydantic import BaseModel, Field

from dsascape.hw_models.common.spec_types import STRICT, Efficiency

Side = Annotated[int, Field(ge=8, le=1024)]
LaneTile = Annotated[str, Field(pattern=r"^[1-9]\d{1,3}x[1-9]\d{1,3}/[1-9]\d{1,3}$")]
"""Rows and columns of a tile on lanes, and threads of its block: 128x64/128."""


class LibraryProducts(BaseModel):
    """Kernels of a library for products: the tiles that it has, and what each of them does beside its main loop."""

    model_config = STRICT

    round_trips: Annotated[float, Field(ge=0, le=16)]
    """Trips to DRAM that a kernel makes one after the other besides its main loop: for descriptors, the first operands
    and the results."""
    step_bytes: Annotated[int, Field(ge=16, le=1024)]
    """Bytes of a row of an operand that a step of the main loop takes."""
    copied_bytes_per_cycle: Annotated[float, Field(ge=0.01, le=65536)]
    """Bytes that a kernel's copies bring to one SM from the L2 in a cycle, or take there."""
    tile_sides: tuple[Side, ...] = Field((), strict=False)
    """Rows or columns of a tile on tensor units, one of both; the other is a multiple of ``tile_multiple``. Empty:
    nothing is known of kernels on tensor units."""
    tile_multiple: Side = 8
    """Granularity of the other side of a tile."""
    most_sums: Annotated[int, Field(ge=64, le=2**20)] = 2**20
    """Most sums of a tile on tensor units."""
    older_rate: Efficiency = 1.0
    """Share of the peak that kernels reach whose operands threads copy in pieces of less than 16 B."""
    lane_tiles: tuple[LaneTile, ...] = Field(min_length=1, strict=False)
    """Tiles on lanes: rows x columns of the result / threads of a block."""
    batched_lane_tiles: tuple[LaneTile, ...] = Field((), strict=False)
    """Tiles on lanes of several products in one kernel; empty: `lane_tiles`."""

    elements: Annotated[int, Field(ge=1, le=64)]
    """Elements that a thread computes one after the other where an operand is repeated, such as a bias."""
    element_threads: Annotated[int, Field(ge=32, le=1024)]
    """Threads of a block of such a kernel."""
    element_instructions: Annotated[float, Field(ge=1, le=1024)]
    """Instructions for each such element: divisions for addresses, loads, conversions, the store."""

    @property
    def other_sides(self) -> range:
        """Other sides of a tile on tensor units."""
        return range(self.tile_multiple, max(self.tile_sides) + 1, self.tile_multiple)
