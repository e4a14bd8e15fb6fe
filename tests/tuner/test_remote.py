"""Kernels on a device behind TVM's RPC: a real server on this machine, which may disappear at any time."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.shell.cli import main
from dsascape.fusion import fixed_pattern_plan
from dsascape.tuner.measure import (
    AddressError,
    Budget,
    Job,
    KernelMeasurement,
    MeasureError,
    measure_plan,
    remote_address,
)
from dsascape.tuner.measure.device import local_device
from tests.graphs import Net
from tests.scheduler.kernels.drawn import LANES
from tests.tuner.runs import loops_of, written_onnx
from tests.tuner.servers import Server, free_port

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]

QUICK = Budget(kernel_s=0.05, network_s=0.1, limit_s=20)


def job(device: str) -> Job:
    net = Net()
    x = net.relu(net.conv(net.input(1, 4, 8, 8), 8))
    plan = fixed_pattern_plan(net.graph(net.unary("Tanh", net.conv(x, 4, 1)), dtype="fp32"))
    return Job(plan, loops_of(plan), LANES, 1, budget=QUICK, device=device)


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.kill()


def test_kernels_are_right_and_have_the_device_s_own_times(server: Server) -> None:
    found = measure_plan(job(server.device), "fixed-pattern")

    assert found.correct is True
    assert found.device.name == server.device
    told, here = found.device, local_device()
    assert (told.processor, told.caches, told.memory_bytes) == (here.processor, here.caches, here.memory_bytes)
    assert all(kernel.timing is not None and 0 < kernel.timing.seconds < 0.1 for kernel in found.kernels)
    assert found.network.timing is not None


def test_kernels_are_flushed_there_too(server: Server) -> None:
    found = measure_plan(replace(job(server.device), flush_caches=True), "fixed-pattern")

    assert (found.correct, found.flushed) == (True, True)
    assert all(kernel.timing is not None for kernel in (*found.kernels, found.network))


@pytest.fixture
def tracker() -> Iterator[Server]:
    found = Server("tracker")
    behind = Server("server", "--tracker", f"127.0.0.1:{found.port}", "--key", "board")
    yield found
    behind.kill()
    found.kill()


def test_a_tracker_finds_the_device_by_its_key(tracker: Server) -> None:
    assert measure_plan(job(f"{tracker.device}/board"), "fixed-pattern").correct is True


def test_what_was_measured_stays_when_the_server_goes(server: Server) -> None:
    heard: list[KernelMeasurement] = []

    def stop_after_the_first(kernel: KernelMeasurement) -> None:
        heard.append(kernel)
        server.kill()

    found = measure_plan(job(server.device), "fixed-pattern", on_kernel=stop_after_the_first)

    first, second = found.kernels
    assert (first.correct, first.error) == (True, None)
    assert first.timing is not None
    assert second.timing is None
    assert second.error
    assert found.network.error
    assert found.correct is False


def test_no_server_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = f"rpc://127.0.0.1:{free_port()}"

    with pytest.raises(MeasureError, match="failed"):
        measure_plan(job(device), "fixed-pattern")


def test_the_command_takes_an_address(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written_onnx(job(server.device).plan.graph, tmp_path / "net.onnx")
    asked = ["measure", str(tmp_path / "net.onnx"), "--policy", "fixed-pattern", "--threads", "1", "--json"]

    assert main([*asked, "--device", server.device]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["correct"] is True
    assert found["device"]["name"] == server.device


@pytest.mark.parametrize(
    ("device", "host", "port", "key"),
    [
        ("rpc://10.0.0.7:9190/pixel4", "10.0.0.7", 9190, "pixel4"),
        ("rpc://board.local:9090", "board.local", 9090, ""),
        ("rpc://[fe80::1]:9090/a", "fe80::1", 9090, "a"),
    ],
)
def test_addresses(device: str, host: str, port: int, key: str) -> None:
    found = remote_address(device)

    assert found is not None
    assert (found.host, found.port, found.key) == (host, port, key)


@pytest.mark.parametrize(
    "device", ["", "rpc://", "rpc://host", "rpc://host:0", "rpc://host:99999", "http://host:1", "rpc://a b:1", "LOCAL"]
)
def test_other_texts_are_no_addresses(device: str) -> None:
    with pytest.raises(AddressError, match="needs local, rpc://HOST:PORT"):
        remote_address(device)


def test_this_machine_has_no_address() -> None:
    assert remote_address("local") is None
