"""Conditions around a sum that cost nothing: those of elements that nobody reads, and of products that add zeros."""

from dsascape.scheduler.kernels.loops.nodes import Condition, Statement
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.workloads.loopnest import Access


def adds_zeros(condition: Condition, statement: Statement, program: LoopProgram) -> bool:
    """Whether a product adds only zeros where a condition does not hold.

    Both of its factors end there, and their copies have room for the zeros behind that.
    """
    stage = program.stage(statement.stage)
    nest = stage.nests[0]
    if stage.kind != "sum" or not nest.per_iteration.macs:
        return False
    ended = [loop for loop, value in statement.reduced if value == condition.value]
    if len(ended) != 1 or nest.loops[ended[0]].extent != condition.limit:
        return False
    copies, own = program.copies(stage.name), ((ended[0], 1),)

    def is_zero(read: Access) -> bool:
        if read.tensor not in copies:
            return False
        copy, buffer = program.stage(copies[read.tensor]), program.buffer(copies[read.tensor])
        if copy.kind != "copy":  # what is computed there has no zeros behind its end
            return False
        extents = dict(zip(copy.order, buffer.shape, strict=False))
        ends = [
            dim for dim, (index, size) in enumerate(zip(read.indices, read.shape, strict=True))
            if index.terms == own and not index.offset and size == condition.limit
        ]  # fmt: skip
        places = [(condition.value + buffer.first[dim] * -1).span(program.extents) for dim in ends]
        return any(first >= 0 and end <= extents[dim] for dim, (first, end) in zip(ends, places, strict=True))

    return all(map(is_zero, nest.reads[:2]))


def dim_of(condition: Condition, statement: Statement) -> int | None:
    """Return the dimension whose elements a condition ends; None for one about anything else."""
    loops = {loop for loop, _ in condition.value.terms}
    for dim, element in enumerate(statement.element):
        rest = element + condition.value * -1
        if loops and loops <= {loop for loop, _ in element.terms} and not loops & {loop for loop, _ in rest.terms}:
            return dim
    return None
