"""Page that says how accurate the simulator is, by kind of machine, and what has never been compared.

    python -m dsascape.experiments.papers.accuracy_page docs/accuracy.md

Measured tables are read (``experiments/measured``); what is held beside published figures is simulated, which takes a
few minutes.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from dsascape.experiments.api import simulate
from dsascape.experiments.papers import accuracy_texts as texts
from dsascape.experiments.papers.accuracy_cpus import (
    epyc_rows,
    measured_rows,
    newer_cpu_rows,
    published_cpu_rows,
    server_rows,
)
from dsascape.experiments.papers.comparisons import MEASURED, Compared
from dsascape.experiments.papers.cpu_efficiencies import fitted
from dsascape.experiments.papers.gemmini_layers import layers
from dsascape.experiments.papers.gpu_kernels import BLIND, DEVELOPMENT, groups
from dsascape.experiments.papers.gpu_libraries import GPUS, KINDS, PRODUCTS, cases
from dsascape.experiments.papers.gpu_published import EAGER, FED, Case, Published
from dsascape.experiments.papers.gpu_published import cases as published_cases
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.mobile_efficiencies import MOBILE_KINDS, recorded_mobile
from dsascape.experiments.papers.nvdla_sizes import sizes
from dsascape.experiments.papers.pages import write_page
from dsascape.experiments.papers.power_tables import power_tables
from dsascape.experiments.papers.rooflines import roofline_s
from dsascape.hw_models import load_hardware
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.scheduler import make_policy
from dsascape.workloads import load_network

_PAPER = Path(__file__).parent / "graphturbo" / "paper.yaml"
_HEADINGS = ("what is compared", "with what", "cases", "mean error", "bias", "rank correlation")
_PUBLISHED_HEADINGS = (*_HEADINGS, "roofline")
_MEASURED_POWER_HEADINGS = "GPU", "what", "cases", "measured [W]", "of the power", "of the energy"
_POWER_HEADINGS = ("machine", "predicted [W]", "published [W]", "share", "what", "source")
_CALIBRATED_ON = "squeezenet"
"""Network whose kernels on a GPU have set a number of the model of generated code (`experiments.real.on_gpu`)."""
_SMALL_BATCH = 32
"""Largest batch at which PyTorch without graphs may wait for the host."""
_SET = "h100", PRODUCTS, "fp16"
"""GPU, kind and dtype of the cases of libraries that have set a number of expected latencies."""

_ON_CPUS = """Code that TVM generates from the same loops, on the processor that `dsascape calibrate` has described
with small kernels; no network has calibrated it. [Each network](measured.md), [each pair](fusion-pays.md).
"""
_ON_GPUS = """`bound` is the simulated latency under `fixed-pattern`, `expected` the one with the library efficiency
that the machine's file states; it is the same where the file states none.
"""
_LOOKED_AT = ("bert-base", "resnet50")
_PHONES = ("adreno640", "adreno650", "ncnn with Vulkan"), ("adreno650", "adreno640", "DNNFusion's OurB+")
"""Development device, the other one, and whose times."""


def page() -> str:
    """Return the page as Markdown."""
    published: dict[str, Any] = read_yaml(MEASURED / "published.yaml")
    gpus = [each for each in published["latencies"] if each["hardware"] != "goya"]
    dsas = [each for each in published["latencies"] if each["hardware"] == "goya"]
    servers = [each for each in gpus if each["hardware"] == "a100"]
    phones = [each for each in gpus if each["hardware"] == "adreno650"]
    parts, measured_parts = power_tables(published["powers_by_part"])
    return "\n".join([
        texts.INTRODUCTION,
        "## CPUs, measured",
        "",
        _ON_CPUS,
        markdown(_HEADINGS, [each.row for each in measured_rows()]),
        "",
        texts.SEEN,
        texts.ON_EPYC,
        markdown(_HEADINGS, [each.row for each in epyc_rows()]),
        "",
        texts.ON_SERVER,
        markdown(_HEADINGS, [each.row for each in server_rows()]),
        "",
        texts.OF_SERVER,
        "## CPUs, published",
        "",
        texts.ON_PUBLISHED_CPUS,
        markdown(_PUBLISHED_HEADINGS, [each.row_by_roofline for each in published_cpu_rows()]),
        "",
        texts.OF_PUBLISHED_CPUS,
        texts.OF_SERVERS,
        texts.ON_NEWER_CPUS,
        markdown(_PUBLISHED_HEADINGS, [each.row_by_roofline for each in newer_cpu_rows()]),
        "",
        texts.OF_NEWER_CPUS,
        "## GPUs, measured",
        "",
        texts.ON_OWN_GPU,
        markdown(_HEADINGS, [each.row for each in generated_rows()]),
        "",
        texts.LIBRARIES,
        markdown(_HEADINGS, [each.row for each in library_rows()]),
        "",
        texts.OF_LIBRARIES,
        "## GPUs, published",
        "",
        _ON_GPUS,
        markdown(_PUBLISHED_HEADINGS, [
            _published("A100, bound", "TensorRT demo/BERT", servers, "latency_s"),
            _published("A100, expected", "TensorRT demo/BERT", servers, "expected_latency_s"),
            _published("Adreno 650, bound", "DNNFusion's baselines", phones, "latency_s"),
            *[each.row for each in phone_rows()],
        ]),
        "",
        texts.OF_GPUS,
        texts.BY_CARD,
        markdown(_PUBLISHED_HEADINGS, [each.row_by_roofline for each in card_rows()]),
        "",
        texts.OF_CARDS,
        texts.SINGLE_KERNELS,
        markdown(_PUBLISHED_HEADINGS, [each.row_by_roofline for each in single_kernel_rows()]),
        "",
        texts.OF_SINGLE_KERNELS,
        "## Scratchpads, published",
        "",
        markdown(_PUBLISHED_HEADINGS, [
            _tvm_on_stcp920(),
            _published("Goya, graphturbo", "the maker's figures", dsas, "latency_s"),
            _sizes_of_nvdla(),
        ]),
        "",
        texts.OF_DSAS,
        "### RTL",
        "",
        texts.BEFORE_RTL,
        markdown(_HEADINGS, _on_rtl()),
        "",
        texts.ON_RTL,
        "## Power",
        "",
        texts.PARTS,
        parts,
        "",
        texts.OF_PARTS,
        measured_parts,
        "",
        texts.OF_MEASURED_PARTS,
        texts.ON_POWER,
        markdown(_POWER_HEADINGS, _powers(published["powers"])),
        "",
        texts.POWERS_MEASURED,
        markdown(_MEASURED_POWER_HEADINGS, _measured_powers()),
        "",
        "## What others say of themselves",
        "",
        markdown(("tool", "mean error", "of"), [tuple(each.values()) for each in published["peers"]]),
        "",
        texts.BLIND,
    ])  # fmt: skip


def generated_rows() -> list[Compared]:
    """Return comparisons of generated code on a GPU: kernels and networks by policy."""
    kernels = pd.read_csv(MEASURED / "gpu" / "kernels.csv").dropna(subset=["measured_s", "predicted_s"])
    networks = pd.read_csv(MEASURED / "gpu" / "results.csv").dropna(subset=["measured_s"])
    kernels, networks = [each[each["model"] != _CALIBRATED_ON] for each in (kernels, networks)]
    return [
        Compared(f"{what}, {policy}", "generated code, H100", tuple(own[predicted]), tuple(own["measured_s"]))
        for what, table, predicted in (("kernels", kernels, "predicted_s"), ("networks", networks, "latency_s"))
        for policy, own in table.groupby("policy", sort=True)
    ]


def library_rows() -> list[Compared]:
    """Return comparisons with libraries on GPUs, by kind of work and dtype: the bound, then what is expected."""
    rows = []
    for gpu in GPUS:
        for kind in KINDS:
            found = [each for each in cases(gpu) if each.kind == kind]
            for dtype in dict.fromkeys(each.dtype for each in found):
                own = [each for each in found if each.dtype == dtype]
                measured = tuple([each.seconds for each in own])
                what = f"{gpu.upper()}, {kind} in {dtype}"
                bound, expected = [each.bound_s for each in own], [each.expected_s for each in own]
                rows.append(Compared(f"{what}, bound", "PyTorch", tuple(bound), measured))
                if (gpu, kind, dtype) != _SET:
                    rows.append(Compared(f"{what}, expected", "PyTorch", tuple(expected), measured))
    return rows


def card_rows() -> list[Compared]:
    """Return comparisons with published inference: bound and expected by card, then what is expected by runtime."""
    by_card: dict[str, list[Case]] = {}
    by_runtime: dict[str, list[Case]] = {}
    for each in published_cases():
        of = each.published
        most = _SMALL_BATCH if of.runtime == EAGER else 1
        batches = f"batches beyond {most}" if of.batch > most else "batch 1" if most == 1 else f"batches up to {most}"
        by_runtime.setdefault(f"{of.runtime}, {batches}", []).append(each)
        if of.runtime != FED and not (of.runtime == EAGER and of.batch <= most):
            by_card.setdefault(of.card.upper().replace("_", " "), []).append(each)
    rows = []
    for card, own in by_card.items():
        runtimes = ", ".join(dict.fromkeys([each.published.runtime for each in own]))
        rows += [_card_row(f"{card}, {figure}", runtimes, own, figure) for figure in ("bound", "expected")]
    rows += [_card_row("all cards, expected", name, own, "expected") for name, own in sorted(by_runtime.items())]
    return rows


def _card_row(what: str, beside: str, own: Sequence[Case], figure: str) -> Compared:
    predicted = tuple([each.bound_s if figure == "bound" else each.expected_s for each in own])
    least = tuple([_card_roofline_s(each.published) for each in own])
    return Compared(what, beside, predicted, tuple([each.published.seconds for each in own]), least)


@cache
def _card_roofline_s(of: Published) -> float:
    return roofline_s(of.graph.with_batch(of.batch), of.machine, of.dtype)


def single_kernel_rows() -> list[Compared]:
    """Return expected latencies beside published ones of single kernels, by half of the cards and kind."""
    rows = []
    for half, cards in (("development", DEVELOPMENT), ("blind", BLIND)):
        on = f"PyTorch, {', '.join(cards)}"
        for (group, card), own in sorted(groups(half).items()):
            if card == "all":
                expected = tuple([each.expected_ms for each in own])
                true = tuple([each.measured.milliseconds for each in own])
                least = [
                    1e3 * roofline_s(each.measured.graph, load_hardware(each.measured.card), "fp32") for each in own
                ]  # fmt: skip
                rows.append(Compared(f"{group}, {half}, expected", on, expected, true, tuple(least)))
    return rows


def phone_rows() -> Iterator[Compared]:
    """Yield the comparisons on the development GPUs of phones, and each by what the other one gives."""
    rows = recorded_mobile()
    both = fitted(rows, MOBILE_KINDS)
    for device, other, beside in _PHONES:
        own = [row for row in rows if row.device == device]
        times = tuple([row.ms for row in own])
        given = fitted([row for row in rows if row.device == other], MOBILE_KINDS)
        name = load_hardware(device).name
        found = (
            ("development, bound", dict.fromkeys(MOBILE_KINDS, 1.0)), ("development, expected", both),
            (f"by {other} alone", given),
        )  # fmt: skip
        for what, shares in found:
            yield Compared(f"{name}, {what}", beside, tuple([row.expected_ms(shares) for row in own]), times)


def _published(what: str, beside: str, cases: Sequence[dict[str, Any]], figure: str) -> tuple[object, ...]:
    found = [
        getattr(_record(each["model"], each["hardware"], each["batch"], each["dtype"], each["policy"]), figure)
        for each in cases
    ]
    least = [
        roofline_s(
            load_network(each["model"]).with_batch(each["batch"]), load_hardware(each["hardware"]), each["dtype"]
        )
        for each in cases
    ]  # fmt: skip
    true = tuple([each["seconds"] for each in cases])
    return Compared(what, beside, tuple(found), true, tuple(least)).row_by_roofline


def _record(model: str, hardware: str, batch: int, dtype: str | None = None, policy: str = "fixed-pattern") -> Any:
    return simulate(model, hardware, policy, batch=batch, dtype=dtype).record


def _tvm_on_stcp920() -> tuple[object, ...]:
    """Return the row on the throughputs of TVM that GraphTurbo's table 2 prints, at its batches per cluster."""
    ours, paper, least = [], [], []
    machine = load_hardware("stcp920")
    for each in read_yaml(_PAPER)["networks"].values():
        chosen = make_policy("fixed-pattern", {"batches_per_cluster": each["tvm"]})
        ours.append(simulate(each["model"], "stcp920", chosen, batch=each["batch"]).record.throughput_per_s)
        paper.append(each["tvm_per_s"])
        graph = load_network(each["model"]).with_batch(each["batch"])
        least.append(each["batch"] / roofline_s(graph, machine, "fp16"))
    beside = "TVM's throughput, GraphTurbo's table 2"
    return Compared("STCP920, fixed-pattern", beside, tuple(ours), tuple(paper), tuple(least)).row_by_roofline


def _sizes_of_nvdla() -> tuple[object, ...]:
    """Return the row on ResNet-50 on NVDLA from 64 to 2,048 multipliers."""
    every = list(sizes())
    ours, theirs = [size.predicted_frames_per_s() for size in every], [size.frames_per_s for size in every]
    least = tuple([1 / roofline_s(load_network("resnet50"), size.machine, "int8") for size in every])
    beside = "its makers' estimates"
    return Compared("NVDLA, five sizes, fixed-pattern", beside, tuple(ours), tuple(theirs), least).row_by_roofline


def _on_rtl() -> list[tuple[object, ...]]:
    """Return the rows on Gemmini's RTL, none blind: searched tiles, its library's, our own beside searched ones."""
    looked_at = [layer for layer in layers() if layer.network in _LOOKED_AT]
    seen = [layer for layer in layers() if layer.network not in _LOOKED_AT]
    rows = []
    for what, chosen in (
        ("developed on BERT, ResNet-50", looked_at), ("seen before, RetinaNet, U-Net", seen), ("all", looked_at + seen),
    ):
        searched = tuple([float(layer.mapped_cycles) for layer in chosen])
        library = tuple([float(layer.auto_cycles) for layer in chosen])
        same = tuple([layer.predicted_cycles(layer.mapped_tile) for layer in chosen])
        same_as_library = tuple([layer.predicted_cycles(layer.auto_tile) for layer in chosen])
        ours = tuple([layer.predicted_cycles(None) for layer in chosen])
        rows += [
            Compared(f"Gemmini, {what}, searched tiles", "RTL with the same tiles, DOSA", same, searched).row,
            Compared(f"Gemmini, {what}, its library's tiles", "RTL with the same tiles", same_as_library, library).row,
            Compared(f"Gemmini, {what}, our tiles", "RTL with searched tiles", ours, searched).row,
        ]
    return rows


def _powers(published: Sequence[dict[str, Any]]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for each in published:
        record = _record("resnet50", each["hardware"], 16)
        watts = record.energy_j / record.latency_s
        name = load_hardware(each["hardware"]).name
        rows.append((name, f"{watts:.0f}", each["watts"], f"{watts / each['watts']:.0%}", each["is"], each["source"]))
    return rows


def _measured_powers() -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for gpu in GPUS:
        for kind in KINDS:
            own = [each for each in cases(gpu) if each.kind == kind]
            measured = [each.watts for each in own if each.watts is not None]
            of_power = fmean([each.predicted_w / each.watts for each in own if each.watts])
            of_energy = fmean([each.expected_j / each.joules for each in own if each.joules])
            watts_shown = f"{min(measured):.0f} to {max(measured):.0f}"
            rows.append((gpu.upper(), kind, len(measured), watts_shown, f"{of_power:.0%}", f"{of_energy:.0%}"))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or print it; return the exit code."""
    return write_page(page, (__doc__ or "").partition("\n")[0], argv)


if __name__ == "__main__":
    sys.exit(main())
