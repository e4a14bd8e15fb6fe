"""Joint compute-at: whether a program computes one complex operator inside of the tiles of another.

AGO does so (intensive fusion, INFOCOM '23, section III), its ablation AGO-NI does not.
"""

from collections.abc import Mapping

from dsascape.fusion.ago import is_complex
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.nodes import SUMS, statements_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.workloads.mapping import mapping_of


def complex_stages(naive: NaiveProgram) -> Mapping[str, int]:
    """Return the stages in which complex operators accumulate, with the position of the operator in the graph."""
    layer = naive.layer
    found = {}
    for position in layer.ops:
        if is_complex(layer.graph, position):
            for nest in layer.graph.ops[position].nests:
                name = nest.write.tensor
                if mapping_of(nest) == "contraction":
                    found[name + SUMS if name + SUMS in naive.stages else name] = position
    return found


def is_joint(program: LoopProgram, stages: Mapping[str, int]) -> bool:
    """Whether two complex operators, whose stages are `complex_stages`, have a loop around both."""
    for node in program.body:
        inside = {stages[each.stage] for _, each in statements_of((node,)) if each.stage in stages}
        if len(inside) > 1:
            return True
    return False
