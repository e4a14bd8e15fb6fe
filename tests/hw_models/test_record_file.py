"""Files of others: only regular files of bounded size are read, JSON within limits, and a lock touches nothing else."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models.text.database import in_words, open_database
from dsascape.hw_models.text.folder_lock import LOCK, FolderLock, LockError
from dsascape.hw_models.text.record_file import DEEPEST, RecordError, json_lines, parse_json, read_bytes, read_json
from dsascape.hw_models.text.whole_file import DiskError, write_whole, write_with

TEXT = st.text(st.characters(codec="utf-8"))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)  # fmt: skip


class TestJson:
    @given(PLAIN)
    def test_of_plain_values_comes_back_as_it_was(self, value: object) -> None:
        assert parse_json(json.dumps(value), "x") == value

    @given(st.binary(max_size=40) | PLAIN.map(lambda value: json.dumps(value).encode()), st.integers(0, 40))
    def test_of_any_bytes_is_read_or_refused_with_the_files_name(
        self, tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: int
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "any.json"
        path.write_bytes(content[:cut])
        said = f"{path}: "
        try:
            read_json(path, 100)
        except RecordError as error:
            said = str(error)
        assert said.startswith(f"{path}: ")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[" * 100_000, "nested more than"), ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested more than"),
            ('{"a": 1, "b": {"c": 1, "c": 2}}', "key 'c' is duplicate"), ("[NaN]", "NaN is no number"),
            ("-Infinity", "-Infinity is no number"), ("1e999", "double precision"), ("9" * 30, "not 64"),
            ("9" * 5000, "not JSON"), ('"\\ud800"', "surrogate"), ('{"\\udfff": 1}', "surrogate"), ("", "not JSON"),
            ("0," * 10_000_001, "more than 5,000,000 values"),
        ],
    )  # fmt: skip
    def test_beyond_a_limit_is_refused(self, text: str, message: str) -> None:
        with pytest.raises(RecordError, match=message):
            parse_json(text, "x")

    def test_as_deep_as_is_read_is_read(self) -> None:
        assert parse_json("[" * DEEPEST + "]" * DEEPEST, "x")

    def test_of_lines_is_refused_with_the_lines_number(self, tmp_path: Path) -> None:
        (tmp_path / "lines").write_bytes(b'\xef\xbb\xbf{"a": "\xe2\x80\xa8"}\r\n{}\n')
        assert [value for _, value in json_lines(tmp_path / "lines", 100, 2)] == [{"a": "\u2028"}, {}]
        with pytest.raises(RecordError, match="has 2 lines; at most 1 are read"):
            list(json_lines(tmp_path / "lines", 100, 1))
        (tmp_path / "lines").write_text("{}\n\n")
        with pytest.raises(RecordError, match="lines:2: is not JSON"):
            list(json_lines(tmp_path / "lines", 100, 2))


class TestFiles:
    def test_that_are_no_regular_ones_are_refused_before_anything_is_read(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "link").symlink_to("/dev/zero")
        for name, message in (("pipe", "not a regular file"), ("link", "not a regular file"), (".", "is a directory")):
            with pytest.raises(RecordError, match=message):
                read_bytes(tmp_path / name, 10)

    def test_that_are_too_large_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"x" * 11)
        with pytest.raises(RecordError, match="more; at most 10 B are read"):
            read_bytes(tmp_path / "a", 10)
        assert read_bytes(tmp_path / "a", 11) == b"x" * 11

    def test_that_the_disk_does_not_take_are_kept_elsewhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with pytest.raises(DiskError, match=r"no/place: cannot be written: no such file or directory; its content"):
            write_whole(tmp_path / "no" / "place", "dear")
        (kept,) = tmp_path.glob("dsascape-*/place")
        assert kept.read_text() == "dear"

    def test_of_a_disk_that_takes_nothing_anywhere_are_named(self, tmp_path: Path) -> None:
        def full(place: Path) -> None:
            raise OSError(28, "No space left on device")

        (tmp_path / "a").write_text("old")
        with pytest.raises(DiskError, match=r"a: cannot be written: no space left on device$"):
            write_with(tmp_path / "a", full)
        assert [each.name for each in tmp_path.iterdir()] == ["a"]
        assert (tmp_path / "a").read_text() == "old"


class TestLock:
    @pytest.mark.parametrize("kind", ["link", "second name", "pipe", "folder", "dangling"])
    def test_that_is_no_plain_file_is_refused_and_what_it_leads_to_is_left_alone(
        self, tmp_path: Path, kind: str
    ) -> None:
        victim, lock = tmp_path / "victim", tmp_path / "out" / LOCK
        lock.parent.mkdir()
        victim.write_text("precious")
        make: dict[str, Callable[[], None]] = {
            "link": lambda: lock.symlink_to(victim), "second name": lambda: lock.hardlink_to(victim),
            "pipe": lambda: os.mkfifo(lock), "folder": lock.mkdir, "dangling": lambda: lock.symlink_to("../new"),
        }  # fmt: skip
        make[kind]()
        with pytest.raises(LockError, match=LOCK):
            FolderLock(lock.parent)
        assert victim.read_text() == "precious"
        assert not (tmp_path / "new").exists()

    def test_is_held_by_one_at_a_time(self, tmp_path: Path) -> None:
        with FolderLock(tmp_path), pytest.raises(LockError, match=rf"another run \(process {os.getpid()}\)"):
            FolderLock(tmp_path)
        FolderLock(tmp_path).close()


class TestDatabase:
    @pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
    @pytest.mark.parametrize("kind", ["link", "second name", "pipe"])
    def test_that_is_no_plain_file_is_not_written_to(self, tmp_path: Path, kind: str, end: str) -> None:
        (tmp_path / "victim").write_bytes(b"")
        place = tmp_path / f"a.sqlite{end}"
        if kind == "pipe":
            os.mkfifo(place)
        elif kind == "link":
            place.symlink_to("victim")
        else:
            place.hardlink_to(tmp_path / "victim")
        with pytest.raises(RecordError, match=place.name):
            open_database(tmp_path / "a.sqlite", writes=True)
        assert (tmp_path / "victim").read_bytes() == b""

    @pytest.mark.parametrize(
        "schema",
        [
            "CREATE VIEW runs AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
            "CREATE TABLE runs (n); CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        ],
    )
    def test_that_would_run_something_is_refused(self, tmp_path: Path, schema: str) -> None:
        with closing(sqlite3.connect(tmp_path / "a")) as connection:
            connection.executescript(schema)
        for writes in (False, True):
            with pytest.raises(RecordError, match="needs plain tables"):
                open_database(tmp_path / "a", writes=writes)

    def test_errors_name_the_disk_the_other_process_or_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        with closing(open_database(path, writes=True)) as one, closing(sqlite3.connect(path, timeout=0)) as other:
            one.execute("CREATE TABLE t (n)")
            one.execute("BEGIN EXCLUSIVE")
            with pytest.raises(sqlite3.Error) as busy:
                other.execute("SELECT * FROM t")
            one.rollback()
            one.execute("PRAGMA max_page_count = 2")
            with pytest.raises(sqlite3.Error) as full:
                one.execute("INSERT INTO t VALUES (zeroblob(100000))")
        path.write_bytes(b"no database" * 100)
        with pytest.raises(sqlite3.Error) as damaged:
            open_database(path, writes=False)
        said = [in_words(path, each.value, "rename it") for each in (busy, full, damaged)]
        assert "another process" in said[0]
        assert "the disk is full" in said[1]
        assert "damaged" in said[2]
        assert "rename it" in said[2]
        assert all("damaged" not in each for each in said[:2])


def test_a_file_beyond_the_size_that_is_allowed_to_a_process_is_named_and_not_called_damaged(tmp_path: Path) -> None:
    program = (
        "import resource, signal, pathlib\n"
        "from dsascape.experiments.results.store import ResultStore, StoreError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
        "try:\n"
        f"    ResultStore(pathlib.Path({str(tmp_path)!r}))\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "the disk" in said
    assert "damaged" not in said
