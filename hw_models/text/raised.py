"""The place at which an exception was raised, for messages."""

import traceback
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def where_raised(error: BaseException, file: str = "") -> str:
    """Return the file, line and function that raised ``error``, with this package's files relative to its root.

    With ``file``, the innermost frame of that file is taken if there is one. Empty for an error without traceback.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    chosen = [frame for frame in frames if frame.filename == file] or frames
    if not chosen:
        return ""
    path = Path(chosen[-1].filename)
    shown = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path
    return f"{shown}, line {chosen[-1].lineno}, in {chosen[-1].name}"
