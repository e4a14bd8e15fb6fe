"""Labelled records that the compiled tile search reads: a layer as loop nests and numbers, and one search of its tiles.

``scheduler/in_c/tile_records.h`` has the same names in the same order, with the range of every number; records with
other fields are refused.
"""

from typing import NamedTuple


class Term(NamedTuple):
    """Term of an index: a loop, by its number in the nest, times a stride in elements."""

    loop: int
    stride: int


class Dim(NamedTuple):
    """Dimension of a tensor that a nest accesses: its size in elements, and its index (`workloads.index.Index`)."""

    size: int
    divisor: int
    window: int
    is_exact: bool
    """Whether the divisor leaves no remainder."""
    is_opaque: bool
    terms: tuple[Term, ...]
    """Terms of the affine index; of a dimension that is written, the largest strides first."""


class Read(NamedTuple):
    """Tensor that a nest reads, by number."""

    tensor: int
    dims: tuple[Dim, ...]


class Loop(NamedTuple):
    """Loop of a nest."""

    extent: int
    is_counted: bool
    """Whether it indexes outputs."""
    role: int
    """For a matrix engine: 0 rows, 1 columns, 2 depth, 3 count, 4 taps of a window, which are part of the depth,
    5 rows of one run, which are part of the rows."""


class Nest(NamedTuple):
    """Loop nest with the operations of an iteration and of an output."""

    target: int
    """Tensor that it writes, by number."""
    is_view: bool
    """Whether it only renames elements."""
    unit: int
    """Unit that executes it, by number."""
    depth_loop: int
    """Reduction loop that tiles may split; -1 if there is none."""
    internal_bytes: int
    """Bytes per element written, if that is internal to an operator; else 0."""
    handed_bytes: int
    """Bytes per element written, if that is an intermediate with a buffer of its own; else 0."""
    counts_iterations: bool
    """Whether an iteration has operations."""
    share: int
    """Numerator of the fraction of the iterations that compute."""
    of_share: int
    """Denominator of that fraction."""
    each_macs: int
    """Operations per iteration."""
    each_simple: int
    each_special: int
    last_macs: int
    """Operations per output."""
    last_simple: int
    last_special: int
    loops: tuple[Loop, ...]
    writes: tuple[Dim, ...]
    reads: tuple[Read, ...]


class Unit(NamedTuple):
    """Compute unit: SIMD lanes, or arrays that compute blocks of rows x columns (`hw_models.dsa.arrays`)."""

    is_array: bool
    rate: float
    """Operations per cycle: of all lanes, or multiply-accumulates of one array."""
    efficiency: float
    special_cycles: float = 0.0
    """Cycles of a special operation on the lanes."""
    rows: int = 1
    columns: int = 1
    depth: int = 1
    fill_cycles: int = 0
    drain_cycles: int = 0
    drain_cycles_per_row: int = 0
    accumulator_sets: int = 1
    arrays: int = 1
    sums_taps: bool = True
    """Whether an array adds up over the taps of a window as well as over channels (``sums_over``)."""
    separate_columns: bool = False
    reused_rows: int = 1
    reused_columns: int = 1
    element_bytes: int = 0
    """Bytes of an operand's element as an array reads it."""
    is_stationary: bool = False
    """Whether rows are streamed past blocks of weights that the array holds (``weight_stationary``)."""
    issue_cycles: int = 1
    """Fewest cycles of an instruction that streams them."""
    taps_together: int = 1
    """Most taps of few channels that an array adds up at once."""


class Output(NamedTuple):
    """Tensor that a layer leaves behind, by number."""

    tensor: int
    is_share: bool
    """Whether it is tiled in proportion to the sink; else every tile has all of it."""
    shape: tuple[int, ...]


class Source(NamedTuple):
    """Memory beyond the global buffer that data come from or go to."""

    level: int
    """Its number (`DsaView.outer`)."""
    share: float
    """Share of the data."""


class Operand(NamedTuple):
    """Operand that is loaded to the cores: its route, and its bytes beyond the global buffer."""

    tensor: int
    can_come_ahead: bool
    """Whether it is a weight that comes from DDR as a whole."""
    is_broadcast: bool
    name_rank: int
    """Place of its name in alphabetic order."""
    depends: int
    """Bit mask of the sink's dimensions that it depends on; bit 16 is the depth."""
    from_outside: float
    """Share that comes from beyond the global buffer."""
    sources: tuple[Source, ...]
    """Memories that it is loaded from; their shares and ``from_clusters`` add up to ``from_outside``."""
    streamed: float
    filled: float
    sharing: int
    """Number of cores that need the same bytes."""
    copies: int
    """Reads of the global buffer per byte, without broadcast."""
    distinct_bytes: int
    from_clusters: float
    """Share that other clusters send over their link."""
    exchange_ps_per_byte: float
    """Time of the link per byte that a cluster receives."""


class Tensor(NamedTuple):
    """Tensor that some nest accesses; records refer to it by its place."""

    rank: int
    element_bytes: int


class LoopOrder(NamedTuple):
    """Order of the sink's dimensions, the outermost first."""

    dims: tuple[int, ...]


class Layer(NamedTuple):
    """Layer with one core's part and the routes of its operands, on the units and paths of a machine."""

    extents: tuple[int, ...]
    """Elements per dimension of a core's part, then iterations of the depth loop."""
    sink_shape: tuple[int, ...]
    memory_order: tuple[int, ...]
    """Dimensions of the sink as they lie in memory, the outermost first."""
    tensors: tuple[Tensor, ...]
    units: tuple[Unit, ...]
    nests: tuple[Nest, ...]
    """In reverse order of execution."""
    outputs: tuple[Output, ...]
    operands: tuple[Operand, ...]
    orders: tuple[LoopOrder, ...]
    cores: int
    output_memory: int
    """0 local buffer, 1 global buffer, 2 beyond the global buffer."""
    stored_in: tuple[Source, ...]
    """Memories beyond the global buffer that outputs go to; shares add up to 1."""
    levels: int
    """Number of memories beyond the global buffer."""
    has_prefetch: bool
    has_several_products: bool
    reloads: bool
    """Whether every tile loads all of its operands."""
    path_startup_ps: int
    path_bytes_per_ps: float
    broadcast_bytes_per_ps: float
    local_bytes_per_s: float
    cycle_ps: float
    exchange_startup_ps: float


class Timing(NamedTuple):
    """Timing of transfers to and from a memory beyond the global buffer (`scheduler.dsa.view.LevelTiming`)."""

    bytes_per_ps: float
    burst_bytes: int
    startup_ps: int
    at_once: int


class Asked(NamedTuple):
    """One search: free space, timing of outer memories, tuning parameters (`scheduler.dsa.tuning`)."""

    local_gaps: tuple[int, ...]
    global_gaps: tuple[int, ...]
    near_bytes: int
    """Bytes of the local prefetch buffer."""
    far_bytes: int
    """Bytes of the global prefetch buffer."""
    global_buffer_bytes: int
    store_burst_bytes: int
    timings: tuple[Timing, ...]
    """By memory beyond the global buffer."""
    overlaps: bool
    hidden_cost: float
    worthwhile: float
    overlapped: float
    most_tiles: int
    most_passes: int
    most_climbs: int
    plateau_steps: int
    depth_halvings: int
    single_buffers: bool
    """Whether what passes through the global buffer once has one buffer there (`DsaView.single_buffers`)."""
