"""The loops around the statements of a program, as text that tests compare."""

from collections.abc import Iterator

from dsascape.scheduler.kernels.loops.nodes import Loop, Nodes, Role, Statement
from dsascape.scheduler.kernels.loops.program import LoopProgram


def loops_around(program: LoopProgram | None, stage: str, role: Role) -> list[str]:
    """Return kind and extent of each loop around the first statement of a stage with that role, outermost first."""
    assert program is not None
    return next(loops for loops, each in statements(program.body) if (each.stage, each.role) == (stage, role))


def statements(nodes: Nodes, around: tuple[str, ...] = ()) -> Iterator[tuple[list[str], Statement]]:
    """Yield each statement with the loops around it."""
    for node in nodes:
        if isinstance(node, Statement):
            yield list(around), node
        else:
            own = (f"{node.kind} {node.extent}",) if isinstance(node, Loop) else ()
            yield from statements(node.body, around + own)
