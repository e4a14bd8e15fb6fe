"""Probes give equal descriptions of a processor on every bench: local, behind RPC, in a bundle."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

import tvm

from dsascape.experiments.shell.cli import main
from dsascape.hw_models import Cpu, load_hardware
from dsascape.tuner.bundle import read_calibration
from dsascape.tuner.calibrate import Figures, HostFacts, ProbeShape, calibrate, host_spec, local_facts
from dsascape.tuner.measure import MeasureError
from dsascape.tuner.on_device.places import LocalPlace
from dsascape.tuner.on_device.probe_kernels import probe_functions
from dsascape.tuner.on_device.remote_facts import file_reader
from tests.tuner.servers import Server

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]

MOST_BYTES, PROBE_S = 2**20, 0.002
TARGET = tvm.target.Target("llvm")


def describes_a_machine(facts: HostFacts, figures: Figures) -> bool:
    memories = [f"l{cache.level}" for cache in facts.caches] + ["dram"]
    assert [level.name for level in figures.levels] == memories
    return host_spec(facts, figures).peak_macs_per_s("fp32") > 0


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.kill()


def test_this_processor() -> None:
    facts, figures = calibrate(most_bytes=MOST_BYTES, probe_s=PROBE_S)

    assert facts == local_facts()
    assert describes_a_machine(facts, figures)


def test_a_processor_behind_rpc_tells_what_it_would_tell_here(server: Server) -> None:
    facts, figures = calibrate(server.device, most_bytes=MOST_BYTES, probe_s=PROBE_S)

    # the server was started for a single thread; its clock is that of another moment
    assert facts == replace(local_facts().on_threads(1), clock_hz=facts.clock_hz)
    assert describes_a_machine(facts, figures)


def test_no_server_is_said() -> None:
    with pytest.raises(MeasureError, match=r"calibrating failed: .*127\.0\.0\.1:1 is not reached"):
        calibrate("rpc://127.0.0.1:1")


@pytest.mark.parametrize(("lines", "words"), [(2, 16), (3, 8), (64, 16), (1000, 32)])
def test_a_shuffled_chain_comes_by_every_line_once(lines: int, words: int) -> None:
    functions = probe_functions(ProbeShape(4, 16))
    module = tvm.tirx.build(tvm.IRModule({"shuffle": functions["shuffle"]}), target=TARGET)
    chain = tvm.runtime.tensor(np.zeros(lines * words, np.int32))
    place = tvm.runtime.tensor(np.ones(1, np.int32))
    module["shuffle"](chain, tvm.runtime.tensor(np.zeros(words, np.float32)), place)
    found, seen = chain.numpy(), [int(place.numpy()[0])]
    while found[seen[-1]]:
        seen.append(int(found[seen[-1]]))

    assert sorted(seen) == [words * line for line in range(lines)]


def test_a_kernel_reads_files_of_the_system(tmp_path: Path) -> None:
    long = "".join(f"{number}\n" for number in range(20_000))
    (tmp_path / "long").write_text(long)
    told = file_reader(LocalPlace(), TARGET)

    assert told(str(tmp_path / "long")) == long
    assert told("/proc/self/status") != ""
    assert told(str(tmp_path / "none")) == ""
    assert told(str(tmp_path)) == ""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results file of a bundle of probes, run as on a device: with Python alone."""
    here = tmp_path_factory.mktemp("probes")
    assert main(["bundle", "build", "--calibrate", "--out", str(here / "probes.tar.xz")]) == 0
    with tarfile.open(here / "probes.tar.xz") as archive:
        archive.extractall(here, filter="data")
    quick = ["--probe-seconds", str(PROBE_S), "--most-bytes", str(MOST_BYTES), "--threads", "1"]
    command = [sys.executable, "-I", "-S", str(here / "run.py"), *quick, "--out", str(here / "results.json")]
    subprocess.run(command, env={"PATH": os.defpath}, check=True)
    return here / "results.json"


def test_a_bundle_of_probes_describes_the_machine_that_it_runs_on(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["calibrate", "--from", str(results), "--out", str(tmp_path / "device.yaml"), "--json"]

    assert main(asked) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["cores"], data["assumed"]) == (1, [])
    spec = load_hardware(tmp_path / "device.yaml", Cpu)
    assert (spec.name, spec.core_count) == ("device", 1)
    assert spec.line_bytes == local_facts().line_bytes
    assert f'with small kernels, {data["day"]}' in (tmp_path / "device.yaml").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found.update(format="other"), "has the format 'other'"),
        (lambda found: found["figures"].update(fma_s=0.0), "multiply-accumulate time of zero"),
        (lambda found: found["figures"].update(call_s=-1e-6), "call_s is -1e-06; needs a number"),
        (lambda found: found["figures"]["levels"].pop(), "figures of memories other"),
        (lambda found: found["figures"]["far"][0].update(name="x"), "figures of memories other"),
        (lambda found: found["facts"]["caches"][0].update(source="told me"), "cache of unknown source"),
        (lambda found: found["facts"].update(cores=0), "cores is 0; needs a number"),
        (lambda found: found.pop("facts"), "not a results file of a bundle: facts"),
    ],
)
def test_other_files_describe_no_machine(
    change: Callable[[dict[str, Any]], None],
    message: str,
    results: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = json.loads(results.read_text())
    change(found)
    (tmp_path / "wrong.json").write_text(json.dumps(found))

    assert main(["calibrate", "--from", str(tmp_path / "wrong.json"), "--out", str(tmp_path / "device.yaml")]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "device.yaml").exists()


def test_what_is_assumed_is_said_and_stands_in_the_file(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(results.read_text())
    found["figures"]["warnings"] = ["1.40 pipes; 1 assumed\nkind: gpu"]
    (tmp_path / "results.json").write_text(json.dumps(found))

    assert main(["calibrate", "--from", str(tmp_path / "results.json"), "--out", str(tmp_path / "device.yaml")]) == 0
    assert "dsascape: warning: 1.40 pipes; 1 assumed" in capsys.readouterr().err
    assert "# Warning: 1.40 pipes; 1 assumedkind: gpu.\n" in (tmp_path / "device.yaml").read_text()
    assert load_hardware(tmp_path / "device.yaml", Cpu).name == "device"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bundle", "build", "bert-tiny", "--calibrate"], "MODEL does not go with --calibrate"),
        (["bundle", "build", "--calibrate", "--flush-caches"], "--flush-caches does not go with --calibrate"),
        (["bundle", "build", "bert-tiny"], "--policy is missing"),
        (["bundle", "build", "--policy", "unfused"], "MODEL is missing"),
        (["calibrate", "--device", "there"], "device has 'there'"),
        (["calibrate", "--target", "cuda"], "target has 'cuda'"),
        (["calibrate", "--device", "rpc://127.0.0.1:1", "--from", "results.json"], "--from uses earlier results"),
    ],
)
def test_mistakes_end_with_code_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = "out.tar.xz" if arguments[0] == "bundle" else "out.yaml"
    assert main([*arguments, "--out", str(tmp_path / out)]) == 2
    assert message in capsys.readouterr().err


def test_results_of_probes_are_not_those_of_a_network(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_calibration(results).facts
    assert isinstance(found, HostFacts)
    assert found.cores == 1
    assert main(["bundle", "import", str(results), "--out", str(tmp_path / "store")]) == 2
    assert "dsascape calibrate --from" in capsys.readouterr().err
