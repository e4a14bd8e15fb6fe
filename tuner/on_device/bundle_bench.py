"""Candidates that run elsewhere, from a bundle: here they are compiled only."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.measure.candidate_worker import Outcome
from dsascape.tuner.measure.tasks import CandidateCode, CandidateResult, KernelTask, PreparedTask, candidate_name
from dsascape.tuner.on_device.candidate_code import Built, Compiler
from dsascape.tuner.on_device.prepared_tasks import checked_layer, prepared_tasks
from dsascape.workloads.analysis import Analysis


class BundleBench:
    """The task whose candidates are compiled to object files, one each."""

    is_here = False

    def __init__(self, target: str, threads: int) -> None:
        self._compiler = Compiler(target, threads, _object_file)
        self._given: tuple[PreparedTask, NaiveProgram] | None = None

    def prepared(self, tasks: Sequence[KernelTask]) -> tuple[PreparedTask, ...]:
        """Return the tasks with their reference results; raises what `prepared_tasks` raises."""
        return prepared_tasks(tasks)

    def take(self, prepared: PreparedTask) -> None:
        """Go on with the candidates of another task."""
        layer = checked_layer(Analysis(prepared.task.graph), prepared.task)
        self._given = prepared, NaiveProgram(layer)

    def built(self, candidates: Sequence[Steps]) -> Iterator[tuple[str, Built]]:
        """Build candidates on all cores; yield each with its name, in order."""
        assert self._given is not None
        prepared, naive = self._given
        task = prepared.task
        named = [(candidate_name(task.label, steps), steps) for steps in candidates]
        built = self._compiler.built(naive, prepared.executable, named, flushed=task.flush_caches)
        yield from zip([name for name, _ in named], built, strict=True)

    def outcome(self, built: tuple[str, Built]) -> Outcome:
        """Return a candidate's code, or why it has none."""
        name, found = built
        if found.function is None:
            return Outcome(CandidateResult(None, found.reason, found.spent))
        made = found.function
        code = CandidateCode(name, found.code, made.inputs, made.outputs, dict(made.packings))
        return Outcome(CandidateResult(None, "", found.spent, code))


def _object_file(module: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.o"
        module.write_to_file(str(path), "o")
        return path.read_bytes()
