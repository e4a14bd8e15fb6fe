"""The Python API shown in the README, and its error messages."""

import math
from pathlib import Path

import pandas as pd
import pytest

from dsascape import load_hardware, load_network, simulate, sweep, with_values
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import ClusteredDsa, HardwareError
from dsascape.scheduler import ScheduleError, make_policy
from dsascape.workloads import WorkloadError

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
        (("bert-tiny", "stcp920", "graphturb"), ScheduleError, "nearest: graphturbo"),
    ],
)
def test_unknown_names_are_answered_with_known_ones(
    arguments: tuple[str, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        simulate(*arguments, batch=4)


def test_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(HardwareError, match="did you mean local_buffer"):
        sweep("bert-tiny", "stcp920", {"local_bufer.capacity": ["1 MiB"]}, batch=4)


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(WorkloadError, match="batch"):
        simulate("bert-tiny", "stcp920", batch=0)


def test_a_dtype_that_the_machine_lacks_is_refused() -> None:
    with pytest.raises(HardwareError, match="needs one of: fp32"):
        simulate("bert-tiny", "stcp920", batch=4, dtype="fp7")
