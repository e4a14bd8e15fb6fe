"""Modules that need TVM or onnxruntime, imported when they are first used: all else works where these are missing."""

import importlib
from typing import Any


def late(module: str) -> Any:
    """Return the module ``dsascape.tuner.on_device.MODULE``."""
    return importlib.import_module(f"dsascape.tuner.on_device.{module}")
