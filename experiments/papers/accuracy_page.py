"""Page that says how accurate the simulator is, by kind of machine, and what has never been compared.

    python -m dsascape.experiments.papers.accuracy_page docs/accuracy.md

Measured tables are read (``experiments/measured``); what is held beside published figures is simulated, which takes a
few minutes.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.fusion_pays import OWN, SAME, ratio
from dsascape.experiments.papers.gemmini_layers import layers
from dsascape.experiments.papers.gpu_libraries import GPUS, KINDS, cases
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.pages import write_page
from dsascape.experiments.real.accuracy import mape, spearman
from dsascape.hw_models import load_hardware
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.scheduler import make_policy

MEASURED = Path(__file__).parents[1] / "measured"
_PAPER = Path(__file__).parent / "graphturbo" / "paper.yaml"
_HEADINGS = ("what is compared", "with what", "cases", "mean error", "bias", "rank correlation")
_POWER_HEADINGS = ("machine", "predicted [W]", "published [W]", "share", "what", "source")
_CALIBRATED_ON = "squeezenet"
"""Network whose kernels on a GPU have set a number of the model of generated code (`experiments.real.on_gpu`)."""
_LEAST_RANKED = 4
"""Cases below which a rank correlation says nothing."""

_INTRODUCTION = """# How accurate it is

Predicted figures beside measured and published ones, by kind of machine. The mean error is of absolute errors by the
true figure; bias is the geometric mean of predicted by true, less one; rank correlations are Spearman's. This page is
written from files in `experiments/measured` and `experiments/papers`, by

    python -m dsascape.experiments.papers.accuracy_page docs/accuracy.md
"""
_ON_CPUS = """Code that TVM generates from the same loops, on the processor that `dsascape calibrate` has described
with small kernels; no network has calibrated it. [Each network](measured.md), [each pair](fusion-pays.md).
"""
_SEEN = """The networks of these tables were looked at while the model was made, the held-out pairs only once, after
the model was final. Code and model have changed since these tables were measured; `dsascape run
experiments/measured/cpu.yaml` measures them again.
"""
_ON_OWN_GPU = """Generated code on an H100 ([each network](gpu.md)): FP32 on lanes, each run a CUDA graph, all results
correct. The code had been seen by no GPU before; what the first runs showed was mended in the code (copies that run
behind the threads, stores of four elements, no guards where zeros are added) and then in the model of the code (loads
of one element, instructions of addresses, which are counted in machine code). One number is set by times, those of
SqueezeNet, which is left out of the table: three cycles between instructions of a warp. These networks were looked at
meanwhile, so none of them is blind. Before all that, kernels were off by 64 % in the mean. What is left: kernels are
mostly predicted too short. Convolutions with windows took 2.5 times their prediction, and have been read in machine
code: guards around each sum made loads and multiply-accumulates wait for each other, which the code has no more
(ResNet-50 takes 0.56 of before), and bank conflicts had been hidden behind other pipes. They take 1.8 times what is
predicted now, with instructions as they are counted: of two such kernels a profiler finds 40 and 42 % of issue slots
and 55 and 49 % of the first cache busy. An SM holds one block of them, whose few warps copy, multiply and wait at a
barrier in step; the model has these overlap. Depthwise ones of MobileViT took up to 4.8 times, as each thread of a
warp read a line of its own, for which the cache takes a pass each (measured: 34 cycles for 32 lines); these passes
are in the model now, and threads lie along channels.
"""
_LIBRARIES = """[PyTorch's libraries](gpu-libraries.md) on an H100 and an H200, beside the presets of that name, in
which none of these figures has set anything. `bound` is the simulated latency, `expected` the one with the library
efficiency that the machine's file states. The H200 ran the same cases, and its comparison has changed nothing.
"""
_OF_LIBRARIES = """Large products in FP16 reach 635 to 675 TFLOPS at some 700 W, the power limit, with clocks of 1.29 to
1.40 GHz in place of 1.83; the model has no power limit, and expects 0.78 to 0.83 of the measured time. Large ones in
FP32 are mostly within 3 %; small ones take up to 2.8 times what is expected, and in 16 bits those of an odd depth (147,
777) 2.6 to 6.3 times. Softmax and transposition by PyTorch move less than half of what memory gives. Convolutional
networks take 2.5 times the simulated latency of one kernel an operator, and have not been looked at kernel by kernel.
Encoders are expected at 0.65 to 1.0 of what they take, prompts at 0.67 to 0.95, decoding at 0.58 to 0.79.
"""
_ON_GPUS = """`bound` is the simulated latency under `fixed-pattern`, `expected` the one with the library efficiency
that the machine's file states; it is the same where the file states none.
"""
_OF_GPUS = """TensorRT's kernels fuse attention and are launched as one graph. On phones the papers' baselines move
data in textures and launch far more kernels; the costs of these are not published, so that the order of networks is
right there and the level is not. A library efficiency of 0.89 for tensor units of A100 follows from one measured
product, that of memory from copies ([where numbers come from](sources.md#a100)); BERT has not been used.
"""
_OF_DSAS = """Two rows of GraphTurbo's table 1 have set the launch cost of `stcp920`; its table 2 has set nothing,
and its rows are looked at one by one in [GraphTurbo](graphturbo.md). Goya's clock, peak and memories are not
published, so its file is mostly assumed. Areas beside published dies are in
[machines](machine.md#clustered-scratchpad-accelerator).
"""
_ON_RTL = """`gemmini` with the memories of each measured machine runs 74 layers of BERT-base, ResNet-50, the head of
RetinaNet and U-Net one by one; `python -m dsascape.experiments.papers.gemmini_layers` prints each. No number is fitted
to them, but two things followed once they had been looked at. The file's DRAM went from the 16 bytes a cycle of the
system bus to the 8 that its sources have for DRAM, which took the mean error from 25 to 20 %. The array adds up over
input channels alone, one tap of a window at a time, as its source does (`sums_over: channels`), which took it to 19 %:
convolutions of three and of one channel, at 0.19 and 0.07 of RTL before, are at 0.98 and 0.33. What is left, as kinds:
results or inputs of few bytes a pixel move in requests of a bus width each (one channel of 570 x 570, 0.33; two
results of 388 x 388, 0.33); stores of results wait for accumulators that the next tile needs (convolutions of one
element whose results are large, 0.5 to 0.8); images of 4 x 4 (0.42 to 0.85), of which no cause has been found;
deep convolutions of large images with searched tiles take up to 1.9 times what Gemmini's own tiles take, which is the
mapping's doing.
"""
_ON_POWER = """Predicted power of ResNet-50 at batch 16 (10 on Goya) under `fixed-pattern`, energy by latency, beside
what the part is rated at or has been measured to take. A rating is a limit, not the power of this network. Far below
it, energy is missing from the model. On CPUs and GPUs executing an instruction (fetch, decode, rename, registers) has
energy of its own, derived from figures at 45 nm that others have published; before, the shares were 22 % on p100, 39 %
on v100, 42 % on a100, 35 % on h100, 36 % on h200 and 25 % on platinum_8124m. Still left out: clocks and leakage of
stalled cores, wide vector registers of CPUs, the network on chip, regulators, fans and boards.
"""
_POWERS_MEASURED = """Measured by the drivers' counters over a second of the same work ([each](gpu-libraries.md)),
predicted power is below: the share is in the mean of the cases. Reading and writing DRAM takes 140 pJ a byte beyond the
power of a busy clock, three times what the model counts; the on-chip network and clocks are what it lacks.
"""
_BLIND = """## Blind spots

- Real scratchpad accelerators: none was at hand.
- More than two threads, clocks that fall under load, and cores of several kinds: modelled, never measured.
- Mobile GPUs: no measurement; the level is off by a factor, see above.
- Energy: of GPUs only, and there predicted too low.
- GPUs other than H100 and H200, code for tensor units, power limits.
- Kernels of a CPU without an anchor are costed by rows. Over random programs errors are 140 to 217 %
  ([Ansor](ansor.md)), though programs that a search keeps are predicted as the tables above say.
"""


@dataclass(frozen=True, slots=True)
class Compared:
    """Predicted figures beside true ones."""

    what: str
    beside: str
    predicted: tuple[float, ...]
    true: tuple[float, ...]

    @property
    def row(self) -> tuple[object, ...]:
        """Row of a table: the two sides, the number of cases, mean error, bias, and Spearman's rank correlation.

        The mean error is that of absolute errors by the true figure; the bias is the geometric mean of the predicted by
        the true figures, less one.
        """
        logs = [math.log(p / t) for p, t in zip(self.predicted, self.true, strict=True)]
        bias = math.exp(sum(logs) / len(logs)) - 1
        ranks = spearman(list(self.predicted), list(self.true)) if len(logs) >= _LEAST_RANKED else None
        error = mape(list(self.predicted), list(self.true)) or 0.0
        shown = "" if ranks is None else f"{ranks:.2f}"
        return self.what, self.beside, len(logs), f"{error:.1%}", f"{bias:+.1%}", shown


def page() -> str:
    """Return the page as Markdown."""
    published: dict[str, Any] = read_yaml(MEASURED / "published.yaml")
    gpus = [each for each in published["latencies"] if each["hardware"] != "goya"]
    dsas = [each for each in published["latencies"] if each["hardware"] == "goya"]
    servers = [each for each in gpus if each["hardware"] == "a100"]
    phones = [each for each in gpus if each["hardware"] == "adreno650"]
    return "\n".join([
        _INTRODUCTION,
        "## CPUs, measured",
        "",
        _ON_CPUS,
        markdown(_HEADINGS, [each.row for each in measured_rows()]),
        "",
        _SEEN,
        "## GPUs, measured",
        "",
        _ON_OWN_GPU,
        markdown(_HEADINGS, [each.row for each in generated_rows()]),
        "",
        _LIBRARIES,
        markdown(_HEADINGS, [each.row for each in library_rows()]),
        "",
        _OF_LIBRARIES,
        "## GPUs, published",
        "",
        _ON_GPUS,
        markdown(_HEADINGS, [
            _published("A100, bound", "TensorRT demo/BERT", servers, "latency_s"),
            _published("A100, expected", "TensorRT demo/BERT", servers, "expected_latency_s"),
            _published("Adreno 650, bound", "DNNFusion's baselines", phones, "latency_s"),
        ]),
        "",
        _OF_GPUS,
        "## Scratchpads, published",
        "",
        markdown(_HEADINGS, [
            _tvm_on_stcp920(),
            _published("Goya, graphturbo", "the maker's figures", dsas, "latency_s"),
        ]),
        "",
        _OF_DSAS,
        "### RTL",
        "",
        markdown(_HEADINGS, _on_rtl()),
        "",
        _ON_RTL,
        "## Power",
        "",
        _ON_POWER,
        markdown(_POWER_HEADINGS, _powers(published["powers"])),
        "",
        _POWERS_MEASURED,
        markdown(("GPU", "what", "cases", "measured [W]", "share predicted"), _measured_powers()),
        "",
        "## What others say of themselves",
        "",
        markdown(("tool", "mean error", "of"), [tuple(each.values()) for each in published["peers"]]),
        "",
        _BLIND,
    ])  # fmt: skip


def measured_rows() -> list[Compared]:
    """Return comparisons with times measured on a CPU: kernels and networks by threads, then pairs of operators."""
    return [*_kernels(), *_networks(), *_fused()]


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
                rows.append(Compared(f"{what}, expected", "PyTorch", tuple(expected), measured))
    return rows


def _kernels() -> list[Compared]:
    table = pd.read_csv(MEASURED / "kernels.csv").dropna(subset=["measured_s", "predicted_s"])
    return [
        _of_table("kernels", own, "predicted_s", threads) for threads, own in table.groupby("tuning.threads", sort=True)
    ]


def _networks() -> list[Compared]:
    table = pd.read_csv(MEASURED / "results.csv").dropna(subset=["measured_s"])
    return [
        _of_table("networks", own, "latency_s", threads) for threads, own in table.groupby("tuning.threads", sort=True)
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


def _published(what: str, beside: str, cases: Sequence[dict[str, Any]], figure: str) -> tuple[object, ...]:
    found = [
        getattr(_record(each["model"], each["hardware"], each["batch"], each["dtype"], each["policy"]), figure)
        for each in cases
    ]
    return Compared(what, beside, tuple(found), tuple([each["seconds"] for each in cases])).row


def _record(model: str, hardware: str, batch: int, dtype: str | None = None, policy: str = "fixed-pattern") -> Any:
    return simulate(model, hardware, policy, batch=batch, dtype=dtype).record


def _tvm_on_stcp920() -> tuple[object, ...]:
    """Return the row on the throughputs of TVM that GraphTurbo's table 2 prints, at its batches per cluster."""
    ours, paper = [], []
    for each in read_yaml(_PAPER)["networks"].values():
        chosen = make_policy("fixed-pattern", {"batches_per_cluster": each["tvm"]})
        ours.append(simulate(each["model"], "stcp920", chosen, batch=each["batch"]).record.throughput_per_s)
        paper.append(each["tvm_per_s"])
    return Compared("STCP920, fixed-pattern", "TVM's throughput, GraphTurbo's table 2", tuple(ours), tuple(paper)).row


def _on_rtl() -> list[tuple[object, ...]]:
    """Return the rows on Gemmini's RTL: with the tiles of a search, and with those that its own library chooses."""
    all_layers = list(layers())
    ours = tuple([layer.predicted_cycles() for layer in all_layers])
    searched = tuple([float(layer.mapped_cycles) for layer in all_layers])
    own = tuple([float(layer.auto_cycles) for layer in all_layers])
    return [
        Compared("Gemmini, layers, fixed-pattern", "RTL with searched tiles, DOSA", ours, searched).row,
        Compared("Gemmini, layers, fixed-pattern", "RTL with its library's tiles, DOSA", ours, own).row,
    ]


def _powers(published: Sequence[dict[str, Any]]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for each in published:
        record = _record("resnet50", each["hardware"], 10 if each["hardware"] == "goya" else 16)
        watts = record.energy_j / record.latency_s
        name = load_hardware(each["hardware"]).name
        rows.append((name, f"{watts:.0f}", each["watts"], f"{watts / each['watts']:.0%}", each["is"], each["source"]))
    return rows


def _measured_powers() -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for gpu in GPUS:
        for kind in KINDS:
            own = [(each.watts, each.predicted_w) for each in cases(gpu) if each.kind == kind]
            measured = [watts for watts, _ in own if watts is not None]
            share = sum([predicted / watts for watts, predicted in own if watts]) / len(measured)
            watts_shown = f"{min(measured):.0f} to {max(measured):.0f}"
            rows.append((gpu.upper(), kind, len(measured), watts_shown, f"{share:.0%}"))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or print it; return the exit code."""
    return write_page(page, (__doc__ or "").partition("\n")[0], argv)


if __name__ == "__main__":
    sys.exit(main())
