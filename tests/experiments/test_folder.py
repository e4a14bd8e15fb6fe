"""A results folder is written by one run at a time, in whole files; its sound rows are shown if others are damaged."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from dsascape.experiments.question.points import Figure
from dsascape.experiments.results.files import for_spreadsheet
from dsascape.experiments.results.frame import csv_text, read_sound
from dsascape.experiments.results.store import ResultStore
from dsascape.experiments.shell.cli import main
from dsascape.hw_models.text.whole_file import write_whole
from tests.experiments.terminal import Terminal

STUDY = """# Does a larger buffer help?
workloads: [{model: bert-tiny, batch: 4}]
hardware: {base: stcp920, sweep: {local_buffer.capacity: [64 B, 512 KiB, 1.25 MiB]}}
policies: [unfused]
"""
COMMAND = [sys.executable, "-c", "from dsascape.experiments.shell.cli import entry_point; entry_point()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ``STUDY``: one of its three points fails."""
    place = tmp_path_factory.mktemp("study")
    (place / "study.yaml").write_text(STUDY)
    assert main(["run", str(place / "study.yaml"), "--out", str(place / "out"), "--workers", "1"]) == 1
    return place / "out"


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of that run's folder to damage."""
    copy = tmp_path / "out"
    copy.mkdir()
    for name in ("results.sqlite", "experiment.json", "timelines.json"):
        (copy / name).write_bytes((finished / name).read_bytes())
    return copy


def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def changed(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "results.sqlite")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


class TestRuns:
    def test_a_second_run_names_what_failed_earlier(self, finished: Path, terminal: Terminal) -> None:
        said = terminal.out("run", str(finished.parent / "study.yaml"), "--out", str(finished), code=1)

        assert "3 design points, 0 computed now, 0 failed, 1 failed earlier" in said
        assert "bert-tiny on stcp920 under unfused, local_buffer.capacity = 64 B: bert-tiny: about" in said
        found = json.loads(
            terminal.out("run", str(finished.parent / "study.yaml"), "--out", str(finished), "--json", code=1)
        )
        assert (found["failed"], found["failed_earlier"]) == (0, 1)

    def test_a_second_run_on_a_folder_is_refused_while_the_first_goes_on(
        self, tmp_path: Path, terminal: Terminal
    ) -> None:
        (tmp_path / "study.yaml").write_text(STUDY)
        with ResultStore(tmp_path / "out"):
            message = terminal.refused("run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "out"))

        assert f"another run (process {os.getpid()}) is writing there" in message
        assert main(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "out")]) == 1

    def test_of_runs_started_together_on_a_fresh_folder_one_runs_and_the_others_say_so(self, tmp_path: Path) -> None:
        (tmp_path / "study.yaml").write_text(STUDY)
        command = [*COMMAND, "run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "out"), "--workers", "1"]
        together = [
            subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        ends = [(process.communicate()[1], process.returncode) for process in together]

        assert {code for _, code in ends} <= {1, 2}
        assert 1 in {code for _, code in ends}
        assert all("is writing there" in message for message, code in ends if code == 2)
        assert len(pd.read_csv(tmp_path / "out" / "results.csv")) == 3

    def test_a_run_in_progress_has_a_report_of_its_points_so_far(self, folder: Path, terminal: Terminal) -> None:
        note = json.loads((folder / "experiment.json").read_text())
        (folder / "experiment.json").write_text(json.dumps({**note, "is_finished": False, "planned": 3}))
        (folder / "timelines.json").unlink()
        changed(folder, "DELETE FROM runs WHERE error IS NOT NULL")

        assert "2 of 3 design points are there" in terminal.out("report", str(folder))
        found = terminal.json("report", str(folder))
        assert (found["points"], found["planned"], found["remarks"]) == (2, 3, [])
        assert "2 of 3 design points so far" in page(folder)


class TestDamage:
    @pytest.mark.sampled(4)
    @pytest.mark.parametrize(
        "content",
        [b"", b"[[]]", b"{}", b"\xff\xfe", b"[" * 1000 + b"]" * 1000, b'{"experiment": 3, "keys": {}}', b"null"],
    )
    @pytest.mark.parametrize("name", ["experiment.json", "timelines.json"])
    def test_of_a_note_is_one_message_and_the_results_are_shown(
        self, name: str, content: bytes, folder: Path, terminal: Terminal
    ) -> None:
        (folder / name).write_bytes(content)
        said = terminal.out("report", str(folder), code=1)

        assert said.count("is damaged") == 1
        assert f"{folder / name}: is damaged" in said
        assert "run the experiment again" in said
        assert "1.25" in page(folder)
        assert "3 design points" in page(folder)

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize(
        "change",
        [
            lambda note: note["experiment"].update(hardware=7),
            lambda note: note["experiment"].update(name="../../etc"),
            lambda note: note.update(keys=[1, 2]),
            lambda note: note.update(hardware=[["one"]]),
            lambda note: note.update(planned=-1),
        ],
    )
    def test_of_one_value_of_the_note_is_named(
        self, change: Callable[[dict[str, object]], None], folder: Path, terminal: Terminal
    ) -> None:
        note = json.loads((folder / "experiment.json").read_text())
        change(note)
        (folder / "experiment.json").write_text(json.dumps(note))

        assert "experiment.json: is damaged at " in terminal.out("report", str(folder), code=1)
        assert "local_buffer.capacity" in page(folder)

    def test_of_a_timeline_is_no_timeline(self, folder: Path, finished: Path, terminal: Terminal) -> None:
        timelines = json.loads((folder / "timelines.json").read_text())
        timelines[0]["lanes"][0][1][0]["end_ps"] = 10**400
        (folder / "timelines.json").write_text(json.dumps(timelines))

        assert "timelines.json: is damaged" in terminal.out("report", str(folder), code=1)
        assert 'id="timelines"' in page(finished)
        assert 'id="timelines"' not in page(folder)

    def test_of_the_name_of_a_trace_is_no_link(self, folder: Path, terminal: Terminal) -> None:
        timelines = json.loads((folder / "timelines.json").read_text())
        timelines[0]["trace"] = "javascript:alert(1)"
        (folder / "timelines.json").write_text(json.dumps(timelines))

        assert "a trace is not called perfetto-1.json" in terminal.out("report", str(folder), code=1)
        assert "javascript:alert" not in page(folder)

    @pytest.mark.parametrize("value", ["'abc'", "x'00ff'", "9e999", "-9e999", "''", "'1.5'"])
    @pytest.mark.parametrize("column", ["latency_s", "energy_j", "kernels", '"traffic_bytes.ddr"', "batch"])
    def test_of_a_figure_leaves_that_figure_out(
        self, column: str, value: str, folder: Path, terminal: Terminal
    ) -> None:
        changed(folder, f"UPDATE runs SET {column} = {value} WHERE \"local_buffer.capacity\" = '512 KiB'")
        with closing(sqlite3.connect(folder / "results.sqlite")) as connection:
            (kind,) = connection.execute(
                f"SELECT typeof({column}) FROM runs WHERE \"local_buffer.capacity\" = '512 KiB'"
            ).fetchone()
        results = read_sound(folder)

        assert len(results.frame) == 3
        left = results.frame.set_index("local_buffer.capacity")[column.strip('"')]
        if value == "'1.5'" and kind == "real":
            assert results.remarks == ()
        else:
            assert pd.isna(left["512 KiB"])
            assert "run the experiment again with --retry-failed" in results.remarks[0]
        assert left.notna()["1.25 MiB"]

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("column", ["model", "policy", "hardware", "bottleneck", "error", "dtype"])
    def test_of_a_name_is_shown_as_text(self, column: str, folder: Path, terminal: Terminal) -> None:
        changed(folder, f"UPDATE runs SET {column} = x'ff00' WHERE error IS NULL")

        assert terminal.out("report", str(folder)).strip() == str(folder / "report.html")

    def test_of_figures_is_mended_by_a_run_that_tries_failed_points_again(
        self, folder: Path, finished: Path, terminal: Terminal
    ) -> None:
        changed(folder, "UPDATE runs SET energy_j = 'abc' WHERE \"local_buffer.capacity\" = '512 KiB'")
        assert "energy_j of bert-tiny, which is 'abc'" in terminal.out("report", str(folder), code=1)
        study = str(finished.parent / "study.yaml")
        found = json.loads(terminal.out("run", study, "--out", str(folder), "--retry-failed", "--json", code=1))

        assert (found["computed"], found["failed"], found["failed_earlier"]) == (2, 1, 0)
        assert read_sound(folder).remarks == ()

    def test_rows_of_one_key_are_one(self, folder: Path, terminal: Terminal) -> None:
        changed(
            folder,
            "CREATE TABLE copy AS SELECT * FROM runs",
            "INSERT INTO copy SELECT * FROM runs",
            "DROP TABLE runs",
            "ALTER TABLE copy RENAME TO runs",
        )

        assert "3 of 6 rows have no key, or that of another row" in terminal.out("report", str(folder), code=1)
        assert len(pd.read_csv(folder / "results.csv")) == 3

    @pytest.mark.parametrize("command", ["report", "run"])
    def test_of_the_whole_store_says_what_to_do(
        self, command: str, folder: Path, finished: Path, terminal: Terminal
    ) -> None:
        (folder / "results.sqlite").write_bytes(b"something else entirely" * 100)
        argv = ["report", str(folder)] if command == "report" else ["run", str(finished.parent / "study.yaml")]
        message = terminal.refused(*argv, *(["--out", str(folder)] if command == "run" else []))

        assert f"rename {folder / 'results.sqlite'} and run the experiment again" in message
        assert "SELECT" not in message
        assert "PRAGMA" not in message

    def test_of_a_page_of_the_store_leaves_the_rows_before_it(self, tmp_path: Path) -> None:
        with ResultStore(tmp_path) as store:
            for number in range(200):
                store.add(f"k{number:03}", {"model": f"{number}" + "m" * 2000, "latency_s": 1.0, "error": None})
        path = tmp_path / "results.sqlite"
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] + b"\xff" * (len(whole) - len(whole) // 2))

        results = read_sound(tmp_path)

        assert 0 < len(results.frame) < 200
        assert f"{path}: is damaged" in results.remarks[0]
        assert f"{len(results.frame)} rows could be read; rename {path}" in results.remarks[0]


def test_columns_do_not_depend_on_which_point_came_first(tmp_path: Path) -> None:
    rows: list[dict[str, Figure]] = [
        {"clusters": "1", "critical.ddr": 0.5, "latency_s": 1.0, "traffic_bytes.ddr": 3, "error": None},
        {"alpha": "2", "critical.broadcast": 0.5, "latency_s": 1.0, "traffic_bytes.a": 3, "error": None},
    ]
    orders = []
    for name, several in (("one", rows), ("two", rows[::-1])):
        with ResultStore(tmp_path / name) as store:
            for number, row in enumerate(several):
                store.add(str(number), row)
        orders.append(list(read_sound(tmp_path / name).frame))

    assert orders[0] == orders[1]


class TestFiles:
    def test_appear_whole_or_not_at_all(self, tmp_path: Path) -> None:
        path = tmp_path / "report.html"
        write_whole(path, "before")
        with pytest.raises(UnicodeEncodeError):
            write_whole(path, "half\udcff")

        assert path.read_text() == "before"
        assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]

    def test_can_be_read_by_whom_the_user_lets_read(self, tmp_path: Path) -> None:
        write_whole(tmp_path / "new", "x")
        (tmp_path / "usual").write_text("x")
        (tmp_path / "open").write_text("x")
        (tmp_path / "open").chmod(0o604)
        write_whole(tmp_path / "open", "y")

        assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode
        assert (tmp_path / "open").stat().st_mode & 0o777 == 0o604

    def test_for_perfetto_are_linked_and_have_the_run_of_the_timeline(
        self, finished: Path, folder: Path, terminal: Terminal
    ) -> None:
        trace = json.loads((finished / "perfetto-1.json").read_text())
        (timeline,) = json.loads((finished / "timelines.json").read_text())

        assert trace["otherData"]["makespan_ps"] == timeline["makespan_ps"]
        assert 'href="perfetto-1.json"' in page(finished)
        terminal.out("report", str(folder))
        assert 'href="perfetto-1.json"' not in page(folder)

    def test_of_timelines_have_the_critical_path_from_zero_to_the_end(self, finished: Path) -> None:
        (timeline,) = json.loads((finished / "timelines.json").read_text())
        ends = [0, *(span["end_ps"] for span in timeline["critical"])]

        assert [span["start_ps"] for span in timeline["critical"]] == ends[:-1]
        assert ends[-1] == timeline["makespan_ps"]

    def test_of_an_earlier_version_still_make_a_report(self, folder: Path, terminal: Terminal) -> None:
        """Rows without command, base and roofline; a timeline without critical path."""
        later = ("command", "is_base", "macs", "peak_macs_per_s", "off_chip_bytes_per_s")
        changed(folder, *(f"ALTER TABLE runs DROP COLUMN {column}" for column in later))
        timelines = json.loads((folder / "timelines.json").read_text())
        for timeline in timelines:
            del timeline["critical"], timeline["trace"]
        (folder / "timelines.json").write_text(json.dumps(timelines))

        assert terminal.out("report", str(folder)).strip() == str(folder / "report.html")
        assert "do not say which points are on the unmodified base machine" in page(folder)
        assert 'id="timelines"' in page(folder)
        assert "Where the latency goes" in page(folder)

    def test_of_a_run_leave_nothing_beside_them(self, finished: Path) -> None:
        left = {entry.name for entry in finished.iterdir() if not entry.name.startswith("results.sqlite")}

        assert left == {
            ".lock", "experiment.json", "layers.csv", "perfetto-1.json", "report.html", "results.csv", "timelines.json",
        }  # fmt: skip


class TestSpreadsheets:
    @pytest.mark.parametrize("text", ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("x")'])
    def test_take_no_text_for_a_formula(self, text: str) -> None:
        assert for_spreadsheet(text) == f"'{text}"

    @pytest.mark.parametrize("text", ["-5", "+1.5e3", "-1e-9", "resnet50", "", "1 = 2"])
    def test_keep_numbers_and_other_text(self, text: str) -> None:
        assert for_spreadsheet(text) == text

    def test_get_numbers_as_numbers(self) -> None:
        frame = pd.DataFrame({"policy": ["=cmd()", "unfused"], "latency_s": [-1.5, None], "kernels": [3.0, None]})

        assert csv_text(frame) == "policy,latency_s,kernels\n'=cmd(),-1.5,3\nunfused,,\n"
