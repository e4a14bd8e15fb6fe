"""Policies: the protocols that a policy implements, and the registry of built-in, installed and file policies."""

import dataclasses
import importlib.util
import math
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable

import pydantic

from dsascape.fusion.costs import KernelCosts
from dsascape.fusion.plan import FusionPlan
from dsascape.hw_models.common.extensions import ExtensionError, Extensions
from dsascape.hw_models.text.messages import nearest, option_mistake, shown
from dsascape.hw_models.text.quantities import normal_form
from dsascape.hw_models.text.raised import where_raised
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.evaluated import Evaluated
from dsascape.wording import count
from dsascape.workloads.analysis import Analysis
from dsascape.workloads.graph import Graph


@runtime_checkable
class Policy(Protocol):
    """Fusion policy: a frozen dataclass whose fields are its options; ``name`` identifies it in YAML and on the CLI.

    One with ``fuses = False`` gets networks with every dequantisation as an operator of its own (`fuses`).
    """

    name: ClassVar[str]

    def plan(self, graph: Graph, costs: KernelCosts) -> FusionPlan:
        """Return the fusion plan: which operators share a kernel, for one cluster's share of the batch.

        ``costs`` is the policy's only view of the machine. Raises ``ScheduleError`` if there is no plan.
        """


@runtime_checkable
class RewritingPolicy(Policy, Protocol):
    """A policy that first rewrites the network into another one with the same results, then plans that."""

    def rewritten(self, analysis: Analysis) -> Analysis:
        """Return the network to plan; the same object each time, so that cached derived data is reused.

        A policy that decides on rewriting only while it plans has an option ``rewriting``; with ``rewriting: true``
        this returns the rewritten network, which is that of its plans with ``rewritten`` set.
        """


@runtime_checkable
class SchedulingPolicy(Policy, Protocol):
    """A policy that also schedules its plans, on the machine kinds named in ``kinds``."""

    kinds: ClassVar[tuple[str, ...]]

    def schedule(self, plan: FusionPlan, costs: Any) -> Any:
        """Return the schedule of one of its own plans; ``costs`` is the cost model of a machine in ``kinds``."""


@runtime_checkable
class EvaluatingPolicy(Policy, Protocol):
    """A policy that simulates to decide, on the machine kinds named in ``kinds``; it hands on the run it has chosen."""

    kinds: ClassVar[tuple[str, ...]]

    def evaluate(self, costs: Any, plan: FusionPlan | None = None) -> Evaluated[Any]:
        """Return the schedule of a network, with its program and simulated run.

        ``costs`` is the cost model of the network on a machine in ``kinds``. ``plan``: one of its own plans, made
        before decisions were pinned; its groups are kept.
        """


BUILT_IN: Mapping[str, str] = {
    "unfused": "dsascape.scheduler.policies.unfused:Unfused",
    "eager": "dsascape.scheduler.policies.eager:Eager",
    "fixed-pattern": "dsascape.scheduler.policies.fixed_pattern:FixedPattern",
    "astitch": "dsascape.scheduler.policies.astitch:AStitch",
    "graphturbo": "dsascape.scheduler.policies.graphturbo:GraphTurbo",
    "dnnfusion": "dsascape.scheduler.policies.dnnfusion:DnnFusion",
    "ago": "dsascape.scheduler.policies.ago:Ago",
    "searched": "dsascape.scheduler.policies.searched:Searched",
}
POLICIES = Extensions("dsascape.policies", "policy", BUILT_IN)


def policy_types() -> dict[str, type[Any]]:
    """Return the policy classes by name: built-in ones and those of installed packages.

    Packages register policies by entry points in the group ``dsascape.policies``. Policies that cannot be loaded are
    left out; `broken_policies` says why.
    """
    return _usable()[0]


def broken_policies() -> tuple[str, ...]:
    """Return one error message per unusable policy of an installed package, naming the policy and the package."""
    return (*_usable()[1], *POLICIES.duplicates())


def _usable() -> tuple[dict[str, type[Any]], tuple[str, ...]]:
    """Return the policies that can be loaded by name, and an error message for each of the others."""
    policies: dict[str, type[Any]] = {}
    broken = []
    for name, entry in POLICIES.entries().items():
        try:
            policies[name] = _loaded(entry)
        except ScheduleError as error:
            broken.append(str(error))
    return policies, tuple(broken)


def _loaded(entry: EntryPoint) -> type[Any]:
    """Return the policy class of an entry point; raise ``ScheduleError`` if its import fails or it is no policy."""
    try:
        policy = POLICIES.load(entry)
    except ExtensionError as error:
        raise ScheduleError(str(error)) from error
    if not _is_policy(policy) or not dataclasses.is_dataclass(policy):
        raise ScheduleError(f"{POLICIES.described(entry)} is no policy; needs a frozen dataclass with name and plan")
    return policy


def make_policy(name: str | Path, options: Mapping[str, object] | None = None) -> Policy:
    """Return the policy ``name`` with ``options``; a name that ends in ``.py`` is a file that defines a policy.

    Raises ``ScheduleError`` for an unknown policy or option.
    """
    name = str(name) if isinstance(name, Path) else name
    if not isinstance(name, str) or not isinstance(options or {}, Mapping):
        has, needed = (name, "a policy's name") if not isinstance(name, str) else (options, "a mapping of options")
        raise TypeError(f"make_policy: has {shown(has)} ({type(has).__name__}); needs {needed}")
    chosen = _from_file(Path(name)) if name.endswith(".py") else _from_table(name)
    fields = [field.name for field in dataclasses.fields(chosen)]
    takes = ", ".join(fields) or "none"
    for option in options or {}:
        if option not in fields:
            known = f"is unknown{nearest(option, fields)}; it has the options: {takes}"
            raise ScheduleError(f"policy {name}: option {option}: {known}")
        if isinstance(value := (options or {})[option], float) and not math.isfinite(value):
            raise ScheduleError(f"policy {name}: option {option}: has {value}; needs a finite number")
    try:
        return pydantic.TypeAdapter(chosen).validate_python(dict(options or {}))  # type: ignore[no-any-return]
    except pydantic.ValidationError as error:
        raise ScheduleError(f"policy {name}: option {option_mistake(error)}; it has the options: {takes}") from error
    except MemoryError:
        raise
    except Exception as error:
        place = where_raised(error, name)
        raise ScheduleError(f"policy {name} cannot be made: {type(error).__name__}: {error} ({place})") from error


def fuses(policy: Policy | None) -> bool:
    """Return whether a policy puts operators together; a policy that does not say, or is not known here, does."""
    return bool(getattr(policy, "fuses", True))


def policy_label(policy: Policy) -> str:
    """Return the policy's name with the options that differ from their defaults, as in ``graphturbo(order=bfs)``."""
    changed = [f"{name}={value}" for name, value in changed_options(policy).items()]
    return f"{policy.name}({','.join(changed)})" if changed else policy.name


def labelled_policy(label: str) -> Policy | None:
    """Return the policy that has this `policy_label`; None if there is none. Labels never name policy files."""
    name, _, options = label.removesuffix(")").partition("(")
    if name not in POLICIES.entries():
        return None
    values: dict[str, str] = {}
    last = ""
    for part in options.split(",") if options else ():
        option, sign, value = part.partition("=")
        if sign:
            last = option
            values[last] = value
        else:
            values[last] = f"{values.get(last, '')},{part}"  # a list
    try:
        return make_policy(name, values)
    except ScheduleError:
        return None


def changed_options(policy: Policy) -> dict[str, str]:
    """Return the options that differ from their defaults, as they are written on the command line."""
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(policy) if dataclasses.is_dataclass(policy) else ()
    options = {field.name: (getattr(policy, field.name), field.default) for field in fields}
    return {name: _shown(value) for name, (value, default) in options.items() if value != default}


def _shown(value: object) -> str:
    """Return an option's value as it is written on the command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _from_table(name: str) -> type[Any]:
    entries = POLICIES.entries()
    name = normal_form(name)
    if name not in entries:
        raise ScheduleError(f"unknown policy {name!r}{nearest(name, entries)}; known: {', '.join(sorted(entries))}")
    return _loaded(entries[name])


def _from_file(path: Path) -> type[Any]:
    """Return the one policy class that a user's own Python file defines."""
    if not path.is_file():
        raise ScheduleError(f"policy file {str(path)!r} does not exist")
    spec = importlib.util.spec_from_file_location(f"dsascape_policy_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ScheduleError(f"policy file {str(path)!r} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        place = where_raised(error, str(path))
        raise ScheduleError(f"policy file {str(path)!r} fails: {type(error).__name__}: {error} ({place})") from error
    policies = list(_policies_in(module))
    if len(policies) != 1:
        raise ScheduleError(
            f"policy file {str(path)!r} defines {count(len(policies), 'policy')}; needs one class with name and plan"
        )
    if not dataclasses.is_dataclass(policies[0]):
        raise ScheduleError(
            f"policy file {str(path)!r}: class {policies[0].__name__} is no dataclass; needs @dataclass(frozen=True),"
            " with its options as fields"
        )
    return policies[0]


def _policies_in(module: ModuleType) -> Iterator[type[Any]]:
    for value in vars(module).values():
        if _is_policy(value) and value.__module__ == module.__name__:
            yield value


def _is_policy(value: object) -> TypeGuard[type[Any]]:
    return isinstance(value, type) and hasattr(value, "plan") and hasattr(value, "name")
