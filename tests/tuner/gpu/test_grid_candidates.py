"""Candidates for a GPU are compiled, checked and timed one by one in a process that lives on.

No GPU is needed: a stand-in for the CUDA driver runs kernels that a C++ compiler has made of their CUDA source.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from tests.tuner.gpu.stand_in import NVCC, driver_in, nvcc_in

pytestmark = [
    pytest.mark.tvm, pytest.mark.skipif(NVCC is None, reason="nvcc of the CUDA toolkit is not on the path")
]  # fmt: skip

SCRIPT = """
import json
import sys
from dataclasses import replace
from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Gpu, load_hardware
from dsascape.scheduler.gpu.costs import GpuCosts
from dsascape.scheduler.gpu.schedule import kernel_by_kernel
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.scheduler.gpu.tuning import GpuTuning
from dsascape.scheduler.gpu.view import GpuView
from dsascape.scheduler.kernels.loops.steps import Bind, Unroll
from dsascape.tuner.measure.candidates import CandidateRunner
from dsascape.tuner.measure.tasks import KernelTask
from dsascape.workloads.analysis import Analysis
from tests.graphs import Net

if __name__ == "__main__":
    net = Net()
    graph = net.graph(net.relu(net.dense(net.input(1, 9, 20), 12)), dtype="fp32")
    view = GpuView(load_hardware("h100", Gpu), "fp32", GpuTuning(tensor_units=False, shared_reductions=False))
    (kernel,) = kernel_by_kernel(fixed_pattern_plan(graph), GpuCosts(view, Analysis(graph))).runs
    own = kernel.steps
    tiles = GpuTiles((1, 4, 5), (0, 1, 2), (1, 2, 1), 2, 7, 2, "lanes")
    task = KernelTask(graph, (0, 1), 1, "cuda-sm_90")
    with CandidateRunner() as runner:
        (prepared,) = runner.prepare([task])
        candidates = [own, steps_of(kernel.layer, tiles, 32), (Unroll("nothing"),), own][: int(sys.argv[1])]
        results = [(each.seconds, each.reason) for each in runner.results(prepared, candidates)]
    print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    driver = driver_in(tmp_path_factory.mktemp("driver"))
    compiler = nvcc_in(tmp_path_factory.mktemp("nvcc"))
    root = str(Path(__file__).parents[3])
    return {
        **os.environ, "PATH": f"{compiler}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(driver),
        "PYTHONPATH": root, "TMPDIR": str(compiler),
    }  # fmt: skip


def results(around: dict[str, str], folder: Path, count: int, **changed: str) -> Any:
    """Return what becomes of the first ``count`` candidates: two right ones, one without code, the first again."""
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(folder / "script.py"), str(count)]
    done = subprocess.run(command, env=around | changed, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_candidate_has_its_time_or_its_reason(around: dict[str, str], tmp_path: Path) -> None:
    first, second, third, again = results(around, tmp_path, 4)

    assert first[1] == second[1] == again[1] == ""
    assert min(first[0], second[0], again[0]) > 0
    assert third == [None, "no code: StepError: Unroll: the kernel has no stage 'nothing'"]


def test_a_device_that_fails_costs_each_candidate_its_own_process(around: dict[str, str], tmp_path: Path) -> None:
    found = results(around, tmp_path, 2, STAND_IN_FAILS="cuStreamSynchronize")

    assert [seconds for seconds, _ in found] == [None] * 2
    assert all("an illegal memory access was encountered" in reason for _, reason in found)


def test_the_command_tune_searches_on_the_gpu_of_this_machine(around: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("operators:\n  gmm: {op: MatMul, inputs: [[24, 20]], weights: [[20, 16]]}\n")
    command = [
        sys.executable, "-m", "dsascape", "tune", "one.yaml", "--runner", "local", "--target", "cuda-sm_90",
        "--hardware", "h100", "--trials", "3", "--out", "tuned", "--json",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, env=around, capture_output=True, text=True, check=False, timeout=300
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    found = json.loads(done.stdout)

    assert (found["runner"], found["target"], found["hardware"]) == ("local", "cuda-sm_90", "h100")
    assert (found["trials"], found["failed"]) == (3, 0)
    (task,) = found["tasks"]
    assert 0 < task["after_s"] <= task["before_s"]
    assert "Tensorise" not in {step["step"] for step in task["steps"]}, "code is for lanes"
