"""Arguments of the Python interface, checked before anything is computed: each mistake names its argument."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar, get_type_hints

from dsascape.hw_models import AnyHardware, MachineSpec, load_hardware
from dsascape.hw_models.text.messages import listed, nearest, shown
from dsascape.scheduler import Policy
from dsascape.workloads import Graph

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Pinned = Mapping[str, Any] | str | Path
"""Pins of layers: a mapping of layers to what is fixed for them, or the path of a file of pins."""


def shows(options: type, **defaults: object) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator by which ``help()`` and ``inspect.signature`` show the further keywords of a function.

    ``options``: the ``TypedDict`` of its ``**more``. ``defaults``: of those whose default is not None.
    """

    def decorated(function: FunctionT) -> FunctionT:
        shown = inspect.signature(function)
        *named, _ = shown.parameters.values()
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=kind)
            for name, kind in get_type_hints(options).items()
        ]
        vars(function)["__signature__"] = shown.replace(parameters=[*named, *more])
        return function

    return decorated


class WithPins(TypedDict, total=False):
    """What else may be given for a point."""

    pins: Pinned | None
    """Decisions that are fixed for some layers."""


class OfSimulation(WithPins, total=False):
    """What else may be given for a simulation."""

    tuning: Mapping[str, Any] | None
    """Tuned numbers of the machine kind's scheduler."""
    schedule: Mapping[str, Any] | str | Path | None
    """Document of a schedule, or a file of one, that runs in place of the policy's."""


class OfSweep(WithPins, total=False):
    """What else may be given for a sweep."""

    dtype: str | None
    """Dtype of what the networks leave open; by default the machine's."""


class OfMeasurement(WithPins, total=False):
    """What else may be given for a measurement."""

    flush_caches: bool
    """Whether caches are flushed before each timed run."""


def check_keywords(function: str, given: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise ``TypeError`` for a keyword that ``function`` does not take, with the nearest of those that it does."""
    for name in given:
        if name not in known:
            raise TypeError(f"{function}: there is no argument {name!r}{nearest(name, known)}; it has {listed(known)}")


def wrong_type(argument: str, value: object, needed: str) -> TypeError:
    """Return the error for an argument of a wrong type: what it has, and what it needs."""
    return TypeError(f"{argument}: has {shown(value)} ({type(value).__name__}); needs {needed}")


def network_argument(value: object, argument: str = "network") -> str | Graph:
    """Return a network's name or path as text, or the graph itself; raise ``TypeError`` for anything else."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str | Graph):
        return value
    raise wrong_type(argument, value, "a network's name, the path of an ONNX file, or a Graph")


def network_name(value: object, argument: str = "network") -> str:
    """Return a network's name or path as text; raise ``TypeError`` for anything else, graphs included."""
    if isinstance(value, str | Path):
        return str(value)
    raise wrong_type(argument, value, "a network's name, or the path of an ONNX file")


def machine_argument(value: object, argument: str = "hardware") -> AnyHardware:
    """Return the machine of a preset's name, a file, or a record of one; raise ``TypeError`` for anything else."""
    if isinstance(value, str | Path):
        return load_hardware(value)
    if isinstance(value, MachineSpec):
        return value
    raise wrong_type(argument, value, "a preset's name, the path of a machine file, or what load_hardware returns")


def check_policy(value: object, argument: str = "policy") -> None:
    """Raise ``TypeError`` for what is no policy: neither a name, nor a path, nor an object with a plan and a name."""
    if isinstance(value, str | Path):
        return
    if isinstance(value, type) or not isinstance(value, Policy):
        raise wrong_type(argument, value, "a policy's name, the path of a .py file, or what make_policy returns")


def check_count(argument: str, value: object, least: int = 1) -> None:
    """Raise ``TypeError`` or ``ValueError`` for what is neither None nor a whole number from ``least`` on."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(argument, value, f"a whole number from {least}, or None")
    if value < least:
        raise ValueError(f"{argument}: has {value}; needs a whole number from {least}, or None")


def check_text(argument: str, value: object, needed: str) -> None:
    """Raise ``TypeError`` for what is neither None nor text."""
    if value is not None and not isinstance(value, str):
        raise wrong_type(argument, value, needed)


def check_choice(argument: str, value: object, choices: Sequence[str], *, is_optional: bool = False) -> None:
    """Raise ``TypeError`` or ``ValueError`` for what is none of ``choices``, nor None where that may be given."""
    if is_optional and value is None:
        return
    if not isinstance(value, str):
        raise wrong_type(argument, value, f"one of {listed(choices)}")
    if value not in choices:
        raise ValueError(f"{argument}: has {shown(value)}{nearest(value, choices)}; needs one of {listed(choices)}")


def check_flag(argument: str, value: object) -> None:
    """Raise ``TypeError`` for what is neither true nor false."""
    if not isinstance(value, bool):
        raise wrong_type(argument, value, "True or False")


def check_mapping(argument: str, value: object, needed: str) -> None:
    """Raise ``TypeError`` for what is neither None nor a mapping with text as keys."""
    if value is None:
        return
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise wrong_type(argument, value, needed)


def check_sizes(argument: str, value: object) -> None:
    """Raise ``TypeError`` or ``ValueError`` for what is neither None nor a mapping of names to whole numbers from 0."""
    check_mapping(argument, value, "a mapping of names to whole numbers, such as {'H': 224}")
    for name, size in (value if isinstance(value, Mapping) else {}).items():
        if size is None:
            raise wrong_type(f"{argument}[{name!r}]", size, "a whole number from 0")
        check_count(f"{argument}[{name!r}]", size, least=0)


def path_argument(argument: str, value: object, needed: str) -> Path:
    """Return a path given as text or as a path; raise ``TypeError`` for anything else."""
    if isinstance(value, str | Path):
        return Path(value)
    raise wrong_type(argument, value, needed)


def several(argument: str, value: Any, needed: str) -> list[Any]:
    """Return ``value`` as a list, a single one as a list of one; raise ``TypeError`` or ``ValueError`` without any.

    Text, numbers, paths, records and mappings are single values.
    """
    if isinstance(value, Mapping) or value is None:
        raise wrong_type(argument, value, needed)
    if isinstance(value, str | int | float | Path | Graph | MachineSpec) or not hasattr(value, "__iter__"):
        return [value]
    found = list(value)
    if not found:
        raise ValueError(f"{argument}: is empty; needs {needed}")
    return found
