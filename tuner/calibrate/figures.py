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
    overlap: float
    """Share of the time of reading it that hides behind arithmetic on what is read."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An array that is read again and again by one thread."""

    size_bytes: int
    byte_s: float
    """Seconds of each byte."""


@dataclass(frozen=True, slots=True)
class Idle:
    """An array in the shared cache that is read again after a while."""

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
    """Of one among many that take their operands from the nearest cache, as those of a matrix product do."""
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
    far: tuple[Far, ...]
    """The memories behind the first cache."""
    call_s: float
    """Of calling a kernel."""
    region_s: float
    """Of splitting a loop over all threads."""
