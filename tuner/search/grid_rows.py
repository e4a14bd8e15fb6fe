"""Padding of the rows of copies in shared memory, as a decision of programs for GPUs.

What pays follows from how threads, parts and copies lie to each other, so that most draws take the padding of the
built-in choice for the program at hand (`scheduler.gpu.cost.padding`); others have none, or any.
"""

import random
from collections.abc import Mapping

from dsascape.scheduler.gpu.cost.padding import rows_against_conflicts
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import CacheRead, RowPadding, Steps

_ANY = 4
"""One of so many draws has rows padded at random, and another one none."""


def can_be_padded(steps: Steps, view: GpuView) -> bool:
    """Whether programs with these steps have copies whose rows may be padded on this machine."""
    most = view.tuning.padding_words if view.spec.sms.shared.banks else 0
    return most > 0 and any(isinstance(step, CacheRead) and step.scope == "shared" for step in steps)


def drawn_rows(
    layer: Layer, program: LoopProgram, view: GpuView, rng: random.Random
) -> Mapping[str, RowPadding | None]:
    """Return a padding drawn for the copies of a program: against its conflicts, at random, or none."""
    kind = rng.randrange(_ANY)
    if kind == 0:
        return {}
    if kind > 1:
        return rows_against_conflicts(layer, program.steps, view)
    copies = [step for step in program.steps if isinstance(step, CacheRead) and step.scope == "shared"]
    ranks = {step.stage: len(program.buffer(step.stage).shape) for step in copies}
    return {
        name: RowPadding(rng.randint(1, view.tuning.padding_words), rng.randint(1, max(rank - 1, 1)))
        for name, rank in ranks.items() if rank and rng.random() < 1 / 2
    }  # fmt: skip
