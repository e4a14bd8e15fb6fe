"""Calibrating a GPU: probes on a driver that has none, and a machine's file from figures as a real part has them."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.shell.cli import main
from dsascape.hw_models import Gpu, hardware_of_text, load_hardware
from dsascape.tuner.bundle import BundleError, read_calibration, unpacked
from dsascape.tuner.bundle.contents import GPU_CALIBRATION
from dsascape.tuner.calibrate import GpuFacts, GpuFigures, gpu_yaml
from dsascape.tuner.on_device.gpu_bundling import probe_source
from tests.tuner.gpu.stand_in import NVCC, driver_in, environment
from tests.tuner.gpu.test_gpu_bundle import run_alone

pytestmark = pytest.mark.tvm

FACTS = GpuFacts(
    name="NVIDIA H100 80GB HBM3", architecture="sm_90", driver="13.0", sms=132, clock_hz=1.98e9,
    memory_bytes=80 * 2**30, memory_bytes_per_s=3.352e12, l2_bytes=50 * 2**20, shared_bytes=228 * 2**10,
    shared_per_block_bytes=227 * 2**10, shared_reserved_bytes=2**10, registers=65536, threads=2048,
    threads_per_block=1024, blocks=32, warp=32,
)  # fmt: skip
FIGURES = GpuFigures(
    clock_hz=1.755e9, fma_per_s=132 * 125 * 1.755e9, fma_latency_cycles=4.02, special_per_s=132 * 15.8 * 1.755e9,
    shared_bytes_per_cycle=126.0, shared_latency_cycles=29.0, l2_bytes_per_s=5.6e12, l2_of_one_bytes_per_s=1.21e11,
    l2_latency_s=1.4e-7, dram_bytes_per_s=3.05e12, dram_latency_s=4.1e-7, launch_s=1.6e-6,
)  # fmt: skip


def test_a_machine_is_described_by_what_was_measured() -> None:
    spec = hardware_of_text(gpu_yaml(FACTS, FIGURES, "mine", "2026-11-23"), "mine.yaml")

    assert isinstance(spec, Gpu)
    assert (spec.name, spec.sms.count, spec.lanes("fp32"), spec.sms.special_per_cycle) == ("mine", 132, 128, 16)
    assert spec.peak_macs_per_s("fp32") == pytest.approx(FIGURES.fma_per_s, rel=2e-3)
    assert spec.dram.sustained_bytes_per_s == pytest.approx(3.05e12, rel=2e-3)
    assert spec.graph_launch_ps == 1_600_000
    base = load_hardware("h100")
    assert isinstance(base, Gpu)
    assert spec.tensor("fp16") == base.tensor("fp16")


def test_a_bus_that_the_driver_does_not_tell_of_is_as_fast_as_measured() -> None:
    text = gpu_yaml(replace(FACTS, memory_bytes_per_s=0.0), FIGURES)
    spec = hardware_of_text(text, "gpu.yaml")

    assert isinstance(spec, Gpu)
    assert spec.dram.sustained_bytes_per_s == pytest.approx(3.05e12, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "architecture", "preset"),
    [
        ("NVIDIA H200", "sm_90", "h200"), ("NVIDIA A40", "sm_86", "a100"), ("NVIDIA B200", "sm_100", "h100"),
        ("Quadro M4000", "sm_52", "p100"),
    ],
)  # fmt: skip
def test_what_is_not_measured_is_that_of_the_nearest_preset(name: str, architecture: str, preset: str) -> None:
    text = gpu_yaml(replace(FACTS, name=name, architecture=architecture), FIGURES)

    assert f"base: {preset}\n" in text


class TestResults:
    def written(self, path: Path, **figures: float) -> Path:
        content = {
            "format": GPU_CALIBRATION, "measured_at": "2026-11-23T02:00:00+00:00", "facts": asdict(FACTS),
            "figures": asdict(replace(FIGURES, **figures)),
        }  # fmt: skip
        path.write_text(json.dumps(content, indent=1))
        return path

    def test_they_become_a_machine_that_simulates(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        machine = tmp_path / "mine.yaml"
        assert main(["calibrate", "--from", str(self.written(tmp_path / "r.json")), "--out", str(machine)]) == 0
        assert "132 SMs" in capsys.readouterr().out
        assert "# measured: a chain of loads" in machine.read_text()
        asked = ["bert-tiny", "--policy", "fixed-pattern", "--dtype", "fp32", "--json"]
        assert main(["simulate", *asked, "--hardware", str(machine)]) == 0
        assert json.loads(capsys.readouterr().out)["hardware"] == "mine"

    def test_those_of_no_gpu_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match="figures of zero"):
            read_calibration(self.written(tmp_path / "r.json", launch_s=0.0))

    def test_they_are_not_those_of_a_network(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        results = str(self.written(tmp_path / "r.json"))
        assert main(["bundle", "import", results, "--out", str(tmp_path / "study")]) == 2
        assert "dsascape calibrate --from" in capsys.readouterr().err


@pytest.mark.skipif(NVCC is None or shutil.which("g++") is None, reason="needs nvcc of the CUDA toolkit, and g++")
def test_probes_run_on_the_device_and_their_results_come_back(tmp_path: Path) -> None:
    assert main(["bundle", "build", "--calibrate", "--target", "cuda-sm_90", "--out", str(tmp_path / "p.tar.xz")]) == 0
    (tmp_path / "device").mkdir()
    unpacked(tmp_path / "p.tar.xz", tmp_path / "device")
    source = probe_source().replace("#define STEPS 4096", "#define STEPS 16")  # what runs them here is slow
    around = environment(driver_in(tmp_path), source, tmp_path)
    done = run_alone(tmp_path / "device", around, "--probe-seconds", "0.01", "--most-bytes", str(2**20))

    assert done.returncode == 0, done.stderr
    found = read_calibration(tmp_path / "device" / "results.json")
    assert isinstance(found.facts, GpuFacts)
    assert (found.facts.sms, found.facts.l2_bytes) == (4, 4 * 2**20)
    assert found.facts.memory_bytes_per_s == 2 * 1.2e9 * 1024 / 8


def test_a_machine_without_a_gpu_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--target", "cuda-sm_90", "--out", str(tmp_path / "gpu.yaml")]) == 2
    assert "no CUDA device is here" in capsys.readouterr().err
