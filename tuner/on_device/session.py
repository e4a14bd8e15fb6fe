"""One process's work on a job: its code, its data, and what results are compared with."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from dsascape.scheduler.kernels.buffers import share_buffers
from dsascape.tuner.codegen.kernels import argument, generate, network_array, stored_array
from dsascape.tuner.measure.job import Job
from dsascape.tuner.measure.records import KernelMeasurement, Timing
from dsascape.tuner.measure.targets import target_description
from dsascape.tuner.measure.timing import FLUSH, measured
from dsascape.tuner.measure.worker import FAILURES, NETWORK, reason
from dsascape.tuner.on_device.flushing import after_first
from dsascape.tuner.on_device.places import place_of
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE, NETWORK_TOLERANCE, deviation, largest, reference
from dsascape.tuner.on_device.row import Row
from dsascape.tuner.on_device.telling import device_told
from dsascape.workloads.executable import drawn_inputs, executable
from dsascape.workloads.operators.registry import Array

_SHORTEST_SAMPLE_S = 20e-6
"""What is faster is run several times for one sample."""


class Session:
    """The code of a job, its data, and what it is compared with."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.graph = job.plan.graph
        self.target = tvm.target.Target(target_description(job.target, job.threads, own_processor()))
        self.place = place_of(job)
        self.device = None if self.place.is_here else device_told(job.device, self.place, self.target)
        """What the system says that is reached at the job's device; None for that of this process."""
        self.executable = executable(self.graph, job.seed)
        self.code = generate(job.plan, self.executable, job.tiles, job.lanes)
        inputs = drawn_inputs(self.graph, job.seed)
        stored = {name for kernel in self.code.kernels for name in (*kernel.inputs, *kernel.outputs)}
        wanted = [name for name in self.graph.producer if name in stored]
        self.values = {**self.executable.values, **inputs, **reference(self.executable, inputs, wanted)}
        self.built: dict[int, list[tuple[Any, Any]]] = {}
        self.shared = share_buffers(self.code.plan.graph, self.code.stored)
        self.tensors: dict[str, Any] = {}
        """What is no weight, as arguments of kernels."""
        self.first = [self.place.constant(np.zeros(1, np.float32))] if job.flush_caches else []
        """Ahead of a kernel's own arguments: what is not flushed."""
        self.calls: list[tuple[Any, list[Any]]] = []
        """Modules and the arguments of their one function."""
        self.failed: list[str] = []

    def kernel(self, position: int) -> KernelMeasurement:
        """Return the measurement of one kernel: built, compared, repeated."""
        kernel = self.code.kernels[position]
        try:
            module = self._built(kernel.function)
            arguments = self._arguments(position)
        except FAILURES as error:
            return self._failed(position, reason(error))
        function = module["main"]
        try:
            self._load_inputs(position)
            function(*arguments)
        except FAILURES as error:  # what runs it is gone
            return self._failed(position, reason(error))
        made_of = largest(self.values[name] for name in kernel.inputs)
        found = max((self._deviation(name, self.values[name], made_of) for name in kernel.outputs), default=0.0)
        if found > KERNEL_TOLERANCE:
            names = ", ".join(kernel.operators)
            text = f"computes another result than onnxruntime: {found:.2g} of the largest value ({names})"
            return self._failed(position, text, correct=False, deviation=found)
        self.calls.append((module, arguments))
        timing = self._timing(module, arguments)
        return KernelMeasurement(kernel.name, kernel.operators, timing, True, found)

    def _failed(self, position: int, text: str, **known: Any) -> KernelMeasurement:
        kernel = self.code.kernels[position]
        self.failed.append(kernel.name)
        return KernelMeasurement(kernel.name, kernel.operators, error=text, **known)

    def _built(self, function: Any) -> Any:
        """Return the compiled function; equal ones are compiled once."""
        plain = function.with_attr("global_symbol", "main")  # a name of its own would make equal kernels differ
        plain = after_first(plain) if self.job.flush_caches else plain
        known = self.built.setdefault(tvm_ffi.structural_hash(plain), [])
        for other, module in known:
            if tvm_ffi.structural_equal(other, plain):
                return module
        module = self.place.loaded(tvm.tirx.build(tvm.IRModule({"main": plain}), target=self.target))
        known.append((plain, module))
        return module

    def _arguments(self, position: int) -> list[Any]:
        kernel = self.code.kernels[position]
        found = list(self.first)
        for name in (*kernel.inputs, *kernel.outputs):
            if name in self.executable.values:
                packed = argument(self.executable, kernel, name, self.values[name])
                found.append(self.place.constant(packed))
                continue
            if name not in self.tensors:
                tensor, buffer = self.graph.tensors[name], self.shared.buffer_of[name]
                shape = [tensor.shape[dim] for dim in tensor.order]
                sized = buffer, self.shared.sizes_bytes[buffer]
                self.tensors[name] = self.place.tensor(name, shape, self.values[name].dtype, sized)
            found.append(self.tensors[name])
        return found

    def _load_inputs(self, position: int) -> None:
        for name in self.code.kernels[position].inputs:
            if name in self.tensors:
                self.place.write(name, stored_array(self.graph, name, self.values[name]))

    def _deviation(self, name: str, wanted: Array, made_of: float) -> float:
        return deviation(network_array(self.graph, name, self.place.read(name)), wanted, made_of)

    def _timing(self, module: Any, arguments: list[Any]) -> Timing:
        once = self._evaluator(module, 1)
        first = min(once(*arguments).results[0] for _ in range(2))
        number = 1 if self.job.flush_caches else max(1, int(_SHORTEST_SAMPLE_S / max(first, 1e-9)))
        evaluator = self._evaluator(module, number)

        def run() -> float:
            return float(evaluator(*arguments).results[0])

        return measured(run, self.job.budget.kernel_s, self.job.budget.width)

    def _evaluator(self, module: Any, number: int) -> Any:
        """Return what runs a module's function so many times in a row, and says how long one took."""
        before = FLUSH if self.job.flush_caches else ""
        return module.time_evaluator("main", self.place.device, number=number, repeat=1, f_preproc=before)

    def network(self, failed: tuple[str, ...]) -> KernelMeasurement:
        """Return the measurement of all kernels in a row."""
        operators = tuple(op.name for op in self.graph.ops)
        lacking = [*failed, *self.failed, *(missing.name for missing in self.code.missing)]
        if lacking:
            shown = ", ".join(dict.fromkeys(lacking))
            return KernelMeasurement(NETWORK, operators, error=f"does not run without: {shown}")
        calls = self._all_calls()
        functions = [(module["main"], arguments) for module, arguments in calls]
        for name in self.graph.inputs:
            if name in self.tensors:
                self.place.write(name, stored_array(self.graph, name, self.values[name]))
        if not self.place.is_here:  # by the device's clock, kernel by kernel: the way there takes longer than some
            clocks = [partial(self._evaluator(module, 1), *arguments) for module, arguments in calls]
            each = [partial(function, *arguments) for function, arguments in functions]
            return self._whole(operators, lambda: [run() for run in each], partial(_seconds, clocks))
        with closing(Row(functions, self.target)) as row:
            return self._whole(operators, row.run, partial(self._row_s, row, calls))

    def _whole(
        self, operators: tuple[str, ...], run: Callable[[], object], seconds: Callable[[], float]
    ) -> KernelMeasurement:
        """Return the measurement of the network that ``run`` runs, by ``seconds`` if its results are right."""
        run()
        found = max(deviation(self._result(name), self._wanted(name)) for name in self.graph.outputs)
        if found > NETWORK_TOLERANCE:
            text = f"computes another result than onnxruntime: {found:.2g} of the largest value"
            return KernelMeasurement(NETWORK, operators, None, False, found, text)
        budget = self.job.budget
        timing = measured(seconds, budget.network_s, budget.width)
        return KernelMeasurement(NETWORK, operators, timing, True, found)

    def _row_s(self, row: Row, calls: Iterable[tuple[Any, list[Any]]]) -> float:
        """Return the seconds of all kernels in a row."""
        self._flush(calls)
        begin = time.perf_counter()
        row.run()
        return time.perf_counter() - begin

    def _flush(self, calls: Iterable[tuple[Any, list[Any]]]) -> None:
        """Take what all kernels are given out of the caches of this machine, if that is asked for."""
        if self.job.flush_caches:
            flush = tvm.get_global_func(FLUSH)
            for _, arguments in calls:
                flush(*arguments)

    def _all_calls(self) -> list[tuple[Any, list[Any]]]:
        """Return the calls in order; what an earlier process measured is built again."""
        if len(self.calls) == len(self.code.kernels):
            return self.calls
        return [
            (self._built(kernel.function), self._arguments(position))
            for position, kernel in enumerate(self.code.kernels)
        ]

    def _result(self, name: str) -> Array:
        """Return an output of the network: a tensor, or a view of its first elements under another shape."""
        root = self.graph.storage[name]
        value = network_array(self.graph, root, self.place.read(root))
        tensor = self.graph.tensors[name]
        return value.reshape(-1)[: tensor.elements].reshape(tensor.shape)

    def _wanted(self, name: str) -> Array:
        root, tensor = self.graph.storage[name], self.graph.tensors[name]
        return self.values[root].reshape(-1)[: tensor.elements].reshape(tensor.shape)


def _seconds(clocks: Iterable[Callable[[], Any]]) -> float:
    """Return what kernels take one after the other, each by its evaluator."""
    return sum(float(clock().results[0]) for clock in clocks)


def own_processor() -> str:
    """Return what LLVM calls the processor that this process runs on."""
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())
