"""Candidates of one kernel in this process: built, compared with the reference, timed."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.scheduler.kernels.values.packing import Packing
from dsascape.tuner.codegen.emit import CpuFunction
from dsascape.tuner.codegen.kernels import argument, network_array, stored_array
from dsascape.tuner.measure.candidate_worker import Outcome
from dsascape.tuner.measure.records import Timing
from dsascape.tuner.measure.tasks import CandidateResult, KernelTask, PreparedTask
from dsascape.tuner.measure.worker import FAILURES, reason
from dsascape.tuner.on_device.candidate_code import MAIN, Built, Compiler
from dsascape.tuner.on_device.clock import Clock
from dsascape.tuner.on_device.places import Place, place_of
from dsascape.tuner.on_device.prepared_tasks import checked_layer, other_values, prepared_tasks
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE, deviation, largest, unlike
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.bounded import computed_elements

_RUNS_BEFORE = 3
"""Runs of a candidate before it is repeated: one that is checked, two that tell how often to run it per sample."""


class Bench:
    """The device and the task whose candidates run there."""

    def __init__(self, device: str, target: str, threads: int) -> None:
        self._place = place_of(device, target, threads)
        self._compiler = Compiler(target, threads, self._place.machine_code)
        self._on: _OnDevice | None = None

    @property
    def is_here(self) -> bool:
        """Whether candidates run on this machine."""
        return self._place.is_here

    def prepared(self, tasks: Sequence[KernelTask]) -> tuple[PreparedTask, ...]:
        """Return the tasks with their reference results, of each network once.

        Raises ``WorkloadError`` for a kernel without a loop program, and where onnxruntime rejects the network.
        """
        return prepared_tasks(tasks)

    def take(self, prepared: PreparedTask) -> None:
        """Go on with the candidates of another task."""
        self._on = _OnDevice(prepared, self._place)

    def built(self, candidates: Sequence[Steps]) -> Iterator[Built]:
        """Build candidates on all cores; yield them in order."""
        on = self._on
        assert on is not None
        named = [(MAIN, steps) for steps in candidates]
        yield from self._compiler.built(on.naive, on.executable, named, flushed=on.task.flush_caches)

    def outcome(self, built: Built) -> Outcome:
        """Check and time a candidate."""
        if built.function is None:
            return Outcome(CandidateResult(None, built.reason, built.spent))
        assert self._on is not None
        return self._on.outcome(built, built.function)


class _OnDevice:
    """The tensors of a task on its device."""

    def __init__(self, prepared: PreparedTask, place: Place) -> None:
        self.task, self.executable, self.values = prepared.task, prepared.executable, prepared.values
        self.place = place
        self.clock = Clock(place.device, self.task.flush_caches)
        self.naive = NaiveProgram(checked_layer(Analysis(self.task.graph), self.task))
        self.largest_read = largest(self.values[name] for name in self.naive.layer.inputs)
        self._renew()

    def outcome(self, built: Built, function: CpuFunction) -> Outcome:
        """Check and time a candidate; where a call fails elsewhere than here, the device may be gone."""
        spent, begin = built.spent, time.perf_counter()
        try:
            module = self.place.installed(built.code)
            arguments, difference = self._checked(module, function)
            checked = time.perf_counter()
            spent = replace(spent, check_s=checked - begin)
            if difference > KERNEL_TOLERANCE:
                text, _ = unlike(difference, {name: self.values[name] for name in function.outputs})
                return Outcome(CandidateResult(None, text, spent))
            number = self.clock.number(module, arguments)
            timing = self._timing(module, arguments, number)
        except FAILURES as error:
            return Outcome(CandidateResult(None, reason(error), spent), is_last=not self.place.is_here)
        runs = _RUNS_BEFORE + (number + 1) * (timing.samples + timing.disturbed)
        spent = replace(spent, timing_s=time.perf_counter() - checked, running_s=runs * timing.seconds)
        return Outcome(CandidateResult(timing.seconds, spent=spent))

    def _timing(self, module: Any, arguments: list[Any], number: int) -> Timing:
        budget = self.task.budget
        return self.clock.timing(
            module, arguments, number, budget.repeat_s, budget.width, fewest=budget.fewest, warm_ups=0
        )  # fmt: skip

    def _checked(self, module: Any, function: CpuFunction) -> tuple[list[Any], float]:
        """Run a candidate; return its arguments and how far its results are from the reference.

        A wrong one may have written anywhere, also one before whose results were right: it counts only with arguments
        made anew, and the next candidate has new ones again.
        """
        for _ in range(2):
            names = (*function.inputs, *function.outputs)
            arguments = [*self.first, *[self._argument(function, name) for name in names]]
            for name in function.outputs:
                self.blank[name].copyto(self.tensors[name])
            module[MAIN](*arguments)
            difference = max([self._deviation(name) for name in function.outputs])
            if difference <= KERNEL_TOLERANCE:
                break
            self._renew()
        return arguments, difference

    def _deviation(self, name: str) -> float:
        graph, wanted = self.task.graph, self.values[name]
        got, computed = network_array(graph, name, self.place.read(name)), computed_elements(graph, name)
        return deviation(got if computed is None else np.where(computed, got, wanted), wanted, self.largest_read)

    def _renew(self) -> None:
        """Make all arguments anew."""
        self.place.clear()
        self.first = [self.place.constant(np.zeros(1, np.float32))] if self.task.flush_caches else []
        self.constants: dict[str, tuple[Packing | None, Any]] = {}
        self.tensors: dict[str, Any] = {}
        self.blank: dict[str, Any] = {}
        graph, layer = self.task.graph, self.naive.layer
        for number, name in enumerate(dict.fromkeys((*layer.inputs, *layer.outputs))):
            if name not in self.executable.values:
                value = stored_array(graph, name, self.values[name])
                self.tensors[name] = self.place.tensor(name, value.shape, value.dtype, (number, value.nbytes))
                if name in layer.outputs:
                    self.blank[name] = self.place.constant(other_values(value))
                else:
                    self.place.write(name, value)

    def _argument(self, function: CpuFunction, name: str) -> Any:
        """Return the tensor of that name; of a weight, that in the candidate's layout."""
        if name not in self.executable.values:
            return self.tensors[name]
        packing = function.packings.get(name)
        found = self.constants.get(name)
        if found is None or found[0] != packing:
            packed = argument(self.executable, function, name, self.values[name])
            found = self.constants[name] = packing, self.place.constant(packed)
        return found[1]
