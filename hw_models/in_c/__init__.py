"""Whether compiled code may be used: modules in C beside the Python that they speed up, built where a compiler is.

Both do the same, and tests hold them against each other. ``DSASCAPE_PURE=1`` in the environment leaves all to Python.
This file imports nothing of ours: ``setup.py`` runs it.
"""

import hashlib
import os
from functools import cache
from pathlib import Path
from types import ModuleType


def may_use(module: ModuleType | None) -> bool:
    """Return whether a compiled module is to be used: it is there, of the sources that are there, not switched off."""
    return module is not None and os.environ.get("DSASCAPE_PURE", "0") in ("", "0") and _is_current(module)


@cache
def _is_current(module: ModuleType) -> bool:
    """Return whether a module was built of the sources beside it, if there are any."""
    found = sources_of(Path(module.__file__ or "").parent)
    return not found or getattr(module, "sources", "") == digest(found)


def sources_of(folder: Path) -> list[Path]:
    """Return the files that a compiled module in ``folder`` is built of."""
    return sorted([*folder.glob("*.c"), *folder.glob("*.h")])


def digest(sources: list[Path]) -> str:
    """Return what tells such files from others."""
    found = hashlib.sha256()
    for path in sources:
        found.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return found.hexdigest()
