"""PyTorch's library for CPUs on the networks that generated code is measured on: for machines with PyTorch alone.

    python3 torch_cpu.py OUT.json SECONDS THREADS FILE...    # files of benchmarks.written_operators; THREADS: 1,2,4

Traced, frozen and optimised for inference, in single precision with random weights; each time is the median of runs for
``SECONDS``.
"""

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as f

_FEWEST = 3
"""Fewest runs of a time."""


def runs(network: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Return the module that computes the operators with PyTorch, and its inputs."""
    names: dict[str, str] = {}
    small: dict[str, list[Any]] = {}

    def forward(module: Any, *given: Any) -> Any:
        known = dict(zip(network["inputs"], given, strict=True))

        def of(name: str) -> Any:
            return known[name] if name in known else getattr(module, names[name])

        for node in network["nodes"]:
            operands = [of(name) if name else None for name in node["inputs"]]
            numbers = [small.get(name) for name in node["inputs"]]
            result = computed(node["kind"], operands, numbers, node["attributes"])
            results = result if isinstance(result, (tuple, list)) else [result]
            known.update(zip(node["outputs"], results, strict=False))
        return tuple(of(name) for name in network["outputs"])

    module = type("Network", (torch.nn.Module,), {"forward": forward})()
    for number, (name, told) in enumerate(network["constants"].items()):
        shape, values = told["shape"], told["values"]
        if values is None:
            tensor = torch.randn(shape) / math.prod(shape[1:]) ** 0.5
        else:
            tensor = torch.tensor(values, dtype=getattr(torch, told["dtype"])).reshape(shape)
            small[name] = values
        names[name] = f"c{number}"
        module.register_buffer(names[name], tensor)
    return module.eval(), [torch.rand(shape) for shape in network["inputs"].values()]


def computed(kind: str, x: Sequence[Any], numbers: Sequence[Any], a: Mapping[str, Any]) -> Any:
    """Return the result of one operator."""

    def pads() -> Any:
        found = list(a.get("pads", [0, 0, 0, 0]))
        return found[: len(found) // 2] if found[: len(found) // 2] == found[len(found) // 2 :] else None

    def padded(value: float) -> tuple[Any, Any]:
        if pads() is not None:
            return x[0], pads()
        top, left, bottom, right = a["pads"]
        return f.pad(x[0], (left, right, top, bottom), value=value), 0

    def given(place: int) -> Any:
        return x[place] if len(x) > place else None

    def stated(place: int) -> Any:
        return numbers[place] if len(numbers) > place else None

    def conv() -> Any:
        data, pad = padded(0.0)
        return f.conv2d(data, x[1], given(2), a.get("strides", 1), pad, a.get("dilations", 1), a.get("group", 1))

    def max_pool() -> Any:
        data, pad = padded(float("-inf"))
        return f.max_pool2d(data, a["kernel_shape"], a.get("strides", 1), pad, ceil_mode=bool(a.get("ceil_mode", 0)))

    def average_pool() -> Any:
        data, pad = padded(0.0)
        return f.avg_pool2d(data, a["kernel_shape"], a.get("strides", 1), pad, count_include_pad=False)

    def gemm() -> Any:
        left = x[0].T if a.get("transA") else x[0]
        right = x[1].T if a.get("transB") else x[1]
        return f.linear(left, right.T, given(2))

    def slices() -> Any:
        found = x[0]
        axes = stated(3) or range(len(numbers[1]))
        steps = stated(4) or [1] * len(numbers[1])
        for begin, end, axis, step in zip(numbers[1], numbers[2], axes, steps, strict=True):
            size = found.shape[axis]
            begins, ends = (min(place + size if place < 0 else place, size) for place in (begin, end))
            found = found[(slice(None),) * (axis % found.dim()) + (slice(begins, ends, step),)]
        return found

    def clip() -> Any:
        low, high = ([*numbers, None, None])[1:3]
        return x[0].clamp(low[0] if low else a.get("min"), high[0] if high else a.get("max"))

    def axes() -> Any:
        return list(stated(1) or a["axes"])

    makers: dict[str, Callable[[], Any]] = {
        "Conv": conv, "MaxPool": max_pool, "AveragePool": average_pool, "Gemm": gemm, "Slice": slices, "Clip": clip,
        "Relu": lambda: f.relu(x[0]), "Sigmoid": lambda: torch.sigmoid(x[0]), "Tanh": lambda: torch.tanh(x[0]),
        "HardSigmoid": lambda: f.hardsigmoid(x[0]), "HardSwish": lambda: f.hardswish(x[0]),
        "Erf": lambda: torch.erf(x[0]), "Sqrt": lambda: torch.sqrt(x[0]), "Gelu": lambda: f.gelu(x[0]),
        "Add": lambda: x[0] + x[1], "Sub": lambda: x[0] - x[1], "Mul": lambda: x[0] * x[1],
        "Div": lambda: x[0] / x[1], "Pow": lambda: x[0] ** x[1], "MatMul": lambda: x[0] @ x[1],
        "Identity": lambda: x[0], "Dropout": lambda: x[0],
        "GlobalAveragePool": lambda: x[0].mean(list(range(2, x[0].dim())), keepdim=True),
        "Concat": lambda: torch.cat(list(x), a["axis"]),
        "Reshape": lambda: x[0].reshape([x[0].shape[n] if s == 0 else s for n, s in enumerate(numbers[1])]),
        "Flatten": lambda: x[0].flatten(a.get("axis", 1)),
        "Transpose": lambda: x[0].permute(a["perm"]), "Softmax": lambda: x[0].softmax(a.get("axis", -1)),
        "LayerNormalization": lambda: f.layer_norm(
            x[0], x[0].shape[a.get("axis", -1):], x[1], given(2), a.get("epsilon", 1e-5)
        ),
        "BatchNormalization": lambda: f.batch_norm(x[0], x[3], x[4], x[1], x[2]),
        "ReduceMean": lambda: x[0].mean(axes(), keepdim=bool(a.get("keepdims", 1))),
        "Unsqueeze": lambda: x[0].unsqueeze(axes()[0]), "Squeeze": lambda: x[0].squeeze(axes()[0]),
        "Split": lambda: torch.split(
            x[0], list(numbers[1]) if len(numbers) > 1 else x[0].shape[a.get("axis", 0)] // a["num_outputs"],
            a.get("axis", 0),
        ),
        "Gather": lambda: x[0].index_select(a.get("axis", 0), x[1].flatten()).reshape(
            x[0].shape[: a.get("axis", 0)] + x[1].shape + x[0].shape[a.get("axis", 0) + 1 :]
        ),
    }  # fmt: skip
    return makers[kind]()


def times(network: Mapping[str, Any], threads: Sequence[int], budget_s: float) -> dict[str, float]:
    """Return the median seconds of the network by number of threads."""
    found = {}
    with torch.no_grad():
        for count in threads:
            torch.set_num_threads(count)
            module, inputs = runs(network)
            traced = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(module, inputs)))
            for _ in range(3):
                traced(*inputs)
            samples: list[float] = []
            end = time.perf_counter() + budget_s
            while time.perf_counter() < end or len(samples) < _FEWEST:
                begin = time.perf_counter()
                traced(*inputs)
                samples.append(time.perf_counter() - begin)
            found[str(count)] = statistics.median(samples)
    return found


def main(arguments: Sequence[str]) -> None:
    """Time networks that were written, and write the times after each."""
    out, budget_s, threads = Path(arguments[0]), float(arguments[1]), [int(each) for each in arguments[2].split(",")]
    found: dict[str, Any] = {"torch": torch.__version__, "seconds": {}, "errors": {}}
    for file in map(Path, arguments[3:]):
        try:
            found["seconds"][file.stem] = times(json.loads(file.read_text(encoding="utf-8")), threads, budget_s)
        except (RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            found["errors"][file.stem] = f"{type(error).__name__}: {error}"[:500]
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
