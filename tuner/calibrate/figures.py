"""Figures measured by probes: raw times, from which a machine's description is derived."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """Reading speed of a cache or DRAM, measured on an array that lies in it."""

    name: str
    size_bytes: int
    """Array size per thread."""
    byte_s: float
    """Seconds per byte read by one thread."""
    byte_of_all_s: float
    """Seconds per byte where all threads read."""
    load_s: float
    """Latency of a dependent load, in seconds."""


@dataclass(frozen=True, slots=True)
class Far:
    """Costs of a memory behind the first cache other than sequential reading, measured on an array in it."""

    name: str
    written_s: float
    """Seconds per byte written by one thread, including the fetch and write-back of its line."""
    written_of_all_s: float
    """Seconds per byte where all threads write."""
    apart_s: float
    """Seconds per byte that one thread writes in lines that are not adjacent."""
    near_s: float
    """Seconds per byte of weights in the first cache that a few register tiles use; of a memory behind the second
    cache, weights in that."""
    panel_s: float
    """Seconds per byte of weights read from this memory panel by panel, each used by a few register tiles: only the
    first tile reads a panel from there, but from the second cache every tile does."""
    result_s: float
    """Seconds per byte of register-tile results written to this memory."""


@dataclass(frozen=True, slots=True)
class Handed:
    """Cost of lines that cores write and others read by turns, measured on arrays in one cache."""

    name: str
    line_s: float
    """Extra seconds of a line, for being read by a core half of all away and written again, beyond what that takes
    where one core does both."""


@dataclass(frozen=True, slots=True)
class OnThreads:
    """Overheads of loops that are split over fewer threads than all."""

    threads: int
    region_s: float
    """Overhead of splitting a loop, as ``Figures.region_s`` of all threads."""
    slowed: float
    """Time of a multiply-accumulate while so many threads compute, as ``Figures.slowed`` of all threads."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading speed of an array that one thread reads repeatedly."""

    size_bytes: int
    byte_s: float
    """Seconds per byte read by one thread."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Reading speed of a previously used array in the shared cache after a pause."""

    idle_s: float
    byte_s: float
    """Seconds per byte read by one thread after the pause."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Measured times of a processor's elementary operations, in seconds."""

    fma_chain_s: float
    """Latency of a dependent vector multiply-accumulate."""
    fma_s: float
    """Time of one independent vector multiply-accumulate, no more than in a matrix product."""
    fed_fma_s: float
    """Time of one multiply-accumulate of a matrix product whose weights are in the first cache."""
    tile_s: float
    """Overhead of a loop over such multiply-accumulates, with storing the results from registers."""
    few_tile_s: float
    """Overhead of a loop like that of ``tile_s`` with half of the rows (`tuner.calibrate.probing.few_rows`)."""
    special_s: float
    """Mean time of a vector exponential or division."""
    written_s: float
    """Seconds per byte that one thread writes to an array in the first cache."""
    levels: tuple[Level, ...]
    """Reading speeds of the memories, from the first cache outwards."""
    growing: tuple[Reading, ...]
    """Arrays between the last cache's and DRAM's: the size at which reading slows down is the available cache."""
    idle: tuple[Idle, ...]
    """Slow-down of an idle array in the last cache, caused by other users of that cache."""
    again_s: float
    """Seconds per byte of an array read again right after its first load from DRAM; 0 without a shared cache."""
    result_s: float
    """Seconds per byte of register-tile results written to the first cache."""
    far: tuple[Far, ...]
    """Costs of the memories behind the first cache."""
    call_s: float
    """Overhead of calling a kernel."""
    region_s: float
    """Overhead of splitting a loop over all threads."""
    slowed: float = 1.0
    """Time of a multiply-accumulate while all threads compute, relative to one alone: clocks that fall, pipes that two
    threads share. Files without it were written before it was measured."""
    handed: tuple[Handed, ...] = ()
    """Costs of lines that pass from core to core, in the caches behind the first; empty for a single thread, and in
    files that were written before they were measured."""
    fewer: tuple[OnThreads, ...] = ()
    """Overheads on two, four, eight threads and so on. Files without them were written before they were measured."""
    warnings: tuple[str, ...] = ()
    """What could not be measured and is assumed, and what disturbed the rest."""
