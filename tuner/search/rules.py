"""Derivation rules of sketches: Table 1 of Ansor, for CPUs.

A rule is a function and one line in `CPU_RULES`; those of a machine kind are its space's, and a user's rules can stand
among them. Conditions of the table overlap: rules are tried in the order of the tuple, and one that says so is
the last. "SSRSRS" has its six levels here: space, space, reduction, space, reduction, and the innermost level of space
that steps do not list.
"""

from collections.abc import Iterator

from dsascape.scheduler.kernels.loops.nodes import SUMS, reads_of
from dsascape.scheduler.kernels.loops.steps import (
    CacheRead,
    ComputeAt,
    Inline,
    PartialSums,
    Step,
    Tile,
    Vectorise,
)
from dsascape.scheduler.kernels.structure.anchors import is_padded
from dsascape.tuner.search.analysis import Node
from dsascape.tuner.search.sketches import Context, Derived, Rule, State

COPY = ".copy"
"""Suffix of the name of a copy, behind the name of what it copies."""
OPEN = 1
"""Partial sums of a sketch, whose number is not drawn yet."""


def always_inline(context: Context, state: State) -> Derived | None:
    """Rule 2: inline what is simple and element-wise."""
    name = context.working(state)
    if not context.nodes.is_strictly_inlinable(name):
        return None
    return Derived((state.next(Inline(name)),), is_last=True)


def factor_reduction(context: Context, state: State) -> Derived | None:
    """Rule 6: reduce in several partial sums, which are the lanes of a vector, or one after the other.

    All reduction loops are fused, as in TVM. Partial sums are those of one thread, whichever of the two.
    """
    name = context.working(state)
    if name in state.cached or not context.nodes.has_more_reduction_parallel(name, context.machine.cores):
        return None
    node = context.nodes.by_name[name]
    nest = node.nest
    run = tuple([number for number, loop in enumerate(nest.loops) if loop.reduction and loop.extent > 1])
    own: list[Step] = [
        Tile(name, (context.space(name),)), ComputeAt(name + SUMS, name, len(nest.write.indices), "register"),
        Tile(name + SUMS, (context.reductions(nest, run),)), PartialSums(name + SUMS, OPEN, run),
    ]  # fmt: skip
    vectors = Vectorise(name + SUMS, context.machine.lanes)
    return Derived((state.next(*own, vectors), state.next(*own)))


def add_cache_write(context: Context, state: State) -> Derived | None:
    """Rule 5: give a node that uses data again, and has no consumer to fuse, a cache that it copies its sums from."""
    name = context.working(state)
    node = context.nodes.by_name[name]
    if node.sums is None or not context.nodes.has_data_reuse(name) or name in state.cached:
        return None
    if context.fusible_consumer(state, name) is not None:
        return None
    return Derived((State(state.steps, state.position, state.cached | {name}),))


def tile_and_fuse(context: Context, state: State) -> Derived | None:
    """Rule 4: tile at several levels, and fuse the consumer after the first level or the second."""
    name = context.working(state)
    if context.nodes.by_name[name].sums is None or not context.nodes.has_data_reuse(name):
        return None
    consumer = context.fusible_consumer(state, name)
    if consumer is None:
        return None
    found = []
    for levels in (1, 2):
        space, nest = context.space(name), context.nodes.by_name[name].nest
        own = (space,) * (2 - levels)
        reduction = context.reductions(nest)
        found.append(state.without_tiles(consumer).next(
            *([] if consumer == name else [Inline(name)]), *_copies(context, state, name),
            Tile(consumer, (context.space(consumer),) * levels),
            ComputeAt(name + SUMS, consumer, levels * len(space.order)),
            Tile(name + SUMS, (*own, reduction, space, reduction)),
        ))  # fmt: skip
    return Derived(tuple(found), is_last=name in state.cached)


def tile(context: Context, state: State) -> Derived | None:
    """Rule 3: tile at several levels; what becomes of the sums has loops of its own."""
    name = context.working(state)
    if not context.nodes.has_data_reuse(name):
        return None
    node, space = context.nodes.by_name[name], context.space(name)
    if node.sums is None:
        return Derived((state.next(*_copies(context, state, name), Tile(name, (space,) * 3)),), is_last=True)
    reduction, consumer = context.reductions(node.nest), context.fusible_consumer(state, name)
    finished: list[Step] = [Inline(name)] if consumer not in (None, name) else [Tile(name, (space,))]
    levels = (space, space, reduction, space, reduction)
    return Derived(
        (state.next(*finished, *_copies(context, state, name), Tile(name + SUMS, levels)),), is_last=True
    )


def skip(context: Context, state: State) -> Derived | None:
    """Rule 1: leave a node as it is: loops over its elements, and inside of these its reduction."""
    name = context.working(state)
    node = context.nodes.by_name[name]
    if node.stage is None:
        return Derived((state.next(),))
    own = _untiled(context, node)
    return Derived((state.next(*own),))


def _untiled(context: Context, node: Node) -> Iterator[Step]:
    name = node.name
    yield Tile(name, (context.space(name),))
    if node.sums is not None:
        yield ComputeAt(name + SUMS, name, len(node.sums.shape), "register")
        yield Tile(name + SUMS, (context.reductions(node.nest),))


def _copies(context: Context, state: State, name: str) -> Iterator[Step]:
    """Yield copies of what a tiled node reads with padding, or what would be computed again for each of its uses."""
    node = context.nodes.by_name[name]
    reader = node.sums or node.stage
    assert reader is not None
    for read in reads_of(reader, reader.nests):
        copy = CacheRead(read.tensor + COPY, read.tensor, reader.name)
        is_own = read.tensor != name and read.tensor.removesuffix(SUMS) != name
        is_needed = is_padded(node.nest, read) or context.nodes.is_strictly_inlinable(read.tensor)
        if is_own and is_needed and not any(isinstance(s, CacheRead) and s.stage == copy.stage for s in state.steps):
            yield copy


CPU_RULES: tuple[Rule, ...] = (
    always_inline,
    factor_reduction,
    add_cache_write,
    tile_and_fuse,
    tile,
    skip,
)
"""Rules of CPUs, in the order in which they are tried."""
