"""Where the steps of a kernel come from, if not from the built-in choice: files of steps by task.

A task is what a kernel computes, whatever its tensors are called (`NaiveProgram.key`). In a file the tensors of steps
are numbered in the order in which the naive program meets them, so that equal kernels of any network share an entry.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from dsascape.hw_models.text.messages import shown
from dsascape.hw_models.text.quantities import LONGEST_S, SHORTEST_S
from dsascape.hw_models.text.record_file import MIB, RecordError, json_lines
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.loops.files import read_steps, steps_json
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Step, Steps

FILE = "kernels.jsonl"
"""Name of the file in a folder of kernels: one JSON object a line."""
LARGEST_BYTES = 32 * MIB
"""Size of the largest file of kernels that is read."""
_MOST_LINES = 50_000
_MOST_STEPS = 100_000
"""Largest number of steps in a file."""
MOST_THREADS = 2**16
"""Largest number of threads that a kernel is said to run on."""
_LONGEST_KEY = 200
_NAMES = ("stage", "tensor", "reader", "result", "consumer", "exponentials", "maximum", "total")
"""Fields of steps that are names of tensors, or of stages that begin with one."""


@dataclass(frozen=True, slots=True)
class ChosenSteps:
    """Steps that a source has for a task, with tensors by number, and the threads that they are for."""

    steps: Steps
    threads: int
    seconds: float
    """Seconds of the kernel, measured or simulated, where these steps were chosen."""


class KernelSource(Protocol):
    """Whoever knows steps for a task."""

    def chosen(self, key: str) -> ChosenSteps | None:
        """Return the steps for the task with that key; None where there are none, and the built-in choice is taken."""
        ...


class KernelFile:
    """The steps that a folder holds: the fastest of each task, of those for this machine and this code.

    A line may say the machine and the code that its steps were found for, as digests; those of others are left out.
    """

    def __init__(self, folder: Path, machine: str = "", code: str = "") -> None:
        """``machine`` and ``code`` are the digests that lines have to have, if they have any; empty: any will do."""
        self._path, self._wanted = folder / FILE, {"machine": machine, "code": code}

    @cached_property
    def _by_key(self) -> Mapping[str, ChosenSteps]:
        found: dict[str, ChosenSteps] = {}
        for key, chosen, others in self._lines:
            if not others and (key not in found or chosen.seconds < found[key].seconds):
                found[key] = chosen
        return found

    @cached_property
    def ignored(self) -> Mapping[str, int]:
        """Number of lines left out, by what differs: machine, or code.

        Raises what `chosen` raises.
        """
        return dict(Counter([others for _, _, others in self._lines if others]))

    @property
    def tasks(self) -> int:
        """Number of tasks with steps; raises what `chosen` raises."""
        return len(self._by_key)

    def chosen(self, key: str) -> ChosenSteps | None:
        """Return the fastest steps for the task with that key; None where the folder has none.

        Raises ``ScheduleError`` for a folder without such a file, and for a line that is no such entry.
        """
        return self._by_key.get(key)

    @cached_property
    def _lines(self) -> Sequence[tuple[str, ChosenSteps, str]]:
        """Key and steps of each line, and what of it is for others: nothing, "machine" or "code"."""
        return tuple(self._read())

    def _read(self) -> Iterator[tuple[str, ChosenSteps, str]]:
        steps = 0
        try:
            lines = list(json_lines(self._path, LARGEST_BYTES, _MOST_LINES))
        except RecordError as error:
            raise ScheduleError(str(error)) from error
        for where, entry in lines:
            key, chosen = _entry(where, entry)
            steps += len(chosen.steps)
            if steps > _MOST_STEPS:
                raise ScheduleError(f"{where}: the file has more than {_MOST_STEPS:,} steps")
            given = [name for name, own in self._wanted.items() if own and entry.get(name, own) != own]
            yield key, chosen, given[0] if given else ""


def _entry(where: str, entry: object) -> tuple[str, ChosenSteps]:
    kinds: Mapping[str, tuple[type, ...]] = {"key": (str,), "threads": (int,), "seconds": (int, float)}
    if not isinstance(entry, dict):
        raise ScheduleError(f"{where}: needs an object")
    for name, wanted in kinds.items():
        if type(entry.get(name)) not in wanted:
            raise ScheduleError(f"{where}: {name}: has {shown(entry.get(name))}; needs {wanted[0].__name__}")
    if not 1 <= entry["threads"] <= MOST_THREADS:
        raise ScheduleError(f"{where}: threads: has {entry['threads']}; needs a whole number from 1 to {MOST_THREADS}")
    if not SHORTEST_S <= entry["seconds"] <= LONGEST_S:
        raise ScheduleError(f"{where}: seconds: has {entry['seconds']:g}; needs from {SHORTEST_S:g} to {LONGEST_S:g}")
    for name in ("key", "machine", "code"):
        if not isinstance(text := entry.get(name, ""), str) or len(text) > _LONGEST_KEY:
            raise ScheduleError(f"{where}: {name}: has {shown(text)}; needs text of at most {_LONGEST_KEY} characters")
    steps = read_steps(entry.get("steps"), f"{where}: steps")
    return entry["key"], ChosenSteps(steps, entry["threads"], float(entry["seconds"]))


def entry_json(key: str, chosen: ChosenSteps) -> dict[str, Any]:
    """Return the line of a file of kernels for one task, as an object."""
    return {
        "key": key, "threads": chosen.threads, "seconds": chosen.seconds, "steps": steps_json(chosen.steps)
    }  # fmt: skip


def numbered(naive: NaiveProgram, steps: Steps) -> Steps:
    """Return ``steps`` of a kernel with its tensors by number: t0, t1, ... in the order of its naive program."""
    return tuple([_renamed(step, naive.numbers) for step in steps])


def named(naive: NaiveProgram, steps: Steps) -> Steps:
    """Return steps with tensors by number as steps of this kernel; numbers that it does not have stay as they are."""
    names = {number: name for name, number in naive.numbers.items()}
    return tuple([_renamed(step, names) for step in steps])


def _renamed(step: Step, names: Mapping[str, str]) -> Step:
    own = {each.name for each in fields(step)}
    changed: dict[str, Any] = {name: _translated(getattr(step, name), names) for name in _NAMES if name in own}
    renamed: Step = type(step)(**{each.name: getattr(step, each.name) for each in fields(step)} | changed)
    return renamed


def _translated(name: str, names: Mapping[str, str]) -> str:
    """Return a name with the tensor that it begins with, the longest there is, called otherwise."""
    if name in names:
        return names[name]
    front, dot, behind = name.rpartition(".")
    return f"{_translated(front, names)}.{behind}" if dot else name
