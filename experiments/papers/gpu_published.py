"""Inference that others have published of GPUs beside the same networks simulated: TensorRT, PyTorch and others.

    python -m dsascape.experiments.papers.gpu_published [OUT.md]

Figures are in ``gpus/published.csv``, their sources in ``gpus/published.yaml``; those at `BATCHES` are simulated, which
takes some minutes. TensorRT launches a network as one graph (`GpuTuning.graphs`). PyTorch launches a kernel for each
function of a convolutional network, normalisation behind a convolution included: ``eager`` here, with biases apart,
issued by a host that takes its time for each (`GpuTuning.host`); its casts under automatic mixed precision are left
out. What the other runtimes fuse, and blocks of transformers, are simulated under ``fixed-pattern``, as in [libraries
on GPUs](gpu-libraries.md); Paddle's host issues the kernels of an engine one by one.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from dsascape.experiments.api import simulate
from dsascape.experiments.papers.graphturbo_tables import markdown
from dsascape.experiments.papers.pages import write_page
from dsascape.hw_models import AnyHardware, load_hardware
from dsascape.hw_models.machine_files.load import with_values
from dsascape.hw_models.text.yaml_file import read_yaml
from dsascape.workloads import Graph, load_network
from dsascape.workloads.bias_apart import with_biases_apart

FOLDER = Path(__file__).parent / "gpus"
BATCHES = 1, 32, 256, 512, 1024, 1536, 2048
"""Batches that are simulated: each figure with another one lies between two of them, by network and runtime."""
_OTHER_VALUES = {"a100-80gb": ("a100", {"dram.capacity": "80 GiB", "dram.bandwidth": "2039 GB/s"})}
"""Presets and changed values of cards that have no preset of their own: the A100 of 80 GB has HBM2e."""
EAGER = "PyTorch"
"""Runtime whose host launches every kernel by itself."""
FED = "Paddle-TRT"
"""Runtime whose figures hold more than what the card does."""
_LAUNCHED: dict[str, dict[str, object]] = {
    "TensorRT": {"graphs": True}, EAGER: {"host": "eager"}, FED: {"host": "engine"},
}  # fmt: skip
"""Tuning by runtime: who issues its kernels, where that is not a host that is never late."""
_TRANSFORMERS = {"vit-b16"}
"""Networks of PyTorch whose attention is one kernel."""
_HEADINGS = (
    "card", "runtime", "network", "tokens", "batch", "dtype", "published [ms]", "bound", "expected", "source",
)  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Published:
    """One published figure; ``clock_ghz`` where the source states that the card ran at another than the boost clock."""

    card: str
    runtime: str
    network: str
    sequence: int | None
    batch: int
    dtype: str
    seconds: float
    clock_ghz: float | None
    source: str

    @property
    def machine(self) -> AnyHardware:
        """Card as it ran."""
        preset, values = _OTHER_VALUES.get(self.card, (self.card, {}))
        clock = {} if self.clock_ghz is None else {"sms.clock": f"{self.clock_ghz} GHz"}
        return with_values(load_hardware(preset), {**values, **clock})

    @property
    def graph(self) -> Graph:
        """Network at its length of token inputs."""
        return load_network(self.network, sequence=self.sequence)


@dataclass(frozen=True, slots=True)
class Case:
    """A published figure and the simulated latencies of the same work."""

    published: Published
    bound_s: float
    expected_s: float


def published() -> Iterator[Published]:
    """Yield all published figures; a throughput is the seconds of its batch."""
    for each in pd.read_csv(FOLDER / "published.csv").to_dict("records"):
        given: dict[str, Any] = {str(key): None if pd.isna(value) else value for key, value in each.items()}
        batch, milliseconds = int(given["batch"]), given["latency_ms"]
        seconds = batch / given["items_per_s"] if milliseconds is None else milliseconds / 1e3
        sequence = None if given["sequence"] is None else int(given["sequence"])
        yield Published(
            given["card"], given["runtime"], given["network"], sequence, batch, given["dtype"], seconds,
            given["clock_ghz"], given["source"],
        )  # fmt: skip


@cache
def cases() -> tuple[Case, ...]:
    """Return the published figures at `BATCHES`, simulated on all processors, by card, runtime and network."""
    chosen = sorted(each for each in published() if each.batch in BATCHES)
    with ProcessPoolExecutor() as pool:
        return tuple(pool.map(simulated, chosen))


def simulated(each: Published) -> Case:
    """Return the figure with the simulated latencies of the same work."""
    by_functions = each.runtime == EAGER and each.network not in _TRANSFORMERS
    graph = each.graph.with_batch(each.batch)
    if by_functions:
        graph = with_biases_apart(graph)
    policy, tuning = "eager" if by_functions else "fixed-pattern", _LAUNCHED.get(each.runtime)
    record = simulate(graph, each.machine, policy, dtype=each.dtype, tuning=tuning).record
    return Case(each, record.latency_s, record.expected_latency_s)


def page() -> str:
    """Return the page as Markdown."""
    rows = [
        (
            (of := each.published).card, of.runtime, of.network, of.sequence or "", of.batch, of.dtype,
            f"{1e3 * of.seconds:,.2f}", f"{each.bound_s / of.seconds:.2f}", f"{each.expected_s / of.seconds:.2f}",
            of.source,
        )
        for each in cases()
    ]  # fmt: skip
    sources = read_yaml(FOLDER / "published.yaml")["sources"]
    return "\n".join([
        "# Published figures of GPUs",
        "",
        *(__doc__ or "").partition("\n")[2].strip().partition("\n\n")[2].splitlines(),
        "",
        *[
            f"- {key}: {of['repository']}, `{of['file']}`, {of['version']}; {of['figure']}"
            for key, of in sources.items()
        ],
        "",
        "`bound` and `expected` are simulated latencies by the published one. [What follows](accuracy.md).",
        "",
        markdown(_HEADINGS, rows),
        "",
    ])  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Write the page, or print it; return the exit code."""
    return write_page(page, (__doc__ or "").partition("\n")[0], argv)


if __name__ == "__main__":
    sys.exit(main())
