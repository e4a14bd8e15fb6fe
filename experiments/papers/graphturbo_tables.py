"""GraphTurbo's evaluation, ours compared with the paper's.

``python -m dsascape.experiments.papers.graphturbo_tables RESULTS [OUT.md]``: RESULTS holds one folder per experiment
file of ``experiments/papers/graphturbo``, as ``dsascape run`` leaves it. Missing folders leave their table out. Nothing
here computes a figure; it reads results and the paper's numbers.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dsascape.experiments.results.folder import DamagedError, read_note
from dsascape.experiments.results.frame import read_results
from dsascape.experiments.results.store import StoreError
from dsascape.hw_models import ClusteredDsa, load_hardware
from dsascape.hw_models.text.quantities import PS_PER_S
from dsascape.hw_models.text.yaml_file import read_yaml

FOLDER = Path(__file__).parent / "graphturbo"
TVM_RESULTS = ("table2-tvm-1", "table2-tvm-2", "table2-tvm-4", "table2-tvm-64")
MACHINES = {
    "stcp920": "local buffers of 1.25 MiB, as the vendor documents them",
}
MISSING = "n/a"
_THOUSAND = 1000
_MEMORIES = {"ddr": "DDR", "global_buffer": "LLB", "local_buffer": "L1"}


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; numbers are rounded to three digits, None is "n/a"."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= _THOUSAND else f"{value:.3g}"
    return str(value)


def relative(ours: float | None, paper: float | None) -> str:
    """Return the relative difference of our figure from the paper's, as in "+12 %"; "n/a" without one of them."""
    if not ours or not paper:
        return MISSING
    return f"{(ours / paper - 1) * 100:+.0f} %"


def _keys(folder: Path) -> Sequence[str] | None:
    """Return the keys of a results folder's points in the experiment's order; None if its note cannot be read."""
    try:
        return read_note(folder).keys
    except DamagedError:
        return None


@dataclass(frozen=True)
class Results:
    """The stored rows of one or several experiments on one machine; empty where nothing was run."""

    frame: pd.DataFrame

    @classmethod
    def read(cls, folder: Path, names: Iterable[str], machine: str) -> "Results":
        """Return the stored rows about ``machine`` of the experiments ``names`` in ``folder``."""
        frames = []
        for name in names:
            try:
                frames.append(read_results(folder / name, _keys(folder / name)))
            except StoreError:
                continue
        frame = pd.concat(frames) if frames else pd.DataFrame(columns=["model", "hardware", "policy", "batch"])
        return cls(frame[frame["hardware"] == machine])

    def __bool__(self) -> bool:
        return len(self.frame) > 0

    def figure(self, column: str, model: str, batch: int, policy: str) -> float | None:
        """Return ``column`` of the newest row of a network under a policy; None if it was not run or failed.

        ``policy`` is a name without options.
        """
        rows = self.frame
        names = rows["policy"].astype(str).str.partition("(")[0]
        chosen = rows[(rows["model"] == model) & (rows["batch"] == batch) & (names == policy)]
        if chosen.empty or column not in chosen or pd.isna(chosen.iloc[-1][column]):
            return None
        return float(chosen.iloc[-1][column])


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean of the values that are neither None nor zero; None if there are none."""
    logs = [math.log(value) for value in values if value]
    return math.exp(sum(logs) / len(logs)) if logs else None


def arithmetic_mean(values: Iterable[float | None]) -> float | None:
    """Return the arithmetic mean of the values that are neither None nor zero; None if there are none."""
    there = [value for value in values if value]
    return sum(there) / len(there) if there else None


def table1(paper: Mapping[str, Any], results: Results) -> str:
    """Return Table 1: throughputs of BERT-128 at several batches, ours and the paper's."""
    rows = []
    for batch, per_cluster, per_s, milliseconds, turbo_per_s in paper["table1"]:
        tvm = results.figure("throughput_per_s", "bert-base-128", batch, "fixed-pattern")
        mine = results.figure("throughput_per_s", "bert-base-128", batch, "graphturbo")
        by_latency = 1e3 * batch / milliseconds
        ours = (tvm, relative(tvm, per_s), relative(tvm, by_latency), turbo_per_s, mine, relative(mine, turbo_per_s))
        rows.append((batch, per_cluster, per_s, by_latency, *ours))
    columns = (
        "batch", "batches/cluster (TVM)", "TVM, paper's throughput [1/s]", "batch ÷ paper's latency [1/s]",
        "fixed-pattern [1/s]", "to the first", "to the second", "GraphTurbo, paper [1/s]", "graphturbo [1/s]",
        "difference",
    )  # fmt: skip
    return markdown(columns, rows)


def table2(paper: Mapping[str, Any], tvm: Results, best: Results, given: Results) -> str:
    """Return Table 2: throughputs of the ten networks under TVM's schedule, and the speed-ups over it (Fig. 14).

    ``best``: results at the best of several batches per cluster; ``given``: at the paper's batches for GraphTurbo.
    Rows whose printed throughput exceeds the roofline of the machine that the paper describes are marked (!), and left
    out of a second mean.
    """
    rows = []
    beyond: list[str] = []
    speedups: dict[tuple[str, str], list[float | None]] = {}
    for label, network in paper["networks"].items():
        model, batch = network["model"], network["batch"]
        base = tvm.figure("throughput_per_s", model, batch, "fixed-pattern")
        roof = _share_of_roof(paper, tvm, network)
        beyond += [label] if roof is not None and roof > 1 else []
        marked = f"{label} (!)" if label in beyond else label
        percent = None if roof is None else 100 * roof
        row = [marked, model, batch, network["tvm_per_s"], percent, base, relative(base, network["tvm_per_s"])]
        for how, results in (("tried", best), ("the paper's", given)):
            if how == "the paper's":
                row.append(network["graphturbo"])
            for policy in ("astitch", "graphturbo"):
                row.append(_ratio(results.figure("throughput_per_s", model, batch, policy), base))
                speedups.setdefault((how, policy), []).append(row[-1])
        rows.append(row)
    columns = (
        "", "network", "batch", "TVM, paper [1/s]", "share of the nearest roof [%]", "fixed-pattern, ours [1/s]",
        "difference", "astitch (ours) ÷ fixed-pattern", "graphturbo ÷ fixed-pattern",
        "batches/cluster, paper", "astitch (ours) there", "graphturbo there",
    )  # fmt: skip
    reachable = [label not in beyond for label in paper["networks"]]
    return markdown(columns, rows) + "\n\n" + _mean_speedups(paper, speedups, reachable)


def _share_of_roof(paper: Mapping[str, Any], tvm: Results, network: Mapping[str, Any]) -> float | None:
    """Return the paper's TVM throughput as a fraction of the lower roofline, DDR or matrix engines; None without ours.

    Under any layer-by-layer schedule every kernel reads its inputs from DDR and writes its outputs to it, so the bytes
    that our schedule moves hold for the paper's too.
    """
    model, batch = network["model"], network["batch"]
    ours = tvm.figure("throughput_per_s", model, batch, "fixed-pattern")
    moved_bytes = tvm.figure("traffic_bytes.ddr", model, batch, "fixed-pattern")
    busy = tvm.figure("utilisation.matrix", model, batch, "fixed-pattern")
    if not ours or moved_bytes is None or busy is None:
        return None
    ddr = moved_bytes / batch * network["tvm_per_s"] / paper["machine_ddr_bytes_per_s"]
    return float(max(ddr, busy * network["tvm_per_s"] / ours))


def _mean_speedups(
    paper: Mapping[str, Any], speedups: Mapping[tuple[str, str], Sequence[float | None]], reachable: Sequence[bool]
) -> str:
    """Return a table of GraphTurbo's mean speed-ups over TVM and AStitch.

    Geometric and arithmetic, since the paper does not say which it gives; over all rows, and without those that are
    not ``reachable``. ``speedups``: over fixed-pattern, by choice of batches per cluster and policy.
    """
    means, rows = paper["mean_speedup"], []
    for how in ("tried", "the paper's"):
        over_tvm, astitch = speedups[how, "graphturbo"], speedups[how, "astitch"]
        over_astitch = [_ratio(mine, other) for mine, other in zip(over_tvm, astitch, strict=True)]
        for what, printed, ours in (
            ("over TVM", means["graphturbo_over_tvm"], over_tvm),
            ("over AStitch (ours)", means["graphturbo_over_astitch"], over_astitch),
            ("over TVM, ResNet-50 alone", paper["resnet50_speedup"], over_tvm[:1]),
        ):
            geometric, arithmetic = geometric_mean(ours), arithmetic_mean(ours)
            without = geometric_mean(value for value, there in zip(ours, reachable, strict=False) if there)
            rows.append((what, how, printed, geometric, relative(geometric, printed), arithmetic, without))
    columns = (
        "mean speed-up of graphturbo", "batches/cluster", "paper", "ours, geometric", "difference", "ours, arithmetic",
        "geometric without rows marked (!)",
    )  # fmt: skip
    return markdown(columns, rows)


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def table3(paper: Mapping[str, Any], tvm: Results, rest: Results) -> str:
    """Return Table 3: how many kernels' outputs are kept in each memory, at the paper's batches per cluster."""
    rows = []
    for label, network in paper["networks"].items():
        model, batch = network["model"], network["batch"]
        printed = paper["table3"].get(label)
        for memory, name in _MEMORIES.items():
            column = f"tensor_scopes.{memory}"
            paper_tvm, _, paper_turbo = printed[memory] if printed else (None, None, None)
            base = tvm.figure(column, model, batch, "fixed-pattern")
            mine = rest.figure(column, model, batch, "graphturbo")
            counts = (paper_tvm, _whole(base), relative(base, paper_tvm), paper_turbo, _whole(mine))
            rows.append((label, model, name, *counts, relative(mine, paper_turbo)))
    columns = (
        "", "network", "memory", "TVM, paper", "fixed-pattern", "difference", "GraphTurbo, paper", "graphturbo",
        "difference",
    )  # fmt: skip
    return markdown(columns, rows)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


RAW = {
    "A": "resnet50-raw", "B": "bert-base-raw-128", "F": "dlrm-raw", "G": "mobilenet-v2-raw", "I": "densenet121-raw",
    "J": "conformer-raw",
}  # fmt: skip
"""Rows of Table 2 whose networks are also in the zoo as raw exports, with the names of these."""


def raw_exports(paper: Mapping[str, Any], results: Results, launch_s: float) -> str:
    """Return a table that compares kernels and time of raw and simplified exports under TVM's rule.

    Each cluster runs its whole share of the batch at once. ``launch_s``: seconds per kernel launch.
    """
    rows = []
    for label, exported in RAW.items():
        model, batch = paper["networks"][label]["model"], paper["networks"][label]["batch"]
        ours, raw = (results.figure("kernels", name, batch, "fixed-pattern") for name in (model, exported))
        time_s, raw_s = (results.figure("latency_s", name, batch, "fixed-pattern") for name in (model, exported))
        printed = sum(paper["table3"][label][memory][0] for memory in _MEMORIES) if label in paper["table3"] else None
        launches = None if ours is None or raw is None or not time_s else 100 * (raw - ours) * launch_s / time_s
        rows.append((label, model, printed, _whole(ours), _whole(raw), launches, _ratio(raw_s, time_s)))
    columns = (
        "", "network", "outputs under TVM, paper", "kernels, simplified", "kernels, raw",
        "launches of the difference [% of the time]", "time, raw ÷ simplified",
    )  # fmt: skip
    return markdown(columns, rows)


VARIANTS = (
    ("outputs in LLB", "outputs=global"),
    ("outputs in L1", "instances=false"),
    ("+ instances", "instruction_scheduling=false"),
    ("+ instruction scheduling", ""),
)


def figure15(paper: Mapping[str, Any], tvm: Results, results: Results) -> str:
    """Return Fig. 15, the ablation: the speed-up over fixed-pattern of each of `VARIANTS`."""
    rows = []
    columns_of: dict[str, list[float | None]] = {name: [] for name, _ in VARIANTS}
    for label, network in paper["networks"].items():
        model, batch = network["model"], network["batch"]
        base = tvm.figure("throughput_per_s", model, batch, "fixed-pattern")
        row: list[object] = [label, model]
        for name, _ in VARIANTS:
            ours = _variant(results, model, batch, name)
            row.append(_ratio(ours, base))
            columns_of[name].append(_ratio(ours, base))
        rows.append(row)
    rows.append(["", "geometric mean", *(geometric_mean(values) for values in columns_of.values())])
    return markdown(("", "network", *(name for name, _ in VARIANTS)), rows)


def _variant(results: Results, model: str, batch: int, variant: str) -> float | None:
    """Return the newest throughput of the policy with this variant's options; None if it was not run or failed."""
    wanted = dict(VARIANTS)[variant]
    frame = results.frame
    rows = frame[(frame["model"] == model) & (frame["batch"] == batch)]
    for _, row in rows[::-1].iterrows():
        options = str(row["policy"]).partition("(")[2].rstrip(")").split(",")
        first = next((mark for _, mark in VARIANTS if mark in options), "")
        if first == wanted and pd.notna(row.get("throughput_per_s")):
            return float(row["throughput_per_s"])
    return None


def figure16(results: Results) -> str:
    """Return Fig. 16: utilisation of vector and matrix engine (per cent) by batch per cluster."""
    rows = []
    frame = results.frame[results.frame["throughput_per_s"].notna()]
    for _, row in frame.sort_values(["model", "dtype", "batch"]).iterrows():
        used = [100 * float(row[f"utilisation.{unit}"]) for unit in ("vector", "matrix")]
        rows.append((row["model"], row["dtype"], int(row["batch"]) // 4, *used, float(row["throughput_per_s"])))
    return markdown(("network", "dtype", "batches/cluster", "VME busy [%]", "MME busy [%]", "throughput [1/s]"), rows)


def table4(paper: Mapping[str, Any], rest: Results) -> str:
    """Return Table 4: the paper's compilation times, and our time to plan, lower and simulate (no code generation)."""
    rows = []
    for label, network in paper["networks"].items():
        ours = [rest.figure("wall_s", network["model"], network["batch"], p) for p in ("astitch", "graphturbo")]
        rows.append((label, network["model"], *paper["table4"][label], *ours))
    columns = (
        "", "network", "TVM, paper [s]", "AStitch, paper [s]", "GraphTurbo, paper [s]", "astitch (ours) [s]",
        "graphturbo [s]",
    )  # fmt: skip
    return markdown(columns, rows)


def machines(results: Results) -> str:
    """Return ResNet-50's throughputs for every value that the sources give for the machine's disputed parameters."""
    swept = ("local_buffer.capacity", "global_buffer.bandwidth", "dma.load.startup")
    frame = results.frame
    rows = []
    for values, group in frame.groupby(list(swept), sort=False):
        per_s = {str(row["policy"]).partition("(")[0]: float(row["throughput_per_s"]) for _, row in group.iterrows()}
        base, turbo = per_s.get("fixed-pattern"), per_s.get("graphturbo")
        rows.append((*(values if isinstance(values, tuple) else (values,)), base, turbo, _ratio(turbo, base)))
    return markdown((*swept, "fixed-pattern [1/s]", "graphturbo [1/s]", "speed-up"), rows)


def page(results_folder: Path) -> str:
    """Return the page on GraphTurbo as Markdown, from the results in the folder."""
    paper = read_yaml(FOLDER / "paper.yaml")
    parts = [(FOLDER / "introduction.md").read_text(encoding="utf-8").rstrip()]
    for machine, description in MACHINES.items():
        sections = list(_sections(paper, results_folder, machine))
        if sections:
            parts.append(f"# On {machine}: {description}")
            parts += sections
    return "\n\n".join(parts) + "\n"


def _sections(paper: Mapping[str, Any], folder: Path, machine: str) -> Iterator[str]:
    """Yield the tables of one machine for which results are stored."""
    tvm, rest = Results.read(folder, TVM_RESULTS, machine), Results.read(folder, ["table2"], machine)
    names = ("table1", "table3", "fig15", "fig16", "which-machine", "raw")
    one, kept, fifteen, sixteen, which, raw = (Results.read(folder, [name], machine) for name in names)
    if one:
        yield f"## Table 1: BERT-128 under different batch sizes\n\n{table1(paper, one)}"
    if rest:
        yield f"## Table 2 and Fig. 14: the ten networks\n\n{table2(paper, tvm, rest, kept)}"
    if kept:
        yield f"## Table 3: where outputs are kept\n\n{table3(paper, tvm, kept)}"
    if raw:
        launch_s = load_hardware(machine, ClusteredDsa).launch_ps / PS_PER_S
        yield f"## Raw exports: kernels under TVM's rule\n\n{raw_exports(paper, raw, launch_s)}"
    if fifteen:
        yield f"## Fig. 15: what each step contributes\n\n{figure15(paper, tvm, fifteen)}"
    if sixteen:
        yield f"## Fig. 16: utilisation over the batch\n\n{figure16(sixteen)}"
    if rest:
        yield f"## Table 4: planning time\n\n{table4(paper, rest)}"
    if which:
        title = "Which machine? ResNet-50 at batch 64; the paper: 1,064 under TVM, 7.97 times that under GraphTurbo"
        yield f"## {title}\n\n{machines(which)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page to standard output or a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    arguments = parser.parse_args(argv)
    text = page(arguments.results)
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        arguments.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
