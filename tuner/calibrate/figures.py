"""What probes measure: times, as they are; what they mean for a machine's description follows from them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """A cache or DRAM, by an array that lies in it."""

    name: str
    size_bytes: int
    """Of the array, for each thread."""
    byte_s: float
    """Seconds of each byte that one thread reads."""
    byte_of_all_s: float
    """Seconds of each byte where all threads read."""
    load_s: float
    """From one load to the next that needs its result."""


@dataclass(frozen=True, slots=True)
class Far:
    """A memory behind the first cache, by an array that lies in it: what is not reading one byte after the other."""

    name: str
    written_s: float
    """Seconds of each byte that one thread writes: its line is fetched, and written back."""
    written_of_all_s: float
    """Seconds of each byte where all threads write."""
    apart_s: float
    """Seconds of each byte that one thread writes in lines that do not follow each other."""
    near_s: float
    """Seconds of each byte of weights that are used by a few register tiles and lie in the first cache; of a memory
    behind the second cache, in that."""
    panel_s: float
    """Seconds of each byte of weights that come from it, panel by panel, and are used by a few register tiles: by the
    first of them, of the second cache by all."""
    result_s: float
    """Seconds of each byte of results of register tiles that go there."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An array that is read again and again by one thread."""

    size_bytes: int
    byte_s: float
    """Seconds of each byte."""


@dataclass(frozen=True, slots=True)
class Idle:
    """An array in the shared cache that is read again after a while, used many times before."""

    idle_s: float
    byte_s: float
    """Seconds of each byte."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of single things."""

    fma_chain_s: float
    """Of a vector multiply-accumulate of which the next one needs the result."""
    fma_s: float
    """Of one among many."""
    fed_fma_s: float
    """Of one among many of a matrix product, the weights of which come from the first cache."""
    tile_s: float
    """Of beginning and ending a loop over such multiply-accumulates, with the results leaving the registers."""
    special_s: float
    """Of a vector of exponentials or divisions, on average."""
    levels: tuple[Level, ...]
    """From the first cache outwards."""
    growing: tuple[Reading, ...]
    """Arrays larger than that in the last cache, up to that in DRAM: where they slow down, the cache ends."""
    idle: tuple[Idle, ...]
    """How an array in the last cache slows down as it is left alone: others use the same cache."""
    again_s: float
    """The same, per byte, as soon as it has come from DRAM for the first time; 0 where there is no shared cache."""
    result_s: float
    """Of a byte of results of register tiles that go to the first cache."""
    far: tuple[Far, ...]
    """The memories behind the first cache."""
    call_s: float
    """Of calling a kernel."""
    region_s: float
    """Of splitting a loop over all threads."""
