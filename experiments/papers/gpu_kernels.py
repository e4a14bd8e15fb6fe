"""Single kernels of PyTorch on GPUs that others have measured, beside the same operators simulated.

    python -m dsascape.experiments.papers.gpu_kernels {development,blind,both} [OUT.md]

Times are in ``gpus/kernels.csv``, what they are and how they were chosen in ``gpus/kernels.yaml``. Cards are split by
name: what is seen on those of `DEVELOPMENT` may change the model, those of `BLIND` only judge it. Each operator is
simulated under ``eager`` in FP32, one kernel for each function that PyTorch calls.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pandas as pd

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.pages import write_page
from dsascape.experiments.real.accuracy import mape, spearman
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.workloads import Graph
from dsascape.workloads.single_operators import SingleOperator, single_operator

FOLDER = Path(__file__).parent / "gpus"
DEVELOPMENT = "p100_pcie", "t4", "a100_pcie_40gb"
BLIND = "p4", "v100_pcie", "a100_pcie_80gb", "l4", "h100"
HALVES = {"development": DEVELOPMENT, "blind": BLIND, "both": (*DEVELOPMENT, *BLIND)}
"""Presets of the cards of each half."""
SHORT_MS = 0.2
"""Time below which a case stands apart: events around a call hold some 0.02 to 0.04 ms of the host."""
_ELEMENTWISE = {"add": "Add", "add-constant": "Add", "relu": "Relu", "tanh": "Tanh"}
_HEADINGS = ("card", "operator", "batch", "rows", "depth", "columns", "measured [ms]", "bound", "expected")
_SUMMARY = ("operators", "card", "cases", "bound: mean error", "bias", "expected: mean error", "bias", "rank")


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured operator; ``batch`` and ``depth`` are None where it has none."""

    card: str
    operator: str
    batch: int | None
    rows: int
    depth: int | None
    columns: int
    milliseconds: float

    @property
    def kind(self) -> str:
        """Name of the operators that stand together in a table."""
        kind = {"linear": "products", "bmm": "batched products"}.get(self.operator, self.operator)
        return "elementwise" if self.operator in _ELEMENTWISE else kind

    @property
    def group(self) -> str:
        """`kind`, or what sets the case apart."""
        return f"below {SHORT_MS} ms" if self.milliseconds < SHORT_MS else self.kind

    @property
    def graph(self) -> Graph:
        """Network of this operator."""
        matrix = self.rows, self.columns
        attributes: dict[str, Any] = {}
        weights: tuple[tuple[int, ...], ...] = ()
        inputs: tuple[tuple[int, ...], ...] = (matrix,)
        if self.depth is not None:
            of_batch = () if self.batch is None else (self.batch,)
            op, inputs = "MatMul", ((*of_batch, self.rows, self.depth), (*of_batch, self.depth, self.columns))
        elif self.operator == "softmax":
            op, attributes = "Softmax", {"axis": -1}
        elif self.operator == "layernorm":
            op, weights, attributes = "LayerNormalization", ((self.columns,), (self.columns,)), {"axis": -1}
        else:
            op = _ELEMENTWISE[self.operator]
            inputs = (matrix, matrix) if self.operator == "add" else inputs
            weights = ((1,),) if self.operator == "add-constant" else ()
        return single_operator(SingleOperator(self.operator, op, inputs, weights, attributes))


@dataclass(frozen=True, slots=True)
class Case:
    """A measured operator and its simulated milliseconds."""

    measured: Measured
    bound_ms: float
    expected_ms: float


def measured(cards: Sequence[str]) -> Iterator[Measured]:
    """Yield the measured operators of cards, in the order of the file."""
    for each in pd.read_csv(FOLDER / "kernels.csv").to_dict("records"):
        if each["card"] not in cards:
            continue
        batch, depth = [None if pd.isna(each[key]) else int(each[key]) for key in ("batch", "depth")]
        yield Measured(each["card"], each["operator"], batch, each["rows"], depth, each["columns"], each["ms"])


@cache
def cases(half: str) -> tuple[Case, ...]:
    """Return the cases of a half of the cards, simulated on all processors."""
    with ProcessPoolExecutor() as pool:
        return tuple(pool.map(simulated, measured(HALVES[half]), chunksize=8))


def simulated(each: Measured) -> Case:
    """Return a measured operator with the simulated times of the same work."""
    record = simulate(each.graph, each.card, "eager", dtype="fp32").record
    return Case(each, 1e3 * record.latency_s, 1e3 * record.expected_latency_s)


def groups(half: str) -> dict[tuple[str, str], list[Case]]:
    """Return the cases of a half by group and card; card "all" has those of all its cards."""
    found: dict[tuple[str, str], list[Case]] = {}
    for each in cases(half):
        for card in ("all", each.measured.card):
            found.setdefault((each.measured.group, card), []).append(each)
    return found


def figures(predicted: Sequence[float], true: Sequence[float]) -> tuple[str, str, str]:
    """Return mean absolute error, bias (geometric mean of predicted by true, less one), rank correlation, as text."""
    bias = geometric_mean([each / other for each, other in zip(predicted, true, strict=True)]) - 1
    ranks = spearman(predicted, true)
    return f"{mape(predicted, true):.1%}", f"{bias:+.1%}", "" if ranks is None else f"{ranks:.2f}"


def page(half: str) -> str:
    """Return the page of a half of the cards as Markdown."""
    of_all = read_yaml(FOLDER / "kernels.yaml")
    lines = [
        "# Single kernels of GPUs",
        "",
        *(__doc__ or "").partition("\n\n")[2].strip().partition("\n\n")[2].splitlines(),
        "",
        *[f"- {key}: {text}" for key, text in of_all.items()],
        "",
    ]
    for part in ("development", "blind") if half == "both" else (half,):
        lines += [f"## Cards of the {part} half: {', '.join(HALVES[part])}", "", *_tables(part)]
    return "\n".join(lines)


def _tables(half: str) -> Iterator[str]:
    rows = []
    for (group, card), found in sorted(groups(half).items()):
        true = [each.measured.milliseconds for each in found]
        of_bound, of_expected = [each.bound_ms for each in found], [each.expected_ms for each in found]
        rows.append((group, card, len(found), *figures(of_bound, true)[:2], *figures(of_expected, true)))
    yield markdown(_SUMMARY, rows)
    yield ""
    yield "`bound` and `expected` are simulated times by the measured one."
    yield ""
    yield markdown(_HEADINGS, [
        (
            (of := each.measured).card, of.operator, of.batch or "", of.rows, of.depth or "", of.columns,
            f"{of.milliseconds:,.3f}", f"{each.bound_ms / of.milliseconds:.2f}",
            f"{each.expected_ms / of.milliseconds:.2f}",
        )
        for each in cases(half)
    ])  # fmt: skip
    yield ""


def main(argv: list[str] | None = None) -> int:
    """Write the page, or print it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("half", choices=tuple(HALVES))
    given, rest = parser.parse_known_args(argv)
    return write_page(partial(page, given.half), None, rest)


if __name__ == "__main__":
    sys.exit(main())
