"""Timing of probes on a bench, with new memory for every sample.

A bundle carries this module, so it uses the standard library only.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dsascape.tuner.calibrate.bench import Bench
from dsascape.tuner.calibrate.plan import ProbePlan
from dsascape.tuner.calibrate.rounds import EIGHTH, QUARTER, ROUNDS, TURNS, Times, estimate
from dsascape.tuner.calibrate.shapes import register_rows, summed_vectors
from dsascape.tuner.measure.timing import FEWEST, MOST, interval_width

FLOAT_BYTES = 4
_WIDTH = 0.01
_FEWEST = 3
"""Repetitions in a round, however long they take."""
_SHORTEST_SAMPLE_S = 50e-6

Shape = tuple[int, ...]
Call = tuple[str, tuple[tuple[str, Shape], ...]]
"""A probe of a sequence, and its arrays: calls that name the same array share it."""


@dataclass(frozen=True)
class Timer:
    """Times of probes by their arrays' shapes."""

    plan: ProbePlan
    bench: Bench
    times: Times
    _rows: dict[Hashable, Callable[[float], float]] = field(default_factory=dict)

    def on_threads(self, threads: int) -> "Timer":
        """Return the timer for ``threads`` threads."""
        return replace(self, plan=replace(self.plan, threads=threads))

    @property
    def lanes(self) -> int:
        return self.plan.shape.lanes

    @property
    def rows(self) -> int:
        """Rows of a register tile."""
        return register_rows(self.plan.shape.registers)

    @property
    def last(self) -> str:
        """Name of the last cache that all cores share; where there is none, of the memory."""
        return "l3" if "l3" in self.plan.sizes_bytes else "dram"

    def seconds(self, probe: str, *shapes: Shape, share: float = QUARTER) -> float:
        """Return the seconds of one run on arrays of zeros, with the data in the caches from the run before."""
        return self.of((probe, shapes), lambda: self._once(probe, self.zeros(*shapes), share), share)

    def chase_s(self, elements: int, line_elements: int) -> float:
        """Return the seconds of one chain of dependent loads all over ``elements`` integers."""

        def once() -> float:
            chain, place = (self.bench.array((count,), "int32") for count in (elements, 1))
            self.bench.run("shuffle", [chain, *self.zeros((line_elements,)), place])
            return self._once("chase", [chain, place])

        return self.of(("chase", elements), once)

    def row_s(self, *calls: Call, repeated: int = 1) -> float:
        """Return the seconds of a sequence of calls, ``repeated`` times over, run as a network's kernels are.

        It keeps its memory from round to round, as its code has the addresses in it.
        """
        key = self.plan.threads, calls, repeated
        return self.of(("row", key), lambda: self._row(key)(self.plan.probe_s / ROUNDS))

    def _row(self, key: tuple[int, tuple[Call, ...], int]) -> Callable[[float], float]:
        if key not in self._rows:
            _, calls, repeated = key
            arrays = {name: self.zeros(shape)[0] for _, named in calls for name, shape in dict(named).items()}
            row = [(probe, [arrays[name] for name, _ in named]) for probe, named in calls]
            self._rows[key] = self.bench.row(row * repeated)
        return self._rows[key]

    def of(self, key: Hashable, once: Callable[[], float], share: float = QUARTER) -> float:
        """Return the estimate of a time that ``once`` takes a sample of (`tuner.calibrate.rounds.Times`)."""
        return self.times.of((self.plan.threads, key), once, share)

    def zeros(self, *shapes: Shape) -> list[Any]:
        """Return arrays of zeros that were written explicitly: untouched pages may not be mapped."""
        arrays = [self.bench.array(shape, "float32") for shape in shapes]
        for array, shape in zip(arrays, shapes, strict=True):
            self.bench.run(f"fill{len(shape)}", [array])
        return arrays

    def summed(self, size_bytes: int, threads: int = 1) -> tuple[Shape, Shape, Shape]:
        """Return the shapes of a sum's arrays, of ``size_bytes`` in all, that ``threads`` threads share."""
        wide = summed_vectors(self.plan.shape.registers) * self.lanes
        rows = size_bytes // threads // FLOAT_BYTES // wide
        return (threads, rows, wide), (1,), (threads, wide)

    def _once(self, probe: str, arguments: Sequence[Any], share: float = QUARTER) -> float:
        """Return the seconds of one run, in one round: those that ``share`` of its repetitions fall below.

        Repetition ends early once these are known well, unless an eighth of them decides: others may be at work.
        """
        once = self.bench.clock(probe, arguments, 1)
        number = max(1, int(_SHORTEST_SAMPLE_S / max(min(once() for _ in range(3)), 1e-9)))
        run = self.bench.clock(probe, arguments, number)
        samples: list[float] = []
        end = time.monotonic() + self.plan.probe_s / ROUNDS / (TURNS if share == EIGHTH else 1)
        while len(samples) < MOST and (len(samples) < _FEWEST or time.monotonic() < end):
            samples.append(run())
            if share != EIGHTH and len(samples) >= FEWEST and interval_width(samples) <= _WIDTH:
                break
        return estimate(samples, share)
