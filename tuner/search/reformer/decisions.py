"""Decisions of the reformer as records: what was split, how its parts ended, what was composed of them.

They print, go to JSON and come back. Those of JOIN are stored with the candidates, as a search that is continued has
to compose the same program again, whatever has been tried since.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pydantic
from pydantic import TypeAdapter

from dsascape.hw_models.text.record_file import parse_json
from dsascape.tuner.measure.soundness import SECONDS, Ranges, unsound
from dsascape.wording import count

Reason = Literal["stable", "budget", "exhausted"]
"""Reason why a mini sub-graph gets no more trials: no gain any more, the kernel's share is spent, nothing is left."""


class DecisionError(ValueError):
    """Text that is no decision; the message says why."""


@dataclass(frozen=True, slots=True)
class MiniGraph:
    """One mini sub-graph of a kernel."""

    task: str
    """Key of its task; equal mini sub-graphs have the same."""
    operators: tuple[str, ...]
    """Names of its operators, without views."""
    weight: float
    """AGO's weight (eq. 1)."""


@dataclass(frozen=True, slots=True)
class SplitDecision:
    """SPLIT of one kernel into mini sub-graphs with at most one complex operator each."""

    task: str
    """Key of the kernel's task."""
    kernel: str
    """Name of the kernel."""
    minis: tuple[MiniGraph, ...]
    """Mini sub-graphs, producers first; none where the kernel stays whole."""
    reason: str = ""
    """Reason why a kernel with several complex operators stays whole; empty for one that is split."""

    def __str__(self) -> str:
        if not self.minis:
            return f"{self.kernel} is left whole: {self.reason}"
        parts = [f"[{', '.join(each.operators)}] ({each.weight:.3g})" for each in self.minis]
        return f"{self.kernel} is split into {' '.join(parts)}"


@dataclass(frozen=True, slots=True)
class MiniEnd:
    """End of the search for one mini sub-graph."""

    task: str
    units: int
    """Units that it has had."""
    trials: int
    seconds: float | None
    """Time of the program that was composed; None where it has none."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class JoinDecision:
    """JOIN of one kernel: its first program, composed of those of its mini sub-graphs."""

    task: str
    kernel: str
    unit: int
    """Last unit of the search before the kernel was joined."""
    minis: tuple[MiniEnd, ...]
    """Mini sub-graphs, producers first."""
    steps: str
    """JSON of the composed program's steps, with tensors by number; empty where they make no legal program."""

    def __str__(self) -> str:
        parts = [
            f"{'no time' if each.seconds is None else f'{each.seconds * 1e6:.4g} us'} after"
            f" {count(each.trials, 'trial')} ({each.reason})"
            for each in self.minis
        ]
        end = "composed" if self.steps else "nothing could be composed"
        return f"{self.kernel} is joined after unit {self.unit}: {', '.join(parts)}; {end}"


Decision = SplitDecision | JoinDecision
_ADAPTERS: Mapping[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (SplitDecision, JoinDecision)
}


_RANGES: Ranges = {(MiniEnd, "seconds"): SECONDS}


def decision_json(decision: Decision) -> str:
    """Return a decision as JSON."""
    return json.dumps({"decision": type(decision).__name__, **asdict(decision)}, separators=(",", ":"))


def read_decision(text: str) -> Decision:
    """Return the decision that `decision_json` has written; raise ``DecisionError`` for anything else."""
    try:
        data = parse_json(text, "decision")
        kind = data.pop("decision")
        read: Decision = _ADAPTERS[kind].validate_json(json.dumps(data), strict=True)
        wrong = unsound(read, _RANGES, opaque="steps")
        if wrong is not None:
            raise DecisionError(f"a decision of the reformer has an impossible figure: {wrong}")
    except DecisionError:
        raise
    except (ValueError, KeyError, AttributeError, TypeError, pydantic.ValidationError) as error:
        raise DecisionError(f"no decision of the reformer: {text[:80]!r}") from error
    return read
