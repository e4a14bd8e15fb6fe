"""Tuning for a machine that cannot be reached: bundles of candidates, and the results that somebody brings back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dsascape.experiments.real.tuning import TunedOn
from dsascape.tuner.bundle import (
    BatchLabels,
    BundleError,
    BundleResults,
    build_candidates,
    check_runtime,
    compiled,
    read_candidates,
)
from dsascape.tuner.measure import (
    BUNDLE,
    CandidateBudget,
    CandidateRunner,
    Device,
    KernelMeasurement,
    KernelTask,
)
from dsascape.tuner.search.batches import Batch, Batches
from dsascape.tuner.search.runners import Answer
from dsascape.tuner.search.search import UnitDone
from dsascape.wording import count

Told = Callable[[int, int], None]
"""Called with the number of candidates that are compiled, and of all in the bundle."""


@dataclass(frozen=True)
class Waiting:
    """A batch that somebody has to run."""

    batch: Batch
    bundle: Path
    results: Path
    """Place where the results are looked for."""


@dataclass(frozen=True)
class Elsewhere:
    """Kind of machine that candidates run on, and files that go there and come back."""

    on: TunedOn
    folder: Path
    model: str
    policy: str
    runtime: Path | None = None
    """Folder with the runtime's libraries for that machine; None: it is like this one."""
    budget: CandidateBudget = field(default_factory=CandidateBudget)
    """Time limits of compiling; those of running are the bundle's own."""
    units: int = 0
    """Units in a batch; 0: as many as `Batches.proposed` takes."""

    def advanced(self, batches: Batches, told: Told) -> tuple[Waiting | None, list[UnitDone]]:
        """Take in the results that are there, and write the bundle that is to run next.

        Returns that, or None where the search has ended, and the units that have ended. Raises ``BundleError`` for
        results that are damaged, of another batch or of another machine, of which nothing is taken in then; and what
        `build_candidates` and `CandidateRunner` raise.
        """
        done: list[UnitDone] = []
        while True:
            batch = batches.waiting()
            is_new = batch is None
            batch = batches.proposed(self.units) if batch is None else batch
            if batch is None:
                return None, done
            waiting = Waiting(
                batch, self.folder / f"{batch.name}.tar.xz", self.folder / f"{batch.name}.json"
            )  # fmt: skip
            if not is_new and waiting.results.exists():
                results = read_candidates(waiting.results)
                answers, machine = self._answers(waiting, results), machine_of(results.measurement.device)
                if batches.machine not in (None, machine):
                    raise BundleError(f"{waiting.results} is of another machine: {machine}; needs {batches.machine}")
                done += batches.take_in(batch, answers, machine)
                waiting.bundle.unlink(missing_ok=True)
                continue
            if is_new or not waiting.bundle.exists():
                missing = self._write(waiting, told)
                if is_new:
                    batches.give_out(batch)
                if len(missing) == batch.size:  # nothing has code: there is nothing to run
                    done += batches.take_in(batch, missing, None)
                    waiting.bundle.unlink()
                    continue
            return waiting, done

    def _write(self, waiting: Waiting, told: Told) -> Mapping[str, Answer]:
        """Write the bundle of a batch; return the answers for candidates that have no code."""
        batch, on, groups = waiting.batch, self.on, []
        check_runtime(on.target, self.runtime)
        tasks = {unit.each.task.key: unit.each.task for unit in batch.units}
        layers = {key: task.naive.layer for key, task in tasks.items()}
        kernels = [
            KernelTask(layer.graph, layer.ops, on.threads, on.target, BUNDLE, self.budget, label=key)
            for key, layer in layers.items()
        ]
        number = 0
        with CandidateRunner() as runner:
            prepared = dict(zip(tasks, runner.prepare(kernels), strict=True))
            for unit, programs in batch.named():
                groups.append(compiled(runner, prepared[unit.each.task.key], [own.steps for _, own in programs]))
                number += len(programs)
                told(number, batch.size)
        labels = BatchLabels(self.model, self.policy, on.target, on.threads, batch.origin)
        build_candidates(groups, labels, waiting.bundle, self.runtime)
        return {name: Answer(None, why, on.threads) for group in groups for name, why in group.missing}

    def _answers(self, waiting: Waiting, results: BundleResults) -> dict[str, Answer]:
        """Return the answers of a results file, by name of the candidate; raise ``BundleError`` for one of others."""
        path, batch, measurement = waiting.results, waiting.batch, results.measurement
        if results.origin != batch.origin:
            its = results.origin if results.origin.isprintable() else ascii(results.origin)
            raise BundleError(f"{path} is of another batch: {its[:40]!r}; needs the results of {waiting.bundle.name}")
        if measurement.threads != self.on.threads:
            used = f"was run on {count(measurement.threads, 'thread')}; needs {self.on.threads}"
            raise BundleError(f"{path} {used}: run.py --threads {self.on.threads}")
        names = {name for _, programs in batch.named() for name, _ in programs}
        found = {kernel.name: kernel for kernel in measurement.kernels}
        if found.keys() != names or len(measurement.kernels) != len(names):
            right = len(names & found.keys())
            raise BundleError(f"{path} is damaged: has {right} of {count(len(names), 'candidate')}, or others")
        return {name: _answer(kernel, self.on.threads) for name, kernel in found.items()}


def machine_of(device: Device) -> str:
    """Return what tells a machine from others, as its system describes it."""
    caches = ", ".join([f"{name} {size} B" for name, size in sorted(device.caches.items())])
    return f"{device.processor} ({', '.join([device.architecture, *([caches] if caches else [])])})"


def _answer(kernel: KernelMeasurement, threads: int) -> Answer:
    if kernel.timing is None or kernel.error is not None or not kernel.correct:
        return Answer(None, kernel.error or "has no time", threads)
    return Answer(kernel.timing.seconds, threads=threads)
