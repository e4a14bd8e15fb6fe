"""A kind of machine is asked for at few places, each of them a door: for tuning, for measuring, for targets of code.

What differs by kind stands behind the door, in a file for each kind.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from dsascape.scheduler.kinds.table import KINDS, kind_named
from tests.scheduler.test_rooms import Module, inside, modules

PACKAGES = ("dsascape.tuner", "dsascape.experiments")
PAPERS = "dsascape.experiments.papers"
"""Not installed; devices there are those of a paper's tables."""
OF_ONE_KIND = re.compile(r"Cpu|Gpu|Dsa|Grid|Host|Processor|Calibrat")
"""Words in names that classes of one kind have, in the modules that are of one kind."""
ROOMS = re.compile(
    r"dsascape\.((hw_models|scheduler)\.(cpu|gpu|dsa)\b|tuner\.(search\.(kinds|grid_space)|bundle\.results|calibrate)"
    r"|experiments\.real\.on_(processor|gpu))"
)
"""Modules whose classes may be of one kind of machine."""
MACHINES = ("hardware", "machine", "spec", "view")
"""Names of what has a machine's kind; operators and loops have kinds of their own."""
HOME_OF_TARGETS = "dsascape.tuner.measure.targets"
"""Targets' names, descriptions and devices by kind, beside `is_gpu_target` itself."""
DOORS = {
    "tuner.search.kinds.table.kind_to_tune": "kinds that programs are searched for",
    "experiments.real.measured_kinds.measured_kind": "kinds that code is measured for",
    "experiments.real.measured_kinds.kind_of_target": "the kind that a target's code runs on",
    "experiments.real.measured_kind.as_measured": "whether a target is of the machine's kind",
    "experiments.question.processor.processor_of": "the name of what runs a target's code",
    "tuner.measure.benches.bench_for": "where candidates for a target run",
    "experiments.point.unfused_attention._policy_with_one": "whether `searched` is made for the kind",
    "experiments.shell.measure._device": "SMs or threads of a result, whose file may be of another machine",
}  # fmt: skip
"""Functions that ask for a kind, once each, and what for."""


@cache
def classes_of_kinds() -> frozenset[str]:
    """Return the names of all classes of one kind of machine: machines, cost models, schedules, results and so on."""
    kinds = [kind_named(name).kind for name in KINDS]
    own = {each for kind in kinds for each in (kind.spec, kind.tuning, kind.costs_type, kind.schedule_type)}
    found = {
        node.name
        for name, module in modules().items() if ROOMS.match(name)
        for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef) and OF_ONE_KIND.search(node.name)
    }  # fmt: skip
    return frozenset({each.__name__ for each in own} | found)


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} | {
        each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)
    }


def is_kind_of_machine(node: ast.AST) -> bool:
    """Whether an expression is the kind of a machine, such as ``task.machine.kind``."""
    return isinstance(node, ast.Attribute) and node.attr == "kind" and bool(names_in(node.value) & set(MACHINES))


def asks(node: ast.AST, classes: frozenset[str]) -> bool:
    """Whether a node of a syntax tree asks for a kind of machine."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]) | ast.MatchClass(cls=asked):
            return bool(names_in(asked) & classes)
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]) | ast.Subscript(slice=key):
            return is_kind_of_machine(key)
        case (
            ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value="sm_")])
            | ast.Call(func=ast.Name(id="is_gpu_target") | ast.Attribute(attr="is_gpu_target"))
        ):
            return True
        case ast.Compare(left=left, comparators=others):
            return compares([left, *others], classes)
    return False


def compares(sides: list[ast.expr], classes: frozenset[str]) -> bool:
    """Whether something that is compared is a machine's kind, by its name or by what it is compared with."""
    constants = [each for side in sides for each in (side.elts if isinstance(side, ast.Tuple) else [side])]
    values = {each.value for each in constants if isinstance(each, ast.Constant)}
    is_named = any(isinstance(side, ast.Name | ast.Attribute | ast.Subscript) for side in sides)
    is_class = any(isinstance(side, ast.Name) and side.id in classes for side in sides)
    return is_class or any(map(is_kind_of_machine, sides)) or (is_named and bool(values & KINDS.keys()))


def questions(module: Module, classes: frozenset[str]) -> Iterator[str]:
    """Yield the name of the function around each test of a kind of machine; of the module where none is around it."""
    short = module.name.removeprefix("dsascape.")

    def walked(node: ast.AST, around: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if asks(child, classes):
                yield around
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from walked(child, f"{around}.{child.name}")
            else:
                yield from walked(child, around)

    yield from walked(module.tree, short)


def test_a_kind_of_machine_is_asked_for_at_the_doors_alone() -> None:
    classes = classes_of_kinds()
    found = Counter(
        place
        for name, module in modules().items()
        if any(inside(name, package) for package in PACKAGES) and name != HOME_OF_TARGETS and not inside(name, PAPERS)
        for place in questions(module, classes)
    )

    assert found == dict.fromkeys(DOORS, 1)


def test_the_classes_that_are_looked_for_are_those_of_each_kind() -> None:
    assert classes_of_kinds() >= {
        "Cpu", "CpuCosts", "CpuSchedule", "CpuView", "Gpu", "GpuCosts", "GpuSchedule", "GpuView", "ClusteredDsa",
        "DsaCosts", "Schedule", "GridSpace", "CpuSpace", "GpuCalibrationResults", "CalibratedHost", "PreparedGpu",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ("def f(spec):\n    return isinstance(spec, Cpu)", ["m.f"]),
        ("class A:\n    def f(self, spec):\n        assert isinstance(spec, hw.Cpu | Gpu)", ["m.A.f"]),
        ("def f(spec):\n    match spec:\n        case Gpu():\n            return 1", ["m.f"]),
        ("def f(spec):\n    return type(spec) is Gpu", ["m.f"]),
        ("def f(task):\n    return task.machine.kind == 'gpu'", ["m.f"]),
        ("def f(kind):\n    return kind in ('cpu', 'other')", ["m.f"]),
        ("def f(spec):\n    return WAYS[spec.kind] or WAYS.get(spec.kind, 0)", ["m.f", "m.f"]),
        ("def f(target):\n    return 1 if is_gpu_target(target) else 2", ["m.f"]),
        ("is_gpu = device.architecture.startswith('sm_')", ["m"]),
        ("def f(op):\n    return KINDS[op.kind], op.kind == 'Conv', isinstance(op, Other)", []),
        ("def f(spec: Cpu) -> str:\n    return named(spec.kind)", []),
    ],
)
def test_what_counts_as_a_question(source: str, places: list[str]) -> None:
    assert list(questions(Module("dsascape.m", source), frozenset({"Cpu", "Gpu"}))) == places
