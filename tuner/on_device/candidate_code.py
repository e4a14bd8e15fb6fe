"""Machine code of candidates: made of their steps and compiled, several at a time."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import tvm

from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.codegen.building import cpu_module
from dsascape.tuner.codegen.emit import CpuFunction, cpu_function
from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.targets import target_description
from dsascape.tuner.measure.tasks import Spent
from dsascape.tuner.measure.worker import FAILURES, reason
from dsascape.tuner.on_device.flushing import after_first
from dsascape.tuner.on_device.places import own_processor
from dsascape.workloads.executable import Executable

MAIN = "main"
"""Name of a candidate's function that has a module of its own."""
_REFUSALS = (*FAILURES, ArithmeticError, AssertionError, StopIteration)
"""Exceptions of making a program of steps that do not fit the kernel."""
_UNCHECKED = {"tirx.disable_assert": True}
"""TVM's option that leaves out checks of a function's arguments: half of its code, and none of the kernel's loops."""


@dataclass(frozen=True)
class Built:
    """A candidate's function and its machine code, or why there is none."""

    spent: Spent
    function: CpuFunction | None = None
    code: Any = None
    reason: str = ""


class Compiler:
    """Compiles candidates on all cores of this machine."""

    def __init__(self, target: str, threads: int, machine_code: Callable[[Any], Any]) -> None:
        """``machine_code`` returns a compiled module's code as it is wanted; several threads call it at once."""
        self._target = tvm.target.Target(target_description(target, threads, own_processor()))
        self._machine_code = machine_code
        self._pool = ThreadPoolExecutor(usable_cores())

    def built(
        self, naive: NaiveProgram, executable: Executable, candidates: Sequence[tuple[str, Steps]], *, flushed: bool
    ) -> Iterator[Built]:
        """Yield the code of candidates of a kernel, each a name of its function with its steps, in their order.

        ``flushed``: functions have one argument more, in front, which is not flushed from the caches.
        """
        for each in list(self._submitted(naive, executable, candidates, flushed)):
            yield each.result()

    def _submitted(
        self, naive: NaiveProgram, executable: Executable, candidates: Sequence[tuple[str, Steps]], flushed: bool
    ) -> Iterator[Future[Built]]:
        for name, steps in candidates:
            begin = time.thread_time()
            function, text = _function(naive, executable, steps, name)
            yield self._pool.submit(self._compiled, name, function, text, time.thread_time() - begin, flushed)

    def _compiled(self, name: str, function: CpuFunction | None, text: str, code_s: float, flushed: bool) -> Built:
        if function is None:
            return Built(Spent(code_s, 0.0), reason=text)
        begin = time.thread_time()
        try:
            plain = after_first(function.function) if flushed else function.function
            with tvm.transform.PassContext(config=_UNCHECKED):
                code = self._machine_code(cpu_module(tvm.IRModule({name: plain}), self._target))
        except FAILURES as error:
            return Built(Spent(code_s, time.thread_time() - begin), reason=f"not built: {reason(error)}")
        return Built(Spent(code_s, time.thread_time() - begin), function, code)


def _function(
    naive: NaiveProgram, executable: Executable, steps: Steps, name: str
) -> tuple[CpuFunction | None, str]:
    """Return the function of a candidate, or why it has none."""
    try:
        return cpu_function(naive.layer, executable, loop_program(naive, steps), name), ""
    except _REFUSALS as error:
        return None, f"no code: {reason(error)}"
