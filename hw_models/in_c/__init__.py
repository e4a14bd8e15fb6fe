"""Whether compiled code may be used: modules in C beside the Python that they speed up, built where a compiler is.

Both do the same, and tests hold them against each other. ``DSASCAPE_PURE=1`` in the environment leaves all to Python.
This file imports nothing of ours: ``setup.py`` runs it.
"""

import hashlib
import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_SHARED = {Path(__file__).with_name(name) for name in ("columns.h", "module.h")}
"""What modules in other folders are built of as well."""


def may_use(name: str) -> bool:
    """Return whether a compiled module is to be used: it is there, of the sources that are there, not switched off."""
    return os.environ.get("DSASCAPE_PURE", "0") in ("", "0") and is_built(name)


@cache
def is_built(name: str) -> bool:
    """Return whether a compiled module is there, of the sources that are there."""
    return find_spec(name) is not None and is_current(import_module(name))


def is_current(module: ModuleType) -> bool:
    """Return whether a compiled module was built of the sources beside it, if there are any."""
    found = sources_of(Path(module.__file__ or "").parent)
    return not found or getattr(module, "sources", "") == digest(found)


def sources_of(folder: Path) -> list[Path]:
    """Return the files that a compiled module in ``folder`` is built of, if it holds any."""
    own = {*folder.glob("*.c"), *folder.glob("*.h")}
    return sorted(own | _SHARED if own else own, key=lambda path: path.name)


def digest(sources: list[Path]) -> str:
    """Return what tells such files from others."""
    found = hashlib.sha256()
    for path in sources:
        found.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return found.hexdigest()
