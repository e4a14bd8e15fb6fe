"""A results file with any change is rejected with one message, or sound when shown."""

import json
import math
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.experiments.real.bundled_point import bundled, point_of
from dsascape.experiments.results.store import DATABASE
from dsascape.experiments.shell.cli import main
from dsascape.experiments.shell.measure import show_measurement
from dsascape.hw_models import load_hardware
from dsascape.scheduler import make_policy
from dsascape.scheduler.kernels.repeated import RepeatedKernel
from dsascape.tuner.bundle import BundleError, read_results
from dsascape.tuner.bundle.contents import RESULTS
from dsascape.tuner.measure import KernelMeasurement, Measurement
from dsascape.tuner.measure.device import remote_device
from dsascape.tuner.measure.records import Timing
from tests.tiers import examples

ABSURD: list[Any] = [
    -1, 0, -0.5, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, 1e300, 2**63, 10**400, True, None, "", "1",
    "\x1b[2J\x1b]0;mine\x07", "a\nb", "\u202eexe", "x" * 10_000, [], {}, [[]], {"\x1b[31m": 1}, {"a": -1.0},
]  # fmt: skip


@pytest.fixture(scope="module")
def good() -> dict[str, Any]:
    """A file of results as it is read, its origin too."""
    point = DesignPoint(Workload("bert-tiny", sequence=8), load_hardware("kirin990"), make_policy("fixed-pattern"))
    names = [f"kernel{number}_matmul" for number in range(3)]
    predicted = {name: RepeatedKernel(1e-6, 1, {"core": 1e-6, "l1": 0.0}) for name in names}
    origin = bundled(point, evaluate(point), predicted, {}, threads=1)
    timing = Timing(2e-6, 0.01, 0.01, 20, 1)
    kernels = tuple(KernelMeasurement(name, (f"op{name}",), timing, True, 1e-7) for name in names)
    found = Measurement(
        "bert-tiny-8", "fixed-pattern", "llvm", remote_device("local", "x86_64", 1), 1, kernels,
        KernelMeasurement("network", ("op",), timing, True, 0.0), ("busy",), False, "2026-01-31T12:00:00+00:00",
    )  # fmt: skip
    batch = origin.record.batch
    text = {"format": RESULTS, "batch": batch, "origin": json.loads(origin.to_text()), "measurement": asdict(found)}
    return json.loads(json.dumps(text))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def imported(good: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two points: the file's, and one of another processor."""
    place, folder = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("imported")
    other = changed(changed(good, ("measurement", "device", "processor"), "another"), ("measurement", "threads"), 1)
    for name, found in (("good", good), ("other", other)):
        assert main(["bundle", "import", str(written(found, place / f"{name}.json")), "--out", str(folder)]) == 0
    return folder


def written(found: dict[str, Any], path: Path) -> Path:
    path.write_text(json.dumps({**found, "origin": json.dumps(found["origin"])}))
    return path


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to everything that JSON holds."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield (*place, name)
        yield from places(each, (*place, name))


def changed(found: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy: Any = json.loads(json.dumps(found))
    within = copy
    for name in place[:-1]:
        within = within[name]
    within[place[-1]] = value
    return copy  # type: ignore[no-any-return]


def check_sound(value: Any) -> None:
    """Everything that is shown is printable, and a number that a person can make sense of."""
    if isinstance(value, dict):
        check_sound(list(value))
        check_sound(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            check_sound(each)
    elif isinstance(value, str):
        assert value.replace("\n", "").isprintable()
    elif value is not None:
        assert -1 <= value <= 1e24


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_with_one_value_changed_are_refused_in_one_line_or_sound(
    good: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    place = data.draw(st.sampled_from(sorted(places(good), key=str)))
    path = written(changed(good, place, data.draw(st.sampled_from(ABSURD))), tmp_path / "strange.json")
    try:
        found = read_results(path)
        point = point_of(found)
        _, computed = point.stored(found)
    except BundleError as error:
        reason = str(error)
    else:
        comparison = point.compared(found)
        shown = comparison.as_json()
        check_sound([shown, computed.row, computed.layers, computed.kernels])
        show_measurement(found.measurement, shown, comparison)
        assert "\x1b" not in capsys.readouterr().out
        return
    assert reason.isprintable()


@pytest.mark.parametrize("place", [("measurement", "warnings"), ("measurement", "kernels"), ("origin", "layers")])
def test_of_a_million_mistakes_are_refused_at_the_first(
    good: dict[str, Any], tmp_path: Path, place: tuple[str, str]
) -> None:
    path = written(changed(good, place, [{}] * 1_000_000), tmp_path / "long.json")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(BundleError, match=r"\.0"):
        point_of(read_results(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 400 * 2**10  # KiB


def test_as_they_are_written_are_stored(good: dict[str, Any], tmp_path: Path) -> None:
    assert main(["bundle", "import", str(written(good, tmp_path / "good.json")), "--out", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("measurement", "threads"), -1, "threads is -1"),
        (("measurement", "network", "timing", "seconds"), -1.0, "seconds is -1.0"),
        (("measurement", "kernels", 0, "timing", "seconds"), math.inf, "seconds is inf"),
        (("measurement", "kernels", 0, "deviation"), math.nan, "deviation is nan"),
        (("measurement", "kernels", 0, "name"), "\x1b[2J", "name has unprintable characters"),
        (("measurement", "device", "processor"), "a\x9b1m", "processor has unprintable characters"),
        (("measurement", "measured_at"), "yesterday", "measured_at is 'yesterday'"),
        (("origin", "record", "utilisation", "core"), 1e300, "utilisation.core is 1e+300"),
        (("origin", "record", "throughput_per_s"), 1.0, "batch by latency_s is"),
        (("origin", "layers", 0, "critical_s"), -1.0, "critical_s is -1.0"),
        (("origin", "kernels", "kernel0_matmul", "seconds"), 0.0, "seconds is 0.0"),
        (("origin", "area_mm2"), -1.0, "area_mm2 is -1.0"),
        (("origin", "record", "utilisation"), {"CORE": 0.5}, "columns that a bundle"),
    ],
)
def test_absurd_ones_are_refused_and_change_nothing(
    good: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    place: tuple[Any, ...],
    value: object,
    message: str,
) -> None:
    out = tmp_path / "out"
    path = written(changed(good, place, value), tmp_path / "strange.json")

    assert main(["bundle", "import", str(path), "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not out.exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("table", "column"), [("runs", "hardware"), ("runs", "model"), ("layers", "limited_by")])
def test_stored_text_is_shown_without_control_characters(
    imported: Path, tmp_path: Path, table: str, column: str
) -> None:
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", ("\x1b[2J",))

    assert main(["report", str(tmp_path)]) == 0
    assert not any("\x1b" in path.read_text(encoding="utf-8") for path in tmp_path.glob("*.[ch][st]*"))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("table", ["runs", "kernels"])
@pytest.mark.parametrize("value", ["9e999", "-9e999", "0", "-1", "1e308", "5e-324", "'text'", "x'00'"])
@pytest.mark.parametrize("column", ["measured_s", "latency_s", "predicted_s"])
def test_absurd_ones_that_are_stored_already_end_no_report_and_show_as_failed(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, value: str, column: str
) -> None:
    if (table, column) in (("runs", "predicted_s"), ("kernels", "latency_s")):
        return
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        key = connection.execute("SELECT key FROM runs WHERE device = 'another'").fetchone()[0]
        connection.execute(f"UPDATE {table} SET {column} = {value} WHERE key = ?", (key,))
    capsys.readouterr()

    code = main(["report", str(tmp_path), "--json"])

    assert json.loads(capsys.readouterr().out)["points"] == 2
    if table == "runs":
        assert code == 1
        assert f"the stored {column} is" in (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "1 of 2 points" in (tmp_path / "report.html").read_text(encoding="utf-8")
