"""An experiment file as a record: what to run on which machines, under which policies."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from dsascape.experiments.question.combined import Combination
from dsascape.experiments.question.constraints import read_constraints
from dsascape.experiments.question.points import SIZES
from dsascape.hw_models.common.spec_types import NetworkDType
from dsascape.hw_models.text.messages import shown
from dsascape.hw_models.text.yaml_file import YamlError, explain, parse_yaml, read_text, shown_path
from dsascape.wording import count

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)
MOST_POINTS = 1_000_000
"""Largest number of design points that one run computes."""
LARGEST_COUNT = 2**20
ALL = "all"
"""Name that selects every preset."""


class ExperimentError(ValueError):
    """An experiment file that is wrong; the message says what to change."""


def _scalar(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"has {shown(value)}; needs a number, with its unit if it has one, such as 512 KiB")
    return value


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_COUNT


def _counts(value: Any) -> Any:
    """Validate a count or a list of counts, with one message for both."""
    wrong = [each for each in (value if isinstance(value, list) else [value]) if not _is_count(each)]
    if value is not None and (wrong or value == []):
        raise ValueError(f"has {shown(wrong[0] if wrong else value)}; needs whole numbers from 1 to {LARGEST_COUNT}")
    return _once(value) if isinstance(value, list) else value


def _one_or_several(value: Any) -> Any:
    """Return a list: a single text becomes a list of one, None an empty list."""
    return [] if value is None else [value] if isinstance(value, str) else value


def _context(value: Any) -> Any:
    """Validate a number of tokens in a cache, 0 included, or a list of them."""
    wrong = [each for each in (value if isinstance(value, list) else [value]) if each != 0 and not _is_count(each)]
    if value is not None and (wrong or value == [] or any(each is False for each in _as_list(value))):
        raise ValueError(f"has {shown(wrong[0] if wrong else value)}; needs whole numbers from 0 to {LARGEST_COUNT}")
    return _once(value) if isinstance(value, list) else value


def _once(values: list[Any]) -> list[Any]:
    """Refuse a list with repeated values."""
    for position, value in enumerate(values):
        if value in values[:position]:
            raise ValueError(f"has {shown(value)} twice; needs it once")
    return values


def _constraints(value: Any) -> Any:
    """Validate constraints, given as a list of texts or as a single one."""
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list):
        read_constraints(texts)
    return texts


def _scalar_or_null(value: Any) -> Any:
    return None if value is None else _scalar(value)


Scalar = Annotated[Any, BeforeValidator(_scalar, json_schema_input_type=str | int | float)]
ScalarOrNull = Annotated[Any, BeforeValidator(_scalar_or_null, json_schema_input_type=str | int | float | None)]
Name = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f]*$")]
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
CountFromZero = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Counts = Annotated[
    int | list[int] | None, BeforeValidator(_counts, json_schema_input_type=Count | list[Count] | None)
]  # fmt: skip
Contexts = Annotated[
    int | list[int] | None, BeforeValidator(_context, json_schema_input_type=CountFromZero | list[CountFromZero] | None)
]  # fmt: skip
Objective = Literal["latency_s", "energy_j", "power_w", "area_mm2", "throughput_per_s"]
SearchMethod = Literal["random", "tpe", "nsga2"]
"""Search methods that run a part of the grid."""


class WorkloadEntry(BaseModel):
    """A network and the sizes to run it at; a list of batches, lengths, contexts, tokens or image sizes is swept."""

    model_config = STRICT

    model: Name
    """Network of the zoo, or the path of an ONNX file."""
    batch: Counts = None
    """Batch of the whole machine; by default the file's."""
    sequence: Counts = None
    """Tokens of a language network's inputs."""
    image: Counts = None
    """Side of the input images, in pixels."""
    context: Contexts = None
    """Tokens that the caches of a language model hold before the pass."""
    tokens: Counts = None
    """Tokens that a pass of a language model processes for each sequence."""
    dtype: NetworkDType | None = None
    """Dtype of what the file leaves open; by default the machine's."""
    simplify: bool = False
    """Whether the network is simplified before it is planned."""
    dims: dict[Name, Annotated[int, Field(ge=0, le=LARGEST_COUNT)]] = Field(default_factory=dict)
    """Sizes of the dynamic dimensions of an ONNX file, by name."""
    batch_dim: Annotated[list[Name], BeforeValidator(_one_or_several)] = Field(default_factory=list)
    """Batch dimension of each input as INPUT:DIM, or ``none``; by default it is inferred from the data flow."""
    weight: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Weight of the network, at each of its sizes, where ``combine`` takes all networks together; 1 if not stated."""


_ONE_OF_BOTH: list[pydantic.JsonValue] = [{"required": ["base"]}, {"required": ["kind"]}]


class HardwareEntry(BaseModel):
    """A base machine, or a selection of presets; the values set on each, and the values to sweep over."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"oneOf": _ONE_OF_BOTH})

    base: Name | None = None
    """Preset, or the path of a machine file; ``all`` is every preset."""
    kind: Name | None = None
    """Every preset of one kind, such as ``gpu``, in place of ``base``."""
    values: dict[Name, ScalarOrNull] = Field(default_factory=dict, alias="set")
    """Values by path, such as ``ddr.bandwidth``; null switches an optional part off."""
    sweep: dict[Name, Annotated[list[Scalar], Field(min_length=1, max_length=10_000)]] = Field(default_factory=dict)
    """Values to try, by path: every combination is a machine."""

    @pydantic.model_validator(mode="after")
    def _base_or_kind(self) -> "HardwareEntry":
        if (self.base is None) == (self.kind is None):
            both = "base and kind, which exclude each other" if self.base else "neither base nor kind"
            raise ValueError(f"has {both}; needs one of them, such as base: t4 or kind: gpu")
        return self

    @property
    def is_selection(self) -> bool:
        """Whether the entry stands for several presets."""
        return self.base is None or self.base == ALL

    @property
    def label(self) -> str:
        """What the entry is called in a report."""
        if self.base is None:
            return f"all presets of kind {self.kind}"
        return "all presets" if self.is_selection else self.base

    @pydantic.model_validator(mode="after")
    def _sets_or_sweeps(self) -> "HardwareEntry":
        for path in self.sweep:
            if path in self.values:
                raise ValueError(f"{path} is in both set and sweep; needs to be in one")
        return self


class Search(BaseModel):
    """Search method: which of the possible design points to run."""

    model_config = STRICT

    method: Literal["grid", "random", "tpe", "nsga2"] = "grid"
    """``grid``: all points. ``random``: a sample. ``tpe``: a model of good and bad values, for small budgets.
    ``nsga2``: an evolutionary search (`experiments.engine.search`)."""
    budget: Annotated[int, Field(ge=1, le=MOST_POINTS)] | None = None
    """Largest number of distinct points to run; with ``combine``, of designs (machine and policy), each of which runs
    all networks."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of ``random``, ``tpe`` and ``nsga2``: the same seed runs the same points."""
    compare_with: list[SearchMethod] = Field(default_factory=list)
    """Further methods to run with the same budget and seed, to compare the methods in the report."""

    @pydantic.model_validator(mode="after")
    def _budget_unless_grid(self) -> "Search":
        if (self.method == "grid") != (self.budget is None):
            raise ValueError(f"method {self.method} {'takes no' if self.method == 'grid' else 'needs a'} budget")
        return self

    @pydantic.model_validator(mode="after")
    def _compares_with_other_methods(self) -> "Search":
        if self.compare_with and self.method == "grid":
            raise ValueError("compare_with goes with a method that has a budget; method grid runs all points")
        _once([self.method, *self.compare_with])
        return self

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods to run, the one that was asked for first."""
        return (self.method, *self.compare_with)


class Measuring(BaseModel):
    """Measurement options: the simulated schedules also run as generated code on a real machine."""

    model_config = STRICT

    target: Name = "llvm"
    """TVM target that code is generated for."""
    device: Name = "local"
    """Device that runs the code: ``local``, ``rpc://HOST:PORT`` or ``rpc://HOST:PORT/KEY``."""
    flush_caches: bool = False
    """Whether caches are flushed before each timing; otherwise they hold what the run before left."""


ScheduleMode = Literal["anew", "keep"]
"""``anew``: the policy plans and schedules for each changed machine. ``keep``: the schedule of the unchanged machine
runs on each changed one, as code that is already compiled does."""


class WhatIfEntry(BaseModel):
    """Request for the effects of changed machine values on one point of the run."""

    model_config = STRICT

    values: list[Name] = Field(default_factory=list)
    """Paths of numbers or sections to halve and double, or ``PATH=VALUE,VALUE``; empty: all numbers."""
    schedule: ScheduleMode = "anew"
    """``anew``: planned and scheduled for each changed machine. ``keep``: the schedule of the unchanged one runs."""


def _with_values(value: Any) -> Any:
    if value is True:
        return {}
    return {"values": value} if isinstance(value, list) else value or None


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _with_model(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


def _with_base(value: Any) -> Any:
    return {"base": value} if isinstance(value, str) else value


_WhatIf = bool | list[Name] | WhatIfEntry | None
_ENTRIES = Field(min_length=1, max_length=1000)
_Workloads = Annotated[list[Name | WorkloadEntry], _ENTRIES]
_Machines = Name | HardwareEntry | Annotated[list[Name | HardwareEntry], _ENTRIES]
_Policies = Annotated[list[Name | dict[Name, dict[Name, Any]]], _ENTRIES]


class Experiment(BaseModel):
    """One experiment file: what to run on which machines, under which policies."""

    model_config = STRICT

    name: Annotated[str, Field(pattern=r"^\w[\w .()+-]{0,79}$")]
    """Name of the study, and of its results folder unless the command line gives another."""
    workloads: Annotated[list[WorkloadEntry], _ENTRIES]
    """Networks, by name or with sizes."""
    hardware: Annotated[list[HardwareEntry], _ENTRIES]
    """Machines, by name or as a base with values set and swept; one or several. ``all`` is every preset, ``kind: gpu``
    every preset of that kind."""
    policies: Annotated[list[dict[Name, dict[Name, Any]]], _ENTRIES]
    """Policies by name, or a name with options; a path to a ``.py`` file is a policy of one's own, a path to a
    ``.json`` file a schedule that ``simulate --schedule-out`` wrote, in place of a policy."""
    objectives: Annotated[list[Objective], Field(min_length=1), pydantic.AfterValidator(_once)] = ["latency_s"]
    """Figures that the report compares, and that ``tpe`` and ``nsga2`` optimise."""
    constraints: Annotated[
        list[Name], BeforeValidator(_constraints, json_schema_input_type=Name | list[Name])
    ] = Field(default_factory=list)
    """Limits such as ``area_mm2 <= 20`` or ``latency_s <= 5 ms``. Points beyond one are kept, marked, never best."""
    combine: Combination | None = None
    """How networks are taken together, to find the one machine for all of them: ``geometric_mean`` of each figure, or
    ``weighted_sum``, both by ``weight``. By default each network is compared by itself."""
    search: Search = Search()
    """Search method: all points unless it says otherwise."""
    measure: Measuring | None = None
    """Measurement options; without them points are simulated only."""
    kernels: Name | None = None
    """Folder of tuned kernels (``dsascape tune --out``) for all points; by default the built-in choice."""
    pins: Name | None = None
    """File of pins: decisions that are fixed for some layers of all points; by default all are searched."""
    what_if: Annotated[WhatIfEntry | None, BeforeValidator(_with_values, json_schema_input_type=_WhatIf)] = None
    """Effects of changed machine values for the report; ``true`` varies all numbers, a list those that it names."""
    question: str = ""
    """Question that the study answers, printed above the report; by default the comment in the file's first line."""

    @field_validator("workloads", mode="before", json_schema_input_type=_Workloads)
    @classmethod
    def _names_are_workloads(cls, value: Any) -> Any:
        return [_with_model(entry) for entry in value] if isinstance(value, list) else value

    @field_validator("hardware", mode="before", json_schema_input_type=_Machines)
    @classmethod
    def _names_are_machines(cls, value: Any) -> Any:
        return [_with_base(entry) for entry in _as_list(value)]

    @field_validator("policies", mode="before", json_schema_input_type=_Policies)
    @classmethod
    def _names_are_policies(cls, value: Any) -> Any:
        return (
            [{entry: {}} if isinstance(entry, str) else entry for entry in value] if isinstance(value, list) else value
        )

    @pydantic.model_validator(mode="after")
    def _weights_only_together(self) -> "Experiment":
        for position, entry in enumerate(self.workloads):
            if entry.weight is not None and self.combine is None:
                raise ValueError(
                    f"workloads.{position}.weight has {shown(entry.weight)}; needs combine: geometric_mean or"
                    " weighted_sum, which says how networks are taken together"
                )
        return self

    @field_validator("policies")
    @classmethod
    def _one_name_a_policy(cls, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for entry in value:
            if len(entry) != 1:
                raise ValueError(
                    f"has a policy with {count(len(entry), 'name')} ({', '.join(entry)[:60]}); needs one with options"
                )
        return value

    def swept(self) -> dict[str, tuple[str, ...]]:
        """Return the values of every swept path as text, in the order of the file."""
        values_of: dict[str, dict[str, None]] = {}
        for entry in self.hardware:
            for path, values in entry.sweep.items():
                values_of.setdefault(path, {}).update(dict.fromkeys(map(str, values)))
        for option in SIZES:
            several = [getattr(w, option) for w in self.workloads if isinstance(getattr(w, option), list)]
            if several:
                values_of[option] = dict.fromkeys(str(value) for values in several for value in values)
        return {path: tuple(values) for path, values in values_of.items()}


def read_schema(path: Path) -> Experiment:
    """Read the experiment file at ``path``; raise ``ExperimentError`` with everything that does not fit the schema."""
    try:
        text = read_text(path)
        data = parse_yaml(text, shown_path(path))
    except YamlError as error:
        raise ExperimentError(str(error)) from error
    data.setdefault("name", re.sub(r"[^\w .()+-]", "-", path.stem).lstrip(" .()+-")[:80] or "experiment")
    data.setdefault("question", _first_comment(text))
    try:
        return Experiment.model_validate(data)
    except pydantic.ValidationError as error:
        raise ExperimentError(explain(error, str(path), model=Experiment)) from error


def _first_comment(text: str) -> str:
    """Return the first line if it is a comment, without its marker: the question of the experiment."""
    line = text.partition("\n")[0].strip()
    return line.lstrip("# ").strip()[:300] if line.startswith("#") else ""
