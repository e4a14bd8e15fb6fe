"""``dsascape tune`` as a process of its own: killed at any moment, or without room on the disk, it loses no records."""

import random
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")

from dsascape.tuner.search.database import DATABASE
from tests.tiers import examples

pytestmark = pytest.mark.slow

SHAPES = """
operators:
  product: {op: MatMul, inputs: [[64, 96]], weights: [[96, 48]]}
  norm: {op: ReduceL2, inputs: [[64, 64]], constants: [[0, 1]], attributes: {keepdims: 0}}
"""
KILLED = examples(20, few=2)
TRIALS = 24
START_S, UNIT_S = 2.0, 0.3
"""About how long a process takes until its first unit ends, and for another one; whatever it is, moments are random."""


def process(folder: Path) -> subprocess.Popen[str]:
    """Start a search whose files are in ``folder``."""
    shapes = folder.parent / "shapes.yaml"
    shapes.write_text(SHAPES)
    command = [
        sys.executable, "-m", "dsascape", "tune", str(shapes), "--runner", "simulate", "--hardware", "epyc",
        "--population", "16", "--unit", "4", "--trials", str(TRIALS), "--out", str(folder),
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows(folder: Path) -> list[tuple[Any, ...]]:
    """Return all records; none where there is no database yet."""
    if not (folder / DATABASE).exists():
        return []
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'candidates'").fetchall():
            return []
        query = "SELECT task, unit, steps, seconds, reason, threads FROM candidates ORDER BY id"
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "tuned"
    _, complaint = process(folder).communicate()
    assert len(rows(folder)) == TRIALS + 2, complaint
    return folder


def test_killed_at_random_moments_and_gone_on_with_it_has_the_same_records(
    undisturbed: Path, tmp_path: Path
) -> None:
    """Each process is killed while it starts, or some time after a few units; those that end have done all."""
    rng, killed, number, longest = random.Random(5), 0, 0, 0
    while killed < KILLED:
        folder = tmp_path / f"tuned{number}"
        while True:
            running = process(folder)
            units = rng.randrange(4) if killed < KILLED else TRIALS
            assert running.stderr is not None
            for _ in range(units):
                if not running.stderr.readline():
                    break
            if killed < KILLED:
                time.sleep(rng.uniform(0, UNIT_S if units else START_S))
                running.kill()
            running.communicate()
            if running.returncode == 0:
                break
            killed += 1
            kept = rows(folder)
            assert kept == rows(undisturbed)[: len(kept)]
            assert len(kept) >= longest
            longest = len(kept)
        assert rows(folder) == rows(undisturbed)
        assert (folder / "kernels.jsonl").read_text() == (undisturbed / "kernels.jsonl").read_text()
        number, longest = number + 1, 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("limit_bytes", [50_000, 70_000, 90_000])
def test_a_full_disk_is_one_message_and_earlier_records_stay(
    limit_bytes: int, undisturbed: Path, tmp_path: Path
) -> None:
    """No file may have more than so many bytes: the database grows beyond that in the midst of the search."""
    whole, folder = rows(undisturbed), tmp_path / "tuned"
    limits = (limit_bytes, limit_bytes)
    running = process(folder)
    resource.prlimit(running.pid, resource.RLIMIT_FSIZE, limits)  # long before it has imported what it needs
    out, complaint = running.communicate()
    messages = [line for line in complaint.splitlines() if f"of {TRIALS} trials" not in line]
    assert (running.returncode, out, len(messages)) == (2, "", 1), complaint
    assert messages[0].startswith(f"dsascape: {folder / DATABASE}: ")
    assert "the disk " in messages[0]
    assert messages[0].endswith("; what was stored before is kept")
    kept = rows(folder)
    assert 0 < len(kept) < len(whole)
    assert kept == whole[: len(kept)]
    process(folder).communicate()
    assert rows(folder) == whole
