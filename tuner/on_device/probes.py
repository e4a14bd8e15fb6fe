"""Probing of a processor through TVM: this machine's, or that of a server behind TVM's RPC."""

import time
import weakref
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import Any

import tvm

from dsascape.tuner.calibrate.facts import HostFacts, facts_from, local_facts
from dsascape.tuner.calibrate.figures import Figures
from dsascape.tuner.calibrate.plan import ProbePlan, ProbeShape, probe_plan
from dsascape.tuner.calibrate.probing import probed
from dsascape.tuner.codegen.building import cpu_module
from dsascape.tuner.measure.address import remote_address
from dsascape.tuner.measure.interference import watched
from dsascape.tuner.measure.targets import target_description
from dsascape.tuner.measure.timing import measured
from dsascape.tuner.on_device.places import LocalPlace, Place, RemotePlace, own_processor
from dsascape.tuner.on_device.probe_kernels import probe_functions
from dsascape.tuner.on_device.remote_facts import file_reader
from dsascape.tuner.on_device.row import Row

_WIDTH = 0.01
_TIMES = 8
"""Number of times that a sequence is called per sample."""


class PlaceBench:
    """Probes compiled for the processor of ``place``, run there: all of them, or those of ``names``."""

    def __init__(self, place: Place, shape: ProbeShape, target: Any, names: Container[str] | None = None) -> None:
        self._place, self._target = place, target
        wanted = {name: made for name, made in probe_functions(shape).items() if names is None or name in names}
        self._module = place.loaded(cpu_module(tvm.IRModule(wanted), target))

    def array(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return uninitialised memory of the place."""
        return self._place.empty(shape, dtype)

    def use_threads(self, count: int) -> None:
        """Run loops that are split on ``count`` threads from now on."""
        self._place.use_threads(count)

    def run(self, probe: str, arguments: Sequence[Any]) -> None:
        """Run a probe once."""
        self._module[probe](*arguments)

    def clock(self, probe: str, arguments: Sequence[Any], number: int) -> Callable[[], float]:
        """Return a function that times ``number`` runs by the place's own clock."""
        evaluator = self._module.time_evaluator(probe, self._place.device, number=number, repeat=1)
        return lambda: float(evaluator(*arguments).results[0])

    def after_waits(self, probe: str, arguments: Sequence[Any], wait_ms: int, tries: int) -> list[float]:
        """Return the seconds of ``tries`` runs by the place's own clock, each after a pause."""
        evaluator = self._module.time_evaluator(
            probe, self._place.device, number=1, repeat=tries, cooldown_interval_ms=wait_ms, repeats_to_cooldown=1
        )
        return [float(each) for each in evaluator(*arguments).results]

    def row(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> Callable[[float], float]:
        """Return a function of a time to spend: the seconds of calls in sequence.

        On a server, these are the sum of each call timed by itself.
        """
        if not self._place.is_here:
            clocks = [self.clock(*call, 1) for call in calls]
            return lambda budget_s: sum([measured(each, budget_s / len(clocks), _WIDTH).seconds for each in clocks])
        return _TimedRow(Row([(self._module[probe], arguments) for probe, arguments in calls] * _TIMES, self._target))


class _TimedRow:
    """A sequence of calls, repeated, to be timed; its functions are unregistered when nobody needs it any more."""

    def __init__(self, row: Row) -> None:
        self._row = row
        weakref.finalize(self, row.close)

    def __call__(self, budget_s: float) -> float:
        """Return the seconds of one sequence, timed for ``budget_s``."""
        return measured(self._once, budget_s, _WIDTH).seconds / _TIMES

    def _once(self) -> float:
        begin = time.perf_counter()
        self._row.run()
        return time.perf_counter() - begin


def probe(device: str, target: str, most_bytes: int | None, probe_s: float) -> tuple[HostFacts, Figures]:
    """Probe ``device``; return its system's facts and the measured figures, see `tuner.calibrate.calibrate`."""
    address = remote_address(device)
    place: Place
    if address is None:
        place, facts = LocalPlace(), local_facts()
    else:
        place = RemotePlace(address, target)
        facts = facts_from(file_reader(place, _target(target, 1)), place.architecture)
        facts = facts.on_threads(place.threads)
        place.use_threads(facts.cores)
    plan: ProbePlan = probe_plan(facts, most_bytes, probe_s)
    bench = PlaceBench(place, plan.shape, _target(target, plan.threads))
    if not place.is_here:
        return facts, probed(plan, bench)
    disturbed: list[str] = []
    with watched(disturbed, plan.threads):
        figures = probed(plan, bench)
    return facts, replace(figures, warnings=(*figures.warnings, *disturbed))


def _target(name: str, threads: int) -> Any:
    return tvm.target.Target(target_description(name, threads, own_processor()))
