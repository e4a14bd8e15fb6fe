"""Whether compiled code may be used: modules in C beside the Python that they speed up, built where a compiler is.

Both do the same, and tests hold them against each other. ``DSASCAPE_PURE=1`` in the environment leaves all to Python.
"""

import os


def may_use_compiled() -> bool:
    """Return whether compiled modules, where there are any, are to be used."""
    return os.environ.get("DSASCAPE_PURE", "0") in ("", "0")
