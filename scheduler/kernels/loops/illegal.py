"""Legality of a loop program on a machine: the reasons, if any, why it cannot be compiled or run."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dsascape.scheduler.kernels.loops.naive import reduction_extents
from dsascape.scheduler.kernels.loops.nodes import (
    Condition,
    Guard,
    Loop,
    LoopKind,
    Nodes,
    Statement,
    loops_of,
    reads_of,
    statements_of,
)
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.shared_memory import shared_memory
from dsascape.scheduler.kernels.loops.steps import Scope
from dsascape.wording import count

_MOST_STATEMENTS = 4096
"""Statements that unrolled loops may make of one; compilers take minutes for more."""
_MOST_LANES = 64
"""Lanes of a vector loop."""


@dataclass(frozen=True)
class Limits:
    """Limits of a machine: kinds of loops that it has, bytes that each scope of buffers may take."""

    kinds: frozenset[LoopKind]
    scope_bytes: Mapping[Scope, int] = field(default_factory=dict)
    """Most that all buffers of a scope, alive at a time, may take in one thread or block."""
    threads: int = 0
    """Most threads of a block; 0: the machine has no blocks."""
    cluster: int = 1
    """Most blocks of a cluster."""


def illegal(program: LoopProgram, limits: Limits) -> tuple[str, ...]:
    """Return the reasons why ``program`` cannot run on a machine with ``limits``; empty if it compiles and runs."""
    reasons = [*_loops(program, limits), *_reductions(program), *_order(program), *_memory(program, limits)]
    reasons += _grid(program, limits) if limits.threads else []
    return tuple(dict.fromkeys(reasons))


def _loops(program: LoopProgram, limits: Limits) -> Iterator[str]:
    """Yield loops of kinds that the machine has not, or that stand where that kind cannot."""
    for around, _ in statements_of(program.body):
        kinds = [loop.kind for loop in around]
        for loop in around:
            if loop.kind not in limits.kinds:
                yield f"loop {loop.name} is {loop.kind}, which the machine has not"
        if "parallel" in kinds[1:]:
            yield f"loop {around[kinds.index('parallel', 1)].name} is parallel inside of another loop"
        if "vector" in kinds[:-1]:
            yield f"loop {around[kinds.index('vector')].name} is a vector and has loops inside"
        wide = [loop for loop in around if loop.kind == "vector" and loop.extent > _MOST_LANES]
        if wide:
            yield f"loop {wide[0].name} is a vector of {count(wide[0].extent, 'lane')}; the most are {_MOST_LANES}"
        copies = math.prod([loop.extent for loop in around if loop.kind == "unrolled"])
        if copies > _MOST_STATEMENTS:
            yield f"unrolled loops make {count(copies, 'statement')} of one; the most are {_MOST_STATEMENTS:,}"


def _reductions(program: LoopProgram) -> Iterator[str]:
    """Yield reductions that go on behind their last iteration: tiles do not divide them, and no condition ends them."""
    for conditions, statement in _guarded(program.body, frozenset()):
        stage = program.stage(statement.stage)
        for loop, value in statement.reduced:
            extent, end = reduction_extents(stage.nests[0])[loop], value.span(program.extents)[1]
            is_guarded = any(each.value == value and each.limit <= extent for each in conditions)
            if end > extent and not is_guarded:
                name = stage.nests[0].loops[loop].name
                yield f"the reduction {name} of {stage.name} ends at {end:,} in place of {extent:,}"


def _guarded(nodes: Nodes, conditions: frozenset[Condition]) -> Iterator[tuple[frozenset[Condition], Statement]]:
    """Yield each statement with the conditions around it."""
    for node in nodes:
        if isinstance(node, Statement):
            yield conditions, node
        else:
            own = frozenset(node.conditions) if isinstance(node, Guard) else frozenset()
            own |= node.limits if isinstance(node, Loop) else frozenset()
            yield from _guarded(node.body, conditions | own)


def _grid(program: LoopProgram, limits: Limits) -> Iterator[str]:
    """Yield what no block of a grid can do: loops of blocks inside of others, statements of no thread, many threads."""
    for around, statement in statements_of(program.body):
        kinds = [loop.kind for loop in around]
        if kinds[:1] != ["block"] or "block" in kinds[1:]:
            yield f"{statement.stage} is not inside of one loop of blocks, outermost"
        elif "thread" not in kinds:
            yield f"{statement.stage} is inside of no loop of threads"
    most = max([math.prod([blocks for _, blocks in loop.cluster]) for loop in loops_of(program.body)], default=1)
    if most > limits.cluster:
        yield f"a cluster has {count(most, 'block')}; the most are {limits.cluster:,}"
    threads = program.threads
    if threads > limits.threads:
        yield f"a block has {count(threads, 'thread')}; the most are {limits.threads:,}"


def _order(program: LoopProgram) -> Iterator[str]:
    """Yield stages that are read where they have not been computed, or where their buffer is not there."""
    computed: set[str] = set()
    around_of = {stage.name: () for stage in program.stages}
    tensors = {stage.tensor: stage.name for stage in program.stages if stage.name == stage.tensor}
    buffers = {buffer.name: buffer for buffer in program.buffers}
    for around, statement in statements_of(program.body):
        stage = program.stage(statement.stage)
        names = {loop.name for loop in around}
        for name in _read_stages(program, statement, tensors):
            if name not in around_of or name == stage.name or name in program.inlined:
                continue
            if name not in computed:
                yield f"{stage.name} reads {name} before that is computed"
            elif buffers[name].inside and buffers[name].inside not in names:
                yield f"{stage.name} reads {name} outside of the loop {buffers[name].inside} that it is computed in"
        if statement.role != "first" or stage.kind == "map":
            computed.add(stage.name)


def _read_stages(program: LoopProgram, statement: Statement, tensors: Mapping[str, str]) -> Iterator[str]:
    stage = program.stage(statement.stage)
    if statement.role in ("first", "fold", "correct"):
        return
    if stage.kind == "copy":
        yield tensors.get(stage.source, stage.source)
    copies = program.copies(stage.name)
    for read in reads_of(stage, stage.nests):
        name = copies.get(read.tensor, read.tensor)
        yield tensors.get(name, name)


def _memory(program: LoopProgram, limits: Limits) -> Iterator[str]:
    """Yield scopes whose buffers, taken together, are larger than what there is."""
    for scope, most in limits.scope_bytes.items():
        own = [buffer for buffer in program.buffers if buffer.scope == scope]
        size = shared_memory(program).size_bytes if scope == "shared" else sum([each.size_bytes for each in own])
        size = -(-size // program.width) if scope == "register" else size
        if size > most:
            yield f"what it keeps in {scope} takes {count(size, 'byte')}; there are {most:,}"
