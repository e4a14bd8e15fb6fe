"""An experiment file as a record: what to run on which machines, under which policies."""

import itertools
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator

from experiments.points import DesignPoint, Workload
from hw_models import AnyHardware, HardwareError, known_paths, load_hardware, with_values
from hw_models.yaml_file import YamlError, explain, read_yaml
from scheduler import Policy, ScheduleError, make_policy
from workloads import WorkloadError, zoo_entry

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)
MOST_POINTS = 1_000_000
Scalar = str | int | float
Name = Annotated[str, Field(min_length=1, max_length=256)]
Count = Annotated[int, Field(ge=1, le=2**20)]


class ExperimentError(ValueError):
    """An experiment file that the user has to mend."""


class WorkloadEntry(BaseModel):
    """A network with the sizes to run it at; a list of batches or sequences is a sweep over them."""

    model_config = STRICT

    model: Name
    batch: Count | Annotated[list[Count], Field(min_length=1)] | None = None
    sequence: Count | Annotated[list[Count], Field(min_length=1)] | None = None
    dtype: Name | None = None
    simplify: bool = False


class HardwareEntry(BaseModel):
    """A machine, some of its values set, and the values to sweep over."""

    model_config = STRICT

    base: Name
    values: dict[Name, Scalar] = Field(default_factory=dict, alias="set")
    sweep: dict[Name, Annotated[list[Scalar], Field(min_length=1, max_length=10_000)]] = Field(default_factory=dict)


class Search(BaseModel):
    """Which of the possible points to run."""

    model_config = STRICT

    method: Literal["grid", "random"] = "grid"
    budget: PositiveInt | None = None
    """How many points ``random`` draws."""
    seed: Annotated[int, Field(ge=0)] = 0

    @pydantic.model_validator(mode="after")
    def _budget_goes_with_random(self) -> "Search":
        if (self.method == "random") != (self.budget is not None):
            raise ValueError(f"method {self.method} {'needs a' if self.method == 'random' else 'takes no'} budget")
        return self


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _with_model(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


def _with_base(value: Any) -> Any:
    return {"base": value} if isinstance(value, str) else value


class Experiment(BaseModel):
    """One experiment file. ``points`` are what it asks for."""

    model_config = STRICT

    name: Annotated[str, Field(pattern=r"^[\w .()+-]{1,80}$")]
    workloads: Annotated[list[WorkloadEntry], Field(min_length=1, max_length=1000)]
    hardware: Annotated[list[HardwareEntry], Field(min_length=1, max_length=1000)]
    policies: Annotated[list[dict[Name, dict[Name, Any]]], Field(min_length=1, max_length=1000)]
    objectives: list[Literal["latency_s", "energy_j", "area_mm2", "throughput_per_s"]] = Field(
        default=["latency_s"], min_length=1
    )
    search: Search = Search()
    question: str = ""

    @field_validator("workloads", mode="before")
    @classmethod
    def _names_are_workloads(cls, value: Any) -> Any:
        return [_with_model(entry) for entry in value] if isinstance(value, list) else value

    @field_validator("hardware", mode="before")
    @classmethod
    def _names_are_machines(cls, value: Any) -> Any:
        return [_with_base(entry) for entry in _as_list(value)]

    @field_validator("policies", mode="before")
    @classmethod
    def _names_are_policies(cls, value: Any) -> Any:
        return [{entry: {}} if isinstance(entry, str) else entry for entry in value] if isinstance(value, list) else value

    @field_validator("policies")
    @classmethod
    def _one_name_a_policy(cls, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for entry in value:
            if len(entry) != 1:
                raise ValueError(f"has a policy with {len(entry)} names ({', '.join(entry)[:60]}); needs one with options")
        return value

    def swept(self) -> dict[str, tuple[str, ...]]:
        """Return every swept path with the texts of its values, in the order of the file."""
        found: dict[str, dict[str, None]] = {}
        for entry in self.hardware:
            for path, values in entry.sweep.items():
                found.setdefault(path, {}).update(dict.fromkeys(map(str, values)))
        for option in ("batch", "sequence"):
            several = [getattr(w, option) for w in self.workloads if isinstance(getattr(w, option), list)]
            if several:
                found[option] = dict.fromkeys(str(value) for values in several for value in values)
        return {path: tuple(values) for path, values in found.items()}


def read_experiment(path: Path) -> tuple[Experiment, list[DesignPoint]]:
    """Return the experiment in ``path`` and its design points; raise ``ExperimentError`` with all that is wrong.

    Networks, machines, policies and every swept value are checked before anything runs. Relative paths of networks,
    machines and policies are relative to the file.
    """
    try:
        data = read_yaml(path)
    except YamlError as error:
        raise ExperimentError(str(error)) from error
    data.setdefault("name", re.sub(r"[^\w .()+-]", "-", path.stem)[:80] or "experiment")
    data.setdefault("question", _first_comment(path))
    try:
        experiment = Experiment.model_validate(data)
    except pydantic.ValidationError as error:
        raise ExperimentError(explain(error, str(path), model=Experiment)) from error
    try:
        return experiment, list(_points(experiment, path))
    except (HardwareError, ScheduleError, WorkloadError) as error:
        raise ExperimentError(f"{path}: {error}") from error


def _first_comment(path: Path) -> str:
    """Return the text of the first line if it is a comment: the question that the experiment asks."""
    with path.open(encoding="utf-8") as file:
        line = file.readline(2000).strip()
    return line.lstrip("# ").strip()[:300] if line.startswith("#") else ""


def _points(experiment: Experiment, path: Path) -> Iterator[DesignPoint]:
    policies = [_policy(entry, path) for entry in experiment.policies]
    workloads = [w for entry in experiment.workloads for w in _workloads(entry, path)]
    machines = [_machine(entry, path) for entry in experiment.hardware]
    total = len(policies) * len(workloads) * sum(_combinations(entry) for entry in experiment.hardware)
    if total > MOST_POINTS and experiment.search.method == "grid":
        raise ExperimentError(f"{path}: asks for {total} design points; at most {MOST_POINTS} are run at once")
    chosen = None
    if experiment.search.budget is not None:
        count = min(experiment.search.budget, total)
        chosen = frozenset(random.Random(experiment.search.seed).sample(range(total), count))
    number = 0
    for workload, (spec, entry) in itertools.product(workloads, zip(machines, experiment.hardware, strict=True)):
        for values in itertools.product(*entry.sweep.values()):
            settings = dict(zip(entry.sweep, values, strict=True))
            wanted = [p for offset, p in enumerate(policies) if chosen is None or number + offset in chosen]
            number += len(policies)
            if wanted:
                machine = with_values(spec, settings) if settings else spec
                swept = {key: str(value) for key, value in settings.items()}
                yield from (DesignPoint(workload, machine, policy, swept) for policy in wanted)


def _combinations(entry: HardwareEntry) -> int:
    count = 1
    for values in entry.sweep.values():
        count *= len(values)
    return count


def _policy(entry: Mapping[str, Mapping[str, Any]], path: Path) -> Policy:
    ((name, options),) = entry.items()
    return make_policy(str(_beside(name, path)) if name.endswith(".py") else name, options)


def _workloads(entry: WorkloadEntry, path: Path) -> Iterator[Workload]:
    model = entry.model
    if model.endswith(".onnx"):
        model = str(_beside(model, path))
        if not Path(model).is_file():
            raise WorkloadError(f"workloads: {entry.model!r} is not there")
    else:
        zoo_entry(model)
    batches = entry.batch if isinstance(entry.batch, list) else [entry.batch]
    sequences = entry.sequence if isinstance(entry.sequence, list) else [entry.sequence]
    for batch, sequence in itertools.product(batches, sequences):
        yield Workload(model, batch, sequence, entry.dtype, entry.simplify)


def _machine(entry: HardwareEntry, path: Path) -> AnyHardware:
    """Return the base machine with its values set; every swept value is tried on it, so that a typing error shows."""
    base = str(_beside(entry.base, path)) if entry.base.endswith((".yaml", ".yml")) else entry.base
    spec = load_hardware(base)
    paths = known_paths(spec)
    for where in (*entry.values, *entry.sweep):
        if where not in paths:
            with_values(spec, {where: "0"})
    spec = with_values(spec, entry.values) if entry.values else spec
    for where, values in entry.sweep.items():
        for value in values:
            with_values(spec, {where: value})
    return spec


def _beside(name: str, path: Path) -> Path:
    """Return ``name`` as seen from the folder of the experiment file."""
    return Path(name) if Path(name).is_absolute() else path.parent / name
