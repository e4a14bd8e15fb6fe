"""Bundles of candidates: each runs by itself, is compared by itself, and costs itself alone where it fails."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'dsascape[tvm]'")

from dsascape.experiments.shell.cli import main
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.bundle import (
    BatchLabels,
    BundleError,
    BundleResults,
    CandidateGroup,
    build_candidates,
    compiled,
    read_candidates,
    read_results,
)
from dsascape.tuner.bundle.contents import BundledArray, DataRange
from dsascape.tuner.bundle.initial import initial
from dsascape.tuner.measure import BUNDLE, CandidateRunner, PreparedTask
from dsascape.tuner.measure.tasks import CandidateCode
from tests.tuner.test_candidates import steps, task, with_tiles

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]

LABELS = BatchLabels("small", "fixed-pattern", "llvm", 1, "batch 1")
BODIES = {
    "crash": "abort();",
    "hang": "sleep(60);",
    "nothing": "",
    "scribble": "tensor *first = (tensor *)((value *)arguments)[0].address; ((float *)first->data)[0] = 1e9f;",
}
"""What stands in for a candidate: it ends its process, does not end, writes no result, or writes over its input."""
SOURCE = """
#include <stdlib.h>
#include <unistd.h>
typedef struct {{ int kind, padding; void *address; }} value;
typedef struct {{ void *data; }} tensor;
int __tvm_ffi_{name}(void *self, void *arguments, int count, void *result) {{ {body} return 0; }}
"""


@pytest.fixture(scope="module")
def runner() -> Iterator[CandidateRunner]:
    with CandidateRunner() as found:
        yield found


@pytest.fixture(scope="module")
def prepared(runner: CandidateRunner) -> PreparedTask:
    (found,) = runner.prepare([replace(task(0), device=BUNDLE, label="first")])
    return found


def tiled(rows: range) -> list[Steps]:
    return [with_tiles(steps(0), each) for each in rows]


def instead(code: CandidateCode, what: str, folder: Path) -> CandidateCode:
    """Return a candidate whose code is one of `BODIES`."""
    source, compiled_to = folder / f"{what}.c", folder / f"{what}.o"
    source.write_text(SOURCE.format(name=code.name, body=BODIES[what]), encoding="ascii")
    subprocess.run(["cc", "-c", "-fPIC", "-o", compiled_to, source], check=True)
    return replace(code, object_file=compiled_to.read_bytes())


def run_alone(group: CandidateGroup, folder: Path, *options: str) -> BundleResults:
    """Build a bundle and run it as a device does: no package but Python's own, an environment without anything."""
    build_candidates([group], LABELS, folder / "batch.tar.xz")
    with tarfile.open(folder / "batch.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    command = [sys.executable, "-I", "-S", str(folder / "run.py"), "--out", str(folder / "batch.json"), *options]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.defpath}, check=False)
    assert done.returncode == 0, done.stderr
    return read_candidates(folder / "batch.json")


def test_candidates_that_are_right_have_times(
    runner: CandidateRunner, prepared: PreparedTask, tmp_path: Path
) -> None:
    group = compiled(runner, prepared, tiled(range(1, 5)))
    found = run_alone(group, tmp_path).measurement

    assert [kernel.name for kernel in found.kernels] == [code.name for code in group.code]
    assert all(kernel.correct and kernel.timing is not None for kernel in found.kernels), found.kernels
    assert {kernel.operators for kernel in found.kernels} == {("conv1", "relu1")}


def test_each_that_fails_is_a_record_with_its_reason_and_costs_itself_alone(
    runner: CandidateRunner, prepared: PreparedTask, tmp_path: Path
) -> None:
    """A right one stands in front of each and behind: its results must not pass for theirs, nor its input be theirs."""
    group = compiled(runner, prepared, [*tiled(range(1, 10)), steps(1)])
    wrong = dict(zip((1, 3, 5, 7), BODIES, strict=True))
    code = [
        instead(each, wrong[number], tmp_path) if number in wrong else each for number, each in enumerate(group.code)
    ]  # fmt: skip
    found = run_alone(replace(group, code=tuple(code)), tmp_path, "--kernel-timeout", "1").measurement

    kernels = {kernel.name: kernel for kernel in found.kernels}
    right = [kernels[each.name].correct for number, each in enumerate(code) if number not in wrong]
    assert right == [True] * 5, found.kernels
    reasons = {what: kernels[code[number].name].error for number, what in wrong.items()}
    assert reasons["crash"] == "its process was ended by SIGABRT"
    assert reasons["hang"] == "took longer than 1 s"
    assert str(reasons["nothing"]).startswith("computes another result than onnxruntime")
    assert str(reasons["scribble"]).startswith("computes another result than onnxruntime")
    ((name, _),) = group.missing
    assert str(kernels[name].error).startswith("no code: StepError")


def test_a_candidate_that_takes_too_long_to_compile_has_no_code(prepared: PreparedTask) -> None:
    impatient = replace(prepared, task=replace(prepared.task, budget=replace(prepared.task.budget, build_s=0.0)))
    with CandidateRunner() as own:
        group = compiled(own, impatient, tiled(range(1, 3)))

    assert group.code == ()
    assert {reason for _, reason in group.missing} == {"while it was built: took longer than 0 s"}


def test_weights_that_lie_alike_are_there_once(
    runner: CandidateRunner, prepared: PreparedTask, tmp_path: Path
) -> None:
    group = compiled(runner, prepared, tiled(range(1, 5)))
    manifest = build_candidates([group], LABELS, tmp_path / "batch.tar.xz")
    layouts = {(name, code.packings.get(name)) for code in group.code for name in code.inputs}

    assert len(manifest.arrays) == len(layouts) + 1
    assert len(manifest.buffers) == 2


def test_names_of_candidates_are_those_of_their_task(runner: CandidateRunner, prepared: PreparedTask) -> None:
    """Single operators of one file may have tensors and steps of the same names."""
    own = compiled(runner, prepared, [steps(0)])
    other = compiled(runner, replace(prepared, task=replace(prepared.task, label="other")), [steps(0)])

    assert own.code[0].name != other.code[0].name


def test_results_before_a_candidate_runs_are_wrong_whatever_their_type() -> None:
    expected = bytes([255, 0, 254])
    data = memoryview(expected)
    array = BundledArray("result", "int8", (3,), 0, None, DataRange(0, 3))

    assert set(initial(array, data)).isdisjoint(expected)
    assert initial(replace(array, dtype="float32", shape=(2,)), data) == b"\xff" * 8
    assert initial(replace(array, values=DataRange(1, 2)), data) == b"\x00\xfe"


def test_other_commands_say_what_the_results_are_of(
    runner: CandidateRunner, prepared: PreparedTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_candidates([compiled(runner, prepared, [steps(0)])], LABELS, tmp_path / "batch.tar.xz")
    results = tmp_path / "batch.json"

    assert main(["bundle", "run", str(tmp_path / "batch.tar.xz"), "--out", str(results), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(results), "candidates": 1, "failed": 0}
    assert main(["bundle", "import", str(results), "--out", str(tmp_path / "store")]) == 2
    assert "has times of candidates" in capsys.readouterr().err
    with pytest.raises(BundleError, match="of candidates, not of a network"):
        read_results(results)
