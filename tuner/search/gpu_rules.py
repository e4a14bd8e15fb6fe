"""Derivation rules of sketches for GPUs: those of Table 1 of Ansor, on blocks and threads.

A kernel is one grid: the sink's tiles are blocks, their parts threads. What other threads need lies in shared memory,
computed by all threads of the block; all else is computed where it is read. Of "SSSRRSRS", the loops of blocks, of
threads, two of the reduction, and those of a thread's part are here: the second and third levels of reduction would
only reorder what a thread does with registers, and no virtual threads interleave parts. TVM makes grids of their own
of what lies in shared memory here; the decisions about it, and so the counts of sketches, are the same.
"""

from collections.abc import Iterator

from dsascape.scheduler.gpu.fronts import fills_tensor_units
from dsascape.scheduler.gpu.held_stages import HeldStages
from dsascape.scheduler.gpu.nests import BlockNest
from dsascape.scheduler.gpu.steps import STAGED
from dsascape.scheduler.kernels.loops.nodes import SUMS, reduction_loops
from dsascape.scheduler.kernels.loops.steps import (
    Bind,
    CacheRead,
    ComputeAt,
    Inline,
    Level,
    Scope,
    ShareReduction,
    Step,
    Tensorise,
    Tile,
    Unroll,
)
from dsascape.tuner.search.sketches import Context, Derived, Rule, State
from dsascape.workloads.loopnest import LoopNest

TWO = 2
"""Threads that share a reduction in a sketch, before their number is drawn."""


def compute_where_read(context: Context, state: State) -> Derived | None:
    """Rule 2: inline what has no reduction and what no other thread needs."""
    name = context.working(state)
    node = context.nodes.by_name[name]
    if node.stage is None or node.sums is not None or name in context.held.kept:
        return None
    return Derived((state.next(*_placed(context, name)),), is_last=True)


def share_reduction(context: Context, state: State) -> Derived | None:
    """Rule 6: have threads, or blocks, share a reduction (cross-thread reduction)."""
    name = context.working(state)
    machine = context.machine
    if name in state.cached or not context.nodes.has_reduction_for_threads(name, machine.limits.threads, machine.warp):
        return None
    nest = context.nodes.by_name[name].nest
    shared = ShareReduction(name + SUMS, TWO, reduction_loops(nest))
    sums = Tile(name + SUMS, (Level("reduction", (), ()),))
    return Derived((state.next(*_placed(context, name), *_accumulated(context, name), sums, shared),))


def add_cache_write(context: Context, state: State) -> Derived | None:
    """Rule 5: keep the sums of a product in registers, from which the node itself stores them."""
    name = context.working(state)
    if name in state.cached or _product(context, name) is None or _holder(context, name) != name:
        return None
    return Derived((State(state.steps, state.position, state.cached | {name}),), is_last=True)


def tile_on_tensor_units(context: Context, state: State) -> Derived | None:
    """Tile a product for warps, whose multiply-accumulates tensor units do; a rule of our own."""
    name, tensor = context.working(state), context.machine.grid.tensor
    found = _product(context, name)
    if found is None or tensor is None:
        return None
    nest, described = found
    whole = described.product(nest.extents, 1)
    if whole is None or not fills_tensor_units(whole.rows, whole.columns, described.depth, tensor):
        return None
    units = Tensorise(name + SUMS, tensor.rows, tensor.columns, tensor.depth)
    return Derived((state.next(*_placed(context, name), *_tiled(context, name), units),))


def tile_and_fuse(context: Context, state: State) -> Derived | None:
    """Rule 4: tile a product at several levels, fused into the loops of who holds its results."""
    name = context.working(state)
    if _product(context, name) is None:
        return None
    return Derived((state.next(*_placed(context, name), *_tiled(context, name)),), is_last=True)


def skip(context: Context, state: State) -> Derived | None:
    """Rule 1: leave a node as it is: each element, with its reduction, is computed by one thread."""
    name = context.working(state)
    node = context.nodes.by_name[name]
    if node.stage is None:
        return Derived((state.next(),))
    own: list[Step] = [*_placed(context, name), *_accumulated(context, name)]
    if node.sums is not None:
        own.append(Tile(name + SUMS, (context.reductions(node.nest),)))
    return Derived((state.next(*own),))


def _product(context: Context, name: str) -> tuple[LoopNest, BlockNest] | None:
    """Return the nest of a node, and its description, if it is a product whose operands can be staged step by step."""
    node = context.nodes.by_name[name]
    if node.sums is None:
        return None
    nest, described = context.held.nests[name]
    return (nest, described) if described.is_tiled and described.depth_loop is not None else None


def _holder(context: Context, name: str) -> str:
    """Return the stage that accumulates the sums of a node in its threads."""
    sums = context.nodes.by_name[name].sums
    holder = None if sums is None else context.held.holder(sums)
    assert holder is not None
    return holder


def _is_front(context: Context, name: str) -> bool:
    """Whether a stage in shared memory holds a product in front of the last one, which has tiles of its own."""
    held = context.held
    own = [held.nests[stage.tensor][1] for stage in held.sums if held.is_in(stage, name)]
    return name != held.sink and any(each.is_tiled and each.front is not None for each in own)


def _placed(context: Context, name: str) -> Iterator[Step]:
    """Yield where the elements of a node are computed: on the grid, by all threads of a block, or where it is read."""
    held, space = context.held, context.space(name)
    if name == held.sink:
        yield from (Tile(name, (space, space)), Bind(name, held.dims, held.dims), Unroll(name))
    elif name in held.kept:
        scope: Scope = "global" if name in held.layer.outputs else "shared"
        levels = 1 + _is_front(context, name)
        yield ComputeAt(name, held.sink, held.dims, scope)
        yield Tile(name, (space,) * levels)
        yield from (Bind(name, 0, len(space.order), (levels - 1) * len(space.order)), Unroll(name))
    else:
        yield Inline(name)
        if name in held.layer.outputs:
            yield from held.stored(name)


def _accumulated(context: Context, name: str) -> Iterator[Step]:
    """Yield where a node's sums are accumulated: in registers, inside of all loops of who holds them."""
    if context.nodes.by_name[name].sums is None:
        return
    holder = _holder(context, name)
    loops = len(context.space(holder).order) * (2 if holder == context.held.sink or _is_front(context, holder) else 1)
    yield from (ComputeAt(name + SUMS, holder, loops, "register"), Unroll(name + SUMS))


def _tiled(context: Context, name: str) -> Iterator[Step]:
    """Yield the loops of a product's sums: steps of its longest reduction, for each of which operands are copied."""
    found = _product(context, name)
    assert found is not None
    nest, described = found
    depth = described.depth_loop
    assert depth is not None
    inner = (*[loop for loop in reduction_loops(nest) if loop != depth], depth)
    yield from _accumulated(context, name)
    yield Tile(name + SUMS, (Level("reduction", (depth,), None), Level("reduction", inner, None)))
    yield from copies(context.held, name)


def copies(held: HeldStages, name: str) -> Iterator[Step]:
    """Yield the copies of a product's operands in shared memory, one set for each step of its longest reduction."""
    for number, read in enumerate(held.copied(*held.nests[name])):
        copy = f"{name}{SUMS}{STAGED}{number}"
        yield CacheRead(copy, read.tensor, name + SUMS, "shared")
        yield ComputeAt(copy, name + SUMS, 1, "shared")
        yield Bind(copy, 0, len(read.shape))


GPU_RULES: tuple[Rule, ...] = (
    compute_where_read,
    share_reduction,
    add_cache_write,
    tile_on_tensor_units,
    tile_and_fuse,
    skip,
)
"""Rules of GPUs, in the order in which they are tried."""
