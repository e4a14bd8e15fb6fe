"""Batches of candidates: compiled here, in a process of their own, and run elsewhere from one bundle."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.bundle.contents import Manifest
from dsascape.tuner.late import late
from dsascape.tuner.measure.candidates import CandidateRunner
from dsascape.tuner.measure.targets import target_architecture
from dsascape.tuner.measure.tasks import CandidateCode, PreparedTask, candidate_name


@dataclass(frozen=True)
class CandidateGroup:
    """Candidates of one task: the code of each, or why it has none."""

    prepared: PreparedTask
    code: tuple[CandidateCode, ...]
    missing: tuple[tuple[str, str], ...]
    """Name and reason of each candidate without code."""


@dataclass(frozen=True)
class BatchLabels:
    """Texts and numbers of a bundle of candidates, which its results repeat."""

    model: str
    policy: str
    target: str
    threads: int
    origin: str
    """Text that tells this batch from all others."""


def compiled(runner: CandidateRunner, prepared: PreparedTask, candidates: Sequence[Steps]) -> CandidateGroup:
    """Return the code of ``candidates``; one that crashes the compiler or takes too long has the reason in its place.

    The task's device is `BUNDLE`. Raises what `CandidateRunner.results` raises.
    """
    code, missing = [], []
    for steps, result in zip(candidates, runner.results(prepared, candidates), strict=True):
        if result.code is None:
            missing.append((candidate_name(prepared.task.label, steps), result.reason))
        else:
            code.append(result.code)
    return CandidateGroup(prepared, tuple(code), tuple(missing))


def check_runtime(target: str, runtime: Path | None) -> None:
    """Raise ``BundleError`` where the runtime's libraries for the target lack, before anything is compiled for it."""
    late("bundling").runtime_files(runtime, target_architecture(target))


def build_candidates(
    groups: Sequence[CandidateGroup], labels: BatchLabels, path: Path, runtime: Path | None = None
) -> Manifest:
    """Write a bundle of candidates to ``path``; return its manifest (`tuner.on_device.candidate_bundling`)."""
    return cast(Manifest, late("candidate_bundling").build_candidates(groups, labels, path, runtime))
