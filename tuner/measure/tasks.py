"""Records of the candidate runner: a kernel to find steps for, what is prepared of it once, a candidate's result."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsascape.scheduler.kernels.loops.steps import Steps
from dsascape.tuner.measure.address import LOCAL
from dsascape.tuner.measure.records import FOR_CANDIDATES
from dsascape.workloads.graph import Graph
from dsascape.workloads.operators.registry import Array

if TYPE_CHECKING:
    from dsascape.scheduler.kernels.values.packing import Packing
    from dsascape.workloads.executable import Executable

_NAME_DIGITS = 16


@dataclass(frozen=True, slots=True)
class CandidateBudget:
    """Time limits of a candidate, and the precision of its time.

    A search compares many candidates, most of them by more than a few percent, so that each is repeated less than
    `measure` repeats a kernel: it asks for eleven undisturbed runs and 1 %.
    """

    repeat_s: float = FOR_CANDIDATES.kernel_s
    """Time for repeating it, in seconds."""
    fewest: int = 5
    """Undisturbed samples at least, where the time for repeating allows it: the least of which a median leaves out two
    on each side."""
    width: float = FOR_CANDIDATES.width
    """Width of the median's 95 % confidence interval, as a fraction of it, at which repeating ends early."""
    build_s: float = 20.0
    """Time limit in seconds for building it."""
    run_s: float = FOR_CANDIDATES.limit_s
    """Time limit in seconds for checking and repeating it."""
    start_s: float = 60.0
    """Time limit in seconds for starting a process and reaching the device."""
    prepare_s: float = 900.0
    """Time limit in seconds for computing reference results."""


@dataclass(frozen=True)
class KernelTask:
    """One kernel of a network and where it runs; candidates say how."""

    graph: Graph
    ops: tuple[int, ...]
    """Positions of its operators in the graph."""
    threads: int
    target: str = "llvm"
    device: str = LOCAL
    """Address of the device that runs it (`tuner.measure.address`)."""
    budget: CandidateBudget = field(default_factory=CandidateBudget)
    flush_caches: bool = False
    """Whether its arguments are flushed from all caches before each timed run."""
    seed: int = 0
    """Seed of weights and inputs."""
    label: str = ""
    """Text that tells it from the other tasks of a bundle; names of its candidates' functions depend on it."""

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of its operators."""
        return tuple([self.graph.ops[position].name for position in self.ops])


def candidate_name(label: str, steps: Steps) -> str:
    """Return the name of a candidate's function in a bundle: a digest of its task's label and of its steps."""
    return f"candidate_{hashlib.sha256(f'{label} {steps!r}'.encode()).hexdigest()[:_NAME_DIGITS]}"


@dataclass(frozen=True, eq=False)
class PreparedTask:
    """A task with what all its candidates share."""

    task: KernelTask
    executable: "Executable"
    """The network, with values for those weights only that the kernel reads."""
    values: Mapping[str, Array]
    """Values by tensor: the kernel's inputs, and the results that onnxruntime computes from them."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds that a candidate took, by what was done."""

    code_s: float
    """Making the loop program and TIR of it, in seconds of a processor."""
    build_s: float
    """Compiling that, in seconds of a processor: others are built at the same time."""
    check_s: float = 0.0
    """Running it once and comparing what it computes."""
    timing_s: float = 0.0
    """Repeating it."""
    running_s: float = 0.0
    """Part of checking and repeating in which it ran."""


@dataclass(frozen=True, slots=True)
class CandidateCode:
    """Machine code of a candidate that runs elsewhere."""

    name: str
    """Name of its function, see `candidate_name`."""
    object_file: bytes
    inputs: tuple[str, ...]
    """Tensors and weights, in the order of the function's parameters; results follow."""
    outputs: tuple[str, ...]
    packings: Mapping[str, "Packing"]
    """How the weights among the inputs lie, where it is not as the network has them."""


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """How long a candidate takes, or why that is not known."""

    seconds: float | None
    """Median of the undisturbed runs."""
    reason: str = ""
    """Why there is no time; empty if there is one."""
    spent: Spent | None = None
    """None where its process ended."""
    code: CandidateCode | None = None
    """Code for a bundle; None where candidates run, and for one that has none."""
