"""Pins as data: the mapping of a YAML or JSON file, checked for one kind of machine.

layers:
"#41": {tile: {m: 64, k: 256}, output: local_buffer}
Conv_12: {binding: rows}
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pydantic

from dsascape.hw_models.text.messages import explain, listed, shown
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.pins.pins import AppliedPin, LayerPin, Pins
from dsascape.wording import count

_MOST_PINS = 10_000


def read_pins(data: object, pin: type[LayerPin] | None, kind: str, source: str = "pins") -> Pins:
    """Return the pins in ``data`` for machines of ``kind``, whose layers are pinned by ``pin``.

    Raises ``PinError`` with all mistakes in it, or for a kind whose schedules have no pins (``pin`` is None).
    """
    if pin is None:
        raise PinError(f"{source}: schedules of machines of kind {kind} have no decisions that can be pinned")
    if not isinstance(data, Mapping) or not isinstance(data.get("layers"), Mapping) or not data["layers"]:
        has = shown(data.get("layers")) if isinstance(data, Mapping) and "layers" in data else "nothing"
        raise PinError(f"{source}: layers: has {has}; needs a mapping of layers to what is fixed for them")
    unknown = [name for name in data if name != "layers"]
    if unknown:
        raise PinError(f"{source}: {shown(unknown[0])} is unknown; known: layers")
    layers = data["layers"]
    if len(layers) > _MOST_PINS:
        raise PinError(f"{source}: layers: has {count(len(layers), 'entry')}; at most {_MOST_PINS:,} are read")
    pairs = [(str(name), _pin(value, pin, f"{source}: layers.{name}")) for name, value in layers.items()]
    return Pins(tuple(pairs), source)


def _pin(value: object, pin: type[LayerPin], where: str) -> LayerPin:
    known = listed(list(pin.model_fields))
    if not isinstance(value, Mapping):
        raise PinError(f"{where}: has {shown(value)}; needs a mapping of decisions; known: {known}")
    try:
        found = pin.model_validate(dict(value))
    except pydantic.ValidationError as error:
        raise PinError(explain(error, where, model=pin)) from error
    if not found.decided:
        raise PinError(f"{where}: fixes nothing; known: {known}")
    return found


def used_pins(applied: Iterable[AppliedPin]) -> dict[str, Any]:
    """Return the pins that a schedule was made with as the mapping of a file: its ``layers``."""
    return {each.selector: each.decided for each in applied}


def pin_schema(pin: type[LayerPin], kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a file of pins for machines of ``kind``."""
    schema = pin.model_json_schema(ref_template="#/$defs/{model}")
    parts = {pin.__name__: schema, **schema.pop("$defs", {})}
    of_layer = {"$ref": f"#/$defs/{pin.__name__}"}
    return {
        "title": f"pins of layers on a {kind}", "type": "object", "additionalProperties": False, "required": ["layers"],
        "properties": {"layers": {"type": "object", "minProperties": 1, "additionalProperties": of_layer}},
        "$defs": parts,
    }  # fmt: skip
