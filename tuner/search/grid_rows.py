"""Padding of the rows of copies in shared memory, as a decision of programs for GPUs.

What pays follows from how threads, parts and copies lie to each other, so that most draws take the padding of the
built-in choice for the program at hand (`scheduler.gpu.conflicts`); others have none, or any.
"""

import random
from collections.abc import Mapping
from dataclasses import replace

from dsascape.scheduler.gpu.conflicts import padded
from dsascape.scheduler.gpu.held_stages import HeldStages
from dsascape.scheduler.gpu.read_tiles import read_tiles
from dsascape.scheduler.gpu.tiles import FrontTiles, GpuTiles
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.loops.nodes import SUMS
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import CacheRead, RowPadding, Steps
from dsascape.tuner.search.grid_settled import copies_of

_ANY = 4
"""One of so many draws has rows padded at random, and another one none."""


def can_be_padded(steps: Steps, view: GpuView) -> bool:
    """Whether programs with these steps have copies whose rows may be padded on this machine."""
    most = view.tuning.padding_words if view.spec.sms.shared.banks else 0
    return most > 0 and any(isinstance(step, CacheRead) and step.scope == "shared" for step in steps)


def with_rows(steps: Steps, rows: Mapping[str, RowPadding | None]) -> Steps:
    """Return ``steps`` with the rows of all copies padded as ``rows`` says, by copy; others are not padded."""
    return tuple([
        replace(step, rows=rows.get(step.stage)) if isinstance(step, CacheRead) else step for step in steps
    ])  # fmt: skip


def rows_against_conflicts(held: HeldStages, program: LoopProgram, view: GpuView) -> Mapping[str, RowPadding | None]:
    """Return the padding that the built-in choice has for a program, by copy."""
    tiles = padded(held.layer, _plain(read_tiles(held.layer, program)), view)
    found: dict[str, RowPadding | None] = {}
    for tensor, (nest, described) in held.nests.items():
        own = tiles.fronts[described.front].rows if described.front is not None else tiles.rows
        operands = [read.tensor for read in nest.reads[:2]]
        for copy in copies_of(program.steps, tensor + SUMS) if own else ():
            found[copy.stage] = own[operands.index(copy.tensor)]
    return found


def _plain(tiles: GpuTiles) -> GpuTiles:
    fronts: list[FrontTiles] = [replace(front, rows=()) for front in tiles.fronts]
    return replace(tiles, rows=(), fronts=tuple(fronts))


def drawn_rows(
    held: HeldStages, program: LoopProgram, view: GpuView, rng: random.Random
) -> Mapping[str, RowPadding | None]:
    """Return a padding drawn for the copies of a program: against its conflicts, at random, or none."""
    kind = rng.randrange(_ANY)
    if kind == 0:
        return {}
    if kind > 1:
        return rows_against_conflicts(held, program, view)
    copies = [step for step in program.steps if isinstance(step, CacheRead) and step.scope == "shared"]
    ranks = {step.stage: len(program.buffer(step.stage).shape) for step in copies}
    return {
        name: RowPadding(rng.randint(1, view.tuning.padding_words), rng.randint(1, max(rank - 1, 1)))
        for name, rank in ranks.items() if rank and rng.random() < 1 / 2
    }  # fmt: skip
