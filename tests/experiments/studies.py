"""Small hand-made studies for the tests of reports, and a reader of the pages made from them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dsascape.experiments.report.study import Study
from dsascape.experiments.results.timeline import Span, Timeline

BUFFERS = {"local_buffer.capacity": ("64 KiB", "1 MiB")}


def point(policy: str, latency_s: float, model: str = "resnet50", **more: object) -> dict[str, object]:
    """One row as the experiments write it."""
    row: dict[str, object] = {
        "model": model,
        "hardware": "dsa",
        "policy": policy,
        "batch": 8,
        "dtype": "fp16",
        "latency_s": latency_s,
        "throughput_per_s": 8 / latency_s,
        "energy_j": latency_s * 10,
        "area_mm2": 100.0,
        "kernels": 20,
        "bottleneck": "ddr",
        "simulated_events": 1000,
        "engine": "compiled",
        "wall_s": 0.1,
        "error": None,
        "traffic_bytes.ddr": 1e8,
        "traffic_bytes.local_buffer": 2e9,
        "utilisation.matrix": 0.4,
        "utilisation.dma_load": 0.9,
        "peak_occupancy_bytes.local_buffer": 6e4,
        "tensor_scopes.ddr": 12,
        "tensor_scopes.local_buffer": 4,
        "critical.ddr": 0.7,
        "critical.matrix": 0.2,
        "critical.dma_load-startup": 0.1,
        "macs": 10**9,
        "peak_macs_per_s": 1e13,
        "off_chip_bytes_per_s": 1e11,
    }
    return row | more


def failure(policy: str, error: str, **more: object) -> dict[str, object]:
    blank = {key: np.nan for key, value in point(policy, 1.0).items() if isinstance(value, float)}
    return point(policy, 1.0) | blank | {"bottleneck": None, "error": error} | more


def study(rows: Sequence[dict[str, object]], swept: Mapping[str, tuple[str, ...]] = BUFFERS) -> Study:
    return Study(
        name="buffer-sweep",
        question="Does it pay?",
        hardware_name="dsa",
        hardware_rows=(("clusters", "4"), ("local_buffer.capacity", "256 KiB")),
        swept=swept,
        objectives=("latency_s", "energy_j", "area_mm2"),
        frame=pd.DataFrame(rows),
        timelines=(),
        provenance={"dsascape": "0.1.0", "git commit": "abc"},
    )


def grid(
    models: Sequence[str], policies: Sequence[str], swept: Mapping[str, tuple[str, ...]]
) -> list[dict[str, object]]:
    """Later policies and later values are faster."""
    return [
        point(policy, 0.08 / (1 + rank) / (1 + sum(place)), model, **dict(zip(swept, values, strict=True)))
        for model in models
        for place, values in zip(
            product(*(range(len(texts)) for texts in swept.values())), product(*swept.values()), strict=True
        )
        for rank, policy in enumerate(policies)
    ]


def two_by_two() -> list[dict[str, object]]:
    """Two policies over two buffers: twice as fast with the small one, eight times with the large one."""
    return [
        point("graphturbo", 0.004, **{"local_buffer.capacity": "64 KiB"}, bottleneck="matrix"),
        point("fixed-pattern", 0.008, **{"local_buffer.capacity": "64 KiB"}),
        point("graphturbo", 0.001, **{"local_buffer.capacity": "1 MiB"}, bottleneck="matrix"),
        point("fixed-pattern", 0.008, **{"local_buffer.capacity": "1 MiB"}),
    ]


def measured(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return points of which each was measured: what is simulated to be fast is slow, and the other way round."""
    latencies = [float(str(row["latency_s"])) for row in rows]
    ends = max(latencies) + min(latencies)
    return [{**row, "measured_s": ends - latency} for row, latency in zip(rows, latencies, strict=True)]


def headline(page: str) -> tuple[str, str]:
    """Return the headline and the words behind it."""
    found = re.search(r"<h1>([^<]*?)(?: <small>([\w, ]+)</small>)?</h1>", page)
    assert found is not None
    return found[1], found[2] or ""


def comb(teeth: int, period_ps: int, busy_ps: int) -> Timeline:
    """A lane that is busy at regular intervals."""
    spans = tuple(Span(i * period_ps, i * period_ps + busy_ps, f"tile{i}", "matrix") for i in range(teeth))
    return Timeline("fixed-pattern", (("matrix", spans),), teeth * period_ps)


def drawn_study() -> Study:
    """A study in which every kind of drawing occurs."""
    swept = BUFFERS | {"ddr.bandwidth": ("68 GB/s", "136 GB/s")}
    rows = grid(["resnet50", "bert-base"], ["fixed-pattern", "graphturbo"], swept)
    spread = [
        row | {"energy_j": place % 3 + 0.5, "area_mm2": 50.0 + place % 5} for place, row in enumerate(rows)
    ]
    return replace(study(spread, swept), timelines=(comb(5, 100, 50),))


class Reader(HTMLParser):
    """Collects what a browser would see: elements with their attributes, and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        """Data of the points that is embedded for the page's script."""
        known: dict[str, Any] = json.loads(self.scripts[0])
        return known
