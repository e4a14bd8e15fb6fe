"""``dsascape tune --runner bundle``: batches run as if on another machine, brought back, and taken in or refused."""

import io
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'dsascape[tune]'")
pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.real.tuning import TunedOn
from dsascape.experiments.real.tuning_batches import Elsewhere
from dsascape.experiments.shell.cli import main
from dsascape.hw_models import Cpu, load_hardware
from dsascape.tuner.measure import BUNDLE, CandidateBudget
from dsascape.tuner.search.batches import Batches
from dsascape.tuner.search.database import BUILTIN, CONFIRMED, DATABASE, Candidates
from dsascape.tuner.search.objectives import TotalLatency
from dsascape.tuner.search.search import Search
from tests.tuner.search.test_search import OPTIONS, tasks

pytestmark = [pytest.mark.tvm, pytest.mark.slow, pytest.mark.usefixtures("forked_children")]

SHAPES = """
operators:
  product: {op: MatMul, inputs: [[16, 24]], weights: [[24, 8]]}
  norm: {op: ReduceL2, inputs: [[16, 16]], constants: [[0, 1]], attributes: {keepdims: 0}}
"""
ASKED = ("--runner", "bundle", "--hardware", "epyc", "--threads", "1", "--unit", "4", "--population", "16")


class Tuning:
    """A search, its folder, and the other machine: this one, without any package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tuned"
        self._device, self._shapes = folder / "device", folder / "shapes.yaml"
        self._device.mkdir()
        self._shapes.write_text(SHAPES)

    def _given(self) -> tuple[int, str, str]:
        """Give the command; return its exit code, what it prints, and its messages."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(
                ["tune", str(self._shapes), *ASKED, "--trials", "12", "--out", str(self.folder), "--json"]
            )  # fmt: skip
        return code, out.getvalue(), err.getvalue()

    def step(self) -> Any:
        """Give the command; return its answer."""
        code, out, err = self._given()
        assert code == 0, err
        return json.loads(out)

    def refused(self) -> str:
        """Give the command that is refused; return its message."""
        code, out, err = self._given()
        assert code == 2
        (line,) = [line for line in err.splitlines() if line.startswith("dsascape: ")]
        assert json.loads(out) == {"error": line.removeprefix("dsascape: ")}
        return line

    def run(self, bundle: str) -> str:
        """Run a bundle on the device; return the text of its results."""
        with tarfile.open(bundle) as archive:
            archive.extractall(self._device, filter="data")
        out = self._device / "results.json"
        command = [sys.executable, "-I", "-S", str(self._device / "run.py"), "--kernel-seconds", "0.005"]
        environment = {"PATH": os.defpath}
        subprocess.run([*command, "--out", str(out)], capture_output=True, check=True, env=environment)
        return out.read_text()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all records."""
        with closing(sqlite3.connect(self.folder / DATABASE)) as connection:
            query = "SELECT task, unit, steps, seconds, reason, threads FROM candidates ORDER BY id"
            return connection.execute(query).fetchall()


def changed(change: Callable[[Any], None]) -> Callable[[str], str]:
    def text(given: str) -> str:
        content = json.loads(given)
        change(content)
        return json.dumps(content)

    return text


WRONG: dict[str, Callable[[str], str] | None] = {
    "not a results file": lambda text: text[: len(text) // 2],
    "is of another batch: 'batch 1 ": None,
    "is of another machine: Pentium": changed(
        lambda content: content["measurement"]["device"].update(processor="Pentium")
    ),
    "was run on 2 threads; needs 1: run.py --threads 1": changed(
        lambda content: content["measurement"].update(threads=2)
    ),
    "is damaged: has 3 of 4 candidates": changed(lambda content: content["measurement"]["kernels"].pop()),
    "impossible figure": changed(
        lambda content: content["measurement"]["kernels"][0]["timing"].update(seconds=-1.0)
    ),
}  # fmt: skip
"""By what is said of it, a change of the results of the second batch; None: those of the first in their place."""


@dataclass
class Seen:
    """What a whole search has shown, from its first bundle to its end."""

    tuning: Tuning
    first: Any = None
    """The first answer."""
    written_again: Any = None
    """The answer where the first bundle had been deleted, without results."""
    rows_before: int = -1
    """Records before any results."""
    messages: dict[str, str] = field(default_factory=dict)
    """By what was wrong with the second results, the message."""
    rows_kept: bool = True
    """Whether no wrong results changed any record."""
    sizes: list[int] = field(default_factory=list)
    """Candidates of each batch."""
    last: Any = None


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    tuning = Tuning(tmp_path_factory.mktemp("tuning"))
    found = Seen(tuning, data := tuning.step())
    texts = [tuning.run(data["waiting"]["bundle"])]
    Path(data["waiting"]["bundle"]).unlink()
    found.written_again, found.rows_before = tuning.step(), len(tuning.rows())
    Path(data["waiting"]["results"]).write_text(texts[0])
    found.sizes.append(data["waiting"]["candidates"])
    while (waiting := (data := tuning.step())["waiting"]) is not None:
        texts.append(tuning.run(waiting["bundle"]))
        found.sizes.append(waiting["candidates"])
        if len(texts) == 2:
            before = tuning.rows()
            for what, change in WRONG.items():
                Path(waiting["results"]).write_text(texts[0] if change is None else change(texts[1]))
                found.messages[what] = tuning.refused()
                found.rows_kept &= tuning.rows() == before
        Path(waiting["results"]).write_text(texts[-1])
    found.last = data
    return found


def test_batches_follow_each_other_until_the_trials_are_used_up(seen: Seen) -> None:
    """Two built-in choices and a unit of each of two tasks; a unit of one more, as far as trials go; the fastest."""
    units, data = Counter([row[1] for row in seen.tuning.rows()]), seen.last

    assert seen.sizes[:2] == [2 + 2 * 4, 4]
    assert len(seen.sizes) == 3
    assert (data["trials"], data["failed"]) == (12, 0)
    assert {unit: count for unit, count in units.items() if unit > BUILTIN} == {1: 4, 2: 4, 3: 4}
    assert (units[BUILTIN], units[CONFIRMED]) == (2, seen.sizes[2])
    assert all(task["after_s"] <= task["before_s"] for task in data["tasks"])
    assert len((seen.tuning.folder / "kernels.jsonl").read_text().splitlines()) == 2


def test_a_search_that_has_ended_stays_as_it_is(seen: Seen) -> None:
    before = seen.tuning.rows()

    assert seen.tuning.step()["waiting"] is None
    assert seen.tuning.rows() == before
    assert not list(seen.tuning.folder.glob("*.tar.xz"))


def test_without_results_the_same_batch_waits_and_its_bundle_is_written_again(seen: Seen) -> None:
    """Its results are then those of the bundle that was there before."""
    assert (seen.first["trials"], seen.first["seconds_before"], seen.first["seconds_after"]) == (0, None, None)
    assert seen.written_again["waiting"] == seen.first["waiting"]
    assert seen.rows_before == 0


@pytest.mark.parametrize("said", WRONG)
def test_results_that_are_none_are_refused_and_nothing_is_lost(said: str, seen: Seen) -> None:
    assert said in seen.messages[said]
    assert f"{seen.tuning.folder}{os.sep}batch-2-" in seen.messages[said]
    assert seen.rows_kept


def test_a_runtime_of_another_architecture_is_refused_before_anything_is_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shapes.yaml").write_text(SHAPES)
    asked = ["tune", str(tmp_path / "shapes.yaml"), *ASKED, "--target", "aarch64-cortex-a76"]

    assert main([*asked, "--out", str(tmp_path / "tuned")]) == 2
    told = capsys.readouterr()
    assert ", the code for aarch64; --runtime names a folder" in told.err
    assert "compiled" not in told.err
    assert not list((tmp_path / "tuned").glob("*.tar.xz"))


def test_candidates_none_of_which_has_code_need_no_machine(tmp_path: Path) -> None:
    own = tasks()[:1]
    on = TunedOn(load_hardware("epyc", Cpu), BUNDLE, threads=1)
    candidates = Candidates(tmp_path, "epyc", "test")
    options = replace(OPTIONS, trials=1, tuner="random")
    search = Search(own, [{0: 1}], None, candidates, TotalLatency(), options)
    elsewhere = Elsewhere(on, tmp_path, "one", "fixed-pattern", budget=CandidateBudget(build_s=0.0))
    waiting, done = elsewhere.advanced(Batches(search, candidates), lambda number, size: None)

    assert waiting is None
    assert len(done) == search.trials == search.failed == 1
    assert {record.answer.reason for record in candidates.records()} == {"while it was built: took longer than 0 s"}
    assert not list(tmp_path.glob("*.tar.xz"))
