"""The command ``simulate``, and the parsing of network, machine and policy that commands share."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from dsascape.experiments.point.decompose import leaves_batches_open
from dsascape.experiments.point.far_beyond import warnings_of
from dsascape.experiments.point.job import Outcome
from dsascape.experiments.point.language import ARITHMETIC, CACHE, WEIGHTS, paced_by
from dsascape.experiments.point.layers import LayerFigures, instruction_names, layers_of, operators_of
from dsascape.experiments.point.loops import loops_text
from dsascape.experiments.point.replay import simulated, write_schedule
from dsascape.experiments.point.roofline import LayerBound, bounds_of_layers
from dsascape.experiments.point.unfused_attention import unfused_attention
from dsascape.experiments.question.command_line import plain_value
from dsascape.experiments.question.config import ALL
from dsascape.experiments.question.pinned import pins_on, written_pins
from dsascape.experiments.question.points import (
    DesignPoint,
    RunRecord,
    Workload,
    WrittenKernels,
    WrittenPins,
    named_dims,
    policy_of,
    split_tuning,
    stated_batch,
    written_kernels,
)
from dsascape.experiments.question.schedules import written_schedule
from dsascape.experiments.question.tuned_kernels import kernels_said
from dsascape.experiments.results.files import for_terminal
from dsascape.experiments.shell.answers import Answer, Console, shown_text, table, unwritten_told
from dsascape.experiments.shell.profile import profiled
from dsascape.fusion import FusionPlan
from dsascape.hw_models import AnyHardware, HardwareError, load_hardware, with_values, write_perfetto
from dsascape.hw_models.simulation.pause import collect_seldom
from dsascape.hw_models.text.quantities import PS_PER_S, format_bytes, format_ps
from dsascape.hw_models.text.whole_file import FileError, write_with
from dsascape.scheduler import Policy, ScheduleError
from dsascape.scheduler.pins import AppliedPin
from dsascape.scheduler.product_rates import rates_lacking
from dsascape.wording import count
from dsascape.workloads.memo import memo_figures

_BYTES_OF = {WEIGHTS: "weight_bytes", CACHE: "cache_bytes"}
_PICTURES = (".svg", ".html")
_MOST_NAMED = 2
"""Largest number of operators named of each end of a layer."""
_MOST_PINNED = 3
"""Largest number of layers shown of one pin."""
_MOST_LAYERS = 10
"""Largest number of layers shown without ``--json``."""


def requested_policy(arguments: argparse.Namespace) -> Policy:
    """Return the policy of ``--policy`` with the options of ``--option``."""
    return policy_of(arguments.policy, _assignments(arguments.option, "--option"))


def _assignments(texts: Sequence[str], flag: str) -> dict[str, object]:
    """Parse ``K=V`` arguments into a mapping; numbers, true, false and null have YAML's meaning."""
    values: dict[str, object] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise ScheduleError(f"{flag} has {text[:60]!r}; needs NAME=VALUE")
        try:
            values[name.strip()] = plain_value(value.strip())
        except ValueError as error:
            raise ScheduleError(f"{flag} {name}: {error}") from error
    return values


def requested_machine_and_tuning(arguments: argparse.Namespace) -> tuple[AnyHardware, dict[str, object]]:
    """Return the machine changed by ``--set``, and the scheduler tuning that ``--set`` states."""
    if arguments.hardware == ALL:
        raise HardwareError("--hardware takes one machine; an experiment file of dsascape run takes hardware: all")
    spec = load_hardware(arguments.hardware)
    settings, tuning = split_tuning(_assignments(arguments.set, "--set"))
    return with_values(spec, settings) if settings else spec, tuning


def requested_workload(arguments: argparse.Namespace) -> Workload:
    """Return the network of the arguments, at their sizes."""
    dims = named_dims(arguments.dim)
    return Workload(
        arguments.model, arguments.batch, arguments.sequence, arguments.dtype, arguments.simplify, tuple(dims.items()),
        arguments.image, stated_batch(arguments.batch_dim), arguments.context, arguments.tokens,
    )  # fmt: skip


def requested_kernels(arguments: argparse.Namespace, spec: AnyHardware) -> WrittenKernels | None:
    """Return the tuned kernels of ``--kernels``, and say on standard error which are of no use for the machine.

    Raises ``ScheduleError`` for a folder without kernels.
    """
    if arguments.kernels is None:
        return None
    found = written_kernels(arguments.kernels)
    for line in kernels_said(found, spec):
        sys.stderr.write(f"{for_terminal(line)}\n")
    return found


def requested_pins(arguments: argparse.Namespace, spec: AnyHardware) -> WrittenPins | None:
    """Return the pins of ``--pins``, checked for a machine; raise ``PinError`` for mistakes in them."""
    if arguments.pins is None:
        return None
    found = written_pins(arguments.pins)
    pins_on(found, spec)
    return found


def _requested_point(arguments: argparse.Namespace) -> DesignPoint:
    """Return the design point of the arguments, under its policy or with its schedule."""
    spec, tuning = requested_machine_and_tuning(arguments)
    workload = requested_workload(arguments)
    if arguments.schedule is None:
        kernels = requested_kernels(arguments, spec)
        pins = requested_pins(arguments, spec)
        return DesignPoint(workload, spec, requested_policy(arguments), tuning=tuning, kernels=kernels, pins=pins)
    if arguments.option:
        raise ScheduleError("--option does not go with --schedule, which replaces the policy")
    if arguments.kernels is not None:
        raise ScheduleError("--kernels does not go with --schedule, which has its own kernels")
    if arguments.pins is not None:
        raise ScheduleError("--pins does not go with --schedule, which has decided everything")
    policy, written = written_schedule(arguments.schedule)
    return DesignPoint(workload, spec, policy, tuning=tuning, schedule=written)


def simulate(arguments: argparse.Namespace) -> Answer:
    """Simulate one design point, or a schedule from a file."""
    collect_seldom()
    _check_what_if(arguments)
    point = _requested_point(arguments)
    spec = point.hardware
    outcome = simulated(point)
    unwritten: list[str] = []
    if arguments.schedule_out is not None:
        with unwritten_told(unwritten):
            write_schedule(outcome.schedule, spec, arguments.schedule_out)
    if arguments.trace is not None:
        with unwritten_told(unwritten):
            names = instruction_names(outcome)
            write_with(arguments.trace, lambda place: write_perfetto(outcome.result, place, spec.name, names))
    loops = None if arguments.loops is None else loops_text(outcome.schedule, spec, arguments.loops)
    layers = layers_of(outcome)
    said = ""
    if arguments.annotate is not None:
        with unwritten_told(unwritten):
            said = _annotate(outcome, layers, arguments)
    graph = outcome.schedule.graph
    batched = {"batch_dims": dict(graph.batch_dims), "no_batch": graph.no_batch}
    warnings = (
        *rates_lacking(graph, spec, outcome.record.dtype), *warnings_of(outcome, layers, spec),
        *unfused_attention(outcome, spec),
    )  # fmt: skip
    operators = operators_of(outcome)
    bounds = bounds_of_layers(outcome, layers, spec)
    told = [
        {**asdict(layer), **_bound_told(bounds.get(layer.layer)), "operators": operators.get(layer.layer, [])}
        for layer in layers
    ]
    data = outcome.record.as_json() | batched | {"layers": told, "warnings": warnings}
    data |= {} if loops is None else {"loops": loops}
    pinned = getattr(outcome.schedule, "pins", ())  # a schedule of an installed kind need not have any
    data |= {"pins": [pin.model_dump(mode="json") for pin in pinned]} if pinned else {}
    if outcome.record.language:
        data["language"] = {**outcome.record.language, "paced_by": paced_by(outcome.record.language)}
    varied = _varied(arguments, point, unwritten)
    data |= {} if varied is None else {"what_if": varied.data}
    tries_fewer = arguments.schedule is None and leaves_batches_open(requested_policy(arguments))

    def show() -> None:
        if varied is not None and loops is None:
            varied.show()
        if loops is None:
            _show_outcome(outcome, layers, operators, tries_fewer=tries_fewer)
            _show_pins(pinned)
            for warning in warnings:
                Console().print(f"[bold]warning:[/bold] {shown_text(warning)}")
            if said:
                Console().print(shown_text(said))
        else:
            sys.stdout.write(loops + "\n")
        if varied is not None and loops is not None:
            varied.show()

    answer = Answer(data, show, unwritten=tuple(unwritten))
    if not arguments.profile:
        return answer
    return profiled(answer, memo_figures(), "Stored results of this process", as_json=arguments.json)


def _varied(arguments: argparse.Namespace, point: DesignPoint, unwritten: list[str]) -> Answer | None:
    """Return the effects of changed values; None, without importing what draws, where none are asked for."""
    if arguments.what_if is None:
        return None
    return cast("Answer", resolve_name("dsascape.experiments.shell.what_if:what_if")(arguments, point, unwritten))


def _bound_told(bound: LayerBound | None) -> dict[str, float]:
    """Return the least times of a layer for ``--json``; nothing for launches and layers that are not listed."""
    return {} if bound is None else {"roofline_s": bound.roofline_s, "starting_s": bound.starting_s}


def _annotate(outcome: Outcome, layers: list[LayerFigures], arguments: argparse.Namespace) -> str:
    """Write the network's file with predicted times; return a sentence on what it has."""
    place: Path = arguments.annotate
    annotated_file = resolve_name("dsascape.experiments.point.annotation:annotated_file")  # with it, onnx is imported
    told = annotated_file(outcome, layers, arguments.model, place)
    write_with(place, lambda file: file.write_bytes(told.content))
    lacking = f"; {count(len(told.missing), 'layer')} of operators that are not in the file" if told.missing else ""
    return f"predicted times of {count(told.nodes, 'node')} written to {place}{lacking}"


def _check_what_if(arguments: argparse.Namespace) -> None:
    """Raise ``HardwareError`` or ``FileError`` for options of ``--what-if`` that do not go together."""
    mode: str | None = arguments.what_if_schedule
    picture: Path | None = arguments.out
    if arguments.what_if is None:
        for flag, given in (("--out", picture), ("--what-if-schedule", mode)):
            if given is not None:
                raise HardwareError(f"{flag} goes with --what-if")
        return
    if arguments.schedule is not None and mode == "anew":
        raise HardwareError("--what-if-schedule anew needs --policy; a schedule from a file is kept")
    if picture is not None and picture.suffix.lower() not in _PICTURES:
        raise FileError(f"--out has {picture}; needs a file that ends in {' or '.join(_PICTURES)}")


def _show_outcome(
    outcome: Outcome, layers: Sequence[LayerFigures], operators: Mapping[str, Sequence[str]], *, tries_fewer: bool
) -> None:
    record, result = outcome.record, outcome.result
    console = Console()
    console.print(
        f"[bold]{shown_text(record.model)}[/bold], batch {record.batch}, {record.dtype}"
        f" on {shown_text(record.hardware)} under {shown_text(record.policy)}"
    )
    console.print(
        f"  {format_ps(round(record.latency_s * PS_PER_S))}{_expected(record)}, {record.throughput_per_s:,.0f}/s,"
        f" {record.energy_j:.4g} J,"
        f" {count(record.kernels, 'kernel')}; bound by [bold]{record.bottleneck}[/bold]"
    )
    if record.expected_latency_s == record.latency_s:
        console.print("  a lower bound of the time, which good code comes near; no efficiency is stated")
    if record.clock_share < 1:
        drawn_w = record.energy_j / record.latency_s
        console.print(f"  power is limited: clocks fall to {record.clock_share:.0%} of the sustained, {drawn_w:.0f} W")
    if record.language:
        _show_pass(console, record.language)
    show_origin(console, outcome.schedule.plan)
    if outcome.schedule.graph.no_batch:
        fixed = "no batch" if record.batch == 1 else f"the batch of {record.batch} is not split"
        console.print(f"  {fixed}: {shown_text(outcome.schedule.graph.no_batch)}")
    at_work = f"{record.parts_at_work} of {count(record.parts, 'cluster')} at work"
    are_idle = record.parts_at_work < record.parts
    shared = f"{count(record.parts_at_work, 'cluster')} share every kernel" if record.parts_share == "kernels" else ""
    idle = at_work if are_idle else ""
    padded = f"{count(record.padded, 'image')} padded" if record.padded else ""
    if idle or shared or padded:
        console.print(f"  {'; '.join(filter(None, (idle, shared, padded)))}")
    total, title = result.makespan_ps, "What the critical path waited for"
    if record.iterations > 1:
        console.print(
            f"  in {count(record.iterations, 'iteration')} of"
            f" {record.batch_at_once}{' a cluster' if record.parts > 1 else ''},"
            f" {format_ps(total)} each"
        )
        title += ", one iteration"
    elif tries_fewer and record.batch_at_once > 1:
        console.print(
            f"  {'a cluster takes its' if record.parts > 1 else 'takes all'} {record.batch_at_once} at once;"
            " --option batches_per_cluster=best tries fewer, in several iterations"
        )
    paths = sorted(result.critical_ps.items(), key=lambda item: -item[1])
    table(title, ("what", "time", "share"),
           [(what, format_ps(spent), f"{spent / total:.1%}") for what, spent in paths])()  # fmt: skip
    used = {
        name: (f"{share:.1%}", f"{record.utilisation_at_work[name]:.1%}")[: 2 if are_idle else 1]
        for name, share in record.utilisation.items()
    }
    of = (", of all clusters", ", of those at work") if are_idle else ("",)
    memories = [
        (name, format_bytes(size), format_bytes(record.peak_occupancy_bytes[name]), *used[name],
         record.tensor_scopes.get(name, 0))
        for name, size in record.traffic_bytes.items()
    ]  # fmt: skip
    bandwidths = tuple([f"bandwidth used{which}" for which in of])
    table("Memories", ("memory", "traffic", "peak occupancy", *bandwidths, "outputs kept"), memories)()
    units = [(name, *shares) for name, shares in used.items() if name not in record.traffic_bytes]
    table("Units", ("unit", *[f"busy{which}" for which in of]), units)()
    energies = [
        (name, f"{spent:.4g} J", f"{spent / record.energy_j if record.energy_j else 0:.1%}")
        for name, spent in record.energy_parts_j.items()
    ]
    table("Energy", ("component", "energy", "share"), energies)()
    longest = sorted(layers, key=lambda layer: -layer.critical_s)[:_MOST_LAYERS]
    rows = [
        (
            layer.shown,
            format_ps(round(layer.critical_s * PS_PER_S)),
            f"{layer.critical_s / record.latency_s:.1%}",
            layer.limited_by,
            layer.runs,
            *(format_bytes(layer.traffic_bytes.get(name, 0)) for name in record.traffic_bytes),
            few_names(operators.get(layer.layer, ())),
        )
        for layer in longest
    ]
    some = f", {len(rows)} of {len(layers)}" if len(rows) < len(layers) else ""
    wide = "runs", *record.traffic_bytes, "nodes"
    headings = "layer", "time", "share", "limited by", *wide
    table(f"Layers with most of the critical path{some} (--json has all)", headings, rows, wide)()


def _expected(record: RunRecord) -> str:
    """Return the expected latency in parentheses, if the machine states efficiencies."""
    if record.expected_latency_s == record.latency_s:
        return ""
    return f" (a bound; expected of libraries: {format_ps(round(record.expected_latency_s * PS_PER_S))})"


def few_names(names: Sequence[str]) -> str:
    """Return names of operators as text, the first and the last few of many."""
    ends = names if len(names) <= 2 * _MOST_NAMED else [*names[:_MOST_NAMED], "...", *names[-_MOST_NAMED:]]
    return ", ".join(ends)


def _show_pins(pinned: Sequence[AppliedPin]) -> None:
    """Print what was fixed before the schedule was made, and for which layers."""
    for pin in pinned:
        layers = ", ".join(pin.layers[:_MOST_PINNED]) + (", ..." if len(pin.layers) > _MOST_PINNED else "")
        Console().print(f"  pinned by {shown_text(pin.selector)}: {shown_text(json.dumps(pin.decided))} for {layers}")


def _show_pass(console: Console, figures: Mapping[str, float]) -> None:
    """Print the figures of a language model's pass: its tokens, and the least times that bound it."""
    tokens, context = int(figures["tokens"]), int(figures["context"])
    console.print(
        f"  {count(tokens, 'token')} behind {context:,}; tokens per second: {figures['tokens_per_s']:,.4g},"
        f" energy of a token: {figures['energy_per_token_j']:.3g} J; paced by [bold]{paced_by(figures)}[/bold]"
    )
    said = [
        f"{name} {format_ps(round(figures[f'{name}_s'] * PS_PER_S))}"
        + (f" ({format_bytes(int(figures[of]))})" if (of := _BYTES_OF.get(name, "")) else "")
        for name in (WEIGHTS, CACHE, ARITHMETIC)
    ]
    moved_s, sustained_s = figures[f"{WEIGHTS}_s"] + figures[f"{CACHE}_s"], figures["sustained_s"]
    console.print(
        f"  at least: {', '.join(said)}; weights and cache {format_ps(round(sustained_s * PS_PER_S))} at the"
        f" {moved_s / sustained_s:.0%} of the peak bandwidth that memory sustains"
    )


def show_origin(console: Console, plan: FusionPlan) -> None:
    """Print where the plan comes from, if its policy tells."""
    if plan.origin:
        console.print(f"  the plan is {shown_text(plan.origin)}")
