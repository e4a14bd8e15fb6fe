"""What PyTorch's libraries take on GPUs beside the same work simulated: products, operators, whole networks, power.

    python -m dsascape.experiments.papers.gpu_libraries [OUT.md]

Times and energies are measured by ``benchmarks.gpu_libraries`` (``experiments/measured/libraries``, one file per
GPU, named like its preset). Every case is a CUDA graph, so it is simulated with `GpuTuning.graphs`. Networks are
simulated under ``eager``, a kernel for each function that PyTorch calls; it adds the bias of a convolution by a kernel
of its own, and so it is in the network that is simulated. Networks run again and again on one set of inputs, single
operators on copies in turn, so the L2 holds what the run before has left (`GpuTuning.warm_l2`) where it holds all
copies.
"""

import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.pages import write_page
from dsascape.hw_models import Gpu, load_hardware
from dsascape.workloads import Graph, load_network
from dsascape.workloads.bias_apart import with_biases_apart
from dsascape.workloads.single_operators import Attribute, SingleOperator, single_operator

FOLDER = Path(__file__).parents[1] / "measured" / "libraries"
GPUS = "h100", "h200"
PRODUCTS, OPERATORS, TRANSFORMERS, CONVOLUTIONS = "products", "operators", "transformers", "convolutional networks"
NETWORKS = TRANSFORMERS, CONVOLUTIONS
KINDS = PRODUCTS, OPERATORS, *NETWORKS
_ROTATED_BYTES, _MOST_COPIES = 256 << 20, 32
"""Inputs of an operator are copied until they take so much together, but no more often: constants of the script."""
_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}
_OF_PICTURES = {
    "resnet50": "resnet50", "resnet18": "resnet18", "mobilenet_v2": "mobilenet-v2", "vgg16": "vgg16",
    "squeezenet1_1": "squeezenet", "efficientnet_b0": "efficientnet-b0", "densenet121": "densenet121",
    "shufflenet_v2_x1_0": "shufflenet-v2", "mnasnet1_0": "mnasnet",
}  # fmt: skip
"""Networks of the zoo by the name of torchvision's."""
_ENCODERS = {"bert-base 128": "bert-base-128", "bert-base 384": "bert-base", "bert-large 384": "bert-large-384"}
"""By name and length of the sequence."""
_OPERATORS = {"relu": "Relu", "add": "Add", "softmax": "Softmax", "transpose": "Transpose"}
_HEADINGS = (
    "GPU", "kind", "what", "dtype", "measured [us]", "bound", "expected", "measured [W]", "predicted [W]",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One measured case, and the simulated figures of the same work."""

    gpu: str
    kind: str
    name: str
    dtype: str
    seconds: float
    joules: float | None
    bound_s: float
    expected_s: float
    expected_j: float
    """Simulated energy, with static power over the expected latency."""

    @property
    def watts(self) -> float | None:
        """Measured power; None where it was not."""
        return None if self.joules is None else self.joules / self.seconds

    @property
    def predicted_w(self) -> float:
        """Predicted power of a run that takes as long as expected."""
        return self.expected_j / self.expected_s


@cache
def cases(gpu: str) -> tuple[Case, ...]:
    """Return all cases measured on a GPU, which preset ``gpu`` describes, that the zoo and single operators have.

    They are simulated on all processors.
    """
    found = json.loads((FOLDER / f"{gpu}.json").read_text(encoding="utf-8"))["results"]
    with ProcessPoolExecutor() as pool:
        return tuple(itertools.chain.from_iterable(pool.map(partial(_simulated, gpu), found)))


def _simulated(gpu: str, result: Mapping[str, Any]) -> tuple[Case, ...]:
    return tuple(simulated(gpu, [result]))


def simulated(gpu: str, results: Sequence[Mapping[str, Any]]) -> Iterator[Case]:
    """Yield those of the measured ``results`` of a GPU that the zoo and single operators have, simulated."""
    machine = load_hardware(gpu)
    assert isinstance(machine, Gpu)
    l2_bytes = machine.l2.capacity_bytes
    for each in results:
        work = _work(each)
        if work is None:
            continue
        kind, network, policy, more = work
        tuning = {"graphs": True, "warm_l2": kind in NETWORKS or copied_bytes(each) <= l2_bytes}
        record = simulate(network, gpu, policy, dtype=each["dtype"], tuning=tuning, **more).record
        name = " ".join([each["name"], *[f"{key} {size}" for key, size in each["shape"].items() if kind in NETWORKS]])
        yield Case(
            gpu, kind, name, each["dtype"], each["seconds"], each.get("joules"), record.latency_s,
            record.expected_latency_s, record.expected_energy_j,
        )  # fmt: skip


def copied_bytes(result: Mapping[str, Any]) -> int:
    """Return the bytes of all copies of a single operator's inputs, and of its result."""
    shape: Mapping[str, int] = result["shape"]
    each = _BYTES[result["dtype"]]
    rows, columns, depth, batch = [shape.get(name, 1) for name in ("rows", "columns", "depth", "batch")]
    if result["kind"] == "product":
        read, written = batch * (rows + columns) * depth * each, batch * rows * columns * each
    else:
        read = written = rows * columns * each
        read *= 1 + result["name"].startswith("add")
    return min(-(-_ROTATED_BYTES // read), _MOST_COPIES) * read + written


def _work(result: Mapping[str, Any]) -> "tuple[str, str | Graph, str, dict[str, Any]] | None":
    """Return kind, network, policy and further arguments of a result; None for what has no like here."""
    shape, name = result["shape"], result["name"]
    if result["kind"] == "product":
        return PRODUCTS, _product(shape), "unfused", {}
    if result["kind"] == "memory":
        word = name.split()[0]
        return (OPERATORS, _operator(word, shape), "eager", {}) if word in _OPERATORS else None
    if name in _OF_PICTURES:
        graph = load_network(_OF_PICTURES[name]).with_batch(shape["batch"])
        return CONVOLUTIONS, with_biases_apart(graph), "eager", {}
    more: dict[str, Any] = {"batch": shape.get("batch")}
    if name.startswith("llama"):
        sizes = {each: shape[each] for each in ("tokens", "context")}
        return TRANSFORMERS, name, "eager", {**more, "dims": sizes}
    encoder = "vit-b16" if name == "vit_b_16" else _ENCODERS.get(f"{name} {shape.get('sequence')}")
    return None if encoder is None else (TRANSFORMERS, encoder, "eager", more)


def _product(shape: Mapping[str, int]) -> Graph:
    rows, columns, depth = shape["rows"], shape["columns"], shape["depth"]
    if "batch" not in shape:
        return single_operator(SingleOperator("product", "MatMul", ((rows, depth),), ((depth, columns),)))
    operands = (shape["batch"], rows, depth), (shape["batch"], depth, columns)
    return single_operator(SingleOperator("product", "MatMul", operands))


def _operator(word: str, shape: Mapping[str, int]) -> Graph:
    operands = ((shape["rows"], shape["columns"]),) * (2 if word == "add" else 1)
    given: dict[str, Attribute] = {"perm": [1, 0]} if word == "transpose" else {}
    return single_operator(SingleOperator(word, _OPERATORS[word], operands, (), given))


def page() -> str:
    """Return the page as Markdown."""
    rows = [
        (
            each.gpu, each.kind, each.name, each.dtype, f"{1e6 * each.seconds:,.1f}",
            f"{each.bound_s / each.seconds:.2f}", f"{each.expected_s / each.seconds:.2f}",
            "" if each.watts is None else f"{each.watts:.0f}", "" if each.watts is None else f"{each.predicted_w:.0f}",
        )
        for gpu in GPUS for each in cases(gpu)
    ]  # fmt: skip
    about = [_about(gpu) for gpu in GPUS]
    return "\n".join([
        "# Libraries on GPUs",
        "",
        *(__doc__ or "").partition("\n")[2].strip().partition("\n\n")[2].splitlines(),
        "",
        *[f"- {each}" for each in about],
        "",
        "`bound` and `expected` are simulated latencies by the measured one. [What follows](accuracy.md).",
        "",
        markdown(_HEADINGS, rows),
        "",
    ])  # fmt: skip


def _about(gpu: str) -> str:
    facts = json.loads((FOLDER / f"{gpu}.json").read_text(encoding="utf-8"))
    return (
        f"{gpu}: {facts['device']}, {facts['date']}, PyTorch {facts['torch']}, cuDNN {facts['cudnn']}, driver"
        f" {facts['driver']}; {facts['idle_w']:.0f} W when idle"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or print it; return the exit code."""
    return write_page(page, (__doc__ or "").partition("\n")[0], argv)


if __name__ == "__main__":
    sys.exit(main())
