"""The Python API shown in the README, and its error messages."""

import math
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dsascape
from dsascape import (
    AnyHardware,
    Policy,
    load_hardware,
    load_network,
    measure,
    report,
    schedule_document,
    simulate,
    sweep,
    what_if,
    with_values,
)
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import ClusteredDsa, HardwareError
from dsascape.scheduler import ScheduleError, make_policy
from dsascape.workloads import WorkloadError

ANY: Any = dsascape
"""The interface as a caller without a type checker has it."""

BUFFERS = {"local_buffer.capacity": ["512 KiB", "1.25 MiB"]}


def test_one_point_takes_one_line() -> None:
    outcome = simulate(load_network("resnet50"), load_hardware("stcp920", ClusteredDsa), "graphturbo", batch=16)

    record = outcome.record
    assert (record.model, record.hardware, record.policy) == ("resnet50", "stcp920", "graphturbo")
    assert (record.batch, record.dtype) == (16, "fp16")
    assert record.latency_s == outcome.result.makespan_ps / 1e12
    assert record.kernels == outcome.schedule.kernels
    assert outcome.program.instructions


def test_a_sweep_is_a_table() -> None:
    frame = sweep(["mobilenet-v2"], "stcp920", BUFFERS, batch=16)

    assert isinstance(frame, pd.DataFrame)
    assert list(zip(frame["local_buffer.capacity"], frame["policy"], strict=True)) == [
        ("512 KiB", "fixed-pattern"),
        ("512 KiB", "graphturbo"),
        ("1.25 MiB", "fixed-pattern"),
        ("1.25 MiB", "graphturbo"),
    ]
    assert (frame["latency_s"] > 0).all()
    assert frame["error"].isna().all()
    assert "key" not in frame


def test_names_and_records_give_the_same_figures() -> None:
    named = simulate("bert-tiny", "stcp920", "unfused", batch=4).record.as_json()
    records = simulate(
        load_network("bert-tiny"), load_hardware("stcp920", ClusteredDsa), make_policy("unfused"), batch=4
    ).record.as_json()

    assert {**named, "wall_s": 0} == {**records, "wall_s": 0}


def test_the_sweep_and_the_single_point_agree() -> None:
    frame = sweep("bert-tiny", "stcp920", {"clusters": [2]}, "graphturbo", batch=4, workers=1)
    machine = with_values(load_hardware("stcp920", ClusteredDsa), {"clusters": 2})
    record = simulate("bert-tiny", machine, batch=4).record

    assert len(frame) == 1
    assert frame["latency_s"][0] == record.latency_s
    assert frame["traffic_bytes.ddr"][0] == record.traffic_bytes["ddr"]
    assert frame["bottleneck"][0] == record.bottleneck


def test_a_changed_machine_is_a_new_record() -> None:
    machine = load_hardware("stcp920", ClusteredDsa)
    faster = with_values(machine, {"ddr.bandwidth": "1 TB/s"})

    assert machine == load_hardware("stcp920", ClusteredDsa)
    assert faster.ddr.bandwidth_bytes_per_s == 1e12


def test_a_folder_keeps_results(tmp_path: Path) -> None:
    first = sweep("bert-tiny", "stcp920", BUFFERS, "unfused", batch=4, workers=1, folder=tmp_path)
    again = sweep("bert-tiny", "stcp920", BUFFERS, "unfused", batch=4, workers=1, folder=tmp_path)

    pd.testing.assert_frame_equal(first, again)  # wall_s too: nothing has been computed again


def test_a_swept_experiment_file_and_the_api_share_results(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        "workloads: [{model: bert-tiny, batch: 4}]\npolicies: [unfused]\n"
        "hardware: {base: stcp920, sweep: {local_buffer.capacity: [512 KiB, 1.25 MiB]}}\n"
    )
    folder = tmp_path / "out"
    assert main(["run", str(tmp_path / "study.yaml"), "--out", str(folder), "--workers", "1"]) == 0
    frame = sweep("bert-tiny", "stcp920", BUFFERS, "unfused", batch=4, workers=1, folder=folder)

    written = pd.read_csv(folder / "results.csv")
    assert frame["wall_s"].tolist() == written["wall_s"].tolist()


def test_points_that_cannot_run_have_a_message() -> None:
    values = {"local_buffer.capacity": ["64 B", "1.25 MiB"]}
    frame = sweep("bert-tiny", "stcp920", values, "unfused", batch=4, workers=1)

    assert frame["error"].isna().tolist() == [False, True]
    assert math.isnan(frame["latency_s"][0])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("resnet51", "stcp920"), WorkloadError, "nearest: resnet50"),
        (("bert-tiny", "stcp92"), HardwareError, "did you mean stcp920"),
        (("bert-tiny", "stcp920", "graphturb"), ScheduleError, "did you mean graphturbo"),
    ],
)
def test_unknown_names_are_answered_with_known_ones(
    arguments: tuple[str, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        simulate(*arguments, batch=4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ANY.with_values("stcp920", {"clusters": 2}), "spec: has 'stcp920' .*needs a machine: what load_"),
        (lambda: ANY.with_values(load_hardware("stcp920"), "clusters=2"), "values: has .*; needs a mapping of"),
        (lambda: ANY.load_hardware(load_hardware("stcp920")), "name_or_path: has a ClusteredDsa; needs a preset"),
        (lambda: ANY.load_network(None), "name_or_path: has a NoneType; needs a network's name"),
        (lambda: ANY.load_network("bert-tiny", dims=[("N", 1)]), "dims: has a list; needs a mapping"),
        (lambda: ANY.load_network("bert-tiny", simplify="no"), "simplify: has 'no'; needs True or False"),
        (lambda: ANY.make_policy(make_policy("unfused")), "make_policy: has Unfused.* needs a policy's name"),
        (lambda: ANY.make_policy("graphturbo", ["order"]), "needs a mapping of options"),
    ],
)
def test_what_is_of_another_type_is_named_with_what_is_needed(call: Callable[[], object], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_refused_in_machines_options_and_tuning(value: float) -> None:
    machine = load_hardware("stcp920")
    for call in (
        lambda: with_values(machine, {"ddr.efficiency": value}),
        lambda: make_policy("ago", {"bias": value}),
        lambda: simulate("bert-tiny", machine, "unfused", tuning={"most_tiles": value}),
    ):
        with pytest.raises(ValueError, match=r"has -?(inf|nan); needs .*finite number"):
            call()


def test_a_dtype_is_checked_before_any_point_runs() -> None:
    for call in (sweep, what_if):
        with pytest.raises(ValueError, match=r"dtype: has 'FP32' \(did you mean fp32\?\); needs one of fp32, fp16"):
            call("bert-tiny", "stcp920", dtype="FP32")


def test_an_attribute_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'simulat' \(did you mean simulate\?\)"):
        attrgetter("simulat")(ANY)


def test_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(HardwareError, match="did you mean local_buffer"):
        sweep("bert-tiny", "stcp920", {"local_bufer.capacity": ["1 MiB"]}, batch=4)


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(WorkloadError, match="batch"):
        simulate("bert-tiny", "stcp920", batch=0)


def test_a_dtype_that_the_machine_lacks_is_refused() -> None:
    with pytest.raises(HardwareError, match="needs one of: fp32"):
        simulate("bert-tiny", "stcp920", batch=4, dtype="fp7")


class TestSchedules:
    def test_are_made_edited_and_simulated(self) -> None:
        first = simulate("bert-tiny", "stcp920", "fixed-pattern", batch=4)
        document = schedule_document(first)
        again = simulate("bert-tiny", "stcp920", batch=4, schedule=document)
        for run in [run for instance in document["instances"] for run in instance["runs"]]:
            run["units"] = ["vector"] * len(run["units"])
        slower = simulate("bert-tiny", "stcp920", batch=4, schedule=document)

        assert again.record.latency_s == first.record.latency_s
        assert slower.record.latency_s > first.record.latency_s

    def test_come_from_a_file_that_the_command_wrote(self, tmp_path: Path) -> None:
        path = tmp_path / "schedule.json"
        argv = ["simulate", "bert-tiny", "--hardware", "kirin990", "--policy", "ago", "--schedule-out", str(path)]
        assert main(argv) == 0

        from_file = simulate("bert-tiny", "kirin990", schedule=path).record
        assert from_file.latency_s == simulate("bert-tiny", "kirin990", "ago").record.latency_s
        assert from_file.policy == "ago"

    def test_have_pinned_decisions(self) -> None:
        pins = {"op:MatMul": {"threads": 1}}
        schedule: Any = simulate("bert-tiny", "kirin990", "unfused", pins=pins).schedule

        assert [pin.decided for pin in schedule.pins] == [{"threads": 1}]
        assert {kernel.threads for kernel in schedule.runs if kernel.name in schedule.pins[0].layers} == {1}


def test_the_scheduler_s_tuned_numbers_are_set_and_swept() -> None:
    fewer = simulate("bert-tiny", "stcp920", "unfused", batch=4, tuning={"most_tiles": 1}).record
    frame = sweep("bert-tiny", "stcp920", {"tuning.most_tiles": [1, 8]}, "unfused", batch=4, workers=1)

    assert frame["latency_s"].tolist() == [
        fewer.latency_s, simulate("bert-tiny", "stcp920", "unfused", batch=4).record.latency_s,
    ]  # fmt: skip


def test_one_call_takes_several_machines_batches_and_policies_and_a_report_shows_them(tmp_path: Path) -> None:
    machines: list[str | AnyHardware] = ["kirin990", with_values(load_hardware("h100"), {"name": "mine"})]
    policies: list[str | Policy] = ["unfused", make_policy("fixed-pattern")]
    frame = sweep("bert-tiny", machines, policies=policies, batch=[1, 2], workers=1, folder=tmp_path)
    page = report(tmp_path)

    assert list(zip(frame["batch"], frame["hardware"], frame["policy"], strict=True)) == [
        (batch, machine, policy) for batch in (1, 2) for machine in ("kirin990", "mine")
        for policy in ("unfused", "fixed-pattern")
    ]  # fmt: skip
    assert page == tmp_path / "report.html"
    assert "experiment.json" not in page.read_text(encoding="utf-8")
    assert len(pd.read_csv(tmp_path / "results.csv")) == 8


NET, NPU = "bert-tiny", "stcp920"


@pytest.mark.parametrize(
    ("call", "arguments", "options", "error", "said"),
    [
        (simulate, (3, NPU), {}, TypeError, "network: has 3 (int); needs a network's name"),
        (simulate, (None, NPU), {}, TypeError, "network: has null (NoneType)"),
        (simulate, ([NET], NPU), {}, TypeError, "network: has ['bert-tiny'] (list)"),
        (simulate, (NET, None), {}, TypeError, "hardware: has null (NoneType); needs a preset's name"),
        (simulate, (NET, [NPU]), {}, TypeError, "hardware: has ['stcp920'] (list)"),
        (simulate, (NET, {"base": NPU}), {}, TypeError, "hardware: has a mapping with base (dict)"),
        (simulate, (NET, NPU, None), {}, TypeError, "policy: has null"),
        (simulate, (NET, NPU, 7), {}, TypeError, "policy: has 7 (int); needs a policy's name"),
        (simulate, (NET, NPU, ["unfused"]), {}, TypeError, "policy: has ['unfused'] (list)"),
        (simulate, (NET, NPU, type(make_policy("unfused"))), {}, TypeError, "needs a policy's name"),
        (simulate, (NET, NPU), {"batch": "16"}, TypeError, "batch: has '16' (str); needs a whole number"),
        (simulate, (NET, NPU), {"batch": 1.5}, TypeError, "batch: has 1.5 (float)"),
        (simulate, (NET, NPU), {"batch": True}, TypeError, "batch: has true (bool)"),
        (simulate, (NET, NPU), {"batch": -1}, ValueError, "batch: has -1; needs a whole number from 0"),
        (simulate, (NET, NPU), {"dtype": 16}, TypeError, "dtype: has 16 (int)"),
        (simulate, (NET, NPU), {"dtype": "fp61"}, HardwareError, "fp61"),
        (simulate, (NET, NPU), {"dims": [("H", 4)]}, TypeError, "dims: has [('H', 4)] (list)"),
        (simulate, (NET, NPU), {"dims": {"H": "4"}}, TypeError, "dims['H']: has '4' (str)"),
        (simulate, (NET, NPU), {"batch_dims": {"x": None}}, TypeError, "batch_dims['x']: has null"),
        (simulate, (NET, NPU), {"tuning": "most_tiles=4"}, TypeError, "tuning: has 'most_tiles=4' (str)"),
        (simulate, (NET, NPU), {"tuning": {"most_tile": 4}}, ScheduleError, "did you mean most_tiles"),
        (simulate, (NET, NPU), {"bacth": 4}, TypeError, "no argument 'bacth' (did you mean batch?)"),
        (simulate, (NET, NPU), {"pins": 5}, TypeError, "pins: has 5 (int); needs a mapping of layers"),
        (simulate, (NET, NPU), {"pins": {"x": {}}}, ScheduleError, "layers.x: fixes nothing"),
        (simulate, (NET, NPU), {"pins": "absent.yaml"}, ScheduleError, "absent.yaml: no such file"),
        (simulate, (NET, NPU), {"pins": {"x": {"tile": object()}}}, ScheduleError, "values that no file can have"),
        (simulate, (NET, NPU), {"schedule": 4}, TypeError, "schedule: has 4 (int)"),
        (simulate, (NET, NPU), {"schedule": {"format": "x"}}, ScheduleError, "schedule: "),
        (simulate, (NET, NPU), {"schedule": {}, "pins": {"a": {}}}, ValueError, "pins: do not go with schedule"),
        (schedule_document, ({},), {}, TypeError, "outcome: has an empty mapping (dict); needs what simulate returns"),
        (sweep, ([], NPU), {}, ValueError, "networks: is empty"),
        (sweep, (NET, []), {}, ValueError, "hardware: is empty"),
        (sweep, ([NET, 4], NPU), {}, TypeError, "networks: has 4 (int)"),
        (sweep, (NET, NPU, ["clusters"]), {}, TypeError, "values: has ['clusters'] (list); needs a mapping"),
        (sweep, (NET, NPU, {"clusters": []}), {}, ValueError, "values['clusters']: is empty"),
        (sweep, (NET, NPU, {"clusters": None}), {}, TypeError, "values['clusters']: has null"),
        (sweep, (NET, NPU), {"policies": []}, ValueError, "policies: is empty"),
        (sweep, (NET, NPU), {"policies": [None]}, TypeError, "policies: has null"),
        (sweep, (NET, NPU), {"batch": [1, "2"]}, TypeError, "batch: has '2' (str)"),
        (sweep, (NET, NPU), {"workers": -2}, ValueError, "workers: has -2"),
        (sweep, (NET, NPU), {"folder": 3}, TypeError, "folder: has 3 (int)"),
        (sweep, (NET, NPU), {"policy": "unfused"}, TypeError, "no argument 'policy' (did you mean policies?)"),
        (what_if, (NET, NPU), {"values": 5}, TypeError, "values: has 5 (int); needs paths"),
        (what_if, (NET, NPU), {"values": [5]}, TypeError, "values: has [5] (list)"),
        (what_if, (NET, NPU), {"schedule": "kept"}, ValueError, "schedule: has 'kept' (did you mean keep?)"),
        (report, (None,), {}, TypeError, "folder: has null"),
        (report, ("absent",), {}, ValueError, "absent: has no results.sqlite"),
        (measure, (NET, NPU), {}, HardwareError, "stcp920: is not a CPU or GPU"),
        (measure, (NET, "kirin990"), {"threads": 99}, ValueError, "threads: has 99; kirin990 has"),
        (measure, (NET, "kirin990"), {"flush_caches": 1}, TypeError, "flush_caches: has 1 (int)"),
    ],
)  # fmt: skip
def test_a_mistake_names_the_argument_what_it_has_and_what_it_needs(
    call: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as raised:
        call(*arguments, **options)

    assert said in str(raised.value)
