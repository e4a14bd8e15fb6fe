"""JSON Schema of experiment files, for editors that complete and check YAML while it is written, and its reference."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dsascape.experiments.question.config import ALL, Experiment
from dsascape.hw_models import preset_names
from dsascape.hw_models.machine_files.json_schema import DRAFT
from dsascape.hw_models.machine_files.kinds import hardware_kinds
from dsascape.hw_models.machine_files.meanings import WithMeanings
from dsascape.scheduler import policy_types
from dsascape.workloads import zoo_names


def experiment_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an experiment file, with the names of networks, machines and policies.

    Names are examples: paths are as good.
    """
    schema = Experiment.model_json_schema(by_alias=True, schema_generator=WithMeanings)
    schema["required"] = [key for key in schema["required"] if key != "name"]  # the file's own name stands in
    parts = schema["$defs"]
    machine, top = parts["HardwareEntry"]["properties"], schema["properties"]
    for key in ("base", "kind"):  # one of them is there, and never null
        machine[key] = {**machine[key].pop("anyOf")[0], **machine[key]}
        del machine[key]["default"]
    machines = [ALL, *preset_names()]
    machine["kind"]["examples"] = sorted(hardware_kinds())
    parts["WorkloadEntry"]["properties"]["model"]["examples"] = list(zoo_names())
    names = [
        (top["workloads"]["items"], list(zoo_names())), (top["hardware"], machines),
        (top["hardware"]["anyOf"][-1]["items"], machines), (top["policies"]["items"], sorted(policy_types())),
    ]  # fmt: skip
    machine["base"]["examples"] = machines
    for part, examples in names:
        part["anyOf"][0]["examples"] = examples
    return {"$schema": DRAFT, **schema, "title": "dsascape experiment"}


def experiment_page() -> str:
    """Return the reference of the experiment file, every key, as Markdown."""
    schema = experiment_schema()
    parts = {name: schema["$defs"][name] for name in _PARTS}
    page = [
        "# Experiment files", "",
        "Every key of the file that `dsascape run` reads. `dsascape schema experiment --reference` prints this page",
        "from the records that validate the files, `dsascape schema experiment` their JSON Schema, with which editors",
        "complete and check a file while it is written.", "",
        *_table("The file", schema),
    ]  # fmt: skip
    for name, part in parts.items():
        page += ["", *_table(_PARTS[name], part)]
    page += ["", *_SEVERAL_MACHINES, "", *_QUESTIONS]
    return "\n".join(page) + "\n"


_PARTS = {
    "WorkloadEntry": "An entry of `workloads`", "HardwareEntry": "An entry of `hardware`", "Search": "`search`",
    "Measuring": "`measure`", "WhatIfEntry": "`what_if`",
}  # fmt: skip
_SEVERAL_MACHINES = (
    "## Several machines", "",
    "| `hardware` | machines |",
    "|---|---|",
    "| `t4` | one |",
    "| `[t4, stcp920, my-npu.yaml]` | these |",
    "| `all` | every preset |",
    "| `{kind: gpu}` | every preset of that kind: `clustered_dsa`, `cpu` or `gpu` |",
    "| `[my-npu.yaml, {kind: gpu, set: {launch: 3 us}}]` | one, and every GPU with a value set; or `sweep` |",
    "",
    "The report ranks several machines in one chart, in whatever dtype each computes in, with the mean power of a",
    "run, the area, and the latency expected of libraries' code; what a machine's file does not state is `unknown`. Of",
    "several networks it is the geometric mean. A machine that cannot run one of them is not ranked: its point fails,",
    "and the report gives the reason. A preset of a selection that lacks what is set or swept is left out, with a",
    "warning.",
)
_QUESTIONS = (
    "## What a question may ask", "",
    "The headline of the report answers a question of yes or no, where latencies decide it:",
    "",
    "| question | answered by |",
    "|---|---|",
    "| Is `A` faster than `B`? Does `A` beat `B`? Does `A` pay compared with, versus, over or instead of `B`? |"
    " the ratio of latencies, case by case; `A` and `B` are policies, machines or networks |",
    "| Is `A` slower than `B`? Is `A` as fast as `B`? Is `A` twice as fast, 3 times as fast, 20 % faster? | the same |",
    "| Is my policy faster than `B`? | the only other policy, or the only one that does not come along |",
    "| Does any policy beat `B`? Is `A` the fastest? | the fastest of the others |",
    "| Does `A` pay? Does fusion pay? Does keeping tensors on chip pay? | all other policies |",
    "| Does a larger buffer help? Is `A` faster with more bandwidth? | the two ends of the swept value that is named |",
    "| Is DDR the bottleneck? | the number of points that are bound by it |",
    "",
    "Names of another kind restrict the cases (`... on t4`, `... for resnet50`); `ever` and `always` are taken as they",
    "are said. There is no yes or no where something named is not in the study, where a question is negated, asks two",
    "things, or asks for what latencies do not tell: then the headline states figures.",
)
_NAMED = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text"}


def _table(title: str, part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a heading and a table of one record's keys."""
    yield from (f"## {title}", "", " ".join(part["description"].split()).replace("``", "`"), "")
    yield from ("| key | what it is | default | meaning |", "|---|---|---|---|")
    for key, value in part["properties"].items():
        is_needed = key in part.get("required", ())
        default = "required" if is_needed else _default(value.get("default"))
        meaning = " ".join(value.get("description", "").split()).replace("``", "`")
        yield f"| `{key}` | {_form(value)} | {default} | {meaning} |".replace("  ", " ")


def _default(value: Any) -> str:
    return "" if value in (None, "", [], {}) or isinstance(value, dict) else f"`{json.dumps(value)}`"


def _form(value: Mapping[str, Any]) -> str:
    """Return in words what values a schema accepts."""
    if "$ref" in value:
        return "a mapping"
    if "anyOf" in value:
        forms = dict.fromkeys([_form(each) for each in value["anyOf"] if each.get("type") != "null"])
        return " or ".join(forms)
    if "enum" in value:
        return ", ".join([f"`{each}`" for each in value["enum"]])
    if value.get("type") == "array":
        return f"a list: {_form(value['items'])}"
    if value.get("type") == "object":
        inner = next(iter(value.get("patternProperties", {}).values()), value.get("additionalProperties"))
        return f"a mapping of names to {_form(inner)}" if isinstance(inner, dict) and inner else "a mapping"
    return _NAMED[value["type"]] + _range(value) if "type" in value else "any value"


def _range(value: Mapping[str, Any]) -> str:
    least, most = value.get("minimum"), value.get("maximum")
    below = value.get("exclusiveMaximum")
    most = below - 1 if most is None and isinstance(below, int) else most
    ends = [f"from {least:,}" if least is not None else "", f"to {most:,}" if most is not None else ""]
    said = " ".join([each for each in ends if each])
    return f", {said}" if said else ""
