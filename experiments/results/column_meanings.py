"""Meaning and unit of every column of the result tables, and the page that lists them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dsascape.experiments.results.columns import (
    ALWAYS,
    OF_KERNELS,
    OF_LAYERS,
    OF_MEASUREMENT,
    OF_ORIGIN,
    type_of,
)


class Column(NamedTuple):
    """Unit and meaning of a column; text and plain counts have no unit."""

    unit: str
    meaning: str


RUNS: Mapping[str, Column] = {
    "key": Column("", "hash of everything that the figures depend on: the same key is never computed twice"),
    "point": Column("", "hash of the names and swept values of the point: a later row of the same point supersedes"),
    "code": Column("", "hash of the code that computed the row"),
    "state": Column("", "`current`, or `superseded by` the key, code or experiment that replaced the row"),
    "model": Column("", "network, with the sizes that are not swept"),
    "hardware": Column("", "name of the machine"),
    "policy": Column("", "policy with the options that differ from their defaults; of a schedule file, its maker"),
    "batch": Column("images", "batch of the whole machine"),
    "dtype": Column("", "dtype of what the network leaves open"),
    "latency_s": Column("s", "simulated time from the first instruction to the end of the last"),
    "expected_latency_s": Column("s", "latency with every kernel at the `library_efficiency` of its kind"),
    "throughput_per_s": Column("images/s", "batch by latency"),
    "energy_j": Column("J", "energy of the whole machine for the batch"),
    "expected_energy_j": Column("J", "energy of a run that takes `expected_latency_s`"),
    "kernels": Column("", "kernel launches, of all iterations of one cluster"),
    "bottleneck": Column("", "resource with the largest share of the critical path"),
    "clock_share": Column("share", "clock of the run by the sustained one: below 1 where power is limited"),
    "expected_clock_share": Column("share", "clock of a run that takes `expected_latency_s`, by the sustained one"),
    "parts": Column("", "clusters of the machine, which split the batch"),
    "parts_at_work": Column("", "clusters in use"),
    "parts_share": Column("", "`batch`: each cluster has images of its own; `kernels`: a part of every layer"),
    "padded": Column("images", "images computed beyond the batch, as shares of clusters are equal"),
    "batch_at_once": Column("images", "images of one cluster per iteration"),
    "iterations": Column("", "sequential runs of a cluster's graph"),
    "macs": Column("", "multiply-accumulates of the network at this batch, without padding and what is computed again"),
    "peak_macs_per_s": Column("1/s", "peak rate of the machine; of products in several dtypes the mean by time"),
    "off_chip_bytes_per_s": Column("B/s", "peak off-chip bandwidth of the machine"),
    "simulated_events": Column("", "events of the simulation of one iteration"),
    "engine": Column("", "simulation engine that ran it, `compiled` or `simpy`: figures are the same on both"),
    "wall_s": Column("s", "time that planning, scheduling and simulating took here; no two runs have the same"),
    "area_mm2": Column("mm2", "area of the machine, where its file has the figures; missing for others"),
    "error": Column("", "why the point has no figures; missing if it has"),
    "is_base": Column("", "1 if the machine is the unswept base of the experiment file"),
    "command": Column("", "command that simulates this point alone"),
    "measured_s": Column("s", "measured time of the network, the median of the runs"),
    "measured_spread": Column("share", "interquartile range of the measured times by their median"),
    "measured_j": Column("J", "energy of a run by the processor's counters, all on its packages; missing without them"),
    "measured_threads": Column("", "threads that the code ran on"),
    "is_correct": Column("", "1 if all results agree with onnxruntime's"),
    "mape": Column("share", "mean of |predicted - measured| / measured over kernels"),
    "spearman": Column("", "rank correlation of predicted and measured times of kernels, from -1 to 1"),
    "kendall": Column("", "share of pairs of kernels in the same order, less those in the other, from -1 to 1"),
    "target": Column("", "target that code was generated for"),
    "device": Column("", "processor that ran it"),
    "device_facts": Column("", "what is known of the device, as JSON"),
    "measured_at": Column("", "when it was measured"),
    "power_w": Column("W", "mean power of the simulated run: energy by latency"),
    "violates": Column("", "constraints that the point does not keep, separated by commas; empty if it keeps all"),
    "warnings": Column("", "conditions that make a measured time doubtful"),
    "flushed_caches": Column("", "1 if caches were flushed before each timed run"),
    "schedule": Column("", "file name of the schedule that ran in place of a policy's"),
    "pins": Column("", "file name of the pins that the schedule was made with"),
}  # fmt: skip
"""Columns of ``runs``, one row a design point."""

PREFIXED: Mapping[str, Column] = {
    "energy_parts_j.": Column("J", "energy of a component: operations, instructions, a memory, clocks, static power"),
    "traffic_bytes.": Column("B", "bytes read and written of a memory, all copies and iterations together"),
    "utilisation.": Column("share", "busy time of a unit or memory port by the latency, the mean over all copies"),
    "utilisation_at_work.": Column("share", "the same, the mean over the clusters at work"),
    "peak_occupancy_bytes.": Column("B", "the most that one copy of a memory held"),
    "tensor_scopes.": Column("", "outputs of layers or instances kept in a memory"),
    "critical.": Column("share", "share of the latency in which a resource set the pace; they sum to 1"),
    "language.": Column("", "figures of a pass of a language model: seconds (`_s`), bytes, joules (`_j`), tokens"),
    "predicted_parts_s.": Column("s", "time that a resource alone needs for the kernel"),
}  # fmt: skip
"""Columns made from mappings, by their beginning; the rest of the name is a memory, a unit or a resource."""

LAYERS: Mapping[str, Column] = {
    "key": Column("", "key of the point in `runs`"),
    "place": Column("", "position in the order in which layers begin"),
    "layer": Column("", "tensor that the layer writes"),
    "name": Column("", "name of the layer in its plan, such as `#41 Conv+Relu 512x7x7`"),
    "operators": Column("", "nodes that the layer computes"),
    "runs": Column("", "runs of the layer, instances and iterations together"),
    "critical_s": Column("s", "time in which the layer was on the critical path; all layers sum to the latency"),
    "limited_by": Column("", "resource that limited it most of that time"),
}  # fmt: skip
"""Columns of ``layers``, one row for each layer of a point."""

KERNELS: Mapping[str, Column] = {
    "key": Column("", "key of the point in `runs`"),
    "place": Column("", "position in the order of calls"),
    "kernel": Column("", "name of the kernel's function"),
    "layer": Column("", "name of the layer in its plan"),
    "operators": Column("", "nodes that it computes"),
    "measured_s": Column("s", "measured time, the median of the runs"),
    "spread": Column("share", "interquartile range of the measured times by their median"),
    "predicted_s": Column("s", "simulated time of the kernel run again and again"),
    "threads": Column("", "threads with work (CPU), or blocks (GPU)"),
    "flushed_caches": Column("", "1 if caches were flushed before each timed run"),
    "kernel_error": Column("", "why the kernel has no time; missing if it has"),
}  # fmt: skip
"""Columns of ``kernels``, one row for each measured kernel of a point."""

_TABLES = {
    "runs": (RUNS, {**ALWAYS, **OF_ORIGIN, **OF_MEASUREMENT, "schedule": "TEXT", "pins": "TEXT"}),
    "layers": (LAYERS, {**OF_LAYERS, "limited_by": "TEXT"}),
    "kernels": (KERNELS, OF_KERNELS),
}
_TYPES = {"INTEGER": "whole number", "REAL": "number", "TEXT": "text"}


def column_of(table: str, name: str) -> Column | None:
    """Return what a column of a table is; None for a swept value, whose name is its path."""
    found = _TABLES[table][0].get(name)
    return found or next((each for beginning, each in PREFIXED.items() if name.startswith(beginning)), None)


def results_columns() -> dict[str, list[dict[str, str]]]:
    """Return the columns of each table: name, type, unit, meaning; those of mappings end in ``*``."""
    every = {table: [_described(name, each[name], kind) for name, kind in kinds.items() if name in each]
             for table, (each, kinds) in _TABLES.items()}  # fmt: skip
    for beginning, column in PREFIXED.items():
        table = "kernels" if beginning.startswith("predicted") else "runs"
        every[table].append(_described(f"{beginning}*", column, type_of(f"{beginning}x", "REAL")))
    every["layers"].append(_described("traffic_bytes.*", PREFIXED["traffic_bytes."], "INTEGER"))
    return every


def _described(name: str, column: Column, kind: str) -> dict[str, str]:
    return {"name": name, "type": _TYPES[kind.partition(" ")[0]], "unit": column.unit, "meaning": column.meaning}


def results_page() -> str:
    """Return the reference of the result tables, every column, as Markdown."""
    return "\n".join([*_INTRODUCTION, *_tables()]) + "\n"


def _tables() -> Iterator[str]:
    for table, columns in results_columns().items():
        yield from ("", f"## `{table}`", "", _ABOUT[table], "")
        yield from ("| column | type | unit | meaning |", "|---|---|---|---|")
        for each in columns:
            yield f"| `{each['name']}` | {each['type']} | {each['unit']} | {each['meaning']} |".replace("|  |", "| |")


_ABOUT = {
    "runs": "One row for each design point. Every swept path is a column of its own, with the value as the experiment"
    " file has it.",
    "layers": "One row for each layer of a point. In the CSV file the columns that tell the point stand in front.",
    "kernels": "One row for each measured kernel of a point, only in folders with measurements.",
}
_INTRODUCTION = (
    "# Results", "",
    "Every column of what `dsascape run` stores: the tables of `results.sqlite`, and the files made of them for",
    "spreadsheets and other tools. `dsascape schema results --reference` prints this page, `dsascape schema results`",
    "the same as JSON.", "",
    "| file | what it has |", "|---|---|",
    "| `results.sqlite` | the tables below, rows that were superseded included |",
    "| `results.csv` | `runs`, current rows, without `key` |",
    "| `layers.csv`, `kernels.csv` | `layers` and `kernels` of these rows |",
    "| `results.parquet` | `results.csv` with types, where pyarrow is installed (`dsascape[parquet]`) |", "",
    "A figure that a point has not is missing: an empty field in CSV, null in Parquet and SQLite. Shares are from 0",
    "to 1.",
)  # fmt: skip
