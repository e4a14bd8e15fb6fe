"""Compiles what every design point runs through: a little always, the busiest modules if ``DSASCAPE_COMPILED`` is set.

``pyproject.toml`` describes the package. Always, where a C compiler is found: the handler of a simulation's instants,
columns of programs being written, prefetch buffers, the search for tiles. The Python beside them does the same where
there is none.

``DSASCAPE_COMPILED``: modules are the same files, translated by mypyc from their type annotations: no second
implementation, and where they are not compiled Python runs them as they are. Left out are modules that declare records
with slots or check their fields with pydantic, which mypyc cannot translate. ``DSASCAPE_OPTIMISE`` is the C compiler's
level, 3 unless given: with 0 it builds in half the time, for tests.
"""

import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

from setuptools import Extension, setup

IN_C = {
    "hw_models.in_c.handler": "hw_models/in_c/handler.c",
    "scheduler.in_c.columns": "scheduler/in_c/columns.c",
    "scheduler.in_c.tiles": "scheduler/in_c/tiles.c",
}
"""Modules written in C. No compiler may contract a product and a sum: Python does not."""
EXACT = [] if sys.platform == "win32" else ["-ffp-contract=off"]

COMPILED = {
    "hw_models": "bandwidth clock demands dispatching pipelining running space starting units dsa/arrays dsa/machine",
    "workloads": "analysis",
    "scheduler": "fragments list_scheduling program_builder",
    "scheduler/dsa": (
        "execution needs unit_choice lower/emit lower/layer lower/loads lower/prefetch lower/program lower/stores"
        " lower/tile_waits tiling/candidates tiling/choice tiling/cuts tiling/estimate tiling/lattice tiling/search"
        " tiling/tiling"
    ),
}
"""Modules by folder."""


IN_C_FOLDER = runpy.run_path(str(Path("hw_models", "in_c", "__init__.py")))


def in_c(name: str, path: str) -> Extension:
    """Return a module written in C, which knows of which files it is built; it may fail to build."""
    sources = IN_C_FOLDER["sources_of"](Path(path).parent)
    macros = [("SOURCES", f'"{IN_C_FOLDER["digest"](sources)}"')]
    depends = [str(source) for source in sources]
    return Extension(name, [path], depends=depends, define_macros=macros, extra_compile_args=EXACT, optional=True)


def extensions() -> list[Extension]:
    """Return the extension modules: those in C, which may fail to build, and those translated to C if asked for."""
    found = [in_c(name, path) for name, path in IN_C.items()]
    if not os.environ.get("DSASCAPE_COMPILED"):
        return found
    mypyc = import_module("mypyc.build")  # comes with mypy, which only this build needs
    files = [str(Path(folder, f"{name}.py")) for folder, names in COMPILED.items() for name in names.split()]
    found += mypyc.mypycify(files, opt_level=os.environ.get("DSASCAPE_OPTIMISE", "3"))
    return found


setup(ext_modules=extensions())
