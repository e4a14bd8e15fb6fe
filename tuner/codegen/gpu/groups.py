"""Nodes that make up one phase of a block: copies of all threads, then a thread's own; sums that are handed over."""

from collections.abc import Iterator

from dsascape.scheduler.kernels.loops.nodes import SHARES, Ahead, Loop, Node, Nodes, Statement, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.shared_memory import has_phases


def is_copy(node: Node) -> bool:
    """Whether all threads share a node out, whatever they do otherwise, and need not wait for each other in it."""
    return isinstance(node, Ahead) or (isinstance(node, Loop) and node.kind == "thread" and not has_phases(node))


def _gives(statement: Statement) -> bool:
    return statement.stage.endswith(SHARES)


def _hands_over(node: Node) -> bool:
    """Whether threads give each other sums in a node, or take them."""
    return any(_gives(each) or each.source for _, each in statements_of((node,)))


def _computes(node: Node, program: LoopProgram) -> bool:
    """Whether all threads share out what is computed of what others may just have computed, rather than copied."""
    is_shared = isinstance(node, Loop) and node.kind == "thread"
    return is_shared and any(program.stage(each.stage).kind != "copy" for _, each in statements_of((node,)))


def groups_of(nodes: Nodes, program: LoopProgram) -> Iterator[list[Node]]:
    """Yield nodes that make up one phase: copies, then a thread's own; those that are made ahead, with what follows."""
    group: list[Node] = []
    for node in nodes:
        own_phase = (isinstance(node, Loop) and has_phases(node)) or _hands_over(node) or _computes(node, program)
        copies_end = bool(group) and is_copy(group[-1]) and not isinstance(group[-1], Ahead) and not is_copy(node)
        begins = bool(group) and is_copy(node) and not is_copy(group[-1])
        if group and (own_phase or copies_end or begins or _hands_over(group[-1])):
            yield group
            group = []
        group.append(node)
        if own_phase:
            yield group
            group = []
    if group:
        yield group
