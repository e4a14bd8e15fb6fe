"""Files of pins: decisions about layers that the user fixes, read once and carried by design points."""

import json
from collections.abc import Mapping
from pathlib import Path

from dsascape.experiments.question.points import WrittenPins
from dsascape.hw_models import AnyHardware
from dsascape.hw_models.text.yaml_file import YamlError, read_yaml
from dsascape.scheduler import PinError, Pins, kind_of, read_pins


def written_pins(path: Path) -> WrittenPins:
    """Return the pins in a YAML or JSON file; raise ``PinError`` for a file that is neither."""
    try:
        return WrittenPins(str(path), json.dumps(read_yaml(path)))
    except YamlError as error:
        raise PinError(str(error)) from error


def given_pins(given: Mapping[str, object] | str | Path) -> WrittenPins:
    """Return pins given in Python: the path of a file, or its mapping, with or without ``layers`` around it."""
    if isinstance(given, str | Path):
        return written_pins(Path(given))
    data = given if "layers" in given else {"layers": given}
    try:
        return WrittenPins("pins", json.dumps(data, default=dict))
    except (TypeError, ValueError) as error:
        raise PinError(f"pins: have values that no file can have: {error}") from error


def pins_named(written: WrittenPins) -> dict[str, str]:
    """Return the column that tells points with these pins from others: the file's name."""
    return {"pins": Path(written.path).name}


def pins_on(written: WrittenPins, hardware: AnyHardware) -> Pins:
    """Return the pins for a machine; raise ``PinError`` for decisions that schedules of its kind do not make."""
    return read_pins(json.loads(written.text), kind_of(hardware).pin, hardware.kind, written.path)
