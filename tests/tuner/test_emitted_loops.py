"""Generated code has the loops, kinds, extents and buffers of its program's tree, and nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")

from tvm import tirx

from dsascape.fusion import FusionPlan
from dsascape.scheduler import make_policy
from dsascape.scheduler.cpu.costs import CpuCosts
from dsascape.scheduler.cpu.schedule.schedule import kernel_by_kernel
from dsascape.scheduler.kernels.loops.nodes import Ahead, Guard, Loop, Node, Nodes, Outlined
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.tuner.codegen.kernels import GeneratedCode, generate
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import executable
from tests.scheduler.kernels.drawn import NARROW

pytestmark = pytest.mark.tvm

Shape = tuple[object, ...]
"""A tree as nested tuples: what a node is, its extent, what is inside of it."""
NETWORKS = (
    "mobilenet-v2", "resnet18", "squeezenet", "shufflenet-v2", "bert-tiny", "mobilevit", "dcgan", "efficientnet-b0",
)  # fmt: skip


def code_of(network: str, policy: str) -> GeneratedCode:
    graph = load_network(network).with_dtype("fp32")
    costs = CpuCosts(NARROW, Analysis(graph), "fp32")
    plan: FusionPlan = make_policy(policy).plan(graph, costs)
    return generate(plan, executable(graph), kernel_by_kernel(plan, costs).chosen)


def of_tree(nodes: Nodes) -> Iterator[Shape]:
    for node in nodes:
        yield from _of_node(node)


def _of_node(node: Node) -> Iterator[Shape]:
    if isinstance(node, Loop):
        yield (node.kind, node.extent, tuple(of_tree(node.body)))
    elif isinstance(node, Guard | Outlined):
        yield ("if" if isinstance(node, Guard) else "function", 0, tuple(of_tree(node.body)))
    else:
        assert not isinstance(node, Ahead)
        yield ("store", node.stage, ())


KINDS: Mapping[int, str] = {
    int(tirx.ForKind.SERIAL): "serial", int(tirx.ForKind.PARALLEL): "parallel",
    int(tirx.ForKind.VECTORIZED): "vector", int(tirx.ForKind.UNROLLED): "unrolled",
}  # fmt: skip


class Emitted:
    """The statements of a function; named values inside of one statement are left out."""

    def __init__(self, function: Any, programs: Sequence[LoopProgram]) -> None:
        self.stage_of: dict[str, str] = {}
        self.buffers: dict[str, tuple[tuple[int, ...], str]] = {}
        self._stages = [stage.name for program in programs for stage in program.stages]
        self.shape = tuple(self._shapes(function.body))

    def _shapes(self, statement: Any) -> Iterator[Shape]:
        if isinstance(statement, tirx.SeqStmt):
            for each in statement.seq:
                yield from self._shapes(each)
        elif isinstance(statement, tirx.For):
            yield (KINDS[int(statement.kind)], int(statement.extent), tuple(self._shapes(statement.body)))
        elif isinstance(statement, tirx.IfThenElse):
            inside = tuple(self._shapes(statement.then_case))
            if inside:
                yield ("if", 0, inside)
        elif isinstance(statement, tirx.AttrStmt):
            yield ("function", 0, tuple(self._shapes(statement.body)))
        elif isinstance(statement, tirx.AllocBuffer):
            own = statement.buffer
            self.buffers[own.name] = tuple(map(int, own.shape)), own.scope()
        elif not statement.buffer.name.startswith("value"):
            yield ("store", self._stage(statement.buffer.name), ())

    def _stage(self, name: str) -> str:
        clean = {"".join(c if c.isalnum() else "_" for c in stage): stage for stage in self._stages}
        return clean[name.rpartition("_")[0]]


@pytest.mark.parametrize("policy", ["fixed-pattern", "ago"])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.sampled(5, long=["mobilevit-fixed-pattern", "mobilevit-ago"])
def test_code_is_its_program_loop_by_loop(network: str, policy: str) -> None:
    code = code_of(network, policy)

    assert len(code.kernels) > len(code.missing)
    for kernel in code.kernels:
        emitted = Emitted(kernel.function, kernel.programs)
        buffers = [each for program in kernel.programs for each in program.buffers]
        own = [
            (each.shape, "local" if each.scope == "register" else "global")
            for each in buffers if each.scope != "global"
        ]  # fmt: skip
        between = [each.shape for each in buffers if each.scope == "global" and each.name not in kernel.outputs]
        held = sorted([*own, *[((rows + 1, *rest), "global") for rows, *rest in between]])
        assert emitted.shape == tuple(each for program in kernel.programs for each in of_tree(program.body))
        assert sorted(own for name, own in emitted.buffers.items() if not name.startswith("value")) == held
