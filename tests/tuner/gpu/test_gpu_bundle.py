"""Bundles for a GPU, run on a driver that has none: real launches of real CUDA source, on this machine's processor."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.shell.cli import main
from dsascape.fusion import fixed_pattern_plan
from dsascape.scheduler.gpu.schedule import GpuSchedule
from dsascape.scheduler.gpu.steps import steps_of
from dsascape.scheduler.gpu.tiles import GpuTiles
from dsascape.tuner.bundle import Manifest, build_gpu_bundle, read_results, unpacked
from dsascape.tuner.on_device.cross_gpu import gpu_code, gpu_source
from dsascape.workloads import Graph
from dsascape.workloads.executable import executable
from tests.graphs import Net
from tests.tuner.gpu.looped import scheduled
from tests.tuner.gpu.stand_in import NVCC, driver_in, environment
from tests.tuner.runs import written_onnx
from tests.tuner.servers import Server

pytestmark = [
    pytest.mark.usefixtures("forked_children"),
    pytest.mark.tvm,
    pytest.mark.skipif(NVCC is None or shutil.which("g++") is None, reason="needs nvcc of the CUDA toolkit, and g++"),
]

TARGET = "cuda-sm_90"
WARP = 32
QUICK = ["--kernel-seconds", "0.01", "--network-seconds", "0.01"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver_in(tmp_path_factory.mktemp("driver"))


def network() -> Graph:
    """Return a network whose kernels stage operands, share sums, and read what shares a buffer with other tensors."""
    net = Net()
    x = net.softmax(net.relu(net.conv(net.input(1, 4, 6, 6), 8)))
    return net.graph(net.layer_norm(net.bias(net.dense(net.reshape(x, 8, 36), 40))), dtype="fp32")


def product_in_large_tiles() -> GpuSchedule:
    """Return a product with four stages of 2 x 64 x 32 numbers in shared memory, 64 KiB: more than code may declare."""
    net = Net()
    plan = fixed_pattern_plan(net.graph(net.matmul(net.input(64, 128), net.weight(128, 64)), dtype="fp32"))
    schedule = scheduled(plan)
    tiles = GpuTiles((64, 64), (0, 1), (4, 4), 1, 32, 4, "lanes")
    (kernel,) = schedule.runs
    return replace(schedule, runs=(replace(kernel, steps=steps_of(kernel.layer, tiles, WARP)),))


def source_of(schedule: GpuSchedule) -> str:
    return gpu_source(gpu_code(schedule, executable(schedule.graph), WARP, TARGET), TARGET).text


def built(schedule: GpuSchedule, folder: Path) -> Manifest:
    """Build a bundle and unpack it into ``folder``."""
    path = folder / "bundle.tar.xz"
    build_gpu_bundle(schedule, WARP, TARGET, ("small", "fixed-pattern"), path)
    return unpacked(path, folder)


def run_alone(folder: Path, around: Mapping[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run an unpacked bundle as a device does: no package but Python's own."""
    command = [sys.executable, "-I", "-S", str(folder / "run.py"), *QUICK, "--out", str(folder / "results.json")]
    return subprocess.run([*command, *options], capture_output=True, text=True, env=dict(around), check=False)


def test_every_launch_computes_what_onnxruntime_computes(driver: Path, tmp_path: Path) -> None:
    schedule = scheduled(fixed_pattern_plan(network()))
    manifest = built(schedule, tmp_path)
    done = run_alone(tmp_path, environment(driver, source_of(schedule), tmp_path))

    assert done.returncode == 0, done.stderr
    found = read_results(tmp_path / "results.json").measurement
    assert found.correct is True
    assert [kernel.name for kernel in found.kernels] == [kernel.name for kernel in manifest.kernels]
    assert len(manifest.buffers) < len(schedule.runs) + 1  # results of kernels share them
    assert found.network.timing is not None
    assert (found.device.processor, found.device.architecture, found.device.cores) == ("stand-in", "sm_90", 4)


def test_a_block_asks_for_the_shared_memory_that_code_may_not_declare(driver: Path, tmp_path: Path) -> None:
    schedule = product_in_large_tiles()
    manifest = built(schedule, tmp_path)
    grid = manifest.kernels[0].grid
    assert grid is not None
    assert (grid.blocks, grid.threads, grid.shared_bytes) == (1, 256, 4 * 2 * 64 * 32 * 4)

    assert run_alone(tmp_path, environment(driver, source_of(schedule), tmp_path)).returncode == 0
    assert read_results(tmp_path / "results.json").measurement.correct is True


def test_a_kernel_after_which_the_driver_refuses_all_is_a_record_and_others_go_on(
    driver: Path, tmp_path: Path
) -> None:
    schedule = scheduled(fixed_pattern_plan(network()))
    built(schedule, tmp_path)
    done = run_alone(tmp_path, environment(driver, source_of(schedule), tmp_path, fails="cuStreamSynchronize"))

    assert done.returncode == 1
    found = read_results(tmp_path / "results.json").measurement
    text = "CudaError: cuStreamSynchronize fails: an illegal memory access was encountered"
    assert {kernel.error for kernel in found.kernels} == {text}
    assert str(found.network.error).startswith("does not run without: kernel0_")


def test_mistakes_end_with_code_2_and_one_message(tmp_path: Path) -> None:
    built(scheduled(fixed_pattern_plan(network())), tmp_path)
    done = run_alone(tmp_path, {"PATH": os.defpath})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("run.py: no CUDA driver is here: ")

    done = run_alone(tmp_path, {"PATH": os.defpath}, "--threads", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "threads has 1; on a GPU the bundle's grids set" in done.stderr


def asked_of(folder: Path) -> list[str]:
    """Return the arguments of commands for the network in ``folder``."""
    return [str(folder / "small.onnx"), "--policy", "fixed-pattern", "--target", TARGET, "--hardware", "h100"]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The CUDA code that the command writes of the network."""
    folder = tmp_path_factory.mktemp("code")
    written_onnx(network(), folder / "small.onnx")
    assert main(["measure", *asked_of(folder), "--out", str(folder / "code")]) == 0
    (found,) = (folder / "code").glob("*.cu")
    return found.read_text()


class TestCommands:
    def test_a_bundle_comes_back_as_a_measured_point(
        self, driver: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        written_onnx(network(), tmp_path / "small.onnx")
        asked = [str(tmp_path / "small.onnx"), "--policy", "fixed-pattern", "--target", TARGET, "--hardware", "h100"]
        assert main(["bundle", "build", *asked, "--out", str(tmp_path / "b.tar.xz"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["architecture"] == "sm_90"
        assert main(["measure", *asked, "--out", str(tmp_path / "code"), "--json"]) == 0
        code = Path(json.loads(capsys.readouterr().out)["object"]).with_suffix(".cu").read_text()
        (tmp_path / "device").mkdir()
        unpacked(tmp_path / "b.tar.xz", tmp_path / "device")
        assert run_alone(tmp_path / "device", environment(driver, code, tmp_path)).returncode == 0

        results = str(tmp_path / "device" / "results.json")
        assert main(["bundle", "import", results, "--out", str(tmp_path / "study"), "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert (data["correct"], data["hardware"], data["stored"]) == (True, "h100", "added")
        assert data["predicted_s"] > sum(kernel["predicted_s"] for kernel in data["kernels"]) / 2
        assert set(data["kernels"][0]["predicted_parts_s"]) >= {"launch", "sm", "l2"}

    def test_a_gpu_of_this_machine_is_measured_at_once(self, driver: Path, code: str, tmp_path: Path) -> None:
        written_onnx(network(), tmp_path / "small.onnx")
        asked = asked_of(tmp_path)
        start = [sys.executable, "-m", "dsascape"]
        command = [*start, "measure", *asked, "--out", str(tmp_path / "m"), "--json"]
        around = {**os.environ, **environment(driver, code, tmp_path), "PATH": os.environ["PATH"]}
        done = subprocess.run(command, capture_output=True, text=True, env=around, check=False)

        assert done.returncode == 0, done.stderr
        data = json.loads(done.stdout)
        assert (data["correct"], data["device"]["processor"], data["stored"]) == (True, "stand-in", "added")

    def test_a_gpu_behind_rpc_runs_the_bundle_there(
        self, driver: Path, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        written_onnx(network(), tmp_path / "small.onnx")
        asked = asked_of(tmp_path)
        around = environment(driver, code, tmp_path)
        server = Server(around={**around, "PATH": os.environ["PATH"]})
        capsys.readouterr()
        try:
            assert main(["measure", *asked, "--device", server.device, "--json"]) == 0
        finally:
            server.kill()
        data = json.loads(capsys.readouterr().out)
        assert (data["correct"], data["device"]["name"]) == (True, server.device)
        assert data["device"]["processor"] == "stand-in"

        assert main(["measure", *asked, "--device", server.device, "--json"]) == 2
        assert server.device in json.loads(capsys.readouterr().out)["error"]

    def test_a_server_without_a_gpu_says_so(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        server = Server()
        asked = ["calibrate", "--target", TARGET, "--device", server.device, "--out", str(tmp_path / "gpu.yaml")]
        try:
            assert main(asked) == 2
        finally:
            server.kill()
        assert "no CUDA driver is here" in capsys.readouterr().err

    def test_opencl_code_is_not_bundled(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        asked = ["bundle", "build", "bert-tiny", "--policy", "fixed-pattern", "--target", "opencl"]
        assert main([*asked, "--out", str(tmp_path / "b.tar.xz")]) == 2
        assert "bundles for GPUs hold CUDA code" in capsys.readouterr().err
