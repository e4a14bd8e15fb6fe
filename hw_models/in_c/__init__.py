"""Selection of compiled code: optional C modules that speed up Python code, built if there is a compiler.

Both give the same results, and tests compare them. ``DSASCAPE_PURE=1`` in the environment disables the C modules.
This file imports no other module of dsascape, because ``setup.py`` runs it.
"""

import hashlib
import logging
import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_LOG = logging.getLogger("dsascape.hw_models.in_c")
_SHARED = {Path(__file__).with_name(name) for name in ("columns.h", "module.h")}
"""Headers that C modules in other folders include as well."""


def may_use(name: str) -> bool:
    """Return whether a compiled module is to be used: built, up to date with its sources, and not disabled.

    Logs a warning once for each module that should be used but cannot be.
    """
    return not why_not(name)


def why_not(name: str) -> str:
    """Return why a compiled module is not to be used; empty if it is. Logs as `may_use` does."""
    if os.environ.get("DSASCAPE_PURE", "0") not in ("", "0"):
        return "disabled by DSASCAPE_PURE"
    defect = _defect(name)
    if defect:
        log_once(logging.WARNING, f"{name} {defect}; Python does its work, with equal results but more slowly")
    return defect


def is_built(name: str) -> bool:
    """Return whether a compiled module is built and up to date with its sources."""
    return not _defect(name)


@cache
def _defect(name: str) -> str:
    if find_spec(name) is None:
        return "is not built"
    return "" if is_current(import_module(name)) else "was built from other sources than those beside it"


@cache
def log_once(level: int, message: str) -> None:
    """Log ``message``, unless this process has logged it before."""
    _LOG.log(level, message)


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
