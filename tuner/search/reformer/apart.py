"""AGO-NI: kernels in whose built-in choice no complex operator is computed inside of the tiles of another."""

from collections.abc import Sequence
from dataclasses import replace

from dsascape.tuner.search.kinds.table import space_of
from dsascape.tuner.search.options import SpaceOptions
from dsascape.tuner.search.reformer.splitting import Split
from dsascape.tuner.search.space import NoProgramError
from dsascape.tuner.search.tasks import Task


def kept_apart(splits: Sequence[Split], options: SpaceOptions) -> tuple[Split, ...]:
    """Return the splits of kernels whose built-in choice is composed of those of their mini sub-graphs.

    Raises ``NoProgramError`` for a kernel that has no such program: one of a GPU, which is one grid.
    """
    is_several = [bool(split.minis or split.reason) for split in splits]
    return tuple([
        replace(split, whole=_apart(split, options)) if several else split
        for split, several in zip(splits, is_several, strict=True)
    ])  # fmt: skip


def _apart(split: Split, options: SpaceOptions) -> Task:
    task = split.whole
    space, parts = space_of(task.naive, task.machine, options), [mini.task.builtin for mini in split.minis]
    program = space.composed_apart(parts) if parts else None
    if program is None:
        raise NoProgramError(
            f"{task.name}: its complex operators cannot be computed apart in one {task.machine.kind.upper()} kernel;"
            " without intensive fusion they are kernels of their own: --policy ago --option intensive=false"
        )
    return replace(task, builtin=program.steps)
