"""Small kernels for GPUs whose blocks and threads run as loops on this machine, compared with onnxruntime."""

from collections.abc import Callable

import numpy as np
import tvm
import tvm_ffi

from dsascape.fusion import plan_from_groups
from dsascape.fusion.plan import FusionPlan, Group
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler import make_policy
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import GpuSchedule, kernel_by_kernel
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.tuner.codegen.gpu.blocks import GpuFunction
from dsascape.tuner.codegen.gpu.kernels import generate_gpu
from dsascape.tuner.codegen.gpu.phases import Loops
from dsascape.tuner.codegen.kernels import network_array, stored_array
from dsascape.tuner.measure.arrays import Arena
from dsascape.tuner.on_device.cross_gpu import PIPELINE
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE, deviation, largest, reference
from dsascape.workloads import Graph
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.executable import Executable, drawn_inputs
from dsascape.workloads.operators.registry import Array
from tests.graphs import Net
from tests.scheduler.kernels.drawn import varied


def view(hardware: str) -> GpuView:
    return GpuView(load_hardware(hardware, Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))


VIEW = view("h100")


def scheduled(plan: FusionPlan) -> GpuSchedule:
    return kernel_by_kernel(plan, GpuCosts(VIEW, Analysis(plan.graph)))


def schedule_on(hardware: str, policy: str, graph: Graph) -> GpuSchedule:
    costs = GpuCosts(view(hardware), Analysis(graph))
    return kernel_by_kernel(make_policy(policy).plan(graph, costs), costs)


def whole(graph: Graph) -> FusionPlan:
    return plan_from_groups(graph, [Group(tuple(range(len(graph.ops))))])


def values_of(network: Executable) -> dict[str, Array]:
    inputs = drawn_inputs(network.graph)
    return {**network.values, **inputs, **reference(network, inputs, list(network.graph.producer))}


def difference(code: GpuFunction, outputs: tuple[str, ...], graph: Graph, values: dict[str, Array]) -> float:
    """Return by how much code whose blocks and threads are loops differs from onnxruntime."""
    built = tvm.tirx.build(
        tvm.IRModule({"main": code.function.with_attr("global_symbol", "main")}),
        target=tvm.target.Target({"kind": "llvm"}), pipeline=PIPELINE,
    )  # fmt: skip
    arena = Arena(2**16)
    given_ = [arena.copy(stored_array(graph, name, values[name])) for name in code.inputs]
    results = [arena.copy(np.full_like(stored_array(graph, name, values[name]), 7)) for name in outputs]
    built["main"](*[tvm_ffi.from_dlpack(array) for array in (*given_, *results)])
    made_of = largest(values[name] for name in code.inputs)
    return max(
        deviation(network_array(graph, name, found), values[name], made_of)
        for name, found in zip(outputs, results, strict=True)
    )


def check(plan: FusionPlan, order: Loops = "first") -> None:
    network = varied(plan.graph)
    code = generate_gpu(scheduled(plan), network, VIEW.spec.sms.warp, as_loops=order)
    assert [(lack.name, lack.reason) for lack in code.missing] == []
    values = values_of(network)
    wrong = {
        kernel.name: found
        for kernel in code.kernels
        if (found := difference(kernel.code, kernel.outputs, plan.graph, values)) > KERNEL_TOLERANCE
    }
    assert wrong == {}


def block(net: Net) -> str:
    x = net.input(1, 24, 17, 15)
    return net.relu(net.add(net.conv(x, 24), x))


def attention(net: Net) -> str:
    query, key, value = (net.input(2, 24, 16) for _ in range(3))
    return net.matmul(net.softmax(net.matmul(query, net.transpose(key, 0, 2, 1))), value)


def heads(net: Net) -> str:
    return net.transpose(net.reshape(net.dense(net.input(1, 20, 32), 48), 1, 20, 4, 12), 0, 2, 1, 3)


def twice(net: Net, x: str) -> str:
    for _ in range(3):
        x = net.binary("Mul", x, net.unary("Sigmoid", x))
    return x


FUSED: dict[str, Callable[[Net], str]] = {
    "convolution and activation, odd sizes": lambda net: net.relu(net.conv(net.input(1, 13, 29, 31), 37)),
    "convolution, residual, activation": block,
    "an activation where an operand is staged": lambda net: net.conv(net.relu(net.input(1, 24, 17, 15)), 24),
    "pointwise convolution with stride": lambda net: net.conv(net.input(1, 32, 29, 29), 64, 1, 2),
    "transposed convolution": lambda net: net.op(
        "ConvTranspose", [net.input(1, 24, 11, 9), net.weight(24, 20, 3, 3)], (1, 20, 22, 18),
        strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1],
    ),
    "depthwise convolution": lambda net: net.relu(net.depthwise(net.input(1, 33, 29, 27))),
    "product": lambda net: net.relu(net.dense(net.input(1, 65, 128), 130)),
    "product whose sums threads share": lambda net: net.dense(net.input(1, 24, 1000), 40),
    "product with heads apart": heads,
    "values that are read twice, behind a product": lambda net: twice(net, net.dense(net.input(1, 24, 40), 48)),
    "values that are read twice, where padding is": lambda net: net.conv(twice(net, net.input(1, 5, 17, 15)), 24),
    "values that are read twice, in a softmax": lambda net: twice(net, net.softmax(twice(net, net.input(2, 4, 83)))),
    "softmax of long rows": lambda net: net.softmax(net.input(2, 4, 383)),
    "softmax of columns": lambda net: net.softmax(net.input(2, 7, 12), 1),
    "layer normalisation": lambda net: net.layer_norm(net.input(2, 5, 257)),
    "largest of a window": lambda net: net.pool(net.input(1, 6, 19, 17), 3, 2),
    "mean of an image": lambda net: net.global_pool(net.input(1, 6, 9, 7)),
    "channels joined": lambda net: net.concat(*(net.input(1, size, 9, 7) for size in (3, 5))),
    "two convolutions": lambda net: net.relu(net.conv(net.relu(net.conv(net.input(1, 8, 12, 12), 8)), 9)),
    "attention": attention,
}


def mask(net: Net) -> Graph:
    small = net.unary("Tanh", net.input(1, 1, 1, 13))
    return net.graph(net.add(net.input(1, 3, 10, 13), small), small, dtype="fp32")


def gate(net: Net) -> Graph:
    """Return an activation and the mean of its images, behind it, which is the sink."""
    x = net.unary("Sigmoid", net.input(2, 6, 9, 7))
    return net.graph(net.global_pool(x), x, dtype="fp32")


def statistics(net: Net) -> Graph:
    """Return images less their mean, and the mean, which each block has for its channels only."""
    x = net.input(2, 6, 9, 7)
    mean = net.global_pool(x)
    return net.graph(net.binary("Sub", x, mean), mean, dtype="fp32")


def turned(net: Net) -> Graph:
    x = net.relu(net.concat(net.input(1, 5, 12), net.input(1, 6, 12)))
    return net.graph(net.transpose(x, 0, 2, 1), x, dtype="fp32")


SEVERAL_SHAPES = {
    "smaller along some dimensions": (mask, GpuTiles((1, 2, 3, 5), (0, 1, 2, 3), (1, 1, 3, 2), 1, None, 1, "lanes")),
    "larger than the sink": (gate, GpuTiles((1, 4, 1, 1), (0, 1, 2, 3), (1, 1, 1, 1), 4, None, 1, "lanes")),
    "a reduction for all tiles of an image": (
        statistics, GpuTiles((1, 4, 5, 7), (0, 1, 2, 3), (1, 1, 1, 2), 1, None, 1, "lanes"),
    ),
    "the same elements in another order": (turned, GpuTiles((1, 5, 4), (0, 1, 2), (1, 2, 1), 1, None, 1, "lanes")),
}  # fmt: skip
