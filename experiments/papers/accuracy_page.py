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
from statistics import fmean
from typing import Any

import pandas as pd

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.fusion_pays import OWN, SAME, ratio
from dsascape.experiments.papers.gemmini_layers import layers
from dsascape.experiments.papers.gpu_libraries import GPUS, KINDS, PRODUCTS, cases
from dsascape.experiments.papers.gpu_published import EAGER, FED, Case
from dsascape.experiments.papers.gpu_published import cases as published_cases
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.nvdla_sizes import sizes
from dsascape.experiments.papers.pages import write_page
from dsascape.experiments.papers.power_tables import power_tables
from dsascape.experiments.papers.published_cpus import predicted, published
from dsascape.experiments.real.accuracy import mape, spearman
from dsascape.hw_models import load_hardware
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.scheduler import make_policy

MEASURED = Path(__file__).parents[1] / "measured"
_PAPER = Path(__file__).parent / "graphturbo" / "paper.yaml"
_HEADINGS = ("what is compared", "with what", "cases", "mean error", "bias", "rank correlation")
_MEASURED_POWER_HEADINGS = "GPU", "what", "cases", "measured [W]", "of the power", "of the energy"
_POWER_HEADINGS = ("machine", "predicted [W]", "published [W]", "share", "what", "source")
_CALIBRATED_ON = "squeezenet"
"""Network whose kernels on a GPU have set a number of the model of generated code (`experiments.real.on_gpu`)."""
_SMALL_BATCH = 32
"""Largest batch at which PyTorch without graphs may wait for the host."""
_CPU_LIBRARIES = tuple([
    (library, name, name == "one thread") for library in ("ncnn", "XNNPACK") for name in ("one thread", "more threads")
])
_THREADS = "tuning.threads"
_SET = "h100", PRODUCTS, "fp16"
"""GPU, kind and dtype of the cases of libraries that have set a number of expected latencies."""
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
_ON_PUBLISHED_CPUS = """Networks in FP32 at batch 1 on phones and boards, as the makers of two libraries have published
them, beside `fixed-pattern` with Winograd where it pays. Devices were split by name into those for development
(Snapdragon 410, 810 and 835, Raspberry Pi 4) and blind ones (Kirin 970, Snapdragon 660, RK3399, Raspberry Pi 3B+), that
were simulated once, when the model was final; one network had been simulated on the Raspberry Pi 3B+ before, and the
tables had been read when they were copied. Kinds of cores are mostly in both parts. `expected` has the library
efficiency that the presets state: 0.78 for cores in order and 0.55 out of order, for all kinds of kernels alike, which
one thread of the development devices has set. That phones' clocks fall with cores at work only, to 0.85 of the highest
in place of 0.85 always, was decided when Snapdragon 835 gained too much from four threads. So only blind rows judge.
`python -m dsascape.experiments.papers.published_cpus blind` simulates them again.
"""
_OF_PUBLISHED_CPUS = """Threads gain about what is published: 2.9 times on the four fast cores of Kirin 970 (3.1
published, in the geometric mean of the networks), 2.5 on all eight of Snapdragon 660 (2.3), 1.65 on the two of RK3399
(1.61). The bound is half of what ncnn takes, and XNNPACK reaches more of it, 0.7 on one core of Snapdragon 835. What is
left: VGG-16 mostly comes out slower than expected, by up to 1.5 times on several threads, EfficientNet and SqueezeNet
at 0.7 to 0.9; the causes have not been looked for. Raspberry Pis ran 32-bit code of 16 registers, but are described
with 64-bit code of 32: the 3B+ is expected at 0.36 to 1.1 of ncnn, an older version there. There are no
rows for INT8: kernels without dot products, as these cores need, are not modelled.
"""
_ON_SERVER = """[A second processor](server.md), on one to eight threads: virtual cores of a rented Emerald Rapids
server. Six networks that are not in the zoo and that nobody had looked at, ten plans; the code was built elsewhere, for
eight threads, ran there for the first time, and is right throughout. Tiles and model were final before. What SqueezeNet
and ResNet-18 had shown there, which are not in this table, was mended in `calibrate` (small differences are measured by
turns, split loops and clocks by the number of threads). The clocks on two to eight threads are those of readings beside
the kernels, a split loop on two threads was measured on another machine of the kind, and all else is `calibrate`'s.
"""
_OF_SERVER = """On one thread networks are off by 7.5 % in the mean, and kernels by 16.5; on more, predictions are
too short. The machine's speed changes by the second: multiply-accumulates in registers take 180 ps on one thread, and
205 or 370 on the slowest of eight. That does not explain it: divided by [the pace of the
moment](measure.md#on-a-virtual-machine-whose-speed-changes), networks are off by 5, 16, 16 and 23 %. Scaling is uneven
in itself: two threads make GPT-2's block 2.1 times as fast and ViT-Ti 1.1 times, with code of the same kind; of that no
cause has been found. On one thread, concatenations take 2.6 times what is predicted, those of few channels most, and
products with a factor behind them (attention's scores) 1.5 times. Of 16 choices between two plans 14 are right; the
others lose 9.9 and 19.4 %, the second between runs of which one had the faster moment. PyTorch 2.11 (oneDNN; traced and
frozen) takes 4.1, 2.4, 0.9, 3.3 and 1.5 times as long as `fixed-pattern` on one thread for GhostNet, GoogLeNet, GPT-2's
block, MobileNetV3 and RegNetX, and 4.7, 3.9, 0.9, 5.7 and 2.8 times on eight; ViT-Ti was not timed.
"""
_ON_OWN_GPU = """Generated code on an H100 ([each network](gpu.md)): FP32 on lanes, each run a CUDA graph, all results
correct. The code had been seen by no GPU before; what the first runs showed was mended in the code (copies that run
behind the threads, stores of four elements, no guards where zeros are added) and then in the model of the code (loads
of one element, instructions of addresses, which are counted in machine code). One number is set by times, those of
SqueezeNet, which is left out of the table: three cycles between instructions of a warp. These networks were looked at
meanwhile, so none of them is blind. Before all that, kernels were off by 64 % in the mean. In every network the plan
that is predicted to be the fastest is the fastest. What is left: kernels are mostly predicted too short. Convolutions
with windows take some 2.5 times their prediction, whose addresses and guards cost more than is counted, and depthwise
ones of MobileViT up to 4.8 times, of which no cause has been found.
"""
_LIBRARIES = """[PyTorch's libraries](gpu-libraries.md) on an H100 and an H200, beside the presets of that name.
`bound` is the simulated latency, `expected` the one with the library efficiency that the machine's file states, and
products as a library's kernels compute them (`scheduler.gpu.library`). Products in FP16 on the H100 have set one number
of that, the trips to memory of a kernel, and are left out of what is expected. A profile of the H200 (names, grids and
times of PyTorch's kernels) has shown the tiles and which kernels there are, so all of these rows have been looked at.
"""
_OF_LIBRARIES = """Large products in FP16 reach 635 to 675 TFLOPS at some 700 W, the power limit, with clocks of 1.29 to
1.40 GHz in place of 1.98. With the limit in force, and energies that other kernels have set ([power](gpu-power.md)),
those of 4096 and 8192 were expected at 0.9 to 1.05 of what they take, before kernels of a library were modelled. Large
ones in
FP32 are within 6 %; small ones are expected at 0.74 to 0.97 of what they take, those of 16 rows at 0.55 to 0.7, and in
16 bits those of an odd depth (147, 777) at 0.37 to 0.43: they run in kernels of earlier GPUs. Softmax and transposition
by PyTorch move less than half of what memory gives. Over half of the time of ResNet-50 at batch 16 goes into kernels
that add a bias or cut off at zero, as a profile shows; with these as kernels of their own, convolutional networks are
expected at 0.54 to 0.89, before at 0.26 to 0.52. What is left there are pooling by 28 blocks on 132 SMs, concatenation,
and convolutions with windows in tiles of earlier GPUs. Encoders are expected at 0.60 to 0.90, of which large batches
run at 690 W, prompts at 0.74 to 0.90, and decoding at 0.93 to 1.05.
"""
_ON_GPUS = """`bound` is the simulated latency under `fixed-pattern`, `expected` the one with the library efficiency
that the machine's file states; it is the same where the file states none.
"""
_OF_GPUS = """TensorRT's kernels fuse attention and are launched as one graph. On phones the papers' baselines move
data in textures and launch far more kernels; the costs of these are not published, so that the order of networks is
right there and the level is not. A library efficiency of 0.89 for tensor units of A100 follows from one measured
product, that of memory from copies ([where numbers come from](sources.md#a100)); BERT has not been used.
"""
_BY_CARD = """Inference that NVIDIA's repositories, MLCommons and timm publish of eleven cards ([each
figure](gpu-published.md)). **Blind: no figure has set a value of a preset or of the model**, and the presets came
before the first comparison. Two things have followed from that: PyTorch's ViT has its attention in one kernel, as
among PyTorch's libraries above, and rows of a card leave out what holds more than the card's work, which has rows of
its own. PyTorch without graphs takes nearly as long for one picture as for 16, 9 to 18 ms, as the host launches its
kernels; up to batch 32 Paddle-TRT is hardly slower on an A30 than on an A100, its 99th percentile up to four
times the mean.
"""
_OF_CARDS = """ResNet-50 in INT8 by TensorRT at its batches of 32 to 2048 is expected at 0.81 to 1.10 of what it takes,
a single image at 0.33 to 0.64. Encoders at batch 32 are hardly biased, at batch 1 a quarter too short, most with 384
tokens on A30, L4 and L40S (0.5 to 0.85), of which no cause has been found. FP32 on lanes is off by 13 %. At batches
beyond 32 convolutional networks of PyTorch are expected at 0.55 (ResNeSt) to 1.13 of what they take, ViT at 1.03 and
1.07. The library efficiency of tensor units of L4 and L40S is assumed, that of another card; on an L40S the bound is
nearer at batch 32. The clock of T4 as it falls under 70 W is of products that others have measured.
"""
_OF_DSAS = """Two rows of GraphTurbo's table 1 have set the launch cost of `stcp920`; its table 2 has set nothing,
and its rows are looked at one by one in [GraphTurbo](graphturbo.md). Goya's clock, peak and memories are not
published, so its file is mostly assumed. NVDLA's primer has frames of ResNet-50 a second, which are estimates
too; they take arithmetic and data alone, and leave out the lanes behind the array and launches. Without these, five
sizes come out at 1.01, 1.14, 1.11, 1.15 and 1.67 of them (`python -m dsascape.experiments.papers.nvdla_sizes` has each
with them: 0.87 to 0.69, and 1.5 of the smallest). For Ethos-U65 and TPU v4i no absolute figures of a network of the zoo
have been found. Areas beside published dies are in [machines](machine.md#clustered-scratchpad-accelerator).
"""
_ON_RTL = """`gemmini` runs 74 layers of BERT-base, ResNet-50, the head of RetinaNet and U-Net one by one, with
memories that hold two of the tiles that ran on RTL, and these tiles: those of DOSA's search, and those of Gemmini's
library. `our tiles` are those of our own search, beside RTL with DOSA's: how fast the machine is expected to be at
its best. `python -m dsascape.experiments.papers.gemmini_layers` prints each layer.

Before, RTL was compared with tiles of our own: mean errors were 18.6 % of searched and 36.3 % of the library's tiles.
What changed the model is Gemmini's source: weights are held, and rows of one image row at a time streamed past them
(`weight_stationary`); every loop command reloads its operands (`reloads`); DMA moves rows in requests of 64 bytes,
and stores those of 16 (`request`). No number is fitted, but of two that the source allows one was chosen by three
layers of ResNet-50 with rows of 4 pixels: a pair of commands takes 8 cycles, not 4. RetinaNet and U-Net have set
nothing since; but they had been looked at in an earlier version, for which DRAM went from 16 to 8 bytes a cycle and
taps became products of their own, and a few of U-Net while the published mappings were read.

What is left, as kinds: weights in rows of 16 bytes far apart (1024 channels of 28 x 28 and 54 x 54, 0.31 and 0.56),
of which memory moves whole lines, and strides of 1 KiB or more, which are slower than their requests; one channel of
570 x 570 (0.46) and two results of 388 x 388 (0.33), whose biases are not modelled; what is small runs from an L2
cache that earlier runs have filled (4 x 4 and 2 x 2, up to 1.54; with the library's tiles, which ran first, the same
tile is at 0.95), and within a tile of a product, arithmetic overlaps with loads and stores (128 x 64 by 64 x 128,
1.7). Where a mapping splits a window, as many blocks of channels stand for its parts. The library's tiles of deep
layers of 7 x 7 (0.46 to 0.6) take 17 to 23 cycles a request, of which no cause has been found.
"""
_LOOKED_AT = ("bert-base", "resnet50")
_ON_POWER = """Predicted power of ResNet-50 at batch 16 under `fixed-pattern`, energy by latency, beside what a GPU is
rated at. A rating is a limit, not the power of this network. Executing an instruction (fetch, decode, rename,
registers) has energy of its own, derived from figures at 45 nm that others have published; before, the shares were 22 %
on p100, 39 % on v100, 42 % on a100, 35 % on h100 and 36 % on h200. Kernels measured on an H100 have set the energies of
h100, and those of its die in h200 ([power](gpu-power.md)): before, the shares were 41 % and 42 %. Those of other GPUs
are derived as before: the H100's, taken to 7 nm as logic scales, would hold an A100 at 0.78 of its clock in a product
of 8192 in FP16, which is known to run at 0.87 of what it does on zeros. Left out there: clocks of stalled SMs, the
network on chip, regulators, fans and boards.
"""
_PARTS = """Power of CPUs and scratchpads at ResNet-50, batch 16 (10 on Goya), by part, beside its limit. STCP920 runs
under `fixed-pattern` and then `graphturbo`, Ascend, Goya and IPU under `graphturbo`, all others under `fixed-pattern`.
Power depends on how fast a part is taken to be, so the energy of an image stands beside it.
"""
_OF_PARTS = """What sets these numbers is left out of the comparison: power of 21 cores of phones and desktops on
CoreMark and Prime95 (`experiments/measured/power/cores.csv`) sets the energy of a cycle, idle power and area of four
TPUs that of scratchpads, so that `tpu_v4i`, whose own idle power is stated, is judged by nothing but its limit. The
static power of `ipu_mk1` follows from its rating. Static power of CPUs (caches, mesh, memory controllers) is assumed in
each file. A regression of power of Skylake servers on their counters (EAR, `cpu_power_model_default.h`) has 11.4 W an
instruction a cycle and 28 W for vector instructions at the cores of one node, 108 pJ and 267 pJ an instruction if it
has 44; the file of `platinum_8124m` has 105 pJ, and 193 pJ of registers and 39 pJ of arithmetic for a
multiply-accumulate. It has set no number, but was looked at when the energy of registers was chosen among published
ones. So was NVDLA, which stood at 0.67 W, when SRAM got its energy by the width of its accesses. Measured:
"""
_OF_MEASURED_PARTS = """The board's 5.1 W have Ethernet, USB and regulators in them, which are no part of the file. No
measured power of CPUs of these phones at networks was found. Goya's latency is predicted 2.3 times too long, so that
its power is low where the energy of an image is not: 100 W and 15,000 images a second are 6.7 mJ. On `ipu_mk1` weights
come from the host in every run, so that arrays wait. Left out: losses of regulators (of phones they are in the cores'
cycles), fans, boards, voltage that falls with the clock, cores that sleep.
"""
_POWERS_MEASURED = """Measured by the drivers' counters over a second of the same work ([each](gpu-libraries.md)).
Shares are in the mean of the cases: of the power in the latency that is expected, and of the energy of a run. Where too
short a latency is expected, of convolutional networks above all, the power is nearer than the energy. None of these
cases has set an energy; the power of an idle H100 is from the same file. Before, 68 %, 41 %, 59 % and 57 % of the power
were predicted on the H100, and 73 %, 41 %, 62 % and 62 % on the H200. The H200 that was measured draws 10 to 17 % less
than the H100 at the same work on the chip, which nothing in its file says. SMs run at 1.98 GHz where power allows, and
at 1.83 in the presets, which is the clock of their peak: energies on the chip are 13 % higher there.
"""
_BLIND = """## Blind spots

- Real scratchpad accelerators: none was at hand.
- CPUs in FP16 and INT8, cores after Cortex-A73: no published times compared.
- More than two threads: measured on one server, whose speed changes, and predicted too short there, by a fifth on two
  and four threads. Cores of several kinds: beside published times only.
- Mobile GPUs: no measurement; the level is off by a factor, see above.
- Generated code on GPUs other than H100, code for tensor units; the host that launches kernels.
- Energy of GPUs: those of one die.
- Energy of CPUs and scratchpads: four measured figures, of a board, a card and two chips; no counter was at hand.
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
    parts, measured_parts = power_tables(published["powers_by_part"])
    return "\n".join([
        _INTRODUCTION,
        "## CPUs, measured",
        "",
        _ON_CPUS,
        markdown(_HEADINGS, [each.row for each in measured_rows()]),
        "",
        _SEEN,
        "## CPUs, published",
        "",
        _ON_PUBLISHED_CPUS,
        markdown(_HEADINGS, [each.row for each in published_cpu_rows()]),
        "",
        _OF_PUBLISHED_CPUS,
        _ON_SERVER,
        markdown(_HEADINGS, [each.row for each in server_rows()]),
        "",
        _OF_SERVER,
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
        _BY_CARD,
        markdown(_HEADINGS, [each.row for each in card_rows()]),
        "",
        _OF_CARDS,
        "## Scratchpads, published",
        "",
        markdown(_HEADINGS, [
            _tvm_on_stcp920(),
            _published("Goya, graphturbo", "the maker's figures", dsas, "latency_s"),
            _sizes_of_nvdla(),
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
        _PARTS,
        parts,
        "",
        _OF_PARTS,
        measured_parts,
        "",
        _OF_MEASURED_PARTS,
        _ON_POWER,
        markdown(_POWER_HEADINGS, _powers(published["powers"])),
        "",
        _POWERS_MEASURED,
        markdown(_MEASURED_POWER_HEADINGS, _measured_powers()),
        "",
        "## What others say of themselves",
        "",
        markdown(("tool", "mean error", "of"), [tuple(each.values()) for each in published["peers"]]),
        "",
        _BLIND,
    ])  # fmt: skip


def measured_rows() -> list[Compared]:
    """Return comparisons with times measured on a CPU: kernels and networks by threads, then pairs of operators."""
    return [*_by_threads(MEASURED), *_fused()]


def server_rows() -> list[Compared]:
    """Return comparisons on a server: kernels and networks, by threads."""
    return _by_threads(MEASURED / "server")


def published_cpu_rows() -> list[Compared]:
    """Return comparisons with published times on CPUs: bounds, and of blind devices what is expected, too."""
    ours = predicted()
    rows = []
    for use, figures in (("development", ("bound",)), ("blind", ("bound", "expected"))):
        for library, name, is_single in _CPU_LIBRARIES:
            own = [c for c in published() if (c.use, c.library, c.threads == 1) == (use, library, is_single)]
            for at, figure in enumerate(figures if own else ()):
                found = tuple([ours[each.key][at] for each in own])
                rows.append(Compared(f"{use}, {name}, {figure}", library, found, tuple([each.ms for each in own])))
    return rows


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
    return Compared(what, beside, predicted, tuple([each.published.seconds for each in own]))


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


def _sizes_of_nvdla() -> tuple[object, ...]:
    """Return the row on ResNet-50 on NVDLA from 64 to 2,048 multipliers."""
    every = list(sizes())
    ours, theirs = [size.predicted_frames_per_s() for size in every], [size.frames_per_s for size in every]
    return Compared("NVDLA, five sizes, fixed-pattern", "its makers' estimates", tuple(ours), tuple(theirs)).row


def _on_rtl() -> list[tuple[object, ...]]:
    """Return the rows on Gemmini's RTL: searched tiles, those of its library, and our own beside searched ones."""
    looked_at = [layer for layer in layers() if layer.network in _LOOKED_AT]
    held_out = [layer for layer in layers() if layer.network not in _LOOKED_AT]
    rows = []
    for what, chosen in (("BERT, ResNet-50", looked_at), ("RetinaNet, U-Net", held_out), ("all", looked_at + held_out)):
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
