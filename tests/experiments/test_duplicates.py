"""A value, policy or network given twice is rejected with one message, in any spelling; similar ones are accepted."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.experiments.api import sweep
from dsascape.experiments.question.config import ExperimentError
from dsascape.experiments.question.reading import read_experiment
from dsascape.experiments.question.repeated import check_values
from dsascape.hw_models import HardwareError, load_hardware
from dsascape.workloads import zoo_entry

UNITS = [
    {"B": 1, "KiB": 2**10, "MiB": 2**20},
    {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6},
    {"Hz": 1, "kHz": 10**3, "MHz": 10**6},
]
PATHS = {"local_buffer.capacity": "KiB", "ddr.bandwidth": "MB/s", "clock": "MHz"}


def study(folder: Path, workloads: str = "[bert-tiny]", hardware: str = "stcp920", policies: str = "[unfused]") -> None:
    path = folder / "study.yaml"
    path.write_text(f"workloads: {workloads}\nhardware: {hardware}\npolicies: {policies}\n")
    read_experiment(path)


@pytest.mark.parametrize(
    ("part", "text", "where"),
    [
        ("hardware", "{base: stcp920, sweep: {local_buffer.capacity: [1 MiB, 1024 KiB, 1048576 B]}}", "'1024 KiB'"),
        ("hardware", "{base: stcp920, sweep: {local_buffer.capacity: [1 MiB, 2 MiB, 1 MiB]}}", "'1 MiB' twice"),
        ("hardware", "{base: stcp920, sweep: {ddr.bandwidth: [60 GB/s, 60000 MB/s]}}", "'60000 MB/s'"),
        ("hardware", "{base: stcp920, sweep: {clusters: [2, 4, 2]}}", "2 twice"),
        ("hardware", "{base: stcp920, sweep: {tuning.most_tiles: [4, 8, 4]}}", "4 twice"),
        ("hardware", "[stcp920, stcp920]", "entry 1 the machine of entry 0 again"),
        ("hardware", "[stcp920, {base: stcp920, set: {clusters: 4}}]", "entry 1 the machine of entry 0 again"),
        (
            "hardware",
            "[{base: stcp920, sweep: {clusters: [1, 2]}}, {base: stcp920, sweep: {clusters: [2, 4]}}]",
            "of entry 0 at clusters = 2 again",
        ),
        ("workloads", "[{model: bert-tiny, batch: [2, 4, 2]}]", "2 twice"),
        ("workloads", "[{model: bert-tiny, sequence: [32, 64, 32]}]", "32 twice"),
        ("workloads", "[{model: squeezenet, image: [224, 224]}]", "224 twice"),
        ("workloads", "[bert-tiny, bert-tiny]", "'bert-tiny' and 'bert-tiny', which are the same"),
        ("workloads", "[bert-tiny, {model: bert-tiny, batch: 1}]", "'bert-tiny' (batch 1), which are the same"),
        ("workloads", "[{model: bert-tiny, batch: 2}, {model: bert-tiny, batch: [1, 2]}]", "which are the same"),
        ("workloads", "[bert-tiny, {model: bert-tiny, sequence: 128}]", "(sequence 128), which are the same"),
        ("workloads", "[bert-tiny, {model: bert-tiny, dtype: fp16}]", "(dtype fp16), which are the same"),
        ("workloads", "[{model: a.onnx, batch: 4}, {model: ./a.onnx, batch: 4}]", "which are the same"),
        ("policies", "[unfused, unfused]", "'unfused' twice"),
        ("policies", "[graphturbo, {graphturbo: {}}]", "'graphturbo' twice"),
        ("policies", "[graphturbo, {graphturbo: {order: best}}]", "'graphturbo' twice"),
        ("policies", "[{graphturbo: {order: bfs}}, {graphturbo: {order: bfs}}]", "'graphturbo(order=bfs)' twice"),
        ("policies", "[mine.py, ./mine.py]", "'mine' twice"),
    ],
)
def test_duplicates_are_refused(part: str, text: str, where: str, tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(zoo_entry("dcgan").read_bytes())
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom dsascape.scheduler.policies.unfused import Unfused\n"
        "@dataclass(frozen=True)\nclass Mine(Unfused):\n    name = 'mine'\n"
    )
    with pytest.raises(ExperimentError) as refused:
        study(tmp_path, **{part: text})

    message = str(refused.value)
    assert message.startswith(f"{tmp_path / 'study.yaml'}: {part}")
    assert where in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("hardware", "[stcp920, {base: stcp920, set: {clusters: 2}}]"),
        ("hardware", "[stcp920, {base: stcp920, sweep: {clusters: [2, 4]}}]"),
        ("hardware", "[{base: stcp920, sweep: {clusters: [1, 2]}}, {base: stcp920, sweep: {clusters: [3, 4]}}]"),
        (
            "hardware",
            "[{base: stcp920, sweep: {clusters: [1, 2]}},"
            " {base: stcp920, set: {ddr.bandwidth: 60 GB/s}, sweep: {clusters: [1, 2]}}]",
        ),
        ("workloads", "[{model: bert-tiny, batch: [1, 2]}, {model: bert-tiny, batch: [4, 8]}]"),
        ("workloads", "[bert-tiny, {model: bert-tiny, sequence: 64}]"),
        ("workloads", "[bert-tiny, {model: bert-tiny, dtype: int8}]"),
        ("workloads", "[bert-tiny, {model: bert-tiny, simplify: true}]"),
        ("policies", "[graphturbo, {graphturbo: {order: bfs}}]"),
    ],
)
def test_similar_entries_that_differ_are_accepted(part: str, text: str, tmp_path: Path) -> None:
    study(tmp_path, **{part: text})


@given(path=st.sampled_from(sorted(PATHS)), number=st.integers(600, 5_000), data=st.data())
def test_a_value_in_two_units_is_one_value(path: str, number: int, data: st.DataObject) -> None:
    base, unit = load_hardware("stcp920"), PATHS[path]
    units = next(each for each in UNITS if unit in each)
    other = data.draw(st.sampled_from([name for name in units if units[name] < units[unit]]))
    same = f"{number * units[unit] // units[other]} {other}"

    check_values(base, {}, path, [f"{number} {unit}", f"{number + 1} {unit}"])
    with pytest.raises(HardwareError, match="needs each value once"):
        check_values(base, {}, path, [f"{number} {unit}", same])


def test_the_same_holds_in_python() -> None:
    with pytest.raises(HardwareError, match="'1024 KiB', which is '1 MiB' again"):
        sweep("bert-tiny", "stcp920", {"local_buffer.capacity": ["1 MiB", "1024 KiB"]})
