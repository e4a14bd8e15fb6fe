"""A measuring session: the code and data of a job in one process, and the reference results."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from dsascape.scheduler.kernels.buffers import share_buffers
from dsascape.tuner.codegen.building import cpu_module
from dsascape.tuner.codegen.kernels import argument, generate, network_array, stored_array
from dsascape.tuner.measure.counters import energy_counters, joules_of_run
from dsascape.tuner.measure.job import Job
from dsascape.tuner.measure.records import KernelMeasurement, Timing
from dsascape.tuner.measure.targets import target_description
from dsascape.tuner.measure.timing import FLUSH, measured
from dsascape.tuner.measure.worker import FAILURES, NETWORK, reason
from dsascape.tuner.on_device.clock import Clock
from dsascape.tuner.on_device.flushing import after_first
from dsascape.tuner.on_device.handing_over import handed_line_s
from dsascape.tuner.on_device.places import own_processor, place_of
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE, NETWORK_TOLERANCE, deviation, largest, unlike
from dsascape.tuner.on_device.remote_facts import remote_device_facts
from dsascape.tuner.on_device.row import Row
from dsascape.tuner.on_device.settling import settled_reference
from dsascape.workloads.bounded import computed_elements
from dsascape.workloads.executable import drawn_inputs, executable
from dsascape.workloads.operators.registry import Array


class Session:
    """Code and data of a job, with the results to compare with."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.graph = job.plan.graph
        self.target = tvm.target.Target(target_description(job.target, job.threads, own_processor()))
        self.place = place_of(job.device, job.target, job.threads)
        self.clock = Clock(self.place.device, job.flush_caches)
        self.device = None if self.place.is_here else remote_device_facts(job.device, self.place, self.target)
        """Description of a remote device, from its system; None for this machine."""
        network = executable(self.graph, job.seed)
        self.code = generate(job.plan, network, job.chosen)
        inputs = drawn_inputs(self.graph, job.seed)
        stored = {name for kernel in self.code.kernels for name in (*kernel.inputs, *kernel.outputs)}
        wanted = [name for name in self.graph.producer if name in stored]
        settled, results = settled_reference(network, inputs, wanted)
        if settled is not network:
            self.code = generate(job.plan, settled, job.chosen)
        self.executable = self.code.executable
        self.values = {**self.executable.values, **inputs, **results}
        self.built: dict[int, list[tuple[Any, Any]]] = {}
        self.shared = share_buffers(self.executable.graph, self.code.stored)
        self.tensors: dict[str, Any] = {}
        """Tensors other than weights, as arguments of kernels."""
        self.first = [self.place.constant(np.zeros(1, np.float32))] if job.flush_caches else []
        """Unflushed first argument of each kernel, if caches are flushed."""
        self.calls: list[tuple[Any, list[Any]]] = []
        """Modules with the arguments of their one function."""
        self.failed: list[str] = []

    def kernel(self, position: int) -> KernelMeasurement:
        """Build, compare and time one kernel."""
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
        difference = max((self._deviation(name, self.values[name], made_of) for name in kernel.outputs), default=0.0)
        if difference > KERNEL_TOLERANCE:
            wanted = {name: self.values[name] for name in kernel.outputs}
            text, is_wrong = unlike(difference, wanted, kernel.operators)
            figures = {"correct": False, "deviation": difference} if is_wrong else {}
            return self._failed(position, text, **figures)
        self.calls.append((module, arguments))
        timing = self._timing(module, arguments)
        return KernelMeasurement(kernel.name, kernel.operators, timing, True, difference)

    def _failed(self, position: int, text: str, **figures: Any) -> KernelMeasurement:
        kernel = self.code.kernels[position]
        self.failed.append(kernel.name)
        return KernelMeasurement(kernel.name, kernel.operators, error=text, **figures)

    def _built(self, function: Any) -> Any:
        """Compile a function, or return the module of an equal one compiled before."""
        plain = function.with_attr("global_symbol", "main")  # a name of its own would make equal kernels differ
        plain = after_first(plain) if self.job.flush_caches else plain
        same_hash = self.built.setdefault(tvm_ffi.structural_hash(plain), [])
        for other, module in same_hash:
            if tvm_ffi.structural_equal(other, plain):
                return module
        module = self.place.loaded(cpu_module(tvm.IRModule({"main": plain}), self.target))
        same_hash.append((plain, module))
        return module

    def _arguments(self, position: int) -> list[Any]:
        kernel = self.code.kernels[position]
        arguments = list(self.first)
        for name in (*kernel.inputs, *kernel.outputs):
            if name in self.executable.values:
                packed = argument(self.executable, kernel, name, self.values[name])
                arguments.append(self.place.constant(packed))
                continue
            if name not in self.tensors:
                tensor, buffer = self.graph.tensors[name], self.shared.buffer_of[name]
                shape = [tensor.shape[dim] for dim in tensor.order]
                sized = buffer, self.shared.sizes_bytes[buffer]
                self.tensors[name] = self.place.tensor(name, shape, self.values[name].dtype, sized)
            arguments.append(self.tensors[name])
        return arguments

    def _load_inputs(self, position: int) -> None:
        for name in self.code.kernels[position].inputs:
            if name in self.tensors:
                self.place.write(name, stored_array(self.graph, name, self.values[name]))

    def _deviation(self, name: str, wanted: Array, made_of: float) -> float:
        got, computed = network_array(self.graph, name, self.place.read(name)), computed_elements(self.graph, name)
        return deviation(got if computed is None else np.where(computed, got, wanted), wanted, made_of)

    def _timing(self, module: Any, arguments: list[Any]) -> Timing:
        budget, number = self.job.budget, self.clock.number(module, arguments)
        return self.clock.timing(module, arguments, number, budget.kernel_s, budget.width)

    def network(self, failed: tuple[str, ...]) -> KernelMeasurement:
        """Run, compare and time all kernels in sequence."""
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
            clocks = [partial(self.clock.evaluator(module, 1), *arguments) for module, arguments in calls]
            each = [partial(function, *arguments) for function, arguments in functions]
            return self._whole(operators, lambda: [run() for run in each], partial(_seconds, clocks))
        with closing(Row(functions, self.target)) as row:
            return self._whole(operators, row.run, partial(self._row_s, row, calls))

    def _whole(
        self, operators: tuple[str, ...], run: Callable[[], object], seconds: Callable[[], float]
    ) -> KernelMeasurement:
        """Run the network with ``run`` and compare its outputs; time it with ``seconds`` if they are right."""
        run()
        difference = max(deviation(self._result(name), self._wanted(name)) for name in self.graph.outputs)
        if difference > NETWORK_TOLERANCE:
            text, is_wrong = unlike(difference, {name: self._wanted(name) for name in self.graph.outputs})
            if not is_wrong:
                return KernelMeasurement(NETWORK, operators, error=text)
            return KernelMeasurement(NETWORK, operators, None, False, difference, text)
        budget = self.job.budget
        timing = measured(seconds, budget.network_s, budget.width)
        is_counted = self.place.is_here and not self.job.flush_caches
        counters = energy_counters() if is_counted else ()
        joules = joules_of_run(run, timing.seconds, counters)
        handed_s = None
        if is_counted and self.job.threads > 1:
            handed_s = handed_line_s(self.place, self.target, self.job.lanes, self.job.threads)
        return KernelMeasurement(
            NETWORK, operators, timing, True, difference, handed_line_s=handed_s, joules=joules
        )  # fmt: skip

    def _row_s(self, row: Row, calls: Iterable[tuple[Any, list[Any]]]) -> float:
        """Return the seconds of all kernels in sequence."""
        self._flush(calls)
        begin = time.perf_counter()
        row.run()
        return time.perf_counter() - begin

    def _flush(self, calls: Iterable[tuple[Any, list[Any]]]) -> None:
        """Flush the arguments of all kernels from this machine's caches, if the job says so."""
        if self.job.flush_caches:
            flush = tvm.get_global_func(FLUSH)
            for _, arguments in calls:
                flush(*arguments)

    def _all_calls(self) -> list[tuple[Any, list[Any]]]:
        """Return the calls in order, compiling the kernels that an earlier process measured."""
        if len(self.calls) == len(self.code.kernels):
            return self.calls
        return [
            (self._built(kernel.function), self._arguments(position))
            for position, kernel in enumerate(self.code.kernels)
        ]

    def _result(self, name: str) -> Array:
        """Return an output of the network: a tensor, or a view of its first elements in another shape."""
        root = self.graph.storage[name]
        value = network_array(self.graph, root, self.place.read(root))
        tensor = self.graph.tensors[name]
        return value.reshape(-1)[: tensor.elements].reshape(tensor.shape)

    def _wanted(self, name: str) -> Array:
        root, tensor = self.graph.storage[name], self.graph.tensors[name]
        return self.values[root].reshape(-1)[: tensor.elements].reshape(tensor.shape)


def _seconds(clocks: Iterable[Callable[[], Any]]) -> float:
    """Return the seconds of kernels in sequence, each timed by its evaluator."""
    return sum(float(clock().results[0]) for clock in clocks)
