"""Rows of the page on accuracy about CPUs: measured ones, and those whose times others have published."""

from functools import cache
from pathlib import Path

import pandas as pd

from dsascape.experiments.papers.comparisons import MEASURED, Compared
from dsascape.experiments.papers.fusion_pays import OWN, SAME, ratio
from dsascape.experiments.papers.published_cpus import USES, PublishedCase, compared, predicted
from dsascape.experiments.papers.published_newer import NewerCase, predicted_newer, published_newer
from dsascape.experiments.papers.rooflines import roofline_s
from dsascape.experiments.real.on_processor import ELSEWHERE
from dsascape.hw_models import Cpu, load_hardware
from dsascape.hw_models.machine_files.load import with_values
from dsascape.workloads import load_network

_CPU_LIBRARIES = tuple([
    (library, name, name == "one thread") for library in ("ncnn", "XNNPACK") for name in ("one thread", "more threads")
])
_THREADS = "tuning.threads"


def measured_rows() -> list[Compared]:
    """Return comparisons with times measured on a CPU: kernels and networks by threads, then pairs of operators."""
    return [*_by_threads(MEASURED), *_fused()]


def epyc_rows() -> list[Compared]:
    """Return comparisons on an EPYC by threads; networks on several by whether cores lay where they were calibrated."""
    table = pd.read_csv(MEASURED / "epyc" / "results.csv").dropna(subset=["measured_s", "latency_s"])
    moved = table["warnings"].fillna("").str.contains(ELSEWHERE, regex=False)
    rows = _by_threads(MEASURED / "epyc")
    rows = [each for each in rows if each.what != "networks" or each.beside.endswith("thread")]
    for what, is_moved in (("networks, cores as calibrated", False), ("networks, cores elsewhere", True)):
        own = table[(table[_THREADS] > 1) & (moved == is_moved)]
        rows += [_of_table(what, each, "latency_s", threads) for threads, each in own.groupby(_THREADS)]
    return rows


def server_rows() -> list[Compared]:
    """Return comparisons on a server: kernels and networks, by threads."""
    return _by_threads(MEASURED / "server")


def published_cpu_rows() -> list[Compared]:
    """Return comparisons with published times on CPUs: bounds, and of devices held out what is expected."""
    ours = predicted()
    rows = []
    for use, figures in (("development", ("bound",)), ("held-out", ("bound", "expected"))):
        for library, name, is_single in _CPU_LIBRARIES:
            own = [c for c in compared() if (c.use, c.library, c.threads == 1) == (use, library, is_single)]
            for at, figure in enumerate(figures if own else ()):
                found = tuple([ours[each.key][at] for each in own])
                true, least = tuple([each.ms for each in own]), tuple([_roofline_ms(each) for each in own])
                rows.append(Compared(f"{use.replace('-', ' ')}, {name}, {figure}", library, found, true, least))
    return rows


def newer_cpu_rows() -> list[Compared]:
    """Return comparisons with published times on CPUs in FP16 and INT8, by device: bounds, and what is expected."""
    ours, rows = predicted_newer(), []
    for use in USES:
        cases = [case for case in published_newer() if case.use == use and case.key in ours]
        for dtype, device in sorted({(case.dtype, case.device) for case in cases}):
            own = [case for case in cases if (case.dtype, case.device) == (dtype, device)]
            for at, figure in enumerate(("bound", "expected")):
                found = tuple([ours[each.key][at] for each in own])
                what = f"{use.replace('-', ' ')}, {device}, {dtype.upper()}, {figure}"
                true, least = tuple([each.ms for each in own]), tuple([_newer_roofline_ms(each) for each in own])
                rows.append(Compared(what, "ncnn", found, true, least))
    return rows


@cache
def _roofline_ms(case: PublishedCase) -> float:
    machine = load_hardware(case.device, Cpu)
    return 1e3 * roofline_s(load_network(case.network), machine, "fp32", case.threads)


def _newer_roofline_ms(case: NewerCase) -> float:
    machine = with_values(load_hardware(case.device, Cpu), case.values)
    return 1e3 * roofline_s(load_network(case.network), machine, case.dtype, case.threads)


def _by_threads(folder: Path) -> list[Compared]:
    """Return comparisons of the kernels, then of the networks in a folder's tables, by threads."""
    kinds = ("kernels", "kernels.csv", "predicted_s"), ("networks", "results.csv", "latency_s")
    return [
        _of_table(what, own, predicted, threads)
        for what, file, predicted in kinds
        for threads, own in pd.read_csv(folder / file).dropna(subset=["measured_s", predicted]).groupby(_THREADS)
    ]


def _of_table(what: str, table: pd.DataFrame, predicted: str, threads: object) -> Compared:
    on = f"measured on {threads} thread{'' if threads == 1 else 's'}"
    return Compared(what, on, tuple(table[predicted]), tuple(table["measured_s"]))


def _fused() -> list[Compared]:
    table = pd.read_csv(MEASURED / "fusion" / "held-out.csv")
    rows = (("the same programs", SAME), ("the model's own choice", OWN))
    measured = tuple(table["ratio"])
    return [
        Compared(f"one kernel by two, {name}", "measured, held-out pairs", tuple(ratio(table, "now", of)), measured)
        for name, of in rows
    ]
