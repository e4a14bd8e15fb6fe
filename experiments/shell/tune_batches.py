"""The command ``tune --runner bundle``: what it does with the files of a batch, and what it says."""

import argparse
import sys
from typing import Any

from dsascape.experiments.real.tuning import TunedOn, TuningTasks
from dsascape.experiments.real.tuning_batches import Elsewhere, Waiting
from dsascape.experiments.shell.answers import say
from dsascape.hw_models.text.quantities import format_bytes
from dsascape.tuner.bundle import START, BundleError
from dsascape.tuner.measure import BUNDLE, check_installed
from dsascape.tuner.search.batches import Batches
from dsascape.tuner.search.database import Candidates
from dsascape.tuner.search.search import Search
from dsascape.wording import count


def check_options(arguments: argparse.Namespace) -> None:
    """Raise ``BundleError`` for options of bundles without ``--runner bundle``."""
    given = [name for name in ("units", "runtime") if getattr(arguments, name) is not None]
    if arguments.runner != BUNDLE and given:
        raise BundleError(f"--{given[0]} goes with --runner bundle only; --runner has {arguments.runner!r}")


def advanced(
    arguments: argparse.Namespace, on: TunedOn, asked: TuningTasks, search: Search, candidates: Candidates
) -> Waiting | None:
    """Take in results that are there, and write the bundle that is to run next; None where the search has ended.

    Raises ``MeasureError`` where TVM or onnxruntime is not installed, and what `Elsewhere.advanced` raises.
    """
    check_installed()
    elsewhere = Elsewhere(
        on, arguments.out, ", ".join(asked.networks)[:60], arguments.policy, arguments.runtime,
        units=arguments.units or 0,
    )  # fmt: skip
    waiting, done = elsewhere.advanced(Batches(search, candidates), _told)
    if done:
        sys.stderr.write(f"{count(search.trials, 'trial')} taken in, {search.failed:,} failed\n")
    return waiting


def _told(number: int, size: int) -> None:
    sys.stderr.write(f"{number:,} of {count(size, 'candidate')} compiled\n")
    sys.stderr.flush()


def waiting_json(waiting: Waiting | None) -> dict[str, Any] | None:
    """Return what ``tune --json`` has of the batch that waits."""
    if waiting is None:
        return None
    return {
        "batch": waiting.batch.number, "candidates": waiting.batch.size, "bundle": str(waiting.bundle),
        "results": str(waiting.results),
    }  # fmt: skip


def show_waiting(waiting: Waiting) -> None:
    """Say what to do with the batch that waits."""
    bundle, results = waiting.bundle, waiting.results
    say(
        f"{bundle}: {format_bytes(bundle.stat().st_size)}, {count(waiting.batch.size, 'candidate')} to run elsewhere",
        f"On the device: tar -xJf {bundle.name}; python3 {START} --out {results.name}",
        f"Then lay {results.name} into {results.parent}, and give the same command again.",
    )
