"""Design points (network, machine, policy), their keys, and the record of their simulated figures."""

import hashlib
import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dsascape.experiments.question.sources import code_hash, measuring_hash, policy_hash
from dsascape.experiments.question.version import __version__
from dsascape.hw_models import AnyHardware
from dsascape.hw_models.text.record_file import RecordError, read_bytes
from dsascape.scheduler import Policy, ScheduleError, make_policy, policy_label
from dsascape.scheduler.kernels.loops.sources import FILE, LARGEST_BYTES
from dsascape.workloads import WorkloadError, zoo_entry
from dsascape.workloads.memo import memoized_in_process

TUNING = "tuning."
"""Prefix of paths that set scheduler tuning rather than machine values."""

CODE_DIGITS = 12

LENGTHS = ("sequence", "image", "context", "tokens")
"""Sizes of one image or sequence that an experiment may sweep; they are part of a workload's label."""
SIZES = ("batch", *LENGTHS)
"""Sizes of a workload that an experiment may sweep."""

_PREFIXES = {"context": "context", "tokens": "tokens"}
"""What stands before a length in a label."""
Figure = float | int | str | None
Row = dict[str, Figure]
_LONGEST_DIMENSION = 3
"""Most digits of a dimension's index."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A network and the sizes to run it at; None keeps the network's own."""

    model: str
    """Name in the zoo, or path of an ONNX file."""
    batch: int | None = None
    """Batch of the whole machine."""
    sequence: int | None = None
    dtype: str | None = None
    simplify: bool = False
    dims: tuple[tuple[str, int], ...] = ()
    """Sizes of the file's dynamic dimensions, by name."""
    image: int | None = None
    """Side of the input images, in pixels."""
    batch_dims: tuple[tuple[str, int], ...] | None = None
    """Batch dimension of each input that has one; empty: there is no batch; None: inferred from the data flow."""
    context: int | None = None
    """Tokens that the caches of a language model hold before the pass."""
    tokens: int | None = None
    """Tokens that a pass of a language model processes for each sequence."""

    @property
    def label(self) -> str:
        """Name of the workload in reports."""
        return self.label_beside(())

    def label_beside(self, swept: Container[str]) -> str:
        """Return the name in reports of a sweep over the sizes ``swept``, which have columns of their own."""
        stated = {name: size for name, size in self.sizes.items() if size is not None and name not in swept}
        lengths = [f"{_PREFIXES.get(name, '')}{stated[name]}" for name in LENGTHS if name in stated]
        return "-".join([self.family, *lengths])

    @property
    def sizes(self) -> dict[str, int | None]:
        """Sizes that an experiment may sweep, by name; None: the network's own."""
        return {name: getattr(self, name) for name in SIZES}

    @property
    def dimensions(self) -> dict[str, int]:
        """Sizes of the dynamic dimensions, those of the pass of a language model included."""
        of_pass = {"context": self.context, "tokens": self.tokens}
        return dict(self.dims) | {name: size for name, size in of_pass.items() if size is not None}

    @property
    def family(self) -> str:
        """Label without the sizes that may be swept, shared by a sweep over them."""
        name = Path(self.model).stem if self.model.endswith(".onnx") else self.model
        said = [*(["simplified"] if self.simplify else []), *(f"{dim}={size}" for dim, size in self.dims)]
        if self.batch_dims is not None:
            said += [f"batch {name}:{dim}" for name, dim in self.batch_dims] or ["no batch"]
        return f"{name} ({', '.join(said)})" if said else name


def named_dims(given: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return sizes by name, sorted by name; raise ``WorkloadError`` for a repeated name."""
    pairs = sorted(given)
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise WorkloadError(f"--dim has {name!r} twice; needs it once")
    return dict(pairs)


def stated_batch(given: Sequence[str]) -> tuple[tuple[str, int], ...] | None:
    """Parse ``--batch-dim`` or ``batch_dim``: INPUT:DIM pairs, empty for ``none``, None if nothing is given.

    Raises ``WorkloadError`` for anything else, and for an input named twice.
    """
    if not given:
        return None
    if list(given) == ["none"]:
        return ()
    dims: dict[str, int] = {}
    for text in given:
        name, colon, dim = text.rpartition(":")
        if not (name and colon and dim.isascii() and dim.isdigit() and len(dim) <= _LONGEST_DIMENSION):
            raise WorkloadError(f"batch-dim has {text!r}; needs INPUT:DIM, such as tokens:1, or none")
        if name in dims:
            raise WorkloadError(f"batch-dim has input {name!r} twice; needs it once")
        dims[name] = int(dim)
    return tuple(dims.items())


@dataclass(frozen=True, slots=True)
class Origin:
    """Base machine and settings of a point, as a command line can state them."""

    hardware: str
    """Preset or file of the base machine."""
    settings: Mapping[str, object]
    """Values set on the machine and on its scheduler's tuning, by path."""
    is_base: bool
    """Whether the point's machine equals the base machine of the experiment file."""


@dataclass(frozen=True, slots=True)
class MeasuredOn:
    """Target, device and conditions of a measurement."""

    target: str
    device: str
    processor: str = ""
    """Name of the device's processor, part of the point's key. Empty until a bundle's results are imported."""
    flush_caches: bool = False
    """Whether caches are flushed before each timing."""
    threads: int | None = None
    """Number of threads where it differs from the schedule's; None: as scheduled."""


@dataclass(frozen=True, slots=True)
class WrittenSchedule:
    """A schedule read from a file, used in place of a policy's decisions."""

    path: str
    digest: str
    """SHA-256 of the file; the key depends on its content, not its path."""
    policy: str
    """Label in the file of the policy that made the schedule."""


@dataclass(frozen=True, slots=True)
class WrittenKernels:
    """A folder of tuned kernels, used in place of the built-in choice for the kernels that it has."""

    path: str
    digest: str
    """SHA-256 of its file; the key depends on its content, not its path."""


@dataclass(frozen=True, slots=True)
class WrittenPins:
    """Decisions about layers that the user fixes, from a file."""

    path: str
    """File that messages name; the key depends on the content, not on the path."""
    text: str
    """Content of the file as JSON."""


def written_kernels(folder: Path) -> WrittenKernels:
    """Return the kernels of a folder; raise ``ScheduleError`` for one without a file of kernels."""
    path = folder / FILE
    try:
        return WrittenKernels(str(folder), hashlib.sha256(read_bytes(path, LARGEST_BYTES)).hexdigest())
    except RecordError as error:
        raise ScheduleError(f"kernels: {error}; needs a folder from dsascape tune") from error


@dataclass(frozen=True)
class DesignPoint:
    """One network on one machine under one policy, to simulate and perhaps to measure."""

    workload: Workload
    hardware: AnyHardware
    policy: Policy
    """Policy that plans and schedules; for a schedule from a file, the one that made it (``unfused`` if missing)."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """Swept values of this point, as written in the experiment file."""
    policy_file: str = ""
    """Path of the user's file that defines the policy; empty for other policies."""
    tuning: Mapping[str, object] = field(default_factory=dict)
    """Scheduler tuning that differs from the defaults, by name."""
    origin: Origin | None = None
    """None for a machine built in Python. Neither figures nor the key depend on it."""
    measured_on: MeasuredOn | None = None
    """Device and target on which generated code is measured; None: simulated only."""
    schedule: WrittenSchedule | None = None
    """Schedule from a file that replaces the policy's; None: the policy decides."""
    kernels: WrittenKernels | None = None
    """Tuned kernels; None: the built-in choice for all."""
    pins: WrittenPins | None = None
    """Decisions that are fixed for some layers; None: all are searched."""

    def __reduce__(self) -> tuple[Callable[..., "DesignPoint"], tuple[object, ...]]:
        """Pickle a policy from a file as file and options: other processes do not have its class."""
        rest = (
            dict(self.swept), self.policy_file, dict(self.tuning), self.origin, self.measured_on, self.schedule,
            self.kernels, self.pins,
        )  # fmt: skip
        if not self.policy_file:
            return DesignPoint, (self.workload, self.hardware, self.policy, *rest)
        declared: tuple[Field[Any], ...] = fields(self.policy) if is_dataclass(self.policy) else ()
        names = [option.name for option in declared if option.init]
        options = {name: getattr(self.policy, name) for name in names}
        return _rebuilt, (self.workload, self.hardware, options, rest)

    @property
    def decided_by(self) -> str:
        """Label of the deciding policy with its non-default options, or the label in the schedule file."""
        return policy_label(self.policy) if self.schedule is None else self.schedule.policy

    @cached_property
    def key(self) -> str:
        """Hash of everything the figures depend on: network, machine, policy, code, and measurement if any."""
        if self.measured_on is None:
            return self.simulated_key
        return measured_key(self.simulated_key, self.measured_on, measuring_hash())

    def _policy_code(self) -> str:
        """Hash of the policy's own code: the user's file or an installed package; empty for built-in policies."""
        return _file_hash(self.policy_file) if self.policy_file else policy_hash(type(self.policy).__module__)

    @property
    def code(self) -> str:
        """Hash of twelve digits of the code that computes the figures, without the policy's own."""
        return code_of([] if self.measured_on is None else [measuring_hash()])

    @cached_property
    def simulated_key(self) -> str:
        """Hash of everything the simulated figures depend on."""
        policy = type(self.policy)
        content: dict[str, object] = {
            "version": [__version__, code_hash(), self._policy_code()],
            "network": content_hash(self.workload.model),
            "workload": {**asdict(self.workload), "model": self.workload.label},
            "hardware": self.hardware.model_dump(by_alias=True),
            "policy": [policy.__module__, policy.__qualname__, self.decided_by],
            "swept": dict(self.swept),
            "tuning": dict(self.tuning),
        }
        if self.schedule is not None:
            content["schedule"] = self.schedule.digest
        if self.kernels is not None:
            content["kernels"] = self.kernels.digest
        if self.pins is not None:
            content["pins"] = self.pins.text
        return _key_of(content)


def measured_key(simulated_key: str, measured_on: MeasuredOn, code: str) -> str:
    """Return a measured point's key from its simulated key; ``code`` is the hash of the measuring code."""
    return _key_of([simulated_key, asdict(measured_on), code])


def code_of(measuring: list[str]) -> str:
    """Return a hash of twelve digits of the simulator's code and the given hashes of measuring code."""
    return _key_of([__version__, code_hash(), *measuring])[:CODE_DIGITS]


def _key_of(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:32]


def split_tuning(settings: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Split settings into machine values and scheduler tuning (paths that begin with ``tuning.``, prefix removed)."""
    machine = {path: value for path, value in settings.items() if not path.startswith(TUNING)}
    tuning = {path.removeprefix(TUNING): value for path, value in settings.items() if path.startswith(TUNING)}
    return machine, tuning


_Rest = tuple[
    dict[str, str], str, dict[str, object], Origin | None, MeasuredOn | None, WrittenSchedule | None,
    WrittenKernels | None, WrittenPins | None,
]  # fmt: skip


def _rebuilt(workload: Workload, hardware: AnyHardware, options: dict[str, object], rest: _Rest) -> DesignPoint:
    _, policy_file, *_ = rest
    return DesignPoint(workload, hardware, policy_of(policy_file, options), *rest)


def policy_of(name: str, options: Mapping[str, object] | None = None) -> Policy:
    """Return the policy called ``name``, or defined in the file ``name``, with ``options``; raise ``ScheduleError``."""
    try:
        return make_policy(name, options)
    except SystemExit as stop:
        raise ScheduleError(f"policy file {name!r} exits with {stop.code!r}; needs to define a policy") from stop


def _file_hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@memoized_in_process(256)
def content_hash(model: str) -> str:
    """Return the SHA-256 of the network's file, so that a changed file has a new key."""
    data = Path(model).read_bytes() if model.endswith(".onnx") else zoo_entry(model).identity
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class RunRecord:
    """Simulated figures of a design point. Times in seconds, energies in joules."""

    model: str
    hardware: str
    policy: str
    batch: int
    dtype: str
    latency_s: float
    expected_latency_s: float
    """Latency with every kernel at the machine's ``library_efficiency`` for its kind; `latency_s` if it states none."""
    throughput_per_s: float
    energy_j: float
    expected_energy_j: float
    """Energy of a run that takes ``expected_latency_s``: static power is drawn for longer."""
    energy_parts_j: Mapping[str, float]
    """Energy by component: ``macs``, ``vector``, ``instructions``, each memory, links, ``static``; they sum to
    `energy_j`."""
    kernels: int
    traffic_bytes: Mapping[str, int]
    utilisation: Mapping[str, float]
    """Busy share of the latency per unit and memory port, averaged over all of the machine's: idle clusters count."""
    utilisation_at_work: Mapping[str, float]
    """`utilisation`, averaged over the clusters at work alone."""
    peak_occupancy_bytes: Mapping[str, int]
    tensor_scopes: Mapping[str, int]
    bottleneck: str
    clock_share: float
    """Share of the machine's sustained clock that it ran at: below 1 where its power limit allows no more."""
    expected_clock_share: float
    """Share of the sustained clock of a run that takes ``expected_latency_s``, and so draws less power."""
    critical: Mapping[str, float]
    """Fraction of the latency per limiting resource on the critical path; the fractions sum to one."""
    parts: int
    """Number of clusters of the machine, over which the batch is split."""
    parts_at_work: int
    parts_share: str
    """What the clusters at work share: ``batch`` (each has its own images) or ``kernels`` (each has a part of every
    layer)."""
    padded: int
    """Padding in images: how far equal shares exceed the requested batch."""
    batch_at_once: int
    """Images that one cluster processes per iteration; the policy's option ``batches_per_cluster``."""
    iterations: int
    """Number of sequential iterations per cluster."""
    macs: int
    """Multiply-accumulates of the network at this batch, without padding and recomputation."""
    peak_macs_per_s: float
    """Peak multiply-accumulates per second of the whole machine, of products in several dtypes the mean by time."""
    off_chip_bytes_per_s: float
    """Peak off-chip bandwidth of the whole machine; with ``macs`` and the traffic it gives the roofline."""
    language: Mapping[str, float]
    """Figures of a language model's pass (see ``experiments/point/language.py``); empty for other networks."""
    simulated_events: int
    engine: str
    """Name of the simulation engine that ran it; the figures are the same on every engine."""
    wall_s: float

    def as_json(self) -> dict[str, Any]:
        """Return the record as the dictionary that ``simulate --json`` prints, ``language`` only if not empty."""
        return {name: value for name, value in asdict(self).items() if name != "language" or value}

    def flat(self) -> dict[str, Figure]:
        """Return the record as a table row; mappings become columns like ``traffic_bytes.ddr``."""
        return flat(self)


def flat(record: Any) -> dict[str, Figure]:
    """Return a dataclass as a table row; mappings become columns like ``traffic_bytes.ddr``."""
    row: dict[str, Figure] = {}
    for each in fields(record):
        name, value = each.name, getattr(record, each.name)
        if isinstance(value, Mapping):
            row.update({f"{name}.{key}": figure for key, figure in value.items()})
        else:
            row[name] = value
    return row
