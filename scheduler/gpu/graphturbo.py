"""GraphTurbo on a GPU (OSDI '23, section 5.6): sub-graphs are kernels, their instances thread blocks.

Tensors between layers stay in registers and shared memory (`scheduler.gpu.stitching`). The paper joins two convolutions
at most, as its kernel generator does; here the machine model decides how many layers join, and the simulation whether
that was worth it.
"""

from dataclasses import fields

from dsascape.fusion.fixed_pattern import fixed_pattern_of
from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.stitching import evaluate_plans, stitched
from dsascape.scheduler.graphturbo.options import GraphTurboOptions


def evaluate(options: GraphTurboOptions, costs: GpuCosts, plan: FusionPlan | None = None) -> Evaluated[GpuSchedule]:
    """Return the faster of stitched layers and separate layers, or the schedule of ``plan``, with its simulated run.

    Raises ``ScheduleError`` for options of scratchpads. The number of images processed at once is decided by the
    caller, as on a DSA.
    """
    of_scratchpads = [field for field in fields(options) if field.name != "batches_per_cluster"]
    changed = [field.name for field in of_scratchpads if getattr(options, field.name) != field.default]
    if changed:
        raise ScheduleError(f"policy {options.name}: option {changed[0]} is for clustered DSAs; leave it out on a GPU")
    if plan is not None:
        return evaluate_plan(options, costs, plan)
    plans = [stitched(costs, lambda ops: ""), costs.analysis.of(fixed_pattern_of)]
    return evaluate_plans(options.name, costs, plans)


def evaluate_plan(options: GraphTurboOptions, costs: GpuCosts, plan: FusionPlan) -> Evaluated[GpuSchedule]:
    """Return the schedule of one plan, kernel by kernel, with its simulated run."""
    return evaluate_plans(options.name, costs, [plan])
