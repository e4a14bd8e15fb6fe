"""What records of candidates belong to: a machine, and the code that makes programs of steps."""

import hashlib
from functools import cache
from pathlib import Path

from dsascape.hw_models import AnyHardware

_DIGITS = 16
_MEANING = ("scheduler/kernels/loops", "tuner/codegen")
"""Folders that say what steps mean, and what code is made of them."""


def machine_digest(hardware: AnyHardware) -> str:
    """Return a digest of a machine's description, whatever it is called."""
    text = hardware.model_dump_json(exclude={"name", "energy", "area"})
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@cache
def code_digest() -> str:
    """Return a digest of the code that makes programs of steps."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for folder in _MEANING:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:_DIGITS]
