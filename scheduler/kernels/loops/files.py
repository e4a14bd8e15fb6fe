"""Steps and loop programs as JSON: written, kept in databases and schedules, and read back, each field checked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

import pydantic
from pydantic import TypeAdapter

from dsascape.hw_models.text.messages import shown, shown_key
from dsascape.scheduler.errors import ScheduleError
from dsascape.scheduler.kernels.loops.nodes import (
    Ahead,
    Buffer,
    Condition,
    Guard,
    Loop,
    Node,
    Nodes,
    Outlined,
    Reach,
    Stage,
    Statement,
)
from dsascape.scheduler.kernels.loops.program import LoopProgram
from dsascape.scheduler.kernels.loops.steps import Layout, Step, Steps
from dsascape.wording import count

MOST_STEPS = 4096
"""Largest number of steps that are read for one kernel: a few for each of its operators."""
_MOST_LISTED = 256
"""Largest number of levels, dimensions or sizes in a list of a step."""
_LONGEST_NAME = 4096
_LARGEST = 2**40
"""Largest size or count in a step."""

_STEPS: Mapping[str, type[Any]] = {each.__name__: each for each in get_args(Step)}
_AROUND: Mapping[str, type[Any]] = {each.__name__: each for each in (Loop, Guard, Outlined, Ahead)}


_ADAPTERS: Mapping[type[Any], TypeAdapter[Any]] = {
    kind: TypeAdapter(kind)
    for kind in (*_STEPS.values(), *_AROUND.values(), Statement, Condition, Reach, Stage, Buffer)
}


def _written(record: Any) -> dict[str, Any]:
    written: dict[str, Any] = _ADAPTERS[type(record)].dump_python(record, mode="json")
    return written


def _read(where: str, kind: type[Any], data: object) -> Any:
    """Return ``data`` as a record of ``kind``; raise ``ScheduleError`` with the first mistake in it."""
    known = {each.name for each in fields(kind)}
    unknown = [name for name in data if name not in known] if isinstance(data, Mapping) else []
    if unknown:
        known_text = ', '.join(sorted(known))
        raise ScheduleError(f"{where}: {shown_key(unknown[0])}: is unknown; {kind.__name__} has {known_text}")
    try:
        return _ADAPTERS[kind].validate_json(json.dumps(data), strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join([where, *map(str, first["loc"])])
        raise ScheduleError(f"{place}: {first['msg']}") from error
    except ValueError as error:
        raise ScheduleError(f"{where}: {error}") from error


def steps_json(steps: Steps) -> list[dict[str, Any]]:
    """Return ``steps`` as JSON: an object for each, whose "step" says which it is."""
    return [{"step": type(step).__name__, **_written(step)} for step in steps]


def read_steps(data: object, where: str = "steps") -> Steps:
    """Return the steps that `steps_json` has written; raise ``ScheduleError`` for anything else."""
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise ScheduleError(f"{where}: needs a list of steps")
    if len(data) > MOST_STEPS:
        raise ScheduleError(f"{where}: has {count(len(data), 'step')}; at most {MOST_STEPS} are read")
    return tuple([_read_step(f"{where}.{number}", each) for number, each in enumerate(data)])


def _read_step(where: str, data: object) -> Step:
    name = data.get("step") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(name, str) or name not in _STEPS:
        raise ScheduleError(f"{where}: step: has {shown(name)}; needs one of {', '.join(_STEPS)}")
    _check_sizes(where, data)
    step: Step = _read(where, _STEPS[name], {key: value for key, value in data.items() if key != "step"})
    return step


def _check_sizes(where: str, data: object) -> None:
    """Raise ``ScheduleError`` for a number, a list or a name in a step that is larger than any that means something."""
    if isinstance(data, bool) or data is None:
        return
    if isinstance(data, int | float) and not -_LARGEST <= data <= _LARGEST:
        raise ScheduleError(f"{where}: has {data:.4g}; needs a number up to {_LARGEST:.4g}")
    if isinstance(data, str) and len(data) > _LONGEST_NAME:
        raise ScheduleError(f"{where}: has a name of {count(len(data), 'character')}; at most {_LONGEST_NAME} are read")
    if isinstance(data, Mapping | Sequence) and not isinstance(data, str):
        if len(data) > _MOST_LISTED:
            raise ScheduleError(f"{where}: has a list of {count(len(data), 'value')}; at most {_MOST_LISTED} are read")
        for each in data.values() if isinstance(data, Mapping) else data:
            _check_sizes(where, each)


def program_json(program: LoopProgram) -> dict[str, Any]:
    """Return ``program`` as JSON."""
    return {
        "stages": [_written(stage) for stage in program.stages],
        "buffers": [_written(buffer) for buffer in program.buffers],
        "layouts": [_written(layout) for layout in program.layouts],
        "body": _nodes_json(program.body),
        "steps": steps_json(program.steps),
    }


def _nodes_json(nodes: Nodes) -> list[dict[str, Any]]:
    return [_node_json(node) for node in nodes]


def _node_json(node: Node) -> dict[str, Any]:
    own = {"node": type(node).__name__}
    if isinstance(node, Statement):
        return {**own, **_written(node)}
    body = {"body": _nodes_json(node.body)}
    if isinstance(node, Guard):
        return own | {"conditions": [_written(each) for each in node.conditions]} | body
    if isinstance(node, Outlined):
        return own | {"name": node.name} | body
    if isinstance(node, Ahead):
        return own | {"loop": node.loop, "iterations": node.iterations} | body
    fused: dict[str, Any] = {"fused": [list(each) for each in node.fused]} if node.fused else {}
    fused |= {"width": node.width} if node.width > 1 else {}
    fused |= {"dealt": node.dealt} if node.dealt else {}
    fused |= {"cluster": [list(each) for each in node.cluster]} if node.cluster else {}
    fused |= {"reach": _written(node.reach)} if node.reach is not None else {}
    return own | {"name": node.name, "extent": node.extent, "kind": node.kind} | fused | body


def read_program(data: object) -> LoopProgram:
    """Return the program that `program_json` has written; raise ``ScheduleError`` for anything else."""
    wanted = ("stages", "buffers", "layouts", "body", "steps")
    if not isinstance(data, Mapping) or set(data) != set(wanted):
        raise ScheduleError(f"loop program: needs an object of {', '.join(wanted)}")
    stages, buffers, layouts = [
        tuple([_read(f"{name}.{number}", kind, each) for number, each in enumerate(_listed(name, data[name]))])
        for name, kind in (("stages", Stage), ("buffers", Buffer), ("layouts", Layout))
    ]
    return LoopProgram(stages, buffers, layouts, _read_nodes("body", data["body"]), read_steps(data["steps"]))


def _listed(where: str, data: object) -> Sequence[object]:
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise ScheduleError(f"{where}: needs a list")
    return data


def _read_nodes(where: str, data: object) -> Nodes:
    return tuple([_read_node(f"{where}.{number}", each) for number, each in enumerate(_listed(where, data))])


def _read_node(where: str, data: object) -> Node:
    name = data.get("node") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or (name not in _AROUND and name != "Statement"):
        raise ScheduleError(f"{where}: node: has {shown(name)}; needs one of Statement, {', '.join(_AROUND)}")
    own = {key: value for key, value in data.items() if key != "node"}
    if name == "Statement":
        statement: Statement = _read(where, Statement, own)
        return statement
    body = _read_nodes(f"{where}.body", own.pop("body", None))
    if name == "Guard":
        conditions = [_read(f"{where}.conditions", Condition, each) for each in _listed(where, own.get("conditions"))]
        return Guard(tuple(conditions), body)
    around: Node = _read(where, _AROUND[str(name)], own | {"body": []})
    assert not isinstance(around, Statement)
    return replace(around, body=body)
