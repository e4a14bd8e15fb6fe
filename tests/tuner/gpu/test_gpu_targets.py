"""Targets for GPUs: code is compiled and written here; where it would have to run, one message says that it cannot."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.shell.cli import main
from dsascape.tuner.measure import TargetError
from dsascape.tuner.measure.targets import cuda_architecture, gpu_target_description, is_gpu_target, target_description

pytestmark = pytest.mark.tvm

NETWORK = ["bert-tiny", "--policy", "fixed-pattern"]
FATBIN = b"\x50\xed\x55\xba"
"""What a file of nvcc's machine code begins with."""


def test_an_architecture_is_behind_a_dash() -> None:
    assert [cuda_architecture(name) for name in ("cuda", "cuda-sm_90", "cuda-sm_90a", "opencl")] == [
        "sm_80", "sm_90", "sm_90a", None,
    ]  # fmt: skip
    assert gpu_target_description("cuda-sm_70") == {"kind": "cuda", "arch": "sm_70"}
    assert [is_gpu_target(name) for name in ("llvm", "aarch64", "cuda-sm_90", "opencl")] == [False, False, True, True]


def test_an_architecture_that_is_none_is_refused() -> None:
    with pytest.raises(TargetError, match="target has 'cuda-90'; needs cuda with an architecture such as cuda-sm_90"):
        cuda_architecture("cuda-90")


def test_code_with_the_loops_of_a_cpu_is_not_made_for_a_gpu() -> None:
    with pytest.raises(TargetError, match="target has 'cuda-sm_90', which is for GPUs"):
        target_description("cuda-sm_90", 1, "generic")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc of the CUDA toolkit is not on the path")
def test_cuda_code_is_written_as_machine_code_of_the_architecture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["measure", *NETWORK, "--target", "cuda-sm_90", "--hardware", "h100", "--out", str(tmp_path), "--json"]
    assert main(asked) == 0
    data = json.loads(capsys.readouterr().out)
    written = Path(data["object"])

    assert written.read_bytes()[:5] == b"\x7fELF\x02"
    assert written.with_suffix(".fatbin").read_bytes()[:4] == FATBIN
    assert written.with_suffix(".cu").read_text().count("__launch_bounds__") == 2 * len(data["kernels"])
    assert data["measured_s"] is data["correct"] is None
    assert data["hardware"] == "h100"
    assert data["predicted_s"] > 0


def test_opencl_code_is_written_as_source_and_no_device_is_named_that_has_not_run_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", *NETWORK, "--target", "opencl", "--out", str(tmp_path)]) == 0
    headline, time, *_ = capsys.readouterr().out.splitlines()

    assert headline.endswith(" for opencl")
    assert time == "  no time, as nothing has run"
    (written,) = tmp_path.glob("*.cl")
    assert "__kernel" in written.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "cuda-sm_90"], "no CUDA device is here to measure on; dsascape measure --out DIR writes it"),
        (["--target", "opencl"], "no OpenCL device is here"),
        (["--target", "opencl", "--device", "rpc://127.0.0.1:9"], "bundles for GPUs hold CUDA code"),
        (["--target", "cuda-sm_90", "--hardware", "kirin990"], "kirin990: is not a GPU"),
        (["--target", "cuda-sm_90", "--threads", "2"], "threads has 2"),
        (["--target", "cuda-sm_90", "--out", "out/refused", "--dtype", "fp16"], "dtype has 'fp16'"),
    ],
)
def test_mistakes_end_with_code_2_and_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", *NETWORK, *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
