"""Candidates of one kernel on the GPU of this machine: compiled by nvcc, loaded into this process, checked, timed.

No archive is made of a candidate: its machine code goes to the CUDA driver from memory, and the device's memory is used
again. The next ones are compiled on all cores while one runs, which disturbs no GPU.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dsascape.scheduler.gpu.schedule import GpuKernel
from dsascape.scheduler.kernels.loops.build import loop_program
from dsascape.scheduler.kernels.loops.naive import NaiveProgram
from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.codegen.gpu.blocks import gpu_function
from dsascape.tuner.codegen.gpu.kernels import CodedKernel, GpuCode
from dsascape.tuner.codegen.kernels import network_array, stored_array
from dsascape.tuner.measure.candidate_worker import Outcome
from dsascape.tuner.measure.cores import usable_cores
from dsascape.tuner.measure.cuda import WARP, Cuda, CudaError, CudaLaunch
from dsascape.tuner.measure.records import Timing
from dsascape.tuner.measure.targets import cuda_architecture
from dsascape.tuner.measure.tasks import CandidateResult, KernelTask, PreparedTask, Spent
from dsascape.tuner.measure.timing import measured
from dsascape.tuner.measure.worker import FAILURES, reason
from dsascape.tuner.on_device.cross_gpu import compile_cuda, entry, gpu_source
from dsascape.tuner.on_device.prepared_tasks import checked_layer, other_values, prepared_tasks
from dsascape.tuner.on_device.reference import KERNEL_TOLERANCE, deviation, largest, unlike
from dsascape.workloads import WorkloadError
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.operators.registry import Array

_REFUSALS = (*FAILURES, ArithmeticError, AssertionError, StopIteration)
_NAME = "candidate"
_SAMPLE_S = 200e-6
"""Duration of one sample in seconds; the device's clock has a resolution of half a microsecond."""
_MOST_LAUNCHES = 200
"""Most launches per sample."""


@dataclass(frozen=True)
class BuiltGrid:
    """A candidate's machine code and how it is launched, or why there is none."""

    spent: Spent
    source: str = ""
    binary: bytes = b""
    kernel: CodedKernel | None = None
    parameters: tuple[int, ...] = ()
    """Position of each parameter of the function among the kernel's inputs and outputs."""
    reason: str = ""


class GridBench:
    """The GPU, and the task whose candidates run there."""

    is_here = False
    """Whether candidates share this machine's cores with those that are built."""

    def __init__(self, target: str) -> None:
        architecture = cuda_architecture(target)
        if architecture is None:
            raise CudaError(f"candidates for {target} are not run: only those for cuda are")
        self._target, self._architecture = target, architecture
        self._cuda = Cuda()
        self._pool = ThreadPoolExecutor(usable_cores())
        self._memory = _Memory(self._cuda)
        self._on: _Arguments | None = None

    def prepared(self, tasks: Sequence[KernelTask]) -> tuple[PreparedTask, ...]:
        """Return the tasks with their reference results; raise ``WorkloadError`` for one that cannot be run here."""
        if any(task.flush_caches for task in tasks):
            raise WorkloadError("the caches of a GPU are not flushed between runs")
        return prepared_tasks(tasks)

    def take(self, prepared: PreparedTask) -> None:
        """Go on with the candidates of another task."""
        self._on = _Arguments(prepared, self._cuda, self._memory)

    def built(self, candidates: Sequence[Steps]) -> Iterator[BuiltGrid]:
        """Compile candidates on all cores; yield them in order."""
        assert self._on is not None
        written = [self._pool.submit(self._compiled, self._written(self._on, steps)) for steps in candidates]
        for each in written:
            yield each.result()

    def _written(self, on: "_Arguments", steps: Steps) -> BuiltGrid:
        begin = time.thread_time()
        layer = on.naive.layer
        try:
            program = loop_program(on.naive, steps)
            code = gpu_function(layer, on.prepared.executable, program, self._cuda.attribute(WARP), _NAME)
            scheduled = GpuKernel(layer.sink.name, 0, layer, steps)
            kernel = CodedKernel(_NAME, on.prepared.task.operators, scheduled, code)
            source = gpu_source(GpuCode((kernel,), ()), self._target)
        except _REFUSALS as error:
            return BuiltGrid(Spent(time.thread_time() - begin, 0.0), reason=f"no code: {reason(error)}")
        spent = Spent(time.thread_time() - begin, 0.0)
        return BuiltGrid(spent, source.text, b"", kernel, source.parameters[entry(_NAME)])

    def _compiled(self, built: BuiltGrid) -> BuiltGrid:
        if built.kernel is None:
            return built
        begin = time.perf_counter()
        try:
            with tempfile.TemporaryDirectory() as folder:
                source, binary = Path(folder) / "kernel.cu", Path(folder) / "kernel.fatbin"
                source.write_text(built.source)
                compile_cuda(source, binary, self._architecture)
                code = binary.read_bytes()
        except FAILURES as error:
            spent = replace(built.spent, build_s=time.perf_counter() - begin)
            return replace(built, spent=spent, kernel=None, reason=f"not built: {reason(error)}")
        return replace(built, spent=replace(built.spent, build_s=time.perf_counter() - begin), binary=code)

    def outcome(self, built: BuiltGrid) -> Outcome:
        """Check and time a candidate; where a call of the driver fails, the process cannot go on."""
        if built.kernel is None:
            return Outcome(CandidateResult(None, built.reason, built.spent))
        assert self._on is not None
        spent, begin = built.spent, time.perf_counter()
        try:
            with self._cuda.loaded(built.binary):
                launch = self._launch(built, built.kernel)
                difference = self._on.difference(launch)
                spent = replace(spent, check_s=time.perf_counter() - begin)
                if difference > KERNEL_TOLERANCE:
                    text, _ = unlike(difference, self._on.expected)
                    return Outcome(CandidateResult(None, text, spent))
                checked = time.perf_counter()
                timing = self._timing(launch)
        except CudaError as error:
            return Outcome(CandidateResult(None, reason(error), spent), is_last=error.is_last)
        spent = replace(spent, timing_s=time.perf_counter() - checked, running_s=timing.samples * timing.seconds)
        return Outcome(CandidateResult(timing.seconds, spent=spent))

    def _launch(self, built: BuiltGrid, kernel: CodedKernel) -> CudaLaunch:
        assert self._on is not None
        code = kernel.code
        names = (*code.inputs, *kernel.outputs)
        addresses = tuple([self._on.addresses[names[place]] for place in built.parameters])
        function = self._cuda.function(entry(_NAME), code.asked_bytes)
        return CudaLaunch(function, code.blocks, code.threads, code.asked_bytes, addresses)

    def _timing(self, launch: CudaLaunch) -> Timing:
        assert self._on is not None
        budget = self._on.prepared.task.budget
        with self._cuda.recorded([launch]) as once:
            first_s = min(once.seconds() for _ in range(2))
        number = max(1, min(_MOST_LAUNCHES, int(_SAMPLE_S / max(first_s, 1e-9))))
        with self._cuda.recorded([launch] * number) as several:
            return measured(
                lambda: several.seconds() / number, budget.repeat_s, budget.width, fewest=budget.fewest, warm_ups=0
            )  # fmt: skip


@dataclass
class _Memory:
    """Device memory that tasks use one after the other."""

    cuda: Cuda
    _free: list[tuple[int, int]] = field(default_factory=list)
    """Size and address."""
    _used: list[tuple[int, int]] = field(default_factory=list)

    def renew(self) -> None:
        """Take back what the last task had."""
        self._free, self._used = sorted(self._free + self._used), []

    def of(self, size_bytes: int) -> int:
        """Return the address of memory of at least that size."""
        found = next((each for each in self._free if each[0] >= size_bytes), None)
        if found is None:
            found = size_bytes, self.cuda.memory(size_bytes)
        else:
            self._free.remove(found)
        self._used.append(found)
        return found[1]


class _Arguments:
    """The tensors of a task on the device."""

    def __init__(self, prepared: PreparedTask, cuda: Cuda, memory: _Memory) -> None:
        self.prepared, self._cuda = prepared, cuda
        task = prepared.task
        self.naive = NaiveProgram(checked_layer(Analysis(task.graph), task))
        layer = self.naive.layer
        self._largest_read = largest(prepared.values[name] for name in layer.inputs)
        self._stored = {
            name: stored_array(task.graph, name, prepared.values[name]) for name in (*layer.inputs, *layer.outputs)
        }  # fmt: skip
        memory.renew()
        self.addresses = {name: memory.of(value.nbytes) for name, value in self._stored.items()}

    @property
    def expected(self) -> Mapping[str, Array]:
        """Results of the reference, by tensor."""
        return {name: self.prepared.values[name] for name in self.naive.layer.outputs}

    def difference(self, launch: CudaLaunch) -> float:
        """Run a candidate once; return how far its results are from the reference, by the largest value read.

        All arguments are written anew: the candidate before may have written anywhere.
        """
        outputs = self.naive.layer.outputs
        for name, value in self._stored.items():
            self._cuda.write(self.addresses[name], (other_values(value) if name in outputs else value).tobytes())
        self._cuda.run([launch])
        return max([self._deviation(name) for name in outputs])

    def _deviation(self, name: str) -> float:
        value = self._stored[name]
        got = np.frombuffer(self._cuda.read(self.addresses[name], value.nbytes), value.dtype).reshape(value.shape)
        expected = self.prepared.values[name]
        return deviation(network_array(self.prepared.task.graph, name, got), expected, self._largest_read)
