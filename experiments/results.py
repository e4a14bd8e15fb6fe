"""Stored results as a table: a pandas DataFrame, and a CSV of the same."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pandas as pd

from experiments.store import ALWAYS, DATABASE, TABLE, StoreError, declared


def read_results(folder: Path, keys: Iterable[str] | None = None) -> pd.DataFrame:
    """Return the stored rows, in the order of ``keys`` if given; raise ``StoreError`` without a store."""
    path = folder / DATABASE
    if not path.is_file():
        raise StoreError(f"{folder}: has no {DATABASE}; run an experiment with --out {folder} first")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            frame = pd.read_sql_query(f"SELECT * FROM {TABLE}", connection)
    except (sqlite3.Error, pd.errors.DatabaseError) as error:
        raise StoreError(f"{path}: {error}") from error
    if keys is not None:
        wanted = list(dict.fromkeys(keys))
        there = set(frame["key"])
        frame = frame.set_index("key").reindex([key for key in wanted if key in there]).reset_index()
    empty = [name for name in frame if name not in ALWAYS and frame[name].isna().all()]
    return frame.drop(columns=empty)


def write_csv(frame: pd.DataFrame, folder: Path) -> Path:
    """Write ``results.csv`` and return its path; counts stay whole numbers where some are missing."""
    path = folder / "results.csv"
    with closing(sqlite3.connect(f"file:{folder / DATABASE}?mode=ro", uri=True)) as connection:
        whole = [name for name, kind in declared(connection).items() if kind == "INTEGER" and name in frame]
    shown = frame.drop(columns=["key"], errors="ignore")
    shown.astype(dict.fromkeys(whole, "Int64")).to_csv(path, index=False)
    return path
