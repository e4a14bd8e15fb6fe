"""Search for machines that get slower with more of a resource, or faster with more images: random, every numeric field.

Run ``python -m benchmarks.more_resource [--seed N] [--draws N] [--kind dsa|cpu|gpu] [--policy P]``. A draw is a machine
near a preset, a small network, a policy and a batch. Some of its numeric fields are doubled (latencies halved), one at
a time, and so is the batch. Runs that take more than 2 % longer with more of a resource, or less time for twice the
images, are printed and counted.
"""

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from benchmarks.random_networks import write_random_network
from dsascape.experiments.point.evaluate import evaluate
from dsascape.experiments.question.points import DesignPoint, Workload
from dsascape.hw_models import (
    AnyHardware,
    ClusteredDsa,
    HardwareError,
    SimulationError,
    load_hardware,
    preset_names,
    with_values,
)
from dsascape.scheduler import ScheduleError, make_policy

KINDS = {"clustered_dsa": "dsa", "cpu": "cpu", "gpu": "gpu"}
SLOW = ("ethos_u65", "gemmini", "nvdla_large")
"""Presets on which planning takes long."""
PRESETS: Mapping[str, tuple[str, ...]] = {
    short: tuple(name for name in preset_names() if name not in SLOW and load_hardware(name).kind == kind)
    for kind, short in KINDS.items()
}
OF_RANDOM_NETWORKS: Mapping[str, tuple[str, ...]] = {
    "dsa": ("ascend910", "goya", "ipu_mk1", "stcp920", "stcp920_paper", "tpu_v4i"),
    "cpu": (
        "apple_m1", "epyc", "jetson_agx_orin", "khadas_vim3", "kirin970", "kirin990", "platinum_8124m",
        "raspberry_pi_3b_plus", "raspberry_pi_4", "raspberry_pi_5", "rk3588", "snapdragon810", "snapdragon855",
    ),
    "gpu": (
        "a10", "a100", "a30", "adreno640", "h100", "h200", "l4", "mali_g76", "p100", "p4", "rtx_4090", "t4", "v100",
    ),
}  # fmt: skip
"""Presets of `drawn_small`: named, so that a new preset leaves all draws as they are."""
NETWORKS = ("bert-tiny", "squeezenet", "resnet18", "mobilenet-v2", "resnet18-tailor")
POLICIES: Mapping[str, tuple[str, ...]] = {
    "dsa": ("unfused", "fixed-pattern", "astitch", "graphturbo", "dnnfusion", "ago"),
    "cpu": ("unfused", "fixed-pattern", "dnnfusion", "ago"),
    "gpu": ("unfused", "fixed-pattern", "astitch", "graphturbo", "dnnfusion", "ago"),
}
UNITS = (("_bytes_per_s", "B/s"), ("_bytes", "B"), ("_hz", "Hz"), ("_ps", "ps"))
LESS_IS_BETTER = (
    "latency", "latency_cycles", "fma_latency_cycles", "startup", "launch", "kernel_call", "parallel_region",
    "special_cycles", "loop_cycles", "loop_vector_cycles", "reserved", "issue_cycles", "graph_launch", "round_trips",
    "element_instructions", "fewer_threads_region", "library_region",
)  # fmt: skip
NO_RESOURCE = (
    "line", "shared_by", "unit", "warp", "registers_unit", "sector", "weight_window", "kept", "fresh", "rows",
    "columns", "depth", "warps", "accumulator_sets", "exposed", "exposed_stores", "writing", "scattered", "overlap",
    "energy", "area", "efficiency", "sustained_factor", "active_clock", "request", "taps_together", "tile_multiple",
    "step_bytes", "most_sums", "lane_most_sums", "older_rate", "elements", "element_threads",
)  # fmt: skip
"""Fields that describe how something works; more of them is neither better nor worse."""
TOLERANCE = 1.02
TOLERANCE_OF_IMAGES = 1.01


@dataclass(frozen=True)
class Field:
    """A numeric field: its path, its value, the unit that it is written with."""

    path: str
    value: float
    unit: str

    @property
    def less_is_better(self) -> bool:
        return any(name in LESS_IS_BETTER for name in self.path.split("."))

    def scaled(self, factor: float) -> str | float | int:
        """Return the field's value times ``factor``, as it is written."""
        value = self.value * factor
        if isinstance(self.value, int):
            value = max(round(value), 1)
        return f"{value:.12g} {self.unit}" if self.unit else value


def fields_of(record: BaseModel, prefix: str = "") -> Iterator[Field]:
    """Yield the numeric fields of a machine of which more, or less, is better."""
    for name, info in type(record).model_fields.items():
        alias = info.alias or name
        value = getattr(record, name)
        if alias in NO_RESOURCE:
            continue
        unit = next((unit for suffix, unit in UNITS if name.endswith(suffix)), "")
        yield from _fields_at(f"{prefix}{alias}", value, unit)


def _fields_at(path: str, value: Any, unit: str) -> Iterator[Field]:
    if isinstance(value, BaseModel):
        yield from fields_of(value, f"{path}.")
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _fields_at(f"{path}.{key}", entry, unit)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield Field(path, value, unit)


def some_fields(machine: AnyHardware, number: int, chosen: random.Random) -> list[Field]:
    """Return so many fields of a machine, drawn such that a field that machines get later changes few draws."""
    drawn_as = f"{chosen.random()}"
    fields = sorted(fields_of(machine), key=lambda field: random.Random(f"{drawn_as} {field.path}").random())
    return fields[:number]


def beside(machine: AnyHardware, path: str) -> dict[str, str]:
    """Return the values to grow together with a field: private DDR with the number of clusters."""
    if not isinstance(machine, ClusteredDsa) or path != "clusters" or machine.ddr.sharing == "shared":
        return {}
    ddr = machine.ddr
    return {
        "ddr.bandwidth": f"{2 * ddr.bandwidth_bytes_per_s} B/s", "ddr.capacity": f"{2 * ddr.capacity_bytes} B"
    }  # fmt: skip


def near(base: AnyHardware, chosen: random.Random) -> AnyHardware:
    """Return a machine that differs from ``base`` in a few fields, by a factor of up to 8 each."""
    machine = base
    for field in some_fields(base, chosen.randrange(4), chosen):
        value = field.scaled(2 ** chosen.choice((-3, -2, -1, 1, 2, 3)))
        try:
            machine = with_values(machine, {field.path: value})
        except HardwareError:
            continue
    return machine


def better_machines(
    machine: AnyHardware, number: int, chosen: random.Random
) -> Iterator[tuple[Field, AnyHardware]]:
    """Yield so many random fields of a machine, and the machine with each doubled; without those that may not be."""
    for field in some_fields(machine, number, chosen):
        value = field.scaled(0.5 if field.less_is_better else 2)
        try:
            better = with_values(machine, {field.path: value, **beside(machine, field.path)})
        except HardwareError:
            continue
        if better != machine:
            yield field, better


@dataclass(frozen=True)
class Found:
    """A violation: a pair of runs of which the one expected to be faster is slower, and the ratio."""

    kind: str
    policy: str
    what: str
    ratio: float
    where: str


def seconds(point: DesignPoint) -> tuple[float, float] | None:
    """Return the latency and the expected latency in seconds; None if the point does not run."""
    try:
        record = evaluate(point).record
        return record.latency_s, record.expected_latency_s
    except (ScheduleError, SimulationError, HardwareError):
        return None


def times_as_long(after_s: tuple[float, float] | None, before_s: tuple[float, float]) -> float:
    """Return by how much a run, or what is expected of it, takes longer than before; infinite if it does not run."""
    return max([after / before for after, before in zip(after_s, before_s, strict=True)]) if after_s else math.inf


def drawn(kind: str, policy: str | None, chosen: random.Random) -> tuple[DesignPoint, str]:
    """Return a random point, and where it is."""
    preset = chosen.choice(PRESETS[kind])
    machine = near(load_hardware(preset), chosen)
    network, name = chosen.choice(NETWORKS), chosen.choice(POLICIES[kind])
    name = policy or name
    batch = chosen.choice((1, 2, 3, 4, 6, 8))
    point = DesignPoint(Workload(network, batch), machine, make_policy(name), {})
    changed = {f.path: f.value for f in fields_of(machine)}.items() - {
        f.path: f.value for f in fields_of(load_hardware(preset))
    }.items()
    return point, f"{preset} {dict(changed)} {network} x{batch}"


def drawn_small(kind: str, number: int, folder: Path) -> tuple[DesignPoint, random.Random]:
    """Return the point of that number on a random small network, written to ``folder``, and what draws its pairs."""
    chosen = random.Random(f"{kind} {number}")
    machine = load_hardware(chosen.choice(OF_RANDOM_NETWORKS[kind]))
    if chosen.choice((True, False)):
        machine = near(machine, chosen)
    policy, batch = chosen.choice(POLICIES[kind]), chosen.choice((1, 1, 2, 3, 4, 8))
    path = folder / f"{kind}-{number}.onnx"
    write_random_network(chosen, path)
    return DesignPoint(Workload(str(path), batch), machine, make_policy(policy), {}), chosen


def slower_with_more(
    point: DesignPoint, pairs: int, chosen: random.Random
) -> Iterator[tuple[str, DesignPoint, float]]:  # fmt: skip
    """Yield fields of which twice as much costs over 2 % of latency, and ``batch`` if twice of it saves over 1 %.

    With each, the point with twice as much, and by how much it takes longer, or less. Nothing for a point that does not
    run.
    """
    before_s = seconds(point)
    if before_s is None:
        return
    for field, machine in better_machines(point.hardware, pairs, chosen):
        better = replace(point, hardware=machine)
        after_s = seconds(better)
        ratio = math.inf if after_s is None else after_s[0] / before_s[0]
        if ratio > TOLERANCE:
            yield field.path, better, ratio
    twice = replace(point, workload=replace(point.workload, batch=2 * (point.workload.batch or 1)))
    twice_s = seconds(twice)
    ratio = 0.0 if twice_s is None else before_s[0] / twice_s[0]
    if ratio > TOLERANCE_OF_IMAGES:
        yield "batch", twice, ratio


def main() -> None:
    """Print the violations and their counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--kind", choices=tuple(PRESETS))
    parser.add_argument("--policy")
    given = parser.parse_args()
    started = time.time()
    found, pairs, batches, machines = list[Found](), 0, 0, 0
    for number in range(given.draws):
        chosen = random.Random(f"{given.seed} {number}")
        kind = given.kind or chosen.choice(tuple(PRESETS))
        point, where = drawn(kind, given.policy, chosen)
        policy = point.policy.name
        base_s = seconds(point)
        if base_s is None:
            continue
        machines += 1
        for field, better in better_machines(point.hardware, given.pairs, chosen):
            more_s = seconds(replace(point, hardware=better))
            pairs += 1
            ratio = times_as_long(more_s, base_s)
            if ratio > TOLERANCE:
                found.append(Found(kind, policy, field.path, ratio, where))
                print(f"{ratio:7.3f} {policy:14} {field.path:30} [{number}] {where}", flush=True)
        batch = point.workload.batch or 1
        twice_s = seconds(replace(point, workload=replace(point.workload, batch=2 * batch)))
        if twice_s is None:
            continue
        batches += 1
        if (ratio := times_as_long(base_s, twice_s)) > TOLERANCE:
            found.append(Found(kind, policy, "batch", ratio, where))
            print(f"{ratio:7.3f} {policy:14} {'batch':30} [{number}] {where}", flush=True)
    print(f"{machines} points, {pairs} pairs, {batches} doubled batches, {time.time() - started:.0f} s")
    slower = [each for each in found if each.what != "batch"]
    print(f"slower with more: {len(slower)}; faster with twice the images: {len(found) - len(slower)}")
    for (kind, policy, what), count in sorted(Counter((f.kind, f.policy, f.what) for f in found).items()):
        worst = max(f.ratio for f in found if (f.kind, f.policy, f.what) == (kind, policy, what))
        print(f"  {kind:4} {policy:14} {what:34} {count:4} {worst:8.3f}")


if __name__ == "__main__":
    main()
