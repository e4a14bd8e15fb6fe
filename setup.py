"""Compiles the innermost loops of every design point if there is a C compiler; ``pyproject.toml`` has the metadata.

In C are the simulation's event handlers, list scheduling and relocation of programs, prefetch buffers and the tile
search. Without a compiler, Python code does the same.

``DSASCAPE_BUILD=strict`` in the environment makes warnings errors and a failed build a failure; ``sanitized`` does so
too, and adds the checks of AddressSanitizer and UndefinedBehaviorSanitizer (``make sanitize``).
"""

import os
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup

IN_C = {
    "dsascape.hw_models.in_c.handler": "src/dsascape/hw_models/in_c/handler.c",
    "dsascape.scheduler.in_c.columns": "src/dsascape/scheduler/in_c/columns.c",
    "dsascape.scheduler.in_c.tiles": "src/dsascape/scheduler/in_c/tiles.c",
}
"""Modules written in C. No compiler may contract a product and a sum: Python does not."""
EXACT = [] if sys.platform == "win32" else ["-ffp-contract=off"]
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-O1", "-g"]
CHECKS = {"": [], "strict": STRICT, "sanitized": [*STRICT, *SANITIZED]}[os.environ.get("DSASCAPE_BUILD", "")]
"""Flags of compilers like GCC."""

try:
    runpy.run_path(str(Path("src", "dsascape", "__init__.py")))
except ImportError as mistake:  # a clone without symbolic links
    sys.exit(f"dsascape: {mistake}")
IN_C_FOLDER = runpy.run_path(str(Path("src", "dsascape", "hw_models", "in_c", "__init__.py")))


def in_c(name: str, path: str) -> Extension:
    """Return a module written in C, which knows of which files it is built; it may fail to build without checks."""
    sources = IN_C_FOLDER["sources_of"](Path(path).parent)
    macros = [("SOURCES", f'"{IN_C_FOLDER["digest"](sources)}"')]
    depends = [str(source) for source in sources]
    link = [flag for flag in CHECKS if flag.startswith("-fsanitize")]
    return Extension(
        name, [path], depends=depends, define_macros=macros, extra_compile_args=[*EXACT, *CHECKS],
        extra_link_args=link, optional=not CHECKS,
    )  # fmt: skip


setup(ext_modules=[in_c(name, path) for name, path in IN_C.items()])
