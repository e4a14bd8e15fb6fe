"""Stored results as Parquet files, beside the CSV files, where pyarrow is installed."""

import importlib.util
from pathlib import Path

import pandas as pd
from pandas.api.extensions import ExtensionDtype

from dsascape.experiments.results.columns import NUMERIC, type_of
from dsascape.hw_models.text.whole_file import write_with

PARQUET = "results.parquet"


def has_parquet() -> bool:
    """Return whether Parquet files can be written: whether pyarrow is installed (the extra ``parquet``)."""
    return importlib.util.find_spec("pyarrow") is not None


def write_parquet(frame: pd.DataFrame, path: Path) -> Path | None:
    """Write a table of results as a Parquet file and return its path; without pyarrow, remove an older one.

    Columns have the types of the SQLite table: whole numbers of 64 bits, numbers, or text; values may be missing.
    """
    if not has_parquet():
        path.unlink(missing_ok=True)
        return None
    typed = frame.drop(columns=["key"], errors="ignore").copy()
    for name in map(str, typed):
        typed[name] = typed[name].astype(_type(name, typed[name]))
    write_with(path, lambda place: typed.to_parquet(place, engine="pyarrow", index=False))
    return path


def _type(name: str, values: pd.Series) -> ExtensionDtype:
    """Return the pandas type of a column that may lack values."""
    kind = type_of(name, "REAL" if pd.api.types.is_numeric_dtype(values) else "TEXT")
    if kind not in NUMERIC:
        return pd.StringDtype()
    is_whole = kind == "INTEGER" and bool((values.dropna() % 1 == 0).all())
    return pd.Int64Dtype() if is_whole else pd.Float64Dtype()
