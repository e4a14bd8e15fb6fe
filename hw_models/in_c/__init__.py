"""Selection of compiled code: optional C modules that speed up Python code, built if there is a compiler.

Both give the same results, and tests compare them. ``DSASCAPE_PURE=1`` in the environment disables the C modules.
This file imports no other module of dsascape, because ``setup.py`` runs it.
"""

import hashlib
import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_SHARED = {Path(__file__).with_name(name) for name in ("columns.h", "module.h")}
"""Headers that C modules in other folders include as well."""


def may_use(name: str) -> bool:
    """Return whether a compiled module is to be used: built, up to date with its sources, and not disabled."""
    return os.environ.get("DSASCAPE_PURE", "0") in ("", "0") and is_built(name)


@cache
def is_built(name: str) -> bool:
    """Return whether a compiled module is built and up to date with its sources."""
    return find_spec(name) is not None and is_current(import_module(name))


def is_current(module: ModuleType) -> bool:
    """Return whether a compiled module was built from the sources next to it; True if there are none."""
    files = sources_of(Path(module.__file__ or "").parent)
    return not files or getattr(module, "sources", "") == digest(files)


def sources_of(folder: Path) -> list[Path]:
    """Return the source files of a compiled module in ``folder``, sorted; empty if it has none."""
    own = {*folder.glob("*.c"), *folder.glob("*.h")}
    return sorted(own | _SHARED if own else own, key=lambda path: path.name)


def digest(sources: list[Path]) -> str:
    """Return the SHA-256 digest of the sources, independent of line endings."""
    hashed = hashlib.sha256()
    for path in sources:
        hashed.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return hashed.hexdigest()
