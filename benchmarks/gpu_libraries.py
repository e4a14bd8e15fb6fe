"""Times and energies of a GPU's libraries: products, attention, memory-bound operators and whole networks by PyTorch.

``python3 -m benchmarks.gpu_libraries OUT.json [SECONDS]`` needs PyTorch with CUDA and torchvision, nothing of dsascape;
it measures what it can in SECONDS (default 240). Each case is one CUDA graph of several calls that read other copies of
their inputs in turn, more than an L2 holds, replayed until the median is known. Energies come from the driver's
counter, over a second of replays. ``experiments/measured/libraries`` keeps results;
`dsascape.experiments.papers.gpu_libraries` holds predictions beside them.
"""

import datetime
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import Tensor
from torch.fx.experimental.optimization import fuse
from torch.nn import functional

from benchmarks.gpu_counters import Counters
from benchmarks.gpu_networks import Decoder, Encoder, Sizes, drawn

ROTATED_BYTES = 256 << 20
"""Inputs of one graph, together: several times what any L2 holds."""
MOST_COPIES, MOST_CALLS = 32, 64
_FAILURES = RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError
"""What PyTorch raises: one case that fails is one line of the results, and the others go on."""
FEWEST_REPLAYS, MOST_REPLAYS = 5, 200
ROWS_WITH_ENERGY, QUERIES_WITH_ENERGY = 65536, 8192
ENERGY_S = 1.0
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True)
class Measured:
    """Outcome of one case; ``seconds`` is one call's, ``joules`` too."""

    kind: str
    name: str
    dtype: str
    shape: dict[str, Any]
    seconds: float | None = None
    spread: float = 0.0
    joules: float | None = None
    sm_clock_mhz: int | None = None
    error: str = ""
    notes: dict[str, Any] = field(default_factory=dict)


def recorded(calls: Sequence[Callable[[], object]]) -> torch.cuda.CUDAGraph:
    """Return a CUDA graph of all calls, in sequence."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[: min(len(calls), 3)]:
            call()
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def replay_s(graph: torch.cuda.CUDAGraph, budget_s: float = 0.15) -> tuple[float, float]:
    """Return the median seconds of a replay, and the distance of its quartiles by the median."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    torch.cuda.synchronize()
    taken: list[float] = []
    until = time.perf_counter() + budget_s
    while len(taken) < FEWEST_REPLAYS or (time.perf_counter() < until and len(taken) < MOST_REPLAYS):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(1e-3 * begin.elapsed_time(end))
    first, _, third = statistics.quantiles(taken, n=4)
    return statistics.median(taken), (third - first) / statistics.median(taken)


def energy_of(graph: torch.cuda.CUDAGraph, seconds: float, counters: Counters) -> tuple[float, int]:
    """Return the joules of one replay, over a second of them, and the SMs' clock at the end."""
    replays = max(int(ENERGY_S / seconds), 1)
    torch.cuda.synchronize()
    for _ in range(max(replays // 5, 1)):
        graph.replay()
    torch.cuda.synchronize()
    before = counters.energy_j
    for _ in range(replays):
        graph.replay()
    torch.cuda.synchronize()
    clock = counters.sm_clock_mhz
    return (counters.energy_j - before) / replays, clock


@dataclass(frozen=True)
class Case:
    """A call to measure: ``inputs`` makes fresh tensors, ``call`` runs on them, ``read`` weights it keeps."""

    kind: str
    name: str
    dtype: str
    shape: dict[str, Any]
    inputs: Callable[[], tuple[Tensor, ...]]
    call: Callable[..., object]
    with_energy: bool = False
    rotates: bool = True


def measured(case: Case, counters: Counters | None) -> Measured:
    """Measure one case; what fails is a result with a reason."""
    try:
        first = case.inputs()
        size = sum(each.numel() * each.element_size() for each in first)
        copies = max(1, min(MOST_COPIES, -(-ROTATED_BYTES // max(size, 1)))) if case.rotates else 1
        sets = [first, *(case.inputs() for _ in range(copies - 1))]
        once_s, _ = replay_s(recorded([lambda: case.call(*first)]), 0.02)
        number = max(copies, min(MOST_CALLS, int(2e-3 / max(once_s, 1e-7)))) if case.rotates else 1
        calls = [lambda each=sets[place % copies]: case.call(*each) for place in range(number)]
        graph = recorded(calls)
        seconds, spread = replay_s(graph)
        joules = clock = None
        if case.with_energy and counters is not None:
            joules, clock = energy_of(graph, seconds, counters)
            joules /= number
        return Measured(case.kind, case.name, case.dtype, case.shape, seconds / number, spread, joules, clock)
    except _FAILURES as error:
        return Measured(case.kind, case.name, case.dtype, case.shape, error=f"{type(error).__name__}: {error}"[:300])
    finally:
        torch.cuda.empty_cache()


SQUARES = 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192
OF_NETWORKS = (
    (1, 4096, 4096), (16, 4096, 4096), (64, 4096, 4096), (128, 4096, 4096), (512, 4096, 4096), (2048, 4096, 4096),
    (1, 14336, 4096), (16, 14336, 4096), (128, 14336, 4096), (2048, 14336, 4096), (1, 4096, 14336),
    (2048, 4096, 14336), (2048, 6144, 4096), (16, 128256, 2048), (128, 768, 768), (128, 3072, 768), (128, 768, 3072),
    (384, 1024, 1024), (384, 4096, 1024), (3072, 1024, 1024), (3072, 4096, 1024), (4096, 768, 3072), (3136, 64, 64),
    (3136, 256, 64), (12544, 64, 576), (784, 512, 128), (196, 1024, 256), (49, 2048, 512), (50176, 64, 147),
    (1000, 1000, 1000), (2000, 1536, 777), (5000, 3000, 2000), (8192, 1024, 8192), (16384, 2048, 2048),
)  # fmt: skip
"""Rows, columns and depth of products as in language models, encoders and convolutions, and some odd ones."""


def products() -> Iterator[Case]:
    """Yield products of two matrices, stored as libraries prefer them."""
    shapes = [(each, each, each) for each in SQUARES] + list(OF_NETWORKS)
    for dtype, torch_dtype in DTYPES.items():
        for rows, columns, depth in shapes:
            if dtype == "fp32" and rows * columns * depth > 1 << 36:
                continue

            def inputs(
                rows: int = rows, columns: int = columns, depth: int = depth, kind: torch.dtype = torch_dtype
            ) -> tuple[Tensor, ...]:
                return drawn(rows, depth, dtype=kind), drawn(columns, depth, dtype=kind)

            shape = {"rows": rows, "columns": columns, "depth": depth}
            with_energy = rows == columns == depth and rows in (4096, 8192) and dtype != "bf16"
            yield Case("product", f"{rows}x{columns}x{depth}", dtype, shape, inputs, functional.linear, with_energy)


def batched() -> Iterator[Case]:
    """Yield batched products, as of the heads of attention."""
    shapes = (12, 128, 128, 64), (96, 384, 384, 64), (256, 512, 64, 512), (64, 2048, 128, 2048)
    for number, rows, columns, depth in shapes:

        def inputs(
            number: int = number, rows: int = rows, columns: int = columns, depth: int = depth
        ) -> tuple[Tensor, ...]:
            return drawn(number, rows, depth), drawn(number, depth, columns)

        shape = {"batch": number, "rows": rows, "columns": columns, "depth": depth}
        yield Case("product", f"{number}x{rows}x{columns}x{depth}", "fp16", shape, inputs, torch.bmm)


def memory_bound() -> Iterator[Case]:
    """Yield operators that move more than they compute."""
    for rows, columns in ((256, 1024), (4096, 1024), (16384, 4096), (65536, 4096)):
        shape = {"rows": rows, "columns": columns}

        def one(rows: int = rows, columns: int = columns) -> tuple[Tensor, ...]:
            return (drawn(rows, columns),)

        def two(rows: int = rows, columns: int = columns) -> tuple[Tensor, ...]:
            return drawn(rows, columns), drawn(rows, columns)

        name, weight = f"{rows}x{columns}", drawn(columns)
        large = rows == ROWS_WITH_ENERGY
        yield Case("memory", f"relu {name}", "fp16", shape, one, torch.relu, large)
        yield Case("memory", f"add {name}", "fp16", shape, two, torch.add)
        yield Case("memory", f"gelu {name}", "fp16", shape, one, functional.gelu)
        yield Case("memory", f"softmax {name}", "fp16", shape, one, lambda x: torch.softmax(x, -1))
        yield Case(
            "memory", f"layernorm {name}", "fp16", shape, one,
            lambda x, w=weight, n=columns: functional.layer_norm(x, (n,), w, w),
        )  # fmt: skip
        yield Case("memory", f"transpose {name}", "fp16", shape, one, lambda x: x.t().contiguous())


def attentions() -> Iterator[Case]:
    """Yield attention by the library's fused kernels."""
    shapes = (
        (1, 12, 12, 128, 128, 64, False), (32, 12, 12, 128, 128, 64, False), (8, 16, 16, 384, 384, 64, False),
        (1, 32, 32, 512, 512, 128, False), (1, 32, 32, 2048, 2048, 128, True), (1, 32, 32, 4096, 4096, 128, True),
        (4, 32, 32, 4096, 4096, 128, True), (4, 16, 16, 8192, 8192, 128, False), (1, 32, 32, 1, 2048, 128, False),
        (1, 32, 32, 1, 16384, 128, False), (32, 32, 32, 1, 2048, 128, False),
    )  # fmt: skip
    for batch, heads, kv_heads, queries, keys, width, causal in shapes:

        def inputs(
            batch: int = batch, heads: int = heads, kv: int = kv_heads, queries: int = queries, keys: int = keys,
            width: int = width,
        ) -> tuple[Tensor, ...]:  # fmt: skip
            return drawn(batch, heads, queries, width), drawn(batch, kv, keys, width), drawn(batch, kv, keys, width)

        shape = {
            "batch": batch, "heads": heads, "kv_heads": kv_heads, "queries": queries, "keys": keys, "width": width,
            "causal": causal,
        }  # fmt: skip
        name = f"{batch}x{heads}x{queries}x{keys}x{width}{' causal' if causal else ''}"
        attend = partial(functional.scaled_dot_product_attention, is_causal=causal)
        yield Case("attention", name, "fp16", shape, inputs, attend, queries == QUERIES_WITH_ENERGY)


def networks() -> Iterator[Case]:
    """Yield whole networks in fp16, one at a time on the device."""
    for name, blocks, width, heads, shapes in (
        ("bert-base", 12, 768, 12, ((1, 128), (8, 128), (32, 128), (1, 384), (16, 384))),
        ("bert-large", 24, 1024, 16, ((1, 128), (1, 384), (8, 384))),
    ):
        encoder = Encoder.drawn(blocks, width, heads)
        for batch, length in shapes:

            def tokens(batch: int = batch, length: int = length) -> tuple[Tensor, ...]:
                return (torch.randint(0, 30000, (batch, length), device="cuda"),)

            shape = {"batch": batch, "sequence": length}
            has_energy = (batch, length) in {(32, 128), (16, 384), (8, 384), (1, 128)}
            yield Case("network", name, "fp16", shape, tokens, encoder, has_energy, rotates=False)
        del encoder
    for name, sizes, uses in (
        (
            "llama-3.2-1b", Sizes(16, 2048, 32, 8, 8192, 128256),
            ((1, 2048, 0), (1, 1, 2048), (1, 1, 8192), (16, 1, 2048)),
        ),
        ("llama-3-8b", Sizes(32, 4096, 32, 8, 14336, 128256), ((1, 2048, 0), (1, 1, 2048), (8, 1, 2048))),
    ):
        for batch, length, past in uses:
            decoder = Decoder.drawn(sizes, past, batch)

            def words(batch: int = batch, length: int = length) -> tuple[Tensor, ...]:
                return (torch.randint(0, 120000, (batch, length), device="cuda"),)

            shape = {"batch": batch, "tokens": length, "context": past}
            yield Case("network", name, "fp16", shape, words, decoder, with_energy=True, rotates=False)
            del decoder
            torch.cuda.empty_cache()
    pictures = (
        ("resnet50", (1, 16, 64)), ("vit_b_16", (1, 16, 64)), ("mobilenet_v2", (1, 16)), ("resnet18", (1, 16)),
        ("vgg16", (1, 16)), ("squeezenet1_1", (1, 16)), ("efficientnet_b0", (1, 16)), ("densenet121", (1,)),
        ("shufflenet_v2_x1_0", (1,)), ("mnasnet1_0", (1, 16)),
    )  # fmt: skip
    for name, batches in pictures:
        network = getattr(torchvision.models, name)().eval()
        if name != "vit_b_16":
            network = fuse(network)
        network = network.cuda().half().to(memory_format=torch.channels_last)
        for batch in batches:

            def inputs(batch: int = batch) -> tuple[Tensor, ...]:
                return (drawn(batch, 3, 224, 224).to(memory_format=torch.channels_last),)

            has_energy = (name, batch) in {("resnet50", 1), ("resnet50", 16), ("resnet50", 64), ("mobilenet_v2", 16)}
            has_energy = has_energy or (name, batch) in {("vgg16", 16), ("vit_b_16", 16)}
            yield Case("network", name, "fp16", {"batch": batch}, inputs, network, has_energy, rotates=False)
        del network


def main(arguments: list[str]) -> int:
    """Measure all cases and write them."""
    path, limit_s = arguments[0], float(arguments[1]) if len(arguments) > 1 else 240.0
    until = time.monotonic() + limit_s
    torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = True, 4
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    counters, idle_w = None, None
    try:
        counters = Counters()
        idle_w = counters.power_w
        print(f"{counters.energy_j:.0f} J since the driver was loaded")
    except (OSError, RuntimeError) as error:
        print(f"no energies: {error}")
        counters = None
    properties = torch.cuda.get_device_properties(0)
    results: list[Measured] = []
    facts = {
        "date": datetime.date.today().isoformat(), "device": properties.name, "sms": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size, "torch": torch.__version__, "torchvision": torchvision.__version__,
        "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "idle_w": idle_w,
    }  # fmt: skip
    with torch.inference_mode():
        for cases in (products, attentions, memory_bound, batched, networks):
            try:
                for case in cases():
                    if time.monotonic() > until:
                        break
                    results.append(measured(case, counters))
            except _FAILURES as error:
                print(f"{cases.__name__}: {error}")
            print(f"{cases.__name__}: {len(results)} results, {until - time.monotonic():.0f} s left", flush=True)
            written = json.dumps({**facts, "results": [asdict(each) for each in results]}, indent=1)
            Path(path).write_text(written + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
