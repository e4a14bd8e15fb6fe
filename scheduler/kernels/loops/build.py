"""From a naive program and steps to the loop program.

Stages that are not computed inside of others run one after the other, over all of their tensor. Inside of a stage's
loops, what is computed there covers what the rest of that iteration needs: the elements follow from the access maps of
all that reads it (`scheduler.kernels.loops.affine`), halos included.
"""

from dsascape.scheduler.kernels.loops.checks import StepError
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.plans import Plans
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kernels.loops.tree import Tree


def loop_program(naive: NaiveProgram, steps: Steps) -> LoopProgram:
    """Return the program that ``steps`` make of ``naive``; raise ``StepError`` where a step does not fit."""
    plans = Plans(naive, steps)
    tree = Tree(plans)
    body = tuple(tree.nodes())
    for name, plan in plans.by_stage.items():
        if not plan.is_inlined and name not in tree.buffers:
            raise StepError(f"ComputeAt: {name!r} is computed where nobody reads it")
    stages = tuple([plan.stage for name, plan in plans.by_stage.items() if name in tree.buffers])
    buffers = tuple([tree.buffers[stage.name] for stage in stages])
    return LoopProgram(stages, buffers, tuple(plans.layouts), body, steps)
