"""A tuning experiment as a YAML file: what is tuned, on which machines, by which variants of a search, how long.

    # How far does each part bring it on single operators?
    tuned:
      - {shapes: operators/c2d.yaml, only: [C2D-4-b1, C2D-4-b16]}   # each a search of its own
      - {networks: resnet50, batch: [1, 16]}                        # a search for each batch
      - {networks: [mobilenet-v2, resnet50]}                        # one search for both
    machines: [platinum_8269cy, kirin990]
    variants:
      ansor: {}
      random: {tuner: random}
      limited space: {without: large-space}
    trials_per_task: 96
    seeds: [0, 1]

Each combination is one search. Relative paths in the file are relative to its folder.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BaseModel, BeforeValidator, Field

from dsascape.experiments.question.config import STRICT, Counts, ExperimentError, Name
from dsascape.experiments.question.points import Workload, policy_of
from dsascape.experiments.question.shapes import read_shapes
from dsascape.experiments.real.search_options import Part
from dsascape.experiments.real.tuning import SIMULATE
from dsascape.hw_models import HardwareError, load_hardware
from dsascape.hw_models.text.yaml_file import YamlError, explain, parse_yaml, read_text, shown_path
from dsascape.scheduler import ScheduleError
from dsascape.tuner.search.tuners import TunerName
from dsascape.workloads import WorkloadError, zoo_entry

_YAML, _ONNX = (".yaml", ".yml"), ".onnx"


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _distinct(values: list[Any]) -> list[Any]:
    for place, value in enumerate(values):
        if value in values[:place]:
            raise ValueError(f"has {value} twice; needs it once")
    return values


Several = Annotated[list[Name], BeforeValidator(_listed), Field(min_length=1, max_length=1000),
                    pydantic.AfterValidator(_distinct)]  # fmt: skip
Count = Annotated[int, Field(ge=1, le=2**20)]


class TunedEntry(BaseModel):
    """Networks to tune together in one search, or the operators of a file of shapes, each in a search of its own."""

    model_config = STRICT

    networks: Several | None = None
    """Networks of the zoo, or paths of ONNX files."""
    batch: Counts = None
    """Batch of the networks; a list is swept."""
    shapes: Name | None = None
    """File of shapes."""
    only: Several | None = None
    """Operators of ``shapes`` that are tuned; None: all."""

    @pydantic.model_validator(mode="after")
    def _one_of_both(self) -> "TunedEntry":
        if (self.networks is None) == (self.shapes is None):
            raise ValueError("needs networks or shapes, one of the two")
        wrong = "only" if self.networks and self.only else "batch" if self.shapes and self.batch else ""
        if wrong:
            raise ValueError(f"{wrong} does not go with {'networks' if self.networks else 'shapes'}")
        return self


class Variant(BaseModel):
    """A search, by what it leaves out of Ansor."""

    model_config = STRICT

    tuner: TunerName = "ansor"
    without: Annotated[list[Part], BeforeValidator(_listed), pydantic.AfterValidator(_distinct)] = []
    share: Annotated[float, Field(gt=0, le=1)] = 1
    """Share of the experiment's trials that it has."""


class TuningStudy(BaseModel):
    """One tuning experiment."""

    model_config = STRICT

    tuned: Annotated[list[TunedEntry], Field(min_length=1, max_length=1000)]
    machines: Several
    """Presets, or paths of machine files."""
    variants: Annotated[dict[Name, Variant], Field(min_length=1)]
    """Searches that are compared, by what the results call them."""
    trials_per_task: Count
    """Programs that are tried, for each task of a search."""
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**32)]], Field(min_length=1), pydantic.AfterValidator(_distinct)
    ]
    runner: Name = SIMULATE
    """``simulate``, ``local`` or ``rpc://HOST:PORT[/KEY]``, as for ``dsascape tune``."""
    target: Name = "llvm"
    threads: Count | None = None
    """Threads of a kernel; None: simulated as many as are best, measured one."""
    policy: Name = "fixed-pattern"
    """Policy that says what is one kernel: a name, or the path of a Python file that defines one."""
    objective: Literal["f1", "f3"] = "f1"
    """Objective of the task scheduler: the total latency, or the mean speed-up of the networks."""
    unit: Count = 64
    """Trials of a task between two trainings of the cost model."""
    population: Count = 512
    """Programs of a generation of the evolution."""
    question: str = ""


@dataclass(frozen=True)
class Wanted:
    """One search of a study."""

    study: str
    """Name of the file."""
    label: str
    """Name of what is tuned: the operator, or the networks with their batch."""
    networks: tuple[Workload, ...]
    """Networks that are tuned together; empty for an operator."""
    shapes: Path | None
    """File of shapes with the operator called ``label``; None for networks."""
    machine: str
    """Preset, or path of a machine file."""
    variant: str
    seed: int
    settings: TuningStudy
    """The study; all that is the same for its searches."""

    @property
    def batch(self) -> int | None:
        """Batch of the networks; None: their own."""
        return self.networks[0].batch if self.networks else None


def read_study(path: Path) -> tuple[TuningStudy, tuple[Wanted, ...]]:
    """Return the experiment at ``path`` and its searches.

    Raises ``ExperimentError`` with the first thing that is wrong: networks, operators, machines and the policy are
    looked up before anything runs.
    """
    where = shown_path(path)
    try:
        text = read_text(path)
        data = parse_yaml(text, where)
    except YamlError as error:
        raise ExperimentError(str(error)) from error
    first = text.partition("\n")[0].strip()
    data.setdefault("question", first.lstrip("# ") if first.startswith("#") else "")
    try:
        study = TuningStudy.model_validate(data)
    except pydantic.ValidationError as error:
        raise ExperimentError(explain(error, where, model=TuningStudy)) from error
    try:
        study = study.model_copy(update={"policy": _beside(study.policy, path, (".py",))})
        policy_of(study.policy)
        machines = [_beside(name, path, _YAML) for name in study.machines]
        for name in machines:
            load_hardware(name)
    except (ScheduleError, HardwareError) as error:
        raise ExperimentError(f"{where}: {error}") from error
    return study, tuple(_wanted(study, machines, path))


def _wanted(study: TuningStudy, machines: list[str], path: Path) -> Iterator[Wanted]:
    tuned = [each for place, entry in enumerate(study.tuned) for each in _tuned(entry, path, f"tuned.{place}")]
    for (label, networks, shapes), machine, variant, seed in product(tuned, machines, study.variants, study.seeds):
        yield Wanted(path.stem, label, networks, shapes, machine, variant, seed, study)


_Tuned = tuple[str, tuple[Workload, ...], Path | None]
"""Label, networks, file of shapes."""


def _tuned(entry: TunedEntry, path: Path, where: str) -> Iterator[_Tuned]:
    if entry.shapes is not None:
        file = path.parent / entry.shapes
        known = read_shapes(file)
        for name in entry.only or known:
            if name not in known:
                raise ExperimentError(f"{shown_path(path)}: {where}.only: {name} is not in {entry.shapes}")
            yield name, (), file
        return
    models = [_beside(name, path, (_ONNX,)) for name in entry.networks or ()]
    try:
        for model in models:
            if not model.endswith(_ONNX):
                zoo_entry(model)
    except WorkloadError as error:
        raise ExperimentError(f"{shown_path(path)}: {where}.networks: {error}") from error
    for batch in entry.batch if isinstance(entry.batch, list) else [entry.batch]:
        networks = tuple([Workload(model, batch=batch, dtype="fp32") for model in models])
        label = " + ".join([each.label for each in networks])
        yield label if batch is None else f"{label}, batch {batch}", networks, None


def _beside(name: str, path: Path, endings: tuple[str, ...]) -> str:
    """Return the path of a file that an experiment names; other names stay as they are."""
    return str(path.parent / name) if name.endswith(endings) else name
