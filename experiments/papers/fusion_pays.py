"""Page that says whether intensive fusion pays on a real CPU, and how often the machine model knows it.

    python -m benchmarks.does_fusion_pay --hardware host.yaml --pairs dev --out experiments/measured/fusion/dev.csv
    python -m dsascape.experiments.papers.fusion_pays docs/fusion-pays.md

The tables in ``experiments/measured/fusion`` have a row for each pair of complex operators: the time as one kernel and
as two, both tuned, and the predictions of the models that have looked at them, by name ("before", "now").
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.real.accuracy import spearman
from dsascape.wording import count

TABLES = Path(__file__).parents[1] / "measured" / "fusion"
SETS = {"dev": "development", "held-out": "held out"}
"""Files by name, and what their pairs are."""
SAME, OWN = "", "_built_in"
"""Predictions of the programs that were measured, and of what the model chooses itself."""
CLEAR = 0.02
"""Ratios closer to 1 than this are within what two runs of the same programs differ by."""


_SEEN = (
    "`before` is the model that predicts with `host-before.yaml`, `now` the one that predicts with `host.yaml`, both",
    "files beside the tables. Times are of the code of now. Development pairs showed these causes, which are mended:",
    "",
    "- **Sums that were not in registers.** TVM takes memory of more than 1 KiB from a heap. Sums of a tile of more",
    "  than 16 vectors of 64 bytes were cleared, stored and read again at the end of each loop: 213 cycles for 28",
    "  vectors, and 85 since they are on the stack (`tuner/codegen/building.py`).",
    "- **The end of a loop** costs something for each vector of the register tile, not a constant, which a large tile",
    "  had set: next to nothing for 14 vectors. `loop_vector_cycles` is calibrated with tiles of two sizes.",
    "- **What is exposed of the shared cache** is a small difference of two long times, of which calibration took",
    "  medians: 3.64, 1.57 and 0.16 of the time of a stream in one night. The least times count now: 0.29.",
    "- **Ports of the first cache.** Loads and stores shared the rate of loads, where presets add up both; and two",
    "  loads and a store a cycle were assumed, where this core has one and half a one for vectors of 64 bytes. All are",
    "  measured.",
    "",
    "What stays unseen: ratios within 2 % of 1, where both sides have the same loops, and calls for the memory of",
    "buffers, its addresses and chance decide; a depthwise convolution in one kernel with what is in front of it",
    "copies that once more, to pad it, and is predicted to lose more by it than it does; phases of a kernel that use",
    "different ports overlap in the model, not in the core. Programs of a search may have sums in short serial loops,",
    "which compilers write out and keep in registers; they are predicted as if in memory (the first held-out pair: one",
    "kernel of the two by twice its time). Other programs used the caches while this was measured.",
    "",
)


def page(folder: Path = TABLES) -> str:
    """Return the page as Markdown, from the tables in ``folder``."""
    tables = {name: pd.read_csv(file) for name in SETS if (file := folder / f"{name}.csv").is_file()}
    every = pd.concat(tables.values())
    days = " and ".join(sorted({str(moment)[:10] for moment in every["measured_at"]}))
    facts = sorted({
        f"{row.processor}, {', '.join(f'{name} {number}' for name, number in json.loads(str(row.versions)).items())}"
        for row in every.itertuples()
    })  # fmt: skip
    trials = ", ".join(sorted({str(number) for number in every["trials"]}))
    return "\n".join([
        "# Does intensive fusion pay?",
        "",
        "Two complex operators in one kernel, against one kernel for each (AGO, INFOCOM '23, Fig. 13), measured.",
        "Pairs are drawn at random (`benchmarks/operator_pairs.py`); both sides are tuned with the same number of",
        f"trials ({trials} in all), then timed by turns on one thread, with the caches as the run before left them.",
        f"{'; '.join(facts)}; {days}.",
        "",
        "The ratio is the time of the one kernel by that of the two: below 1, fusion pays. It is predicted for the",
        "same programs, and for those that the model would choose itself. To regenerate this page:",
        "`python -m dsascape.experiments.papers.fusion_pays docs/fusion-pays.md`.",
        "",
        "## How often the model knows",
        "",
        f"Signs are those of all pairs, and of the clear ones, whose ratio differs from 1 by more than {CLEAR:.0%}.",
        "The rank correlation is Spearman's, of ratios. No held-out pair was looked at before the model was final.",
        "",
        _summary(tables),
        "",
        *_SEEN,
        *[line for name, table in tables.items() for line in _pairs(name, table)],
    ])


def _summary(tables: dict[str, pd.DataFrame]) -> str:
    rows: list[tuple[object, ...]] = []
    for name, table in tables.items():
        for label in labels(table):
            for of, text in ((SAME, "same programs"), (OWN, "its own choice")):
                rows.append((SETS[name], label, text, *_figures(table["ratio"], ratio(table, label, of))))
    return markdown(("pairs", "model", "predicted for", "number", "signs right", "clear", "signs right of clear",
                     "Spearman", "mean error of the ratio"), rows)  # fmt: skip


def labels(table: pd.DataFrame) -> list[str]:
    """Return the names of the models that have predicted a table, in order."""
    return [str(name).removesuffix(":fused_s") for name in table if str(name).endswith(":fused_s")]


def ratio(table: pd.DataFrame, label: str, of: str) -> "pd.Series[float]":
    """Return the predicted ratios of a model, for one of `SAME` and `OWN`."""
    return table[f"{label}:fused{of}_s"] / table[f"{label}:apart{of}_s"]


def _figures(measured: "pd.Series[float]", predicted: "pd.Series[float]") -> tuple[object, ...]:
    right = (measured < 1) == (predicted < 1)
    clear = (measured - 1).abs() > CLEAR
    error = (predicted / measured).map(lambda each: abs(math.log(each)))
    rank = spearman(list(predicted), list(measured)) or 0.0
    return (
        len(measured), f"{right.mean():.0%}", int(clear.sum()), f"{right[clear].mean():.0%}", f"{rank:.2f}",
        f"{math.exp(error.mean()) - 1:.1%}",
    )  # fmt: skip


def _pairs(name: str, table: pd.DataFrame) -> Iterator[str]:
    """Yield the lines on the pairs of one set."""
    paid = (table["ratio"] < 1).sum()
    yield from (f"## Pairs: {SETS[name]}", "", f"Fusion pays for {paid} of {count(len(table), 'pair')}.", "")
    own = labels(table)
    columns = ["first; second", "two [µs]", "one [µs]", "ratio", *own, *[f"{label}, own choice" for label in own]]
    rows = [
        (row["pair"], f"{row['apart_s'] * 1e6:.1f}", f"{row['fused_s'] * 1e6:.1f}", f"{row['ratio']:.3f}",
         *[f"{row[f'{label}:fused{of}_s'] / row[f'{label}:apart{of}_s']:.3f}" for of in (SAME, OWN) for label in own])
        for _, row in table.iterrows()
    ]  # fmt: skip
    yield from (markdown(tuple(columns), rows), "")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or print it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.md", help="default: print")
    parser.add_argument("--tables", type=Path, default=TABLES, metavar="DIR", help=f"default: {TABLES.name}")
    asked = parser.parse_args(argv)
    if asked.out is None:
        sys.stdout.write(page(asked.tables))
    else:
        asked.out.write_text(page(asked.tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
