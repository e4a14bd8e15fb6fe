"""Kernels are measured in a process of their own: a crash, a hang or a wrong result is recorded with its reason."""

import json
import math
import os
import signal
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.real.on_processor import with_places_of_cores
from dsascape.experiments.shell.cli import main
from dsascape.fusion import fixed_pattern_plan
from dsascape.hw_models import Cpu, load_hardware, with_values
from dsascape.tuner.measure import (
    Budget,
    Device,
    KernelMeasurement,
    MeasureError,
    Measurement,
    TargetError,
    Timing,
    interference,
    measure_plan,
    usable_cores,
)
from dsascape.tuner.measure.interference import busy, busy_elsewhere, disturbances, watched
from dsascape.tuner.measure.job import Job
from dsascape.tuner.measure.timing import interval_width, measured_in_parts
from dsascape.tuner.measure.worker import NETWORK
from dsascape.tuner.on_device.flushing import after_first
from dsascape.tuner.on_device.reference import deviation, reference
from dsascape.workloads.executable import executable
from tests.graphs import Net
from tests.scheduler.kernels.drawn import LANES
from tests.tuner.runs import generated, loops_of, written_onnx

pytestmark = pytest.mark.tvm
forked = pytest.mark.usefixtures("forked_children")
"""For tests that ask for no more than another process: those without it start them as users' programs do."""

QUICK = Budget(kernel_s=0.05, network_s=0.1, limit_s=20)
KEYS = {
    "model", "policy", "target", "device", "threads", "correct", "measured_s", "predicted_s", "kernels", "mape",
    "spearman",
}  # fmt: skip
KERNEL_KEYS = {"name", "operators", "measured_s", "spread", "predicted_s", "correct", "error"}


def job(threads: int = 1, target: str = "llvm", budget: Budget = QUICK) -> Job:
    net = Net()
    x = net.relu(net.conv(net.input(1, 4, 8, 8), 8))
    plan = fixed_pattern_plan(net.graph(net.unary("Tanh", net.conv(x, 4, 1)), dtype="fp32"))
    return Job(plan, loops_of(plan), LANES, threads, target, budget)


EM_AARCH64 = 183
"""In the header of an ELF file: what its code is for."""
TIMING = Timing(1e-3, 0.01, 0.01, 11, 0)
NAMES = ("kernel0_conv_relu", "kernel1_conv_tanh")


def send(connection: Connection, name: str) -> None:
    connection.send(name)
    connection.send(KernelMeasurement(name, ("a",), TIMING, True, 0.0))


def crashing(connection: Connection, job: Job) -> None:
    """Send the first kernel, crash on the second; the process after it sends the network."""
    connection.send(None)
    if NAMES[0] not in job.done:
        send(connection, NAMES[0])
        connection.send(NAMES[1])
        os.kill(os.getpid(), signal.SIGSEGV)
    connection.send(NETWORK)
    connection.send(KernelMeasurement(NETWORK, (), error=f"does not run without: {', '.join(job.failed)}"))


def hanging(connection: Connection, job: Job) -> None:
    connection.send(None)
    if NAMES[0] not in job.done:
        connection.send(NAMES[0])
        time.sleep(60)
    send(connection, NAMES[1])
    connection.send(NETWORK)
    connection.send(KernelMeasurement(NETWORK, (), error=f"does not run without: {', '.join(job.failed)}"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An ONNX file of the network that is measured."""
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    written_onnx(job().plan.graph, path)
    return str(path)


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return measure_plan(job(), "fixed-pattern")


@forked
def test_kernels_that_are_flushed_are_right_and_each_timed_run_is_one(measured: Measurement) -> None:
    found = measure_plan(replace(job(), flush_caches=True), "fixed-pattern")

    assert (found.correct, found.flushed, measured.flushed) == (True, True, False)
    assert found.as_json()["flushed_caches"] is True
    assert [kernel.name for kernel in found.kernels] == [kernel.name for kernel in measured.kernels]
    assert all(kernel.timing is not None and kernel.timing.seconds > 0 for kernel in (*found.kernels, found.network))


def test_what_is_flushed_is_all_that_a_kernel_is_given() -> None:
    net = Net()
    plan = fixed_pattern_plan(net.graph(net.relu(net.conv(net.input(1, 4, 8, 8), 8)), dtype="fp32"))
    (kernel,) = generated(plan).kernels
    parameters = list(after_first(kernel.function).params)

    assert len(parameters) == 1 + len(kernel.function.params)
    assert all(one.same_as(other) for one, other in zip(parameters[1:], kernel.function.params, strict=True))


def test_a_measurement_has_a_time_for_every_kernel_and_for_all_in_a_row(measured: Measurement) -> None:
    assert measured.correct
    assert [kernel.name for kernel in measured.kernels] == list(NAMES)
    assert all(kernel.timing is not None and kernel.timing.seconds > 0 for kernel in measured.kernels)
    assert measured.network.timing is not None
    assert measured.threads == 1


def test_a_measurement_says_what_it_was_made_on(measured: Measurement) -> None:
    device = measured.device

    assert device.processor
    assert device.cores >= 1
    assert device.versions["apache-tvm"].startswith("0.27")


@forked
def test_a_line_that_passes_from_core_to_core_is_timed_behind_a_network_on_several_threads(
    measured: Measurement
) -> None:
    threads = min(usable_cores(), 2)
    found = measure_plan(job(threads=threads), "fixed-pattern").network.handed_line_s

    assert measured.network.handed_line_s is None
    assert (found is None) == (threads == 1)
    assert 0 <= (found or 0.0) < 1e-5


@pytest.mark.parametrize(("handed_s", "stated", "warns"), [
    (7e-9, "7 ns", False), (13e-9, "7 ns", False), (29e-9, "7 ns", True), (7e-9, "29 ns", True), (29e-9, None, False),
    (None, "7 ns", False),
])  # fmt: skip
def test_cores_that_lie_elsewhere_than_described_are_named(
    measured: Measurement, handed_s: float | None, stated: str | None, warns: bool
) -> None:
    machine = with_values(load_hardware("epyc", Cpu), {"claimed_line": stated})
    assert isinstance(machine, Cpu)
    found = replace(measured, network=replace(measured.network, handed_line_s=handed_s))

    further = with_places_of_cores(found, machine).warnings[len(measured.warnings) :]

    assert [("its cores lie elsewhere than when it was described" in each) for each in further] == [True] * warns


def test_json_has_the_documented_keys(measured: Measurement) -> None:
    data = json.loads(json.dumps(measured.as_json()))

    assert set(data) >= KEYS
    assert all(set(kernel) >= KERNEL_KEYS for kernel in data["kernels"])
    assert data["predicted_s"] is data["mape"] is data["spearman"] is None


def test_a_kernel_that_crashes_is_recorded_and_the_rest_goes_on() -> None:
    found = measure_plan(job(), "p", work=crashing)

    assert [(kernel.name, kernel.error) for kernel in found.kernels] == [
        (NAMES[0], None),
        (NAMES[1], "its process was ended by SIGSEGV"),
    ]
    assert found.network.error == f"does not run without: {NAMES[1]}"
    assert not found.correct


@forked
def test_a_kernel_that_hangs_is_stopped_and_the_rest_goes_on() -> None:
    found = measure_plan(job(budget=Budget(limit_s=0.5, prepare_s=60)), "p", work=hanging)

    assert [(kernel.name, kernel.error) for kernel in found.kernels] == [
        (NAMES[0], "took longer than 0.5 s"),
        (NAMES[1], None),
    ]
    assert found.kernels[0].operators == ("conv1", "relu1")


def test_more_threads_than_cores_are_refused() -> None:
    with pytest.raises(MeasureError, match="this process may use"):
        measure_plan(job(4096), "p")


@forked
def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(TargetError, match="target has 'pdp11'; needs llvm"):
        measure_plan(job(target="pdp11"), "p")


def test_ahead_of_each_row_comes_what_does_not_count() -> None:
    ran: list[str] = []
    timing = measured_in_parts([lambda: ran.append("part")], 0.01, 0.01, before=lambda: ran.append("before"))

    assert ran[0] == "part"  # to warm up
    assert ran[1:] == ["before", "part"] * (timing.samples + timing.disturbed)


class TestInterference:
    """Other processes' work on the cores that this one may use, by the system's own statistics."""

    def test_is_the_time_that_cores_are_not_idle_and_that_is_not_ours(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = min(os.sched_getaffinity(0))
        ticks = os.sysconf("SC_CLK_TCK")
        statistics = tmp_path / "stat"
        # user nice system idle iowait irq softirq steal guest guest_nice: 90 seconds of work, guests' counted once
        line = " ".join(str(ticks * seconds) for seconds in (50, 10, 20, 1000, 500, 1, 4, 5, 30, 3))
        statistics.write_text(f"cpu  9 9 9\ncpu{own} {line}\ncpu9999 {line}\nintr 5\n", encoding="ascii")
        monkeypatch.setattr(interference, "_STATISTICS", statistics)
        ours = [sum(os.times()[:4])]
        found = interference._others_s()
        ours.append(sum(os.times()[:4]))

        assert found is not None
        assert 90 - ours[1] <= found <= 90 - ours[0]

    def test_is_the_load_average_where_the_system_does_not_tell(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(interference, "_STATISTICS", tmp_path / "none")
        monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.0, 0.0))

        assert busy_elsewhere() == 0.5

    def test_is_at_least_none(self) -> None:
        found = busy_elsewhere(0.02)

        assert found is not None
        assert found >= 0


def test_a_block_is_watched_for_other_busy_processes() -> None:
    found: list[str] = []
    with watched(found, 10_000):
        time.sleep(0.01)

    assert found == []  # nobody keeps 1,500 cores busy
    assert busy(0.3, 2) == []
    assert busy(1.6, 2) == ["other processes kept 1.6 of 2 cores at work meanwhile, which may disturb figures"]


def test_disturbances_are_caused_by_other_processes() -> None:
    device = Device("local", "p", "x86_64", 2, None, {}, None, 0.2, {})

    assert disturbances(device, [TIMING], 0.01) == []
    (busy,) = disturbances(replace(device, load=1.0), [TIMING], 0.01)
    assert "other processes kept 1.0 of 2 cores at work" in busy
    (left_out,) = disturbances(device, [replace(TIMING, disturbed=9)], 0.01)
    assert "9 of 20 runs were disturbed" in left_out
    (wide,) = disturbances(device, [replace(TIMING, interval=0.02)], 0.01)
    assert "1 of 1 median known" in wide


def test_the_interval_of_a_median_comes_from_the_order_of_the_samples() -> None:
    # of 16 samples, the median is between the 4th and the 13th from below in 19 of 20 cases
    assert interval_width(range(100, 116)) == pytest.approx((112 - 103) / 107.5)
    assert interval_width([2.0] * 20) == 0


def test_all_parts_run_in_order_and_equally_often() -> None:
    ran: list[int] = []
    timing = measured_in_parts([lambda: ran.append(0), lambda: ran.append(1)], budget_s=0.01, width=0.01)

    assert ran == [0, 1] * (len(ran) // 2)
    assert len(ran) // 2 == 1 + timing.samples + timing.disturbed  # one row to warm up
    assert timing.seconds > 0


@forked
def test_the_command_prints_one_object_and_writes_it(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["measure", model, "--policy", "fixed-pattern", "--threads", "1", "--out", str(tmp_path)]
    code = main([*asked, "--json"])
    data = json.loads(capsys.readouterr().out)

    assert code == 0
    assert data["correct"]
    assert data["model"] == "net"
    assert json.loads(Path(data["file"]).read_text())["kernels"] == data["kernels"]
    assert data["stored"] == "added"
    rows = pd.read_csv(tmp_path / "results.csv")
    assert (list(rows["model"]), list(rows["measured_s"])) == (["net"], [data["measured_s"]])
    assert "Predicted beside measured" in (tmp_path / "report.html").read_text(encoding="utf-8")


@forked
def test_code_for_another_machine_is_written_as_an_object_of_its_kind(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["measure", model, "--policy", "fixed-pattern", "--target", "aarch64-cortex-a53"]
    assert main([*asked, "--out", str(tmp_path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    header = Path(data["object"]).read_bytes()[:20]

    assert header[:5] == b"\x7fELF\x02"
    assert int.from_bytes(header[18:20], "little") == EM_AARCH64
    assert data["measured_s"] is data["correct"] is None


@forked
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "graphturbo"], "graphturbo"),
        (["--policy", "fixed-pattern", "--target", "pdp11"], "target has 'pdp11'"),
        (["--policy", "fixed-pattern", "--target", "aarch64"], "dsascape measure --out DIR writes it"),
        (["--policy", "fixed-pattern", "--device", "rpc://host"], "device has 'rpc://host'"),
        (["--policy", "fixed-pattern", "--dtype", "int8"], "dtype has 'int8'"),
        (["--policy", "fixed-pattern", "--target", "cuda", "--flush-caches"], "--flush-caches is for"),
        (["--policy", "fixed-pattern", "--target", "aarch64", "--flush-caches", "--out", "out/x"], "--flush-caches is"),
    ],
)
def test_mistakes_end_with_code_2_and_one_message(
    arguments: list[str], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", model, *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


class TestDeviation:
    """How far a result is from the reference, by the reference's largest value."""

    def test_is_the_largest_difference_by_the_largest_value(self) -> None:
        assert deviation(np.array([1.0, 2.5], np.float32), np.array([1.0, -5.0], np.float32)) == pytest.approx(1.5)

    def test_is_infinite_for_another_shape_for_no_number_and_for_another_whole_number(self) -> None:
        ones = np.ones(3, np.float32)

        assert deviation(np.ones(4, np.float32), ones) == math.inf
        assert deviation(np.array([1, 1, np.nan], np.float32), ones) == math.inf
        assert deviation(np.array([1, 2]), np.array([1, 3])) == math.inf
        assert deviation(np.array([1, 3]), np.array([1, 3])) == 0

    def test_of_what_is_left_of_sums_that_cancel_is_by_what_was_summed(self) -> None:
        rounding = np.array([1e-8], np.float32)

        assert deviation(2 * rounding, rounding) == pytest.approx(1)
        assert deviation(2 * rounding, rounding, made_of=1.0) == pytest.approx(1e-5)
        assert deviation(np.array([1.1], np.float32), np.ones(1, np.float32), made_of=1.0) == pytest.approx(0.1)

    def test_of_what_is_masked_out_is_that_of_the_rest_if_the_same_is_masked(self) -> None:
        masked = np.array([1.0, -np.inf, 2.0], np.float32)

        assert deviation(np.array([1.0, -np.inf, 2.5], np.float32), masked) == pytest.approx(0.25)
        assert deviation(np.array([1.0, -1e30, 2.0], np.float32), masked) == math.inf
        assert deviation(np.array([-np.inf, -np.inf, 2.0], np.float32), masked) == math.inf


def test_kernels_are_timed_without_numbers_that_processors_are_slow_with() -> None:
    net = Net()
    small = net.op("Exp", [net.op("Mul", [net.input(1, 2), net.scales(-95.0, -80.0)], (1, 2))], (1, 2))
    network = executable(net.graph(small, dtype="fp32"))
    found = reference(network, {"in1": np.ones((1, 2), np.float32)}, [small])[small]

    assert found[0, 0] == 0  # e^-95 is no normal number of single precision
    assert found[0, 1] == pytest.approx(math.exp(-80))
