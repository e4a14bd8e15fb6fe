"""JOIN on CPUs: one program of a kernel from those of its mini sub-graphs, node by node (AGO, section V).

Steps say one thing about one stage each, and the stages of a mini sub-graph are stages of the kernel with the same
names. So its steps carry over: one mini sub-graph reads from memory what another one leaves there. How deep the loops
of a producer go inside of a consumer's tiles is decided by the search that follows: `placed_inside` has the programs
that differ in this alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import named, numbered
from dsascape.scheduler.kernels.loops.steps import CacheRead, Step, Steps
from dsascape.tuner.search.locations import flexible, moved, places
from dsascape.tuner.search.mutations import put_together
from dsascape.tuner.search.space import Program, Space

_OF_STAGES = ("stage", "consumer", "reader")
"""Fields of steps that name stages, copies among them."""


def carried_over(source: NaiveProgram, target: NaiveProgram, steps: Steps) -> Steps:
    """Return the steps of one kernel for an equal one, whose tensors have other names."""
    return named(target, numbered(source, steps))


def composed(space: Space, parts: Sequence[Steps]) -> Program | None:
    """Return the program whose nodes have the steps of their mini sub-graph; None where it is not legal.

    ``space`` is the kernel's; ``parts`` has the steps of each mini sub-graph, producers first, with the names that
    stages have in the kernel. Two copies of one tensor keep names of their own.
    """
    found: list[Step] = []
    for steps in parts:
        taken = {step.stage for step in found if isinstance(step, CacheRead)}
        found += _with_own_copies(steps, taken)
    return put_together(space, found)


def _with_own_copies(steps: Steps, taken: set[str]) -> Iterator[Step]:
    """Yield steps whose copies have names that are not taken."""
    names: dict[str, str] = {}
    for step in steps:
        if isinstance(step, CacheRead) and step.stage in taken:
            number = next(each for each in range(len(taken) + 1) if f"{step.stage}.{each}" not in taken)
            names[step.stage] = f"{step.stage}.{number}"
    for step in steps:
        own = {each.name for each in fields(step)}
        changed: dict[str, Any] = {
            name: names[getattr(step, name)] for name in _OF_STAGES if name in own and getattr(step, name) in names
        }
        yield replace(step, **changed) if changed else step


def placed_inside(space: Space, steps: Steps) -> Iterator[Program]:
    """Yield the legal programs in which one flexible stage of ``steps`` is computed in another place.

    Sizes stay, as far as what is computed at once there has them. Where a producer is moved into the loops of a
    consumer that has a complex operator of its own, this is AGO's joint compute-at.
    """
    for stage in flexible(space.nodes, steps):
        for place in places(space.nodes, steps, stage):
            program = space.completed(moved(steps, stage, place))
            if program is not None and program.steps != steps:
                yield program
