"""List of the ONNX operators and how the importer treats each: ``python -m dsascape.workloads.operators.document``."""

import sys
from collections.abc import Sequence
from typing import Any

import onnx

from dsascape.workloads.decomposition import DECOMPOSED, MICROSOFT
from dsascape.workloads.operators import NOT_TAKEN, RULES

_SPECIAL = {
    "Constant": "computed on import",
    "Shape": "computed on import: shapes are static",
    "Size": "computed on import: shapes are static",
    "HannWindow": "computed on import, if its size is known",
    "HammingWindow": "computed on import, if its size is known",
    "BlackmanWindow": "computed on import, if its size is known",
    "MelWeightMatrix": "computed on import, if its sizes are known",
    "If": "replaced by its branch, if the condition is known",
}
_FROM_THE_FILE = frozenset({"NonMaxSuppression", "NonZero", "Compress", "Unique", "Range"})


def standard_operators() -> dict[str, bool]:
    """Return the operators of the default domain, without deprecated ones, and whether each is a function of others."""
    schemas: Sequence[Any] = onnx.defs.get_all_schemas()
    latest = {schema.name: schema for schema in schemas if schema.domain == "" and not schema.deprecated}
    return {
        name: schema.has_function or schema.has_context_dependent_function
        for name, schema in sorted(latest.items())
    }


def fate_of(kind: str, *, is_function: bool) -> str:
    """Return how the importer treats an operator, as one table cell."""
    if kind in RULES:
        module = RULES[kind].build.__module__.rpartition(".")[2]
        limit = ", if the file or known inputs say how much it writes" if kind in _FROM_THE_FILE else ""
        return f"loop nests ({module}){limit}"
    if kind in DECOMPOSED:
        return f"written out as other operators ({DECOMPOSED[kind].__module__.rpartition('.')[2]})"
    if is_function and kind not in (*_SPECIAL, *NOT_TAKEN):
        return "replaced by the operators that the standard defines it by"
    return _SPECIAL.get(kind) or f"not supported: {NOT_TAKEN.get(kind, 'it has no loop nest yet')}"


def markdown() -> str:
    """Return the list as a Markdown table: the standard's operators, then those of other domains."""
    rows = [
        f"| {kind} | {fate_of(kind, is_function=function)} |"
        for kind, function in standard_operators().items()
    ]
    others = sorted(kind for kind in {*RULES, *DECOMPOSED} if kind.startswith(f"{MICROSOFT}::"))
    added = [f"| {kind} | {fate_of(kind, is_function=False)} |" for kind in others]
    return "\n".join(["| operator | treatment at import |", "|---|---|", *rows, *added]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
