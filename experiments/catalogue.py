"""The commands that list what there is: networks, machines, policies."""

import argparse
from typing import Any

from experiments.answers import Answer, table
from hw_models import known_paths, load_hardware, preset_names
from hw_models.quantities import format_bytes, readable
from scheduler import policy_types
from workloads import load_network, zoo_names
from workloads.zoo import zoo_entry


def models(arguments: argparse.Namespace) -> Answer:
    """List the zoo, or one network's operators by kind."""
    if arguments.name is not None:
        return _one_model(arguments.name)
    found: list[dict[str, Any]] = []
    for name in zoo_names():
        entry = zoo_entry(name)
        graph = load_network(name)
        found.append(
            {
                "name": name, "task": entry.task, "batch": graph.batch, "operators": len(graph.ops),
                "parameters": graph.parameters, "gflop": graph.operations.flops / 1e9,
                "activation_bytes": graph.activation_bytes, "source": entry.source,
                "left_out": entry.left_out,
            }
        )  # fmt: skip
    rows = [
        (m["name"], m["task"], m["operators"], m["parameters"] / 1e6, m["gflop"], m["activation_bytes"] / 1e6)
        for m in found
    ]
    columns = ("name", "task", "operators", "parameters (M)", "GFLOP", "activations (MB)")
    return Answer({"models": found}, table("Networks", columns, rows))


def _one_model(name: str) -> Answer:
    graph = load_network(name)
    kinds: dict[str, list[int]] = {}
    for op in graph.ops:
        counts = kinds.setdefault(op.kind, [0, 0, 0])
        counts[0] += 1
        counts[1] += op.operations.flops
        counts[2] += sum(graph.tensors[output].size_bytes for output in op.outputs)
    flops = max(graph.operations.flops, 1)
    size = max(graph.activation_bytes, 1)
    data = [
        {
            "kind": kind,
            "count": n,
            "flops": f,
            "flops_share": f / flops,
            "output_bytes": b,
            "bytes_share": b / size,
        }
        for kind, (n, f, b) in sorted(kinds.items(), key=lambda item: (-item[1][1], item[0]))
    ]
    rows = [(d["kind"], d["count"], f"{d['flops_share']:.2%}", f"{d['bytes_share']:.2%}") for d in data]
    title = f"{graph.name}: {len(graph.ops)} operators, {flops / 1e9:.3g} GFLOP at batch {graph.batch}"
    return Answer({"model": graph.name, "kinds": data}, table(title, ("operator", "count", "FLOPs", "bytes"), rows))


def hardware(arguments: argparse.Namespace) -> Answer:
    """List the presets, or one machine's values."""
    if arguments.name is not None:
        spec = load_hardware(arguments.name)
        data = spec.model_dump(by_alias=True, mode="json")
        values = [(path, readable(str(_value_at(data, path)))) for path in known_paths(spec)]
        return Answer(data, table(f"{spec.name}: what can be set and swept", ("path", "value"), values))
    found: list[dict[str, Any]] = []
    rows: list[tuple[object, ...]] = []
    for name in preset_names():
        spec = load_hardware(name)
        dtype = next(iter(next(iter(spec.units.values())).model_dump().get("macs_per_cycle", {"fp32": 0})))
        tera = 2 * spec.peak_macs_per_s(dtype) / 1e12
        found.append(
            {
                "name": name,
                "kind": spec.kind,
                "cores": spec.cores,
                "peak_tops": tera,
                "area_mm2": spec.area_mm2,
            }
        )
        local = format_bytes(spec.local_buffer.capacity_bytes)
        shared = "none" if spec.global_buffer is None else format_bytes(spec.global_buffer.capacity_bytes)
        shape = f"{spec.clusters} x {spec.cores_per_cluster}"
        rows.append((name, shape, f"{tera:.4g} ({dtype})", local, shared, spec.ddr.bandwidth_bytes_per_s / 1e9))
    columns = ("name", "clusters x cores", "peak TOP/s", "local buffer", "global buffer", "DDR (GB/s)")
    return Answer({"hardware": found}, table("Machines", columns, rows))


def _value_at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, list) else data[part]
    return data


def policies(arguments: argparse.Namespace) -> Answer:
    """List the policies with their options."""
    found: list[dict[str, Any]] = []
    for name, kind in sorted(policy_types().items()):
        declared = kind.__dataclass_fields__.items()
        options = {field: repr(option.default) for field, option in declared if field != "name"}
        found.append({"name": name, "what": (kind.__doc__ or "").strip().splitlines()[0], "options": options})
    rows = [(p["name"], p["what"], ", ".join(f"{k}={v}" for k, v in p["options"].items())) for p in found]
    return Answer({"policies": found}, table("Policies", ("name", "what it is", "options"), rows))
