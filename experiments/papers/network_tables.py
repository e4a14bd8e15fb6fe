"""Our figures of DNNFusion's networks compared with its Tables 5 and 6.

``python -m dsascape.experiments.papers.network_tables > docs/networks.md`` writes the page that shows them.

Ours are computed from the graphs each time; the paper's are constants here, with the reason for each difference of
more than a tenth.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dsascape.workloads.graph import Graph, Op
from dsascape.workloads.language import LANGUAGE_MODELS, Decoder
from dsascape.workloads.loading import load_network
from dsascape.workloads.mapping import mapping_of
from dsascape.workloads.onnx_file import layers_in
from dsascape.workloads.summary import summarise
from dsascape.workloads.zoo import ENTRIES, zoo_entry

NOTEWORTHY = 0.1
"""Relative difference above which a reason is given."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of a network before optimisation, from the paper's two tables or from our graph."""

    layers: int
    compute_intensive: int
    memory_intensive: int
    intermediate_mb: float
    parameters_millions: float
    gflop: float


COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "layers": "layers",
        "compute_intensive": "CIL",
        "memory_intensive": "MIL",
        "intermediate_mb": "IRS MB",
        "parameters_millions": "params M",
        "gflop": "GFLOP",
    }
)


def _paper(cil: int, mil: int, layers: int, irs_mb: float, params_m: float, gflop: float) -> Figures:
    return Figures(
        layers=layers,
        compute_intensive=cil,
        memory_intensive=mil,
        intermediate_mb=irs_mb,
        parameters_millions=params_m,
        gflop=gflop,
    )


PAPER: Mapping[str, Figures] = MappingProxyType(
    {
        "efficientnet-b0": _paper(82, 227, 309, 108, 5.3, 0.8),
        "vgg16": _paper(16, 35, 51, 161, 138, 31.0),
        "mobilenetv1-ssd": _paper(16, 48, 202, 110, 9.5, 3.0),
        "yolo-v4": _paper(106, 292, 398, 329, 64, 34.6),
        "c3d": _paper(11, 16, 27, 195, 78, 77.0),
        "s3d": _paper(77, 195, 272, 996, 8.0, 79.6),
        "unet": _paper(44, 248, 292, 312, 2.1, 15.0),
        "faster-rcnn": _paper(177, 3463, 3640, 914, 41, 47.0),
        "mask-rcnn": _paper(187, 3812, 3999, 1524, 44, 184),
        "tinybert": _paper(37, 329, 366, 183, 15, 4.1),
        "distilbert": _paper(55, 402, 457, 540, 66, 35.5),
        "albert": _paper(98, 838, 936, 1260, 83, 65.7),
        "bert-base": _paper(109, 867, 976, 915, 108, 67.3),
        "mobilebert": _paper(434, 1953, 2387, 744, 25, 17.6),
        "gpt2": _paper(84, 2449, 2533, 1389, 125, 69.1),
    }
)
"""DNNFusion (PLDI 2021), Table 5 before optimisation, and Table 6, whose FLOPS are twice the products."""


def figures_of(graph: Graph, layers: int) -> Figures:
    """Return our figures of a network; ``layers``: the nodes of its file, which the graph does not keep."""
    intensive = sum(is_compute_intensive(op) for op in graph.ops)
    return Figures(
        layers=layers,
        compute_intensive=intensive,
        memory_intensive=layers - intensive,
        intermediate_mb=graph.activation_bytes / 1e6,
        parameters_millions=graph.parameters / 1e6,
        gflop=2 * graph.operations.macs / 1e9,
    )


def is_compute_intensive(op: Op) -> bool:
    """Whether the paper counts an operator as compute-intensive: multiply-accumulates, and also Softmax."""
    return op.kind == "Softmax" or any(mapping_of(nest) == "contraction" for nest in op.nests)


def our_figures(name: str) -> Figures:
    """Return the figures of a network of the zoo."""
    return figures_of(load_network(name), layers_in(zoo_entry(name).read_bytes()))


def differences(paper: Figures, ours: Figures) -> dict[str, float]:
    """Return the relative differences of our figures from the paper's above `NOTEWORTHY`, by column."""
    noteworthy = {}
    for column in COLUMNS:
        claimed, counted = getattr(paper, column), getattr(ours, column)
        relative = (counted - claimed) / claimed
        if abs(relative) > NOTEWORTHY:
            noteworthy[column] = relative
    return noteworthy


def markdown() -> str:
    """Return the document that compares our figures with the paper's."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from _INTRODUCTION.splitlines()
    yield ""
    yield f"| network | graph | {' | '.join(COLUMNS.values())} | operators |"
    yield f"|---|---|{'--:|' * (len(COLUMNS) + 1)}"
    compared = {}
    for name, paper in PAPER.items():
        raw, clean = our_figures(f"{name}-raw"), our_figures(name)
        compared[name] = differences(paper, raw)
        yield _row(f"**{name}**", "paper", paper, "")
        for graph, figures in (("raw", raw), ("clean", clean)):
            operators = len(load_network(f"{name}-raw" if graph == "raw" else name).ops)
            yield _row("", graph, figures, str(operators))
    yield ""
    yield from ("## Differences of more than a tenth", "", "The raw graph compared with the paper.", "")
    for name, noteworthy in compared.items():
        for column, relative in noteworthy.items():
            yield f"- **{name}, {COLUMNS[column]}** ({relative:+.0%}): {REASONS[name, column]}."
    yield ""
    yield from _zoo_lines()
    yield ""
    yield from language_lines()


def _zoo_lines() -> Iterator[str]:
    """Yield the table of the whole zoo."""
    yield from ("## The zoo", "", "GFLOP here counts all arithmetic. The raw twins have the same tasks.", "")
    yield "| name | task | batch | operators | params M | GFLOP | activations MB | left out |"
    yield "|---|---|--:|--:|--:|--:|--:|---|"
    for entry in ENTRIES:
        row = summarise(load_network(entry.name))
        yield (
            f"| {entry.name} | {entry.task} | {row.batch} | {row.operators} | {row.parameters / 1e6:.2f} "
            f"| {row.flops / 1e9:.3f} | {row.activation_bytes / 1e6:.1f} | {entry.left_out} |"
        )


def language_lines() -> Iterator[str]:
    """Yield the section on language models, with the table of their sizes."""
    yield _OF_LANGUAGE
    yield ""
    yield "| name | sizes from config.json of | layers | hidden | parameters M | bytes of a token in the caches, fp16 |"
    yield "|---|---|--:|--:|--:|--:|"
    for name, model in LANGUAGE_MODELS.items():
        grows = 2 * 2 * model.layers * model.key_heads * model.head_width if isinstance(model, Decoder) else 0
        yield (
            f"| {name} | {model.card} | {model.layers} | {model.hidden} | {model.parameters / 1e6:,.1f}"
            f" | {f'{grows:,}' if grows else 'none: its state does not grow'} |"
        )


def _row(name: str, graph: str, figures: Figures, operators: str) -> str:
    cells = [
        f"{figures.layers}",
        f"{figures.compute_intensive}",
        f"{figures.memory_intensive}",
        f"{figures.intermediate_mb:.0f}",
        f"{figures.parameters_millions:.1f}",
        f"{figures.gflop:.1f}",
    ]
    return f"| {name} | {graph} | {' | '.join(cells)} | {operators} |"


_INTRODUCTION = """\
# The networks and their figures

Written by `python -m dsascape.experiments.papers.network_tables`; a test holds this file against it.

Batch 1, fp32, MB = 10^6 bytes. *raw* is the export nearest to those of 2020-21 (batch normalisation kept,
LayerNormalization and GELU written out, shape arithmetic in the file), *clean* a modern one. The import
folds shape arithmetic, so *operators*, what runs, are fewer than *layers*, the nodes of the file without its
Constants. CIL (compute-intensive layers) are operators that multiply and accumulate, and Softmax, which the
paper counts too; MIL is the rest of the layers. IRS (intermediate results) are the outputs of all operators.
GFLOP is twice the multiply-accumulates, as in the paper; `dsascape models` also counts additions, divisions
and so on. A padded tap of a convolution counts as work; a transposed convolution counts only taps that meet
an element and land inside the output, for DCGAN a seventh less than the usual input size x kernel size.

The batch of a network is derived from its flow through the loop nests from inputs to outputs; an open dimension
called `batch` or `N` is the batch. `--batch-dim INPUT:DIM` states it, `--batch-dim none` says that there is none (in
YAML `batch_dim`, in Python `batch_dims`). Where no batch flows through, the network has none: it runs as one image,
and the report says why. Sizes stated with `--dim` stay at every batch.

## DNNFusion's Tables 5 and 6 (before optimisation) compared with ours"""

_OF_LANGUAGE = """\
## Language models

These are written from published sizes (`workloads/language`), as files without weights whose batch, tokens and context
are open; attention, rotary embeddings and normalisation are the standard's operators, as in files that people bring.
A pass has a *context*, tokens that the caches hold before it, and *tokens*, those that it processes for each sequence:
`--context 2048` alone is one token behind 2,048, `--tokens 2048` alone a prompt of 2,048, and without either it is a
prompt of 256; in YAML `context` and `tokens`, which may be lists. An `.onnx` file whose open dimensions are called so
takes them, too. Scores are computed of the last token only.

- Experts (mixtral-8x7b, qwen3-30b-a3b) are chosen evenly and independently. Of E experts, R tokens that choose k each
  use E (1 - (1 - k/E)^R) in expectation, rounded; the weights of so many are read, and each works on an equal share
  of the choices, rounded up (`workloads/decomposition/experts.py`). At one token these are k; a prompt uses all.
- whisper-decoder is the decoder of whisper-small. Keys and values of the encoder's output are inputs: their products
  are computed once for a recording and left out, as is the encoder.
- The selective scan of mamba runs in chunks of 256 tokens that hand on the state; states of a chunk are a tensor, so a
  policy decides whether they leave the chip. No context changes its figures.
- Causal attention computes what its mask keeps.

`simulate --json` has for them `language`, a run's rows `language.*`: `context`, `tokens`, `tokens_per_s` (of all
sequences), `first_token_s` (a prompt without context: its latency), `energy_per_token_j`, `weight_bytes` and
`cache_bytes` (read and written, each once), and three least times, `weights_s` and `cache_s` at the peak off-chip
bandwidth and `arithmetic_s` at the peak of multiply-accumulates. `paced_by` in the JSON is arithmetic where that takes
longer than weights and caches together, else the longer of these two. `sustained_s` is what weights and caches take at
the share of the peak that long accesses reach (`dram.efficiency`, `ddr.efficiency`). One token of llama-3-8b behind
2,048 on an H100, whose DRAM reaches 92 %, takes 1.26 times that under `fixed-pattern` and 1.09 times under `graphturbo`
with `tuning.graphs=true`: the rest is 453 launches of 2.5 us, or 257 of 1.3."""

_LEFT_OUT = (
    "ranking of proposals, suppression of boxes, their sorting to pyramid levels and the image's resizing"
    " have shapes that depend on data and are left out; they are most of the paper's layers, without"
    " multiply-accumulates"
)
_UNET = (
    "which U-Net the paper means is not known; ours has four levels, its width fitted to the paper's FLOPs"
    " and intermediate results, which then agree"
)
_SSD = "the paper's own row does not add up (16 + 48 is not 202), so what it counts cannot be told"
_MISH = (
    "the raw export keeps batch normalisation and writes Mish as three operators; the paper's 398 layers are"
    " what an export with normalisation folded and Mish written out has (399)"
)
_BERT_IRS = (
    "the paper's figure is below even that of our clean graph, so it leaves out some outputs (not said"
    " which); FLOPs and layers agree"
)
REASONS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("mobilenetv1-ssd", "layers"): "the heads' reshapes and the decoding of boxes are in our graph; "
        + _SSD,
        ("mobilenetv1-ssd", "compute_intensive"): _SSD,
        ("mobilenetv1-ssd", "memory_intensive"): _SSD,
        ("yolo-v4", "layers"): _MISH,
        ("yolo-v4", "memory_intensive"): _MISH,
        (
            "yolo-v4",
            "intermediate_mb",
        ): ("the same operators each write a result; the clean graph's 297 MB is near"),
        ("s3d", "intermediate_mb"): (
            "the paper's S3D is another implementation (11 % more FLOPs, 16 layers more), its input size not"
            " told"
        ),
        ("unet", "layers"): _UNET,
        ("unet", "compute_intensive"): _UNET,
        ("unet", "memory_intensive"): _UNET,
        ("faster-rcnn", "layers"): _LEFT_OUT,
        ("faster-rcnn", "compute_intensive"): "FLOPs agree, so what else is counted has none to speak of; "
        + _LEFT_OUT,
        ("faster-rcnn", "memory_intensive"): _LEFT_OUT,
        ("faster-rcnn", "intermediate_mb"): _LEFT_OUT,
        ("mask-rcnn", "layers"): _LEFT_OUT,
        ("mask-rcnn", "compute_intensive"): "as for Faster R-CNN: " + _LEFT_OUT,
        ("mask-rcnn", "memory_intensive"): _LEFT_OUT,
        ("mask-rcnn", "intermediate_mb"): _LEFT_OUT,
        ("mask-rcnn", "gflop"): (
            "here 100 regions go through the mask head at 1.06 GFLOP each; the paper's figure would take 129"
        ),
        ("tinybert", "intermediate_mb"): _BERT_IRS,
        ("albert", "compute_intensive"): (
            "12 layers x (8 products + Softmax) + 1 here; the paper's 98 is 12 x 8 + 2, Softmax not counted"
        ),
        ("albert", "parameters_millions"): (
            "the layers share their weights, which are stored and counted once; 89 M would be unshared"
        ),
        ("bert-base", "intermediate_mb"): _BERT_IRS,
        ("gpt2", "layers"): (
            "how much shape arithmetic an exporter writes: 1857 nodes here, 2707 without constant folding and"
            " with Constants counted; the paper's 2533 lies between"
        ),
        ("gpt2", "memory_intensive"): "the same shape arithmetic",
    }
)
"""Reasons for differences by network and column, in the order of the tables."""

if __name__ == "__main__":
    sys.stdout.write(markdown())
