"""Code of programs that a search draws for a GPU computes what onnxruntime computes, in any order of threads."""

import random
from typing import get_args

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.loops.steps import ShareReduction
from dsascape.tuner.codegen.gpu.blocks import gpu_function
from dsascape.tuner.codegen.gpu.phases import Loops
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE
from dsascape.tuner.search.analysis import SearchMachine
from dsascape.tuner.search.kinds.table import space_of
from tests.scheduler.kernels.drawn import varied
from tests.tiers import examples
from tests.tuner.gpu.looped import difference, values_of
from tests.tuner.search.kernels import SMALL

pytestmark = pytest.mark.tvm

P100 = SearchMachine.of_gpu(GpuView(load_hardware("p100", Gpu), "fp32"))
GRIDS = {name: naive for name, naive in SMALL.items() if name not in ("zero rank", "padded")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", GRIDS)
def test_drawn_programs_and_their_mutants_compute_what_onnxruntime_computes(name: str) -> None:
    naive = GRIDS[name]()
    space, rng = space_of(naive, P100), random.Random(0)
    programs = [space.draw(rng) for _ in range(examples(8, few=5))]
    programs += [each for one in programs if (each := space.mutated(one.steps, rng)) is not None]
    network = varied(naive.layer.graph)
    values = values_of(network)
    orders = get_args(Loops)
    wrong = []
    for number, program in enumerate(programs):
        order = orders[number % len(orders)]
        if any(isinstance(step, ShareReduction) and step.by == "block" for step in program.steps):
            continue  # code does not do that
        code = gpu_function(naive.layer, network, program.loops, P100.warp, "kernel", as_loops=order)
        found = difference(code, naive.layer.outputs, naive.layer.graph, values)
        if found > KERNEL_TOLERANCE:
            wrong.append((found, order, program.steps))
    assert wrong == []
