"""What changed: stored points are matched by content, what moved is explained, and mistakes get one message."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.experiments.results.changes import compared
from dsascape.experiments.results.frame import read_results, write_csv
from dsascape.experiments.results.parts import write_parts_csv
from dsascape.experiments.results.snapshot import KeptPoint, Snapshot, read_snapshot
from dsascape.experiments.results.store import ResultStore
from tests.experiments.terminal import Terminal

Row = dict[str, Any]
NEEDED = ("model", "hardware", "policy", "batch", "dtype", "energy_j", "latency_s")


def row(policy: str, latency_s: float, **others: Any) -> Row:
    """A row of results: half of the time waits for ddr, half for the matrix engine."""
    return {
        "model": "net", "hardware": "machine", "policy": policy, "batch": 4, "dtype": "fp16", "latency_s": latency_s,
        "energy_j": 2 * latency_s, "bottleneck": "ddr", "critical.ddr": 0.5, "critical.matrix": 0.5,
        "traffic_bytes.ddr": 1000, "error": None, **others,
    }  # fmt: skip


def failed(policy: str, **others: Any) -> Row:
    names = {"model": "net", "hardware": "machine", "policy": policy, "batch": None, "dtype": "fp16"}
    return {**names, "error": "does not fit", **others}


def folder_of(path: Path, rows: Sequence[Row], layers: Mapping[int, Sequence[Row]] | None = None) -> Path:
    """A results folder with these rows, and layers by the number of their row."""
    with ResultStore(path) as store:
        for number, each in enumerate(rows):
            store.add(f"key{number}", each, (layers or {}).get(number, ()))
    frame = read_results(path)
    write_csv(frame, path)
    write_parts_csv(frame, path)
    return path


def layer(name: str, seconds: float, limited_by: str = "ddr") -> Row:
    return {"layer": name, "runs": 1, "critical_s": seconds, "limited_by": limited_by, "traffic_bytes.ddr": 10}


def record(path: Path, latency_s: float, layers: Sequence[Row] = (), **others: Any) -> str:
    """A file with what ``simulate --json`` prints."""
    data = {
        "model": "net", "hardware": "machine", "policy": "fixed-pattern", "batch": 4, "dtype": "fp16",
        "latency_s": latency_s, "energy_j": 1.0, "bottleneck": "ddr", "critical": {"ddr": 0.75, "matrix": 0.25},
        "layers": list(layers), "batch_dims": {"x": 0}, "no_batch": "", "warnings": [], **others,
    }  # fmt: skip
    path.write_text(json.dumps(data))
    return str(path)


class TestPoints:
    def test_are_matched_by_content_and_what_moved_comes_slowest_first(self, tmp_path: Path) -> None:
        a = folder_of(tmp_path / "a", [row("x", 1.0), row("y", 2.0), row("z", 4.0), row("gone", 1.0)])
        b = folder_of(tmp_path / "b", [row("new", 1.0), row("z", 4.0), row("y", 3.0), row("x", 0.5)])

        found = compared(read_snapshot(a), read_snapshot(b))

        assert [(each.before.names["policy"], each.slower) for each in found.changes] == [
            ("y", 0.5), ("z", 0.0), ("x", -0.5),
        ]  # fmt: skip
        assert [each.before.names["policy"] for each in found.moved] == ["y", "x"]
        assert [point.names["policy"] for point in found.new] == ["new"]
        assert [point.names["policy"] for point in found.missing] == ["gone"]
        assert [each.before.names["policy"] for each in found.slower_than(0.49)] == ["y"]
        assert found.slower_than(0.5) == ()

    def test_with_other_swept_values_batches_or_machines_are_others(self, tmp_path: Path) -> None:
        swept = {"ddr.bandwidth": "60 GB/s"}
        a = folder_of(tmp_path / "a", [row("x", 1.0, **swept), row("x", 2.0, batch=8), row("x", 3.0)])
        b = folder_of(
            tmp_path / "b", [row("x", 1.5, **swept), row("x", 2.0, batch=16), row("x", 3.0, hardware="other")]
        )

        found = compared(read_snapshot(a), read_snapshot(b))

        (change,) = found.changes
        assert change.before.label == "net, batch 4, fp16 on machine under x, ddr.bandwidth = 60 GB/s"
        assert change.slower == 0.5
        assert len(found.new) == len(found.missing) == 2

    def test_of_a_folder_of_its_csv_file_and_of_a_database_alone_are_the_same(self, tmp_path: Path) -> None:
        rows = [row("x", 1.0, clusters="2"), row("x", 2.0, clusters="4"), failed("y", clusters="2")]
        folder = folder_of(tmp_path / "a", rows, {0: [layer("conv", 0.4)]})
        database, table = read_snapshot(folder), read_snapshot(folder / "results.csv")

        assert sorted(map(str, (p.names for p in database.points))) == sorted(map(str, (p.names for p in table.points)))
        for ours, theirs in zip(database.points, table.points, strict=True):
            assert ours.figures == theirs.figures
            assert (ours.error, ours.bottleneck) == (theirs.error, theirs.bottleneck)
            assert database.layers_of(ours) == table.layers_of(theirs)
        assert [len(table.layers_of(point)) for point in table.points] == [1, 0, 0]

    def test_that_run_no_more_count_as_slower(self, tmp_path: Path) -> None:
        a = folder_of(tmp_path / "a", [row("x", 1.0), failed("y")])
        b = folder_of(tmp_path / "b", [failed("x"), row("y", 1.0)])

        found = compared(read_snapshot(a), read_snapshot(b))

        assert [each.before.names["policy"] for each in found.failing] == ["x"]
        assert [each.after.names["policy"] for each in found.repaired] == ["y"]
        assert found.slower_than(10.0) == found.failing

    def test_that_were_measured_are_compared_by_measured_times(self, tmp_path: Path) -> None:
        on = {"target": "llvm", "device": "cpu", "measured_threads": 2}
        a = folder_of(tmp_path / "a", [row("x", 1.0, measured_s=2.0, **on)])
        b = folder_of(tmp_path / "b", [row("x", 1.0, measured_s=3.0, **on)])

        (change,) = compared(read_snapshot(a), read_snapshot(b)).changes

        assert (change.time, change.slower) == ("measured_s", 0.5)

    def test_of_a_later_version_may_have_further_figures(self, tmp_path: Path) -> None:
        a = folder_of(tmp_path / "a", [row("x", 1.0)])
        b = folder_of(tmp_path / "b", [row("x", 1.5, images_per_joule=3.5)])

        for later in (b, b / "results.csv"):
            (change,) = compared(read_snapshot(a), read_snapshot(later)).changes
            assert change.slower == 0.5

    @given(times=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=5))
    def test_flip_exactly_where_the_sign_of_the_difference_does(self, times: list[tuple[int, int]]) -> None:
        a, b = ([_point(f"p{n}", pair[side]) for n, pair in enumerate(times)] for side in (0, 1))
        expected = {
            (f"p{i}", f"p{j}")
            for i, first in enumerate(times)
            for j, second in enumerate(times)
            if first[0] < second[0] and first[1] > second[1]
        }

        found = compared(_snapshot(a), _snapshot(b)).flips

        assert {(flip.faster_before, flip.faster_after) for flip in found} == expected
        assert all(flip.before > 1 > flip.after for flip in found)


def _point(policy: str, seconds: float) -> KeptPoint:
    return KeptPoint({"model": "net", "policy": policy}, {"latency_s": float(seconds)})


def _snapshot(points: Sequence[KeptPoint]) -> Snapshot:
    return Snapshot("place", tuple(points))


class TestExplanation:
    def test_names_the_resource_and_the_layer_that_moved_most(self, tmp_path: Path, terminal: Terminal) -> None:
        a = record(tmp_path / "a.json", 1.0, [layer("conv", 0.6), layer("fc", 0.4)])
        b = record(
            tmp_path / "b.json", 1.5, [layer("conv", 1.05, "matrix"), layer("fc", 0.45)], bottleneck="matrix",
            critical={"ddr": 0.5, "matrix": 0.5},
        )  # fmt: skip

        text = terminal.out("compare", a, b)
        (moved,) = terminal.json("compare", a, b)["moved"]

        assert "+50.0 %" in text
        assert "matrix +500 ms; most in layer conv, +450 ms (ddr → matrix); bound by ddr → matrix" in text
        assert [each["name"] for each in moved["resources"]] == ["matrix"]
        assert [(each["name"], each["limited_by"]) for each in moved["layers"]] == [
            ("conv", "ddr -> matrix"), ("fc", "ddr"),
        ]  # fmt: skip

    def test_reads_the_layers_of_folders(self, tmp_path: Path, terminal: Terminal) -> None:
        a = folder_of(tmp_path / "a", [row("x", 1.0)], {0: [layer("conv", 0.5), layer("fc", 0.5)]})
        b = folder_of(tmp_path / "b", [row("x", 2.0)], {0: [layer("conv", 0.5), layer("fc", 1.5)]})

        (moved,) = terminal.json("compare", str(a), str(b))["moved"]

        assert [each["name"] for each in moved["layers"]] == ["fc"]
        assert "throughput_per_s" not in moved["others"]


class TestCommand:
    @pytest.mark.parametrize(
        ("limit", "code"), [("49.9%", 1), ("50 %", 0), ("100%", 0), ("0%", 1)]
    )  # fmt: skip
    def test_fails_above_the_limit_only(self, limit: str, code: int, tmp_path: Path, terminal: Terminal) -> None:
        a, b = record(tmp_path / "a.json", 1.0), record(tmp_path / "b.json", 1.5)

        assert ("slower by more than" in terminal.out("compare", a, b, "--fail-above", limit, code=code)) == (code == 1)
        terminal.out("compare", b, a, "--fail-above", limit)
        terminal.out("compare", a, a, "--fail-above", limit)

    def test_markdown_keeps_names_as_text(self, tmp_path: Path, terminal: Terminal) -> None:
        a = record(tmp_path / "a.json", 1.0, model="a|b_c*<d>")
        b = record(tmp_path / "b.json", 1.5, model="a|b_c*<d>")

        lines = terminal.out("compare", a, b, "--markdown").splitlines()

        assert lines[0].startswith(r"**a\|b\_c\*\<d\>, batch 4, fp16 on machine under fixed-pattern takes 50.0 % more")
        assert lines[2] == "1 common point, 1 slower, 0 faster, 0 unchanged, 0 new, 0 missing"
        assert lines[5] == "|---|---|---|---|---|---|"
        assert lines[6].startswith(r"| a\|b\_c\*\<d\>, batch 4, fp16 on machine under fixed-pattern | 1.00 s |")

    @pytest.mark.parametrize(
        ("before", "after", "told"),
        [
            ({"x": 1.0}, {"x": 1.5}, "NET under x takes 50.0 % more time: 1.50 s, before 1.00 s."),
            ({"x": 2.0}, {"x": 1.0}, "NET under x takes 50.0 % less time: 1.00 s, before 2.00 s."),
            ({"x": 1.0}, {"x": 1.0}, "No time changes at 1 point."),
            ({"x": 1.0, "y": 1.0}, {"x": 1.2, "y": 1.1},
             "Slower at all 2 points (most 20.0 % more time: NET under x)."),
            ({"x": 1.0, "y": 1.0, "z": 1.0}, {"x": 1.2, "y": 0.5, "z": 1.0},
             "Slower at 1 of 3 points (20.0 % more time: NET under x); faster at 1 of 3 points (50.0 % less time:"
             " NET under y); 1 as before."),
        ],
    )  # fmt: skip
    def test_the_first_line_answers(
        self, before: dict[str, float], after: dict[str, float], told: str, tmp_path: Path, terminal: Terminal
    ) -> None:
        a, b = (
            folder_of(tmp_path / name, [row(policy, time_s) for policy, time_s in times.items()])
            for name, times in (("a", before), ("b", after))
        )
        told = told.replace("NET", "net, batch 4, fp16 on machine")
        assert terminal.out("compare", str(a), str(b)).splitlines()[0] == told
        assert terminal.json("compare", str(a), str(b))["answer"] == told

    def test_policies_whose_order_flips_are_named(self, tmp_path: Path, terminal: Terminal) -> None:
        a = folder_of(tmp_path / "a", [row("x", 1.0), row("y", 2.0)])
        b = folder_of(tmp_path / "b", [row("x", 4.0), row("y", 2.0)])

        (flip,) = terminal.json("compare", str(a), str(b))["flips"]

        assert (flip["faster_before"], flip["faster_after"], flip["before"], flip["after"]) == ("x", "y", 2.0, 0.5)
        assert flip["place"] == "net, batch 4, fp16 on machine"
        assert "1 order flip" in terminal.out("compare", str(a), str(b), "--markdown")

    def test_columns_to_ignore_make_points_of_two_policies_one(self, tmp_path: Path, terminal: Terminal) -> None:
        a, b = record(tmp_path / "a.json", 1.0), record(tmp_path / "b.json", 0.5, policy="graphturbo")

        assert "compared with --ignore policy, they may differ in that" in terminal.refused("compare", a, b)
        assert terminal.json("compare", a, b, "--ignore", "policy")["moved"][0]["change"] == -0.5
        several = str(folder_of(tmp_path / "c", [row("x", 1.0), row("y", 2.0)]))
        message = terminal.refused("compare", several, a, "--ignore", "policy")
        assert "several points that differ in nothing else" in message

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("no.json", None, "no such file or directory"),
            ("text.json", "{", "is not JSON"),
            ("deep.json", "[" * 100_000, "is nested more than 128 levels deep"),
            ("list.json", "[]", "has no model; needs the output of dsascape simulate --json"),
            ("error.json", '{"error": "does not fit"}', "has an error instead of figures: does not fit"),
            ("other.json", '{"model": "net"}', "has no hardware"),
            ("fast.json", json.dumps(dict.fromkeys(NEEDED, "fast")), "latency_s has 'fast'; needs a number"),
            ("empty.csv", "", "has no column model"),
            ("other.csv", "a,b\n1,2\n", "has no column model"),
            ("binary.csv", "\udcff\udcfe", "is not UTF-8 text"),
            ("quote.csv", 'model,policy,latency_s\n"x', "is not CSV"),
        ],
    )  # fmt: skip
    def test_files_that_cannot_be_compared_get_one_message(
        self, name: str, content: str | None, message: str, tmp_path: Path, terminal: Terminal
    ) -> None:
        good, bad = record(tmp_path / "good.json", 1.0), tmp_path / name
        if content is not None:
            bad.write_bytes(content.encode("utf-8", "surrogateescape"))

        for pair in ((good, str(bad)), (str(bad), good)):
            assert message in terminal.refused("compare", *pair)

    @pytest.mark.parametrize("limit", ["-2%", "2", "0.02", "two", "%", "1e3%", ""])
    def test_percentages_are_positive_and_have_their_sign(self, limit: str, tmp_path: Path, terminal: Terminal) -> None:
        a = record(tmp_path / "a.json", 1.0)

        assert "needs a percentage from 0, such as 2%" in terminal.refused("compare", a, a, f"--fail-above={limit}")

    def test_a_folder_without_results_is_refused(self, tmp_path: Path, terminal: Terminal) -> None:
        a = record(tmp_path / "a.json", 1.0)

        assert "is no results folder" in terminal.refused("compare", a, str(tmp_path))

    def test_a_damaged_database_is_refused(self, tmp_path: Path, terminal: Terminal) -> None:
        a = record(tmp_path / "a.json", 1.0)
        folder = folder_of(tmp_path / "f", [row("x", 1.0)])
        with closing(sqlite3.connect(folder / "results.sqlite")) as connection:
            connection.execute("DROP TABLE runs")

        assert "damaged" in terminal.refused("compare", a, str(folder)) or "no column key" in terminal.err
