"""TopK, how selective tuning reuses programs: the fastest ones of one operator are tried as they are for another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.sources import named, numbered
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.wording import count

TOP = 3
"""Programs that are tried at once (the paper's, and TVM's)."""
Candidate = TypeVar("Candidate")


@dataclass(frozen=True, slots=True)
class Tried(Generic[Candidate]):
    """Outcome of TopK."""

    best: Candidate | None
    """The fastest program that runs; None where none of them does."""
    seconds: float | None
    trials: int
    """Programs that were tried."""


def transferred(steps: Steps, reused: NaiveProgram, naive: NaiveProgram) -> Steps:
    """Return the steps of one kernel for another one: the same sketch and annotations, on its tensors.

    Tile sizes stay; the outermost level has as many tiles as it takes. The steps need not be legal for the other
    kernel.
    """
    return named(naive, numbered(reused, steps))


def top_k(
    candidates: Sequence[Candidate],
    seconds_of: Callable[[Sequence[Candidate]], Sequence[float | None]],
    k: int = TOP,
) -> Tried[Candidate]:
    """Try programs, the fastest of the reused operator first, k at once, until one of these runs.

    ``seconds_of`` says for each program of a batch how long it takes; None for one that cannot run.
    """
    if k < 1:
        raise ValueError(f"{count(k, 'program')} at once; needs 1 or more")
    trials = 0
    for begin in range(0, len(candidates), k):
        batch = candidates[begin : begin + k]
        trials += len(batch)
        ran = [(time, place) for place, time in enumerate(seconds_of(batch)) if time is not None]
        if ran:
            seconds, place = min(ran)
            return Tried(batch[place], seconds, trials)
    return Tried(None, None, trials)
