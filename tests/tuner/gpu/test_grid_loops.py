"""Code of grids has the loops, blocks, threads and memories of its program's tree, and nothing else."""

from collections.abc import Iterable, Iterator, Mapping

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")

from typing import Any

from tvm import tirx

from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler import make_policy
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import kernel_by_kernel
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.loops.nodes import Ahead, Loop, Nodes, Statement, loops_of
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.shared_memory import shared_memory
from dsascape.tuner.codegen.gpu.kernels import GpuCode, generate_gpu
from dsascape.workloads import load_network
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import executable

pytestmark = pytest.mark.tvm

Store = tuple[str, tuple[tuple[str, int], ...]]
"""Scope of what is stored to, and kind and extent of the loops around it in one thread."""
NETWORKS = (
    "mobilenet-v2", "resnet18", "squeezenet", "shufflenet-v2", "bert-tiny", "mobilevit", "dcgan", "efficientnet-b0",
)  # fmt: skip


def code_of(network: str, policy: str) -> GpuCode:
    graph = load_network(network).with_dtype("fp32")
    view = GpuView(
        load_hardware("h100", Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False)
    )  # fmt: skip
    costs = GpuCosts(view, Analysis(graph))
    schedule = kernel_by_kernel(make_policy(policy).plan(graph, costs), costs)
    return generate_gpu(schedule, executable(graph), view.spec.sms.warp)


def of_tree(program: LoopProgram, threads: int, lanes: Iterable[int]) -> list[Store]:
    """Return the stores of one thread, in their order; ``lanes``: elements that each store to shared memory takes."""
    scopes = {buffer.name: buffer.scope for buffer in program.buffers}
    return list(_of_nodes(program.body, scopes, threads, (), 0, iter(lanes)))


def _of_nodes(
    nodes: Nodes, scopes: Mapping[str, str], threads: int, around: tuple[tuple[str, int], ...], depth: int,
    lanes: Iterator[int],
) -> Iterator[Store]:  # fmt: skip
    for node in nodes:
        if isinstance(node, Statement):
            if scopes[node.stage] == "shared" and depth < 2:
                assert next(lanes) == 1
            yield scopes[node.stage], around
        elif not isinstance(node, Loop):
            yield from _of_nodes(node.body, scopes, threads, around, depth, lanes)
        elif node.kind == "thread":
            turns = -(-node.extent // (next(lanes) if depth else 1) // threads)
            inside = (*around, ("serial", turns)) if depth or turns > 1 else around
            yield from _of_nodes(node.body, scopes, threads, inside, depth + 1, lanes)
        elif node.kind == "block":
            yield from _of_nodes(node.body, scopes, threads, around, depth, lanes)
        else:
            ahead = [each for each in node.body if isinstance(each, Ahead)]
            for number in range(min(max([each.iterations for each in ahead], default=0), node.extent)):
                begun = tuple([each for each in ahead if number < each.iterations])
                yield from _of_nodes(begun, scopes, threads, around, depth, lanes)
            inside = (*around, (node.kind, node.extent))
            yield from _of_nodes(node.body, scopes, threads, inside, depth, lanes)


class Emitted:
    """What a function has: extents of its grid and stores of one thread; single named values are left out.

    Copies that run behind the threads are stores to shared memory, and stores of several elements those of a loop.
    """

    def __init__(self, function: Any) -> None:
        self.extents: dict[str, int] = {}
        self.stores = list[Store]()
        self.lanes = list[int]()
        """Elements that each store to shared memory takes."""
        self._together = 0
        for store in self._of(function.body, ()):
            self.stores.append(store)

    def _of(self, statement: Any, around: tuple[tuple[str, int], ...]) -> Iterator[Store]:
        if isinstance(statement, tirx.SeqStmt):
            for each in statement.seq:
                yield from self._of(each, around)
        elif isinstance(statement, tirx.For):
            kind = "unrolled" if statement.kind == tirx.ForKind.UNROLLED else "serial"
            yield from self._of(statement.body, (*around, (kind, int(statement.extent))))
        elif isinstance(statement, tirx.IfThenElse):
            yield from self._of(statement.then_case, around)
        elif isinstance(statement, tirx.AttrStmt):
            self.extents[statement.node.thread_tag] = int(statement.value)
            yield from self._of(statement.body, around)
        elif isinstance(statement, tirx.AllocBuffer) and statement.buffer.name == "together":
            self._together = 0
        elif isinstance(statement, tirx.Evaluate) and statement.value.op.name == "tirx.cuda.func_call":
            yield from self._of_call(statement.value.args[0].value, around)
        elif isinstance(statement, tirx.BufferStore) and not statement.buffer.name.startswith(("value", "together")):
            self._together = 0
            scope = statement.buffer.scope()
            self.lanes += [1] if scope.startswith("shared") else []
            yield {"local": "register", "shared.dyn": "shared"}.get(scope, scope), around

    def _of_call(self, name: str, around: tuple[tuple[str, int], ...]) -> Iterator[Store]:
        if name.startswith("copy_"):
            self._together = 0
            self.lanes.append(int(name.split("_")[1]))
            yield "shared", around
        elif name.startswith("store_"):
            before, self._together = self._together, self._together + int(name.removeprefix("store_"))
            found = "global", (*around, ("unrolled", self._together))
            if before:
                self.stores[-1] = found
            else:
                yield found


@pytest.mark.parametrize("policy", ["fixed-pattern", "ago"])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.sampled(3, long=["mobilevit-fixed-pattern", *(f"{name}-ago" for name in NETWORKS if name != "dcgan")])
def test_code_of_a_grid_is_its_program_loop_by_loop(network: str, policy: str) -> None:
    code = code_of(network, policy)

    assert len(code.kernels) > len(code.missing)
    for kernel in code.kernels:
        program, own = kernel.code.program, Emitted(kernel.code.function)
        grid = max(loop.extent for loop in loops_of(program.body) if loop.kind == "block")
        assert own.extents == {"blockIdx.x": grid, "threadIdx.x": kernel.code.threads}, kernel.name
        assert 0 <= kernel.code.threads - program.threads < 32, kernel.name
        assert own.stores == of_tree(program, kernel.code.threads, own.lanes), kernel.name
        assert kernel.code.shared_bytes == shared_memory(program).size_bytes
