"""The third-party packages that are imported are those declared in pyproject.toml."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("workloads", "fusion", "hw_models", "scheduler", "tuner", "experiments")
TREES = {"zoo": ("workloads/export/",), "tvm": ("tuner/codegen/", "tuner/on_device/")}
"""Extras that parts of the tree cannot do without; there, they are imported at the top of a module."""
BY_HAND = frozenset({"torchvision", "timm"})
"""Installed without their own dependencies where the zoo is made, which an extra cannot say."""
NOT_INSTALLED = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi"}
"""Distributions that may be absent and are called other than their modules."""


@dataclass(frozen=True)
class Found:
    """An import of somebody else's module."""

    module: str
    place: str
    lazy: bool
    """Whether it is inside a function or a try block."""


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules that ``node`` itself imports, ``importlib.import_module("...")`` included."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]):
            yield module


def imports_in(tree: ast.AST, place: str, lazy: bool = False) -> Iterator[Found]:
    for node in ast.iter_child_nodes(tree):
        for module in imported(node):
            top = module.partition(".")[0]
            if top not in sys.stdlib_module_names and top != "dsascape":
                yield Found(top, place, lazy)
        yield from imports_in(
            node, place, lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Try)
        )


@cache
def found() -> tuple[Found, ...]:
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return tuple(
        each
        for path in paths
        for each in imports_in(ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT).as_posix())
    )


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names_of(requirements: list[str]) -> frozenset[str]:
    return frozenset(normalised(Requirement(line).name) for line in requirements)


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = names_of(PROJECT["dependencies"])
INSTALLED = packages_distributions()
EXTRAS = {extra: names_of(lines) for extra, lines in PROJECT["optional-dependencies"].items() if extra != "dev"}


@cache
def distributions(module: str) -> frozenset[str]:
    """Return which distributions bring ``module``; several may share a namespace such as ``google``."""
    known = INSTALLED.get(module, [NOT_INSTALLED.get(module, module)])
    return frozenset(map(normalised, known))


def problem(each: Found) -> str | None:
    """Return what is wrong with an import, None if it is declared where it has to be."""
    wanted = distributions(each.module)
    if wanted & RUNTIME:
        return None
    extras = sorted(extra for extra, names in EXTRAS.items() if wanted & names)
    if not extras and not (each.lazy and each.module in BY_HAND):
        return f"{each.place} imports {each.module}, which is not declared"
    if each.lazy or any(each.place.startswith(TREES[extra]) for extra in extras if extra in TREES):
        return None
    return f"{each.place} imports {each.module} of the extra {extras[0]} before anybody asks for it"


def test_every_import_of_others_is_declared_and_optional_ones_wait_until_they_are_needed() -> None:
    assert [text for each in found() if (text := problem(each))] == []


def test_every_runtime_dependency_is_imported() -> None:
    used = {name for each in found() for name in distributions(each.module)}

    assert sorted(RUNTIME - used) == []


@pytest.mark.parametrize(
    ("source", "place", "complaint"),
    [
        ("import simpy", "hw_models/new.py", None),
        ("import leftpad", "hw_models/new.py", "not declared"),
        ("def f():\n    import leftpad.core", "hw_models/new.py", "not declared"),
        ("import ortools", "scheduler/new.py", "of the extra exact"),
        ("from ortools.sat import cp_model", "scheduler/new.py", "of the extra exact"),
        ("def f():\n    from ortools.sat import cp_model", "scheduler/new.py", None),
        ("try:\n    import ortools\nexcept ImportError:\n    pass", "scheduler/new.py", None),
        ("import torch", "workloads/export/new.py", None),
        ("import torch", "workloads/new.py", "of the extra zoo"),
        ("import importlib\ndask = importlib.import_module('dask.distributed')", "tuner/new.py", "of the extra dist"),
        ("def f():\n    return importlib.import_module('tvm')", "tuner/new.py", None),
        ("import pytest", "experiments/new.py", "not declared"),
        ("from .plan import pytest", "fusion/new.py", None),
    ],
)
def test_a_new_import_is_judged_by_where_and_when_it_happens(source: str, place: str, complaint: str | None) -> None:
    (text,) = {problem(each) for each in imports_in(ast.parse(source), place)} or {None}

    assert text is None if complaint is None else complaint in str(text)
