"""A design point: one network on one machine under one policy; and the figures that come of it."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from dsascape.experiments.question.sources import code_hash, measuring_hash, policy_hash
from dsascape.experiments.question.version import __version__
from dsascape.hw_models import AnyHardware
from dsascape.scheduler import Policy, ScheduleError, make_policy, policy_label
from dsascape.workloads import WorkloadError, zoo_entry

TUNING = "tuning."
"""What the paths of tuned numbers of the scheduler begin with, beside those of the machine."""

CODE_DIGITS = 12

Figure = float | int | str | None
Row = dict[str, Figure]
_LONGEST_DIMENSION = 3
"""Digits of a dimension's position."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A network and the sizes to run it at; None leaves the network's own."""

    model: str
    """Name in the zoo, or path of an ONNX file."""
    batch: int | None = None
    """Of the whole machine."""
    sequence: int | None = None
    dtype: str | None = None
    simplify: bool = False
    dims: tuple[tuple[str, int], ...] = ()
    """Sizes of dimensions that the file leaves open, by name."""
    image: int | None = None
    """Pixels along each side of the images that it reads."""
    batch_dims: tuple[tuple[str, int], ...] | None = None
    """The inputs that have the batch, each with its dimension; empty: it has none; None: found from how it flows."""

    @property
    def label(self) -> str:
        """What reports call it."""
        return "-".join([self.family, *(str(size) for size in (self.sequence, self.image) if size is not None)])

    @property
    def family(self) -> str:
        """The label without the sequence and the size of images, for sweeps over them."""
        name = Path(self.model).stem if self.model.endswith(".onnx") else self.model
        said = [*(["simplified"] if self.simplify else []), *(f"{dim}={size}" for dim, size in self.dims)]
        if self.batch_dims is not None:
            said += [f"batch {name}:{dim}" for name, dim in self.batch_dims] or ["no batch"]
        return f"{name} ({', '.join(said)})" if said else name


def named_dims(given: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return sizes by name, in the order of the names; raise ``WorkloadError`` for a name given twice."""
    pairs = sorted(given)
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise WorkloadError(f"--dim has {name!r} twice; needs it once")
    return dict(pairs)


def stated_batch(given: Sequence[str]) -> tuple[tuple[str, int], ...] | None:
    """Return what ``--batch-dim`` or ``batch_dim`` says: INPUT:DIM for each input, or none; None if nothing is said.

    Raises ``WorkloadError`` for anything else, and for an input that is named twice.
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
    """How a point's machine came about, as far as that can be said on a command line."""

    hardware: str
    """Preset or file of the base machine."""
    settings: Mapping[str, object]
    """Values of the machine and of its scheduler's tuning that are set on it, by path."""
    is_base: bool
    """Whether nothing that is swept differs from the base machine of the experiment file."""


@dataclass(frozen=True, slots=True)
class MeasuredOn:
    """What a point is measured with, besides being simulated."""

    target: str
    device: str
    processor: str = ""
    """Of the device: figures of another one are other figures. Empty until a bundle's results tell."""
    flush_caches: bool = False
    """Whether kernels are timed with nothing in the caches."""
    threads: int | None = None
    """Where they are not those that the schedule is for."""


@dataclass(frozen=True, slots=True)
class WrittenSchedule:
    """A file with a schedule, which takes the place of what a policy decides."""

    path: str
    digest: str
    """SHA-256 of the file: figures depend on what it says, not on where it lies."""
    policy: str
    """What it calls the policy that it was made by."""


@dataclass(frozen=True)
class DesignPoint:
    """One question to the simulator, and to a real machine if it is to be measured."""

    workload: Workload
    hardware: AnyHardware
    policy: Policy
    """Of a schedule from a file it is only the one that made it, as far as that is known here."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """The swept values that led here, as they stand in the experiment file."""
    policy_file: str = ""
    """The user's file that defines the policy, if one does."""
    tuning: Mapping[str, object] = field(default_factory=dict)
    """Tuned numbers of the machine's scheduler that differ from their defaults."""
    origin: Origin | None = None
    """None for a machine that was made in Python. Figures do not depend on it, nor does the key."""
    measured_on: MeasuredOn | None = None
    """None: it is simulated only."""
    schedule: WrittenSchedule | None = None
    """None: the policy decides."""

    def __reduce__(self) -> tuple[Callable[..., "DesignPoint"], tuple[object, ...]]:
        """Send a policy from a file as file and options: other processes do not have its class."""
        rest = dict(self.swept), self.policy_file, dict(self.tuning), self.origin, self.measured_on, self.schedule
        if not self.policy_file:
            return DesignPoint, (self.workload, self.hardware, self.policy, *rest)
        declared: tuple[Field[Any], ...] = fields(self.policy) if is_dataclass(self.policy) else ()
        names = [option.name for option in declared if option.init]
        options = {name: getattr(self.policy, name) for name in names}
        return _rebuilt, (self.workload, self.hardware, options, rest)

    @property
    def decided_by(self) -> str:
        """The policy with its options that differ from their defaults, as a schedule from a file states them."""
        return policy_label(self.policy) if self.schedule is None else self.schedule.policy

    @cached_property
    def key(self) -> str:
        """Hash of all that the figures depend on: network, machine, policy, and the code that makes them."""
        if self.measured_on is None:
            return self.simulated_key
        return measured_key(self.simulated_key, self.measured_on, measuring_hash())

    def _policy_code(self) -> str:
        """Hash of what defines the policy, where that is not here: the user's file, or an installed package."""
        return _file_hash(self.policy_file) if self.policy_file else policy_hash(type(self.policy).__module__)

    @property
    def code(self) -> str:
        """Twelve digits that stand for the code that makes the figures, the policy's own aside."""
        return code_of([] if self.measured_on is None else [measuring_hash()])

    @cached_property
    def simulated_key(self) -> str:
        """Hash of all that the simulated figures depend on."""
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
        return _key_of(content)


def measured_key(simulated_key: str, measured_on: MeasuredOn, code: str) -> str:
    """Return the key of a measured point from that of the same point simulated; ``code`` is what measured it."""
    return _key_of([simulated_key, asdict(measured_on), code])


def code_of(measuring: list[str]) -> str:
    """Return what stands for the code that makes figures here, and for that which ``measuring`` stands for."""
    return _key_of([__version__, code_hash(), *measuring])[:CODE_DIGITS]


def _key_of(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:32]


def split_tuning(settings: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the values of the machine and those of its scheduler's tuning, whose paths begin with ``tuning.``."""
    machine = {path: value for path, value in settings.items() if not path.startswith(TUNING)}
    tuning = {path.removeprefix(TUNING): value for path, value in settings.items() if path.startswith(TUNING)}
    return machine, tuning


_Rest = tuple[
    dict[str, str], str, dict[str, object], Origin | None, MeasuredOn | None, WrittenSchedule | None
]  # fmt: skip


def _rebuilt(workload: Workload, hardware: AnyHardware, options: dict[str, object], rest: _Rest) -> DesignPoint:
    _, policy_file, *_ = rest
    return DesignPoint(workload, hardware, policy_of(policy_file, options), *rest)


def policy_of(name: str, options: Mapping[str, object] | None = None) -> Policy:
    """Return the policy ``name``, or that in the file ``name``, with ``options``; raise ``ScheduleError``."""
    try:
        return make_policy(name, options)
    except SystemExit as stop:
        raise ScheduleError(f"policy file {name!r} exits with {stop.code!r}; needs to define a policy") from stop


def _file_hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@lru_cache(maxsize=256)
def content_hash(model: str) -> str:
    """Return a hash of the network's file, so that a changed file is a new network."""
    data = Path(model).read_bytes() if model.endswith(".onnx") else zoo_entry(model).read_bytes()
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class RunRecord:
    """What a design point came to. Times in seconds, energies in joules."""

    model: str
    hardware: str
    policy: str
    batch: int
    dtype: str
    latency_s: float
    throughput_per_s: float
    energy_j: float
    kernels: int
    traffic_bytes: Mapping[str, int]
    utilisation: Mapping[str, float]
    peak_occupancy_bytes: Mapping[str, int]
    tensor_scopes: Mapping[str, int]
    bottleneck: str
    critical: Mapping[str, float]
    """Shares of the latency by what set the pace on the critical path; they sum to one."""
    parts: int
    """That the machine has to share out the batch: clusters."""
    parts_at_work: int
    padded: int
    """How much more of the batch is computed than was asked for, because shares are as large as each other."""
    batch_at_once: int
    """What a part at work takes at once of its share of the batch: the policy's option ``batches_per_cluster``."""
    iterations: int
    """How often it does, one after the other."""
    macs: int
    """Multiply-accumulates of the network at this batch, without padding and without what a policy computes twice."""
    peak_macs_per_s: float
    """Of the whole machine, at this dtype."""
    off_chip_bytes_per_s: float
    """Peak of the whole machine's off-chip memory; with it, with ``macs`` and the traffic, goes the roofline."""
    simulated_events: int
    wall_s: float

    def as_json(self) -> dict[str, Any]:
        """Return the record as ``simulate --json`` prints it."""
        return asdict(self)

    def flat(self) -> dict[str, Figure]:
        """Return the record as a table's row: dictionaries become columns like ``traffic_bytes.ddr``."""
        return flat(self)


def flat(record: Any) -> dict[str, Figure]:
    """Return a record (a dataclass) as a table's row: dictionaries become columns like ``traffic_bytes.ddr``."""
    row: dict[str, Figure] = {}
    for each in fields(record):
        name, value = each.name, getattr(record, each.name)
        if isinstance(value, Mapping):
            row.update({f"{name}.{key}": figure for key, figure in value.items()})
        else:
            row[name] = value
    return row
