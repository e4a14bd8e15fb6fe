"""Helpers for runs in folders: their results, slow or faulty policies, and the command as a subprocess."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd

SLOW_POLICY = '''
import os, pathlib, time
from dataclasses import dataclass
from dsascape.scheduler.policies.unfused import Unfused

@dataclass(frozen=True)
class Slow(Unfused):
    """Takes its time, unless there is a file called hurry, and leaves a line for every plan it makes."""

    name: str = "slow"

    def plan(self, graph, costs):
        here = pathlib.Path(__file__)
        if not here.with_name("hurry").exists():
            time.sleep(0.2)
        with here.with_name("made.txt").open("a") as file:
            file.write(f"{costs.view.spec.clusters}\\n")
        return super().plan(graph, costs)
'''
FAULTY_POLICY = """
from dataclasses import dataclass
from dsascape.scheduler.policies.unfused import Unfused

@dataclass(frozen=True)
class Faulty(Unfused):
    name: str = "faulty"
    worst: int = 3

    def plan(self, graph, costs):
        if costs.view.spec.clusters == self.worst:
            raise IndexError("no such thing")
        return super().plan(graph, costs)
"""
ON_STCP920 = ["--hardware", "stcp920", "--batch", "4"]
TINY = ["simulate", "bert-tiny", *ON_STCP920, "--policy", "fixed-pattern"]
_ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])}
COMMAND = [sys.executable, "-c", "from dsascape.experiments.shell.cli import entry_point; entry_point()"]


def table(folder: Path) -> pd.DataFrame:
    with closing(sqlite3.connect(folder / "results.sqlite")) as connection:
        return pd.read_sql_query("SELECT * FROM runs", connection)


def figures(rows: pd.DataFrame) -> pd.DataFrame:
    """The table without what differs from run to run, in an order of its own."""
    return rows.drop(columns=["wall_s"]).sort_values("key").reset_index(drop=True).sort_index(axis="columns")
