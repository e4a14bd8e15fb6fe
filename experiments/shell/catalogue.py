"""The commands ``models``, ``hardware`` and ``policies``, which list what is available."""

import argparse
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

from dsascape.experiments.question.points import TUNING, named_dims, stated_batch
from dsascape.experiments.report.kinds import kinds_picture
from dsascape.experiments.shell.answers import POINTS_FAILED, Answer, say, table, unwritten_told, write
from dsascape.hw_models import HardwareError, load_hardware, parameter_paths, preset_names
from dsascape.hw_models.machine_files.json_schema import for_editors
from dsascape.hw_models.machine_files.kinds import SPECS, broken_kinds
from dsascape.hw_models.machine_files.load import is_path
from dsascape.hw_models.machine_files.machine_file import machine_file
from dsascape.hw_models.machine_files.origins import sources_page
from dsascape.hw_models.machine_files.overrides import value_at
from dsascape.hw_models.machine_files.reference import markdown, sections
from dsascape.hw_models.machine_files.sources import sources_of
from dsascape.hw_models.text.quantities import format_bytes, readable
from dsascape.hw_models.text.whole_file import write_whole
from dsascape.scheduler import broken_policies, kind_of, policy_types
from dsascape.scheduler.kinds.table import kind_named
from dsascape.wording import count
from dsascape.workloads import WorkloadError, exported_names, load_network
from dsascape.workloads.language import LANGUAGE_MODELS
from dsascape.workloads.summary import summarise, summarise_kinds
from dsascape.workloads.zoo import zoo_entry

_UNKNOWN = "?"


def models(arguments: argparse.Namespace) -> Answer:
    """List the networks of the zoo, or one network's operators by kind."""
    if arguments.name is not None:
        return _one_model(arguments)
    if arguments.picture is not None:
        raise WorkloadError("models: --picture draws one network; name it")
    entries: list[dict[str, Any]] = []
    for name in exported_names():
        entry = zoo_entry(name)
        graph = load_network(name)
        entries.append(
            {
                "name": name, "task": entry.task, "batch": graph.batch, "operators": len(graph.ops),
                "parameters": graph.parameters, "gflop": graph.operations.flops / 1e9,
                "activation_bytes": graph.activation_bytes, "source": entry.source,
                "left_out": entry.left_out,
            }
        )  # fmt: skip
    rows = [
        (m["name"], m["task"], m["operators"], m["parameters"] / 1e6, m["gflop"], m["activation_bytes"] / 1e6)
        for m in entries
    ]
    columns = ("name", "task", "operators", "parameters (M)", "GFLOP", "activations (MB)")
    of_language = [
        {"name": name, "card": model.card, "layers": model.layers, "parameters": model.parameters,
         "longest": model.longest}
        for name, model in LANGUAGE_MODELS.items()
    ]  # fmt: skip
    of_tokens = "Language models, for any --context and --tokens"
    listed = [(name, model.card, model.layers, model.parameters / 1e6) for name, model in LANGUAGE_MODELS.items()]
    second = table(of_tokens, ("name", "card on huggingface.co", "layers", "parameters (M)"), listed)
    first = table("Networks", columns, rows, ("operators", "activations (MB)"))

    def show() -> None:
        first()
        second()

    return Answer({"models": entries, "language_models": of_language}, show)


def _one_model(arguments: argparse.Namespace) -> Answer:
    """List one network's operators by kind, and draw them if a picture is requested."""
    picture: Path | None = arguments.picture
    stated = stated_batch(arguments.batch_dim)
    dims = named_dims(arguments.dim)
    graph = load_network(arguments.name, dims=dims, batch_dims=None if stated is None else dict(stated))
    kinds = summarise_kinds(graph)
    total = summarise(graph)
    title = f"{graph.name}: {count(total.operators, 'operator')}, {total.flops / 1e9:.3g} GFLOP at batch {graph.batch}"
    unwritten: list[str] = []
    if picture is not None:
        with unwritten_told(unwritten):
            write_whole(picture, kinds_picture(title, kinds))
    rows = [(k.kind, k.operators, f"{k.flops_share:.2%}", f"{k.bytes_share:.2%}") for k in kinds]
    batched = {"batch_dims": dict(graph.batch_dims), "no_batch": graph.no_batch}
    data = {"model": graph.name, **asdict(total), **batched, "kinds": [asdict(kind) for kind in kinds]}
    where = graph.no_batch or ", ".join(f"dimension {dim} of {name}" for name, dim in graph.batch_dims)
    shown = f"{title}\n{'no batch' if graph.no_batch and graph.batch == 1 else 'batch'}: {where}"
    show = table(shown, ("operator", "count", "FLOPs", "bytes touched"), rows)
    return Answer(data, show, unwritten=tuple(unwritten))


def hardware(arguments: argparse.Namespace) -> Answer:
    """List the presets or one machine's values, or print a machine's file or the parameter reference."""
    if (arguments.yaml or arguments.reference or arguments.sources) and arguments.json:
        raise HardwareError("hardware: --yaml, --reference and --sources print text; --json goes without them")
    if arguments.sources:
        return Answer({}, partial(write, sources_page()))
    if arguments.reference:
        return Answer({}, partial(write, parameters_page()))
    if arguments.yaml:
        if arguments.name is None:
            raise HardwareError("hardware: --yaml prints one machine; name it")
        text = machine_file(arguments.name)
        return Answer({}, partial(write, text if is_path(arguments.name) else for_editors(text)))
    if arguments.name is not None:
        spec = load_hardware(arguments.name)
        data = spec.model_dump(by_alias=True, mode="json")
        sources = sources_of(spec, arguments.name)
        values = [
            (path, readable(str(value_at(data, path))), sources[path].mark or "stated")
            for path in parameter_paths(spec)
        ]
        tuning = asdict(kind_of(spec).tuning())
        values += [(f"{TUNING}{name}", str(value), "") for name, value in tuning.items()]
        return Answer(data, table(f"{spec.name}: what can be set and swept", ("path", "value", "source"), values))
    summaries: list[dict[str, Any]] = []
    rows: list[tuple[object, ...]] = []
    for name in preset_names():
        spec = load_hardware(name)
        summary = kind_of(spec).summary(spec)
        tera = 2 * summary.peak_macs_per_s / 1e12
        product, watts = spec.product, spec.stated_power_w
        summaries.append(
            {
                "name": name,
                "kind": spec.kind,
                "part_of": product.part_of,
                "year": product.year,
                "power_w": watts,
                "cores": summary.cores,
                "peak_tops": tera,
                "area_mm2": spec.area_mm2,
                "area_parts_mm2": spec.area_parts_mm2,
            }
        )
        on_chip = [f"{format_bytes(memory.capacity_bytes)} x {memory.copies}" for memory in summary.on_chip]
        kind = spec.kind if product.part_of is None else f"{spec.kind} of {product.part_of}"
        total = spec.area_mm2
        area = "" if total is None else f"{total:.0f} ({spec.area_parts_mm2['other']:.0f} residual)"
        rows.append(
            (
                name, kind, str(product.year or _UNKNOWN), _UNKNOWN if watts is None else f"{watts:.4g}",
                tera, summary.dtype, summary.off_chip_bytes_per_s / 1e9, summary.arrangement, ", ".join(on_chip), area,
            )
        )  # fmt: skip
    wide = "off chip (GB/s)", "cores", "on chip", "area (mm2)"
    columns = "name", "kind", "year", "watts", "TOP/s", "dtype", *wide
    terms = "watts: rated, or the power limit; TOP/s: the peak; residual: what a published die has besides"
    about = f"Machines ({_UNKNOWN}: unknown; {terms})"
    return _with_broken({"hardware": summaries}, table(about, columns, rows, wide), broken_kinds())


def parameters_page() -> str:
    """Return the reference of all parameters of the built-in machine kinds and scheduler tuning, as Markdown."""
    page = [
        "# Parameters",
        "",
        "Values of a machine file, by the path that `--set` and `sweep` take. `NAME` is the name of a compute unit",
        "or core kind in the file. `dsascape hardware --reference` prints this page from the specs that validate the",
        "files.",
    ]
    for kind, spec in SPECS.items():
        tables = [*sections(spec), *sections(kind_named(kind).tuning, TUNING.removesuffix("."))]
        page += ["", f"Machines of kind `{kind}`:", "", markdown(tables).rstrip("\n")]
    return "\n".join(page) + "\n"


def policies(arguments: argparse.Namespace) -> Answer:
    """List the policies with their options, and the installed policies that cannot be used."""
    listing: list[dict[str, Any]] = []
    for name, kind in sorted(policy_types().items()):
        options = {option.name: repr(option.default) for option in fields(kind)}
        listing.append({"name": name, "what": (kind.__doc__ or name).strip().partition("\n")[0], "options": options})
    rows = [(p["name"], p["what"], ", ".join(f"{k}={v}" for k, v in p["options"].items())) for p in listing]
    listed = table("Policies", ("name", "what it is", "options"), rows)
    return _with_broken({"policies": listing}, listed, broken_policies())


def _with_broken(data: dict[str, Any], listed: Callable[[], None], broken: tuple[str, ...]) -> Answer:
    """Return a listing with messages about the extensions of installed packages that cannot be used."""

    def show() -> None:
        listed()
        say(*broken)

    return Answer(data | {"broken": list(broken)}, show, POINTS_FAILED if broken else 0)
