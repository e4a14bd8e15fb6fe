"""Records of others, changed at random in every command that reads them: used, or refused in one line with the file."""

import contextlib
import io
import json
import math
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsascape.experiments.shell.cli import main
from tests.experiments.onnx_block import block
from tests.tiers import examples

LONGEST_S = 30
"""Seconds of processor time in which a command answers, whatever a file has."""
STRANGE: tuple[Any, ...] = (
    0, -1, 1, 2, 3, 64, 2**20, 2**31, 2**39, 2**62, 2**64, 10**30, 10**400, 1.5, 1e-30, 1e300, math.inf,
    -1e-9, math.nan, "", "x", "t0", "\0", "\ud800", "=1+1", "../../etc/passwd", "y" * 5000, None, True, False, [], [0],
    [None], {}, {"": 0}, [2**39] * 3, [[[[[]]]]], [{"axes": "space", "order": [0, 0], "sizes": [0, 0]}],
)  # fmt: skip
BROKEN: tuple[bytes, ...] = (
    b"", b"\xff\xfe", b"[" * 100_000, b'{"a": ' * 50_000, b"null", b"NaN", b"[]", b"{}", b'"x"', b"1e999", b"\0" * 100,
    b'{"model": 1, "model": 2}', b"\xef\xbb\xbf", b"a,b\n1,2\n", b'"', b"SQLite format 3\0" + b"x" * 200,
)  # fmt: skip
"""Contents that are no record of any kind."""


def changed(value: Any, rng: random.Random) -> Any:
    """A value that is changed at one place, deep or not, or has an entry more or less."""
    kind = rng.random()
    if isinstance(value, list) and value and kind < 0.85:
        place = rng.randrange(len(value))
        middle = value if kind < 0.1 else [] if kind < 0.2 else [changed(value[place], rng)]
        return [*value[:place], *middle, *value[place + 1 :]]
    if isinstance(value, dict) and value and kind < 0.9:
        name = rng.choice(list(value))
        rest = {key: each for key, each in value.items() if key != name or kind >= 0.1}
        more = str(rng.choice(STRANGE))[:50] if kind < 0.15 else name
        return rest if kind < 0.1 else {**rest, more: changed(value[name], rng)}
    if isinstance(value, int | float) and not isinstance(value, bool) and kind < 0.5:
        return rng.choice([value * 2, value + 1, -value, value * 1000, value / 3])
    return rng.choice(STRANGE)


def broken(content: bytes, rng: random.Random) -> bytes:
    """Content with a few bytes changed, or of which the end is missing."""
    if rng.random() < 0.3:
        return content[: rng.randrange(len(content) + 1)]
    made = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        made[rng.randrange(len(made))] = rng.randrange(256)
    return bytes(made)


def text_of(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


class Late(BaseException):
    """A command that does not come to an end."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    def late(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def answered(*argv: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of a command, which has one line for a mistake and neither a traceback nor no end."""
    out, err = io.StringIO(), io.StringIO()
    with bounded(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*argv, "--json"])
    assert code in (0, 1, 2), argv
    if code == 2:
        assert err.getvalue().count("dsascape: ") >= 1, argv
        assert "Error: " not in err.getvalue().split("dsascape: ", 1)[1][:40], err.getvalue()  # a bare exception
    answer: dict[str, Any] = json.loads(out.getvalue(), parse_constant=lambda name: pytest.fail(f"{name} in {argv}"))
    return code, answer


@dataclass(frozen=True)
class Kind:
    """A kind of record: a sound one, and the commands that read it."""

    path: str
    commands: tuple[tuple[str, ...], ...]
    is_lines: bool = False


SIMULATE = ("simulate", "block.onnx", "--hardware")
KINDS = {
    "schedule of a CPU": Kind("cpu.json", ((*SIMULATE, "kirin990", "--schedule", "cpu.json"),)),
    "schedule of a GPU": Kind("gpu.json", ((*SIMULATE, "a100", "--schedule", "gpu.json"),)),
    "schedule of a DSA": Kind(
        "dsa.json",
        ((*SIMULATE, "stcp920", "--schedule", "dsa.json"),
         ("fuse", "block.onnx", "--hardware", "stcp920", "--schedule", "dsa.json")),
    ),
    "tuned kernels": Kind(
        "tuned/kernels.jsonl", ((*SIMULATE, "kirin990", "--policy", "unfused", "--kernels", "tuned"),), is_lines=True
    ),
    "pins": Kind("pins.yaml", ((*SIMULATE, "kirin990", "--policy", "unfused", "--pins", "pins.yaml"),)),
    "profiles": Kind(
        "profiles.json",
        (("fuse", "bert-tiny", "--sequence", "8", "--hardware", "kirin990", "--policy", "dnnfusion", "--option",
          "profile=profiles.json"),),
    ),
    "record": Kind(
        "record.json",
        (("compare", "record.json", "good.json", "--fail-above", "2%"),
         ("compare", "good.json", "record.json", "--fail-above", "2%")),
    ),
    "note of a folder": Kind("out/experiment.json", (("report", "out"),)),
    "timelines of a folder": Kind("out/timelines.json", (("report", "out"),)),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a sound record of every kind, in which commands run."""
    folder, before = tmp_path_factory.mktemp("sound"), Path.cwd()
    os.chdir(folder)
    block(folder)
    for hardware, name in (("kirin990", "cpu"), ("a100", "gpu"), ("stcp920", "dsa")):
        assert answered(*SIMULATE, hardware, "--policy", "fixed-pattern", "--schedule-out", f"{name}.json")[0] == 0
    tune = "tune", "block.onnx", "--runner", "simulate", "--hardware", "kirin990", "--policy", "unfused"
    code, _ = answered(*tune, "--tuner", "random", "--trials", "6", "--unit", "3", "--out", "tuned")
    assert code == 0
    layer = answered(*SIMULATE, "kirin990", "--policy", "unfused")[1]["layers"][1]["layer"]
    steps = json.loads(Path("tuned/kernels.jsonl").read_text().split("\n")[0])["steps"]
    Path("pins.yaml").write_text(json.dumps({"layers": {"conv": {"steps": steps}, layer: {"threads": 2}}}))
    answered(*KINDS["profiles"].commands[0])
    record = answered(*SIMULATE, "stcp920", "--policy", "unfused")[1]
    for name in ("record.json", "good.json"):
        Path(name).write_text(json.dumps(record))
    Path("study.yaml").write_text("workloads: [block.onnx]\nhardware: stcp920\npolicies: [unfused]\n")
    assert answered("run", "study.yaml", "--out", "out", "--workers", "1")[0] == 0
    yield folder
    os.chdir(before)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(80, few=3))
@given(seed=st.integers(0, 2**32))
def test_a_changed_record_is_used_or_refused_in_one_line(kind: str, seed: int, sound: Path) -> None:
    rng, of = random.Random(seed), KINDS[kind]
    path = sound / of.path
    content = path.read_bytes()
    if rng.random() < 0.2:
        made = rng.choice(BROKEN)
    elif rng.random() < 0.2:
        made = broken(content, rng)
    elif of.is_lines:
        lines = [changed(json.loads(line), rng) for line in content.decode().splitlines()]
        made = b"".join([text_of(line) + b"\n" for line in lines])
    else:
        made = text_of(changed(json.loads(content), rng))
    path.write_bytes(made)
    try:
        for command in of.commands:
            _, answer = answered(*command)
            assert answer.get("latency_s", 1.0) >= 1e-12
    finally:
        path.write_bytes(content)


TUNE = (
    "tune", "block.onnx", "--runner", "simulate", "--hardware", "kirin990", "--policy", "unfused", "--tuner", "random",
    "--trials", "6", "--unit", "3", "--out",
)  # fmt: skip
STORED: tuple[Any, ...] = (
    0, -1, 2**40, 2**62, 0.0, -1.0, 1e-30, 1e300, math.inf, -math.inf, "", "x", "1", "[" * 100_000, "[]", "{}", "NaN",
    b"", b"\xff", None, "y" * 5000, '[{"step": "Tile"}]', "\x1b[2J",
)  # fmt: skip
SCHEMAS = (
    "ALTER TABLE {0} RENAME TO other", "DROP TABLE {0}", "CREATE TRIGGER t AFTER INSERT ON {0} BEGIN SELECT 1; END",
    "ALTER TABLE {0} ADD COLUMN more", "CREATE VIEW v AS SELECT * FROM {0}", "DELETE FROM {0}",
)  # fmt: skip
TABLES = {
    "candidates": ("tuned/candidates.sqlite", (*TUNE, "tuned")),
    "runs": ("out/results.sqlite", ("report", "out")),
}


@pytest.mark.parametrize("table", TABLES)
@settings(max_examples=examples(80, few=4))
@given(seed=st.integers(0, 2**32))
def test_a_changed_database_is_refused_or_what_is_said_of_it_is_possible(table: str, seed: int, sound: Path) -> None:
    rng, (name, command) = random.Random(seed), TABLES[table]
    kept = sound / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree((sound / name).parent, kept)
    try:
        with closing(sqlite3.connect(sound / name)) as connection:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            which = rng.choice(["", f"WHERE rowid = {rng.randrange(1, 8)}"])
            with contextlib.suppress(sqlite3.IntegrityError):
                if rng.random() < 0.2:
                    connection.execute(rng.choice(SCHEMAS).format(table))
                else:
                    change = f'UPDATE {table} SET "{rng.choice(columns)}" = ? {which}'
                    connection.execute(change, (rng.choice(STORED),))
            connection.commit()
            if rng.random() < 0.3:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if rng.random() < 0.1:
            (sound / name).write_bytes(broken((sound / name).read_bytes(), rng))
        code, answer = answered(*command)
        if code == 0 and table == "candidates":
            assert 1e-7 < answer["seconds_after"] <= answer["seconds_before"] * 1.01
            assert all(1 <= task["threads"] <= 8 for task in answer["tasks"])
    finally:
        shutil.rmtree((sound / name).parent)
        kept.rename((sound / name).parent)
