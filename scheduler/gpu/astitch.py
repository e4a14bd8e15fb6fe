"""AStitch on a GPU: layers without a multiply-accumulate over a reduction are stitched together where a block fits.

Departures: stitching has to pay by the cost model, where AStitch has rules; results never pass through DRAM within a
kernel, which would require synchronising all blocks; unconnected operators are not put into one kernel.
"""

from functools import partial

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.evaluated import Evaluated
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.stitching import evaluate_plans, stitched
from dsascape.scheduler.kernels.cut import layer_of
from dsascape.workloads.analysis import Analysis


def plan_of(costs: GpuCosts) -> FusionPlan:
    """Return the plan whose groups are memory-intensive layers stitched together, and single other layers."""
    return stitched(costs, partial(_refusal, costs.analysis))


def evaluate_plan(policy: str, costs: GpuCosts, plan: FusionPlan) -> Evaluated[GpuSchedule]:
    """Return the schedule of ``plan``, kernel by kernel, with its simulated run."""
    return evaluate_plans(policy, costs, [plan])


def _refusal(analysis: Analysis, ops: frozenset[int]) -> str:
    """Return the reason why operators are not stitched; empty if all of them are memory-intensive."""
    layer = layer_of(analysis, ops)
    return "" if layer is None or layer.contraction is None else "compute-intensive operators are left to libraries"
