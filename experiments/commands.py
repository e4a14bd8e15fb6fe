"""What each command answers: data for ``--json``, and how a person sees it."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from experiments.config import ExperimentError, read_experiment
from experiments.evaluate import Outcome, evaluate
from experiments.points import DesignPoint, Workload
from experiments.run import Row, run_points
from experiments.study import rewrite_report, write_report
from fusion import unfused_intermediate_bytes
from hw_models import known_paths, load_hardware, preset_names, with_values, write_perfetto
from hw_models.quantities import format_bytes, format_ps
from scheduler import Policy, ScheduleError, make_policy, policy_types
from workloads import load_network, zoo_names
from workloads.loopnest import Operations
from workloads.zoo import zoo_entry


@dataclass(frozen=True)
class Answer:
    """What a command found: ``data`` is printed with ``--json``, ``show`` prints it for people."""

    data: Mapping[str, Any]
    show: Callable[[], None]


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Callable[[], None]:
    def show() -> None:
        table = Table(title=escape(title), title_justify="left")
        numeric = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
        for name, right in zip(columns, numeric, strict=True):
            table.add_column(escape(name), justify="right" if right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(escape(f"{cell:,.4g}" if isinstance(cell, float) else str(cell)) for cell in row))
        Console().print(table)

    return show


def models(arguments: argparse.Namespace) -> Answer:
    """List the zoo, or one network's operators by kind."""
    if arguments.name is not None:
        return _one_model(arguments.name)
    found = []
    for name in zoo_names():
        entry = zoo_entry(name)
        graph = load_network(name)
        found.append(
            {
                "name": name, "task": entry.task, "batch": graph.batch, "operators": len(graph.ops),
                "parameters": graph.parameters, "gflop": graph.operations.flops / 1e9,
                "activation_bytes": graph.activation_bytes, "source": entry.source, "left_out": entry.left_out,
            }
        )  # fmt: skip
    rows = [
        (m["name"], m["task"], m["operators"], m["parameters"] / 1e6, m["gflop"], m["activation_bytes"] / 1e6)
        for m in found
    ]
    columns = ("name", "task", "operators", "parameters (M)", "GFLOP", "activations (MB)")
    return Answer({"models": found}, _table("Networks", columns, rows))


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
        {"kind": kind, "count": n, "flops": f, "flops_share": f / flops, "output_bytes": b, "bytes_share": b / size}
        for kind, (n, f, b) in sorted(kinds.items(), key=lambda item: (-item[1][1], item[0]))
    ]
    rows = [(d["kind"], d["count"], f"{d['flops_share']:.2%}", f"{d['bytes_share']:.2%}") for d in data]
    title = f"{graph.name}: {len(graph.ops)} operators, {flops / 1e9:.3g} GFLOP at batch {graph.batch}"
    return Answer({"model": graph.name, "kinds": data}, _table(title, ("operator", "count", "FLOPs", "bytes"), rows))


def hardware(arguments: argparse.Namespace) -> Answer:
    """List the presets, or one machine's values."""
    if arguments.name is not None:
        spec = load_hardware(arguments.name)
        data = spec.model_dump(by_alias=True, mode="json")
        rows = [(path, str(_value_at(data, path))) for path in known_paths(spec)]
        return Answer(data, _table(f"{spec.name}: what can be set and swept", ("path", "value"), rows))
    found, rows = [], []
    for name in preset_names():
        spec = load_hardware(name)
        dtype = next(iter(next(iter(spec.units.values())).model_dump().get("macs_per_cycle", {"fp32": 0})))
        tera = 2 * spec.peak_macs_per_s(dtype) / 1e12
        found.append({"name": name, "kind": spec.kind, "cores": spec.cores, "peak_tops": tera, "area_mm2": spec.area_mm2})
        local = format_bytes(spec.local_buffer.capacity_bytes)
        shared = "none" if spec.global_buffer is None else format_bytes(spec.global_buffer.capacity_bytes)
        shape = f"{spec.clusters} x {spec.cores_per_cluster}"
        rows.append((name, shape, f"{tera:.4g} ({dtype})", local, shared, spec.ddr.bandwidth_bytes_per_s / 1e9))
    columns = ("name", "clusters x cores", "peak TOP/s", "local buffer", "global buffer", "DDR (GB/s)")
    return Answer({"hardware": found}, _table("Machines", columns, rows))


def _value_at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, list) else data[part]
    return data


def policies(arguments: argparse.Namespace) -> Answer:
    """List the policies with their options."""
    found = []
    for name, kind in sorted(policy_types().items()):
        options = {field: repr(d.default) for field, d in kind.__dataclass_fields__.items()}
        found.append({"name": name, "what": (kind.__doc__ or "").strip().splitlines()[0], "options": options})
    rows = [(p["name"], p["what"], ", ".join(f"{k}={v}" for k, v in p["options"].items())) for p in found]
    return Answer({"policies": found}, _table("Policies", ("name", "what it is", "options"), rows))


def _policy(arguments: argparse.Namespace) -> Policy:
    return make_policy(arguments.policy, _assignments(arguments.option, "--option"))


def _assignments(texts: Sequence[str], flag: str) -> dict[str, object]:
    """Return ``K=V`` arguments as a mapping; whole numbers, numbers and true/false lose their quotes."""
    values: dict[str, object] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise ScheduleError(f"{flag} has {text[:60]!r}; needs NAME=VALUE")
        values[name] = _plain(value)
    return values


def _plain(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _point(arguments: argparse.Namespace) -> DesignPoint:
    spec = load_hardware(arguments.hardware)
    settings = _assignments(getattr(arguments, "set", []), "--set")
    spec = with_values(spec, settings) if settings else spec
    workload = Workload(arguments.model, arguments.batch, arguments.sequence, arguments.dtype, arguments.simplify)
    return DesignPoint(workload, spec, _policy(arguments))


def simulate(arguments: argparse.Namespace) -> Answer:
    """Simulate one point."""
    point = _point(arguments)
    outcome = evaluate(point)
    if arguments.trace is not None:
        write_perfetto(outcome.result, arguments.trace, point.hardware.name)
    return Answer(outcome.record.as_json(), lambda: _show_outcome(outcome))


def _show_outcome(outcome: Outcome) -> None:
    record, result = outcome.record, outcome.result
    console = Console()
    console.print(
        f"[bold]{escape(record.model)}[/bold], batch {record.batch}, {record.dtype} on {escape(record.hardware)}"
        f" under {escape(record.policy)}"
    )
    console.print(
        f"  {format_ps(result.makespan_ps)}, {record.throughput_per_s:,.0f}/s, {record.energy_j:.4g} J,"
        f" {record.kernels} kernels; bound by [bold]{record.bottleneck}[/bold]"
    )
    total = result.makespan_ps
    paths = sorted(result.critical_ps.items(), key=lambda item: -item[1])
    _table("What the critical path waited for", ("what", "time", "share"),
           [(what, format_ps(spent), f"{spent / total:.1%}") for what, spent in paths])()  # fmt: skip
    memories = [
        (name, format_bytes(size), format_bytes(record.peak_occupancy_bytes[name]), f"{record.utilisation[name]:.1%}",
         record.tensor_scopes.get(name, 0))
        for name, size in record.traffic_bytes.items()
    ]  # fmt: skip
    _table("Memories", ("memory", "traffic", "peak occupancy", "bandwidth used", "outputs kept"), memories)()
    units = [(name, f"{share:.1%}") for name, share in record.utilisation.items() if name not in record.traffic_bytes]
    _table("Units", ("unit", "busy"), units)()


def fuse(arguments: argparse.Namespace) -> Answer:
    """Plan without simulating."""
    spec = load_hardware(arguments.hardware)
    graph = load_network(
        arguments.model, batch=arguments.batch, sequence=arguments.sequence, simplify=arguments.simplify
    )
    if arguments.dtype is not None:
        graph = graph.with_dtype(arguments.dtype)
    schedule = _policy(arguments).schedule(graph, spec, arguments.dtype or "fp32")
    plan = schedule.plan
    after = Operations()
    for instance in schedule.instances:
        for run in instance.runs:
            work = run.layer.tile_work(tuple(hi - lo for lo, hi in run.box))
            after = sum((nest.operations for nest in work.nests), after)
    groups = [[graph.ops[position].name for position in group.ops] for group in plan.groups]
    data = {
        "model": graph.name, "policy": arguments.policy, "operators": len(graph.ops), "kernels": plan.kernels,
        "intermediate_bytes_before": unfused_intermediate_bytes(graph),
        "intermediate_bytes_after": plan.intermediate_bytes,
        "flops_before": graph.operations.flops, "flops_after": after.flops, "groups": groups,
    }  # fmt: skip

    def show() -> None:
        console = Console()
        console.print(
            f"[bold]{escape(graph.name)}[/bold] under {escape(arguments.policy)}: {len(graph.ops)} operators in"
            f" {plan.kernels} kernels; between kernels {format_bytes(data['intermediate_bytes_before'])}"
            f" -> {format_bytes(plan.intermediate_bytes)}; {graph.operations.flops / 1e9:.4g} ->"
            f" {after.flops / 1e9:.4g} GFLOP"
        )
        rows = [
            (number, len(group.ops), graph.ops[group.ops[0]].name, graph.ops[group.ops[-1]].name, group.boundary_reason)
            for number, group in enumerate(plan.groups)
            if plan.is_kernel(number)
        ]
        _table("Kernels", ("kernel", "operators", "first", "last", "why it ends"), rows)()

    return Answer(data, show)


def run(arguments: argparse.Namespace) -> Answer:
    """Run an experiment file, resuming what its folder has, and write the report."""
    experiment, points = read_experiment(arguments.experiment)
    folder = arguments.out or Path("out") / experiment.name
    if not points:
        raise ExperimentError(f"{arguments.experiment}: asks for no design points")
    console = Console(stderr=True)
    failed: list[Row] = []
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), console=console,
    ) as progress:  # fmt: skip
        task = progress.add_task("design points", total=len({point.key for point in points}), rate="")

        def on_point(point: DesignPoint, row: Row) -> None:
            if row["error"] is not None:
                failed.append(row)
            speed = progress.tasks[task].speed
            progress.update(task, advance=1, rate=f"{speed:.1f}/s" if speed else "")

        done = run_points(points, folder, arguments.workers, on_point)
        progress.update(task, completed=progress.tasks[task].total)
    report_path = write_report(arguments.experiment, folder)
    data = {"experiment": experiment.name, "points": len(points), "computed": done, "failed": len(failed),
            "folder": str(folder), "report": str(report_path)}  # fmt: skip

    def show() -> None:
        console = Console()
        console.print(f"{len(points)} design points, {done} computed now, {len(failed)} failed; {escape(str(report_path))}")
        for row in failed[:5]:
            console.print(f"  {escape(str(row['model']))} under {escape(str(row['policy']))}: {escape(str(row['error']))}")

    return Answer(data, show)


def report(arguments: argparse.Namespace) -> Answer:
    """Write the report of a folder again."""
    path = rewrite_report(arguments.folder)
    return Answer({"report": str(path)}, lambda: Console().print(escape(str(path))))
