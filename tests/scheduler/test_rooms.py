"""Import rules: no cycles, generic packages that know no machine kind, and no access to others' private names.

import-linter holds the direction between the packages; this holds what is finer than packages.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("workloads", "fusion", "hw_models", "scheduler", "tuner", "experiments")
GENERIC_HARDWARE = (
    "program", "unroll", "machine", "demands", "clock", "running", "units", "simulate", "energy", "trace", "perfetto",
    "bandwidth", "space",
)  # fmt: skip
OF_ONE_KIND = re.compile(r"local_?buffer|global_?buffer|(?<![a-z])ddr(?![a-z])", re.IGNORECASE)
"""Memories of a scratchpad machine; an address has nothing to do with them."""
GENERIC_SCHEDULER = ("policy", "stages", "errors")
OTHERS = {
    "dsascape.experiments.shell.cli uses os._exit": "documented, in spite of its name",
    "dsascape.experiments.engine.worker uses os._exit": "documented, in spite of its name",
    "dsascape.workloads.export.packages uses config._attn_implementation": "the only switch transformers has for it",
    "dsascape.workloads.export.torchvision_shim asks for _has_ops": "torchvision without its compiled operators",
}
"""Private names of other people's modules that are used all the same, and why; none of SimPy's."""
OF_NAMED_TUPLES = {"_asdict", "_replace"}
"""Methods that every NamedTuple has, named so as not to meet its fields."""
KINDS = ("dsa", "cpu", "gpu")
"""Folders of machine kinds."""
GENERIC_FOLDERS = ("dsascape.scheduler.programs", "dsascape.scheduler.kernels", "dsascape.scheduler.graphturbo")


@dataclass(frozen=True)
class Module:
    name: str
    source: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    def imported(self, known: frozenset[str]) -> set[str]:
        """Return the modules among ``known`` that are imported when this one is, not later in a function."""
        found: set[str] = set()
        for node in at_module_level(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    found.add(inner if inner in known else base)
        return {name for name in found if name in known and name != self.name}

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        above = self.name.split(".")[: None if self.is_package else -1]
        above = above[: len(above) - node.level + 1]
        return ".".join([*above, *([node.module] if node.module else [])])

    @cached_property
    def anywhere(self) -> frozenset[str]:
        """Modules of anybody's that are imported anywhere in it, with what is taken from them by name."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        return frozenset(found)


def at_module_level(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when a module is imported: all but those in functions and for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_module_level(child)


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        parts = ("dsascape", *path.relative_to(ROOT).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = Module(name, path.read_text(encoding="utf-8"), is_package)
    return found


def circles(known: dict[str, Module]) -> list[list[str]]:
    """Return the modules that import each other, circle by circle."""
    names = frozenset(known)
    imports: nx.DiGraph[str] = nx.DiGraph()
    imports.add_nodes_from(known)
    imports.add_edges_from((name, other) for name, module in known.items() for other in module.imported(names))
    return sorted(sorted(found) for found in nx.strongly_connected_components(imports) if len(found) > 1)


def inside(name: str, room: str) -> bool:
    """Whether a module is ``room`` or lies in it."""
    return name == room or name.startswith(f"{room}.")


def entered(module: Module, room: str) -> list[str]:
    """Return what ``module`` imports of ``room``."""
    return sorted(name for name in module.anywhere if inside(name, room))


def generic_scheduler() -> list[Module]:
    alone = {f"dsascape.scheduler.{name}" for name in GENERIC_SCHEDULER}
    return [
        module
        for name, module in modules().items()
        if name in alone or any(inside(name, folder) for folder in GENERIC_FOLDERS)
    ]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES


def private_uses(module: Module) -> list[str]:
    """Return the private names of other modules and classes that ``module`` imports or uses.

    Its own are those that it defines itself, be it as a name, as an attribute of ``self`` or as a method.
    """
    found = []
    own = set(own_names(module.tree))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            places = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found += [f"{module.name}:{node.lineno} imports {place}" for place in places if is_private(place)]
        elif isinstance(node, ast.Import):
            places = [place for alias in node.names for place in alias.name.split(".")]
            found += [f"{module.name}:{node.lineno} imports {place}" for place in places if is_private(place)]
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            found.append(f"{module.name}:{node.lineno} uses {ast.unparse(node)}")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr"):
            asked = [str(arg.value) for arg in node.args[1:2] if isinstance(arg, ast.Constant)]
            found += [f"{module.name}:{node.lineno} asks for {name}" for name in asked if is_private(name)]
    return found


def own_names(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a module defines: functions, methods, fields, variables, slots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def test_no_module_imports_itself_through_others() -> None:
    assert circles(modules()) == []


@pytest.mark.parametrize("name", GENERIC_HARDWARE)
class TestGenericHardware:
    def test_names_no_memory_of_one_machine_kind(self, name: str) -> None:
        assert OF_ONE_KIND.findall(modules()[f"dsascape.hw_models.simulation.{name}"].source) == []

    def test_imports_no_machine_kind(self, name: str) -> None:
        module = modules()[f"dsascape.hw_models.simulation.{name}"]
        assert [entered(module, f"dsascape.hw_models.{kind}") for kind in KINDS] == [[]] * len(KINDS)


def test_what_schedules_for_all_machine_kinds_imports_none_of_them() -> None:
    rooms = [f"dsascape.scheduler.{kind}" for kind in KINDS]
    found = {m.name: [name for room in rooms for name in entered(m, room)] for m in generic_scheduler()}

    assert {name: entries for name, entries in found.items() if entries} == {}


def test_no_module_uses_another_module_s_private_names() -> None:
    found = [use for module in modules().values() for use in private_uses(module)]

    assert [use for use in found if without_line(use) not in OTHERS] == []
    assert {without_line(use) for use in found} == OTHERS.keys()


def without_line(use: str) -> str:
    return re.sub(r":\d+", "", use)


def test_the_rooms_that_are_looked_at_are_there() -> None:
    alone = {f"dsascape.scheduler.{name}" for name in GENERIC_SCHEDULER}
    assert alone <= {module.name for module in generic_scheduler()}
    of_kinds = [f"dsascape.{package}.{kind}" for package in ("scheduler", "hw_models") for kind in KINDS]
    for folder in (*GENERIC_FOLDERS, *of_kinds, "dsascape.hw_models", "dsascape.workloads.operators"):
        assert sum(inside(name, folder) for name in modules()) > 2, folder


class TestThePictureItself:
    """By hand: what is a circle, and what is private."""

    @staticmethod
    def tree(**sources: str) -> dict[str, Module]:
        return {name.replace("_in_", "."): Module(name.replace("_in_", "."), text) for name, text in sources.items()}

    def test_three_modules_in_a_circle_are_found_together(self) -> None:
        known = self.tree(
            a="import b", b="from c import x", c="try:\n    import a\nexcept ImportError:\n    pass", d="import a"
        )

        assert circles(known) == [["a", "b", "c"]]

    def test_what_is_imported_in_a_function_or_for_types_alone_is_later(self) -> None:
        late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\ndef f():\n    import a"

        assert circles(self.tree(a="import b", b=late)) == []

    def test_a_module_taken_from_its_package_is_meant_and_not_the_package(self) -> None:
        known = self.tree(p="from p.inner import x", p_in_inner="from p import other", p_in_other="")

        assert circles(known) == []
        assert circles(known | self.tree(p_in_other="from p import x")) == [["p", "p.inner", "p.other"]]

    def test_a_relative_import_is_one_too(self) -> None:
        known = self.tree(p_in_a="from .b import x", p_in_b="from . import a")

        assert circles(known) == [["p.a", "p.b"]]

    @pytest.mark.parametrize(
        ("source", "complaints"),
        [
            ("from a import _b", ["m:1 imports _b"]),
            ("import a._b", ["m:1 imports _b"]),
            ("import simpy\nenv = simpy.Environment()\nnext(env._eid)", ["m:3 uses env._eid"]),
            ("def f(event):\n    return event._ok", ["m:2 uses event._ok"]),
            ("def f(event):\n    return getattr(event, '_ok')", ["m:2 asks for _ok"]),
            ("import a\na._cache.clear()", ["m:2 uses a._cache"]),
            ("def f(event):\n    event._ok = True", ["m:2 uses event._ok"]),
            ("class A:\n    def f(self):\n        self._b = 1\n    def g(self, other):\n        return other._b", []),
            ("class A:\n    _b: int\ndef f(a: A):\n    return a._b", []),
            ("class A:\n    def f(self):\n        return self.__dict__", []),
        ],
    )  # fmt: skip
    def test_private_is_what_a_module_does_not_define_itself(self, source: str, complaints: list[str]) -> None:
        assert private_uses(Module("m", source)) == complaints
