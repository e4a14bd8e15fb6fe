"""The command line that runs one design point by itself."""

import math
import shlex

from dsascape.experiments.question.points import DesignPoint, Origin
from dsascape.hw_models.text.messages import shown
from dsascape.scheduler import changed_options

Plain = str | int | float | bool | None
_WORDS = {"true": True, "false": False, "null": None}
_ENDLESS = ("inf", "infinity", "nan")


def simulate_command(point: DesignPoint, origin: Origin) -> str:
    """Return the ``dsascape simulate`` command that reproduces the point's figures, quoted for a POSIX shell.

    Relative paths hold in the folder in which the run was started.
    """
    workload = point.workload
    words = ["dsascape", "simulate", _place(workload.model)]
    words += _option("--hardware", origin.hardware)
    if point.schedule is not None:
        words += _option("--schedule", point.schedule.path)
    else:
        words += _option("--policy", point.policy_file or point.policy.name)
    words += [] if point.pins is None else _option("--pins", point.pins.path)
    for name, size in (*workload.sizes.items(), ("dtype", workload.dtype)):
        words += [] if size is None else _option(f"--{name}", str(size))
    words += ["--simplify"] if workload.simplify else []
    if workload.batch_dims is not None:
        for stated in [f"{name}:{dim}" for name, dim in workload.batch_dims] or ["none"]:
            words += _option("--batch-dim", stated)
    for dim, length in workload.dims:
        words += _option("--dim", f"{dim}={length}")
    for name, value in changed_options(point.policy).items() if point.schedule is None else ():
        words += _option("--option", f"{name}={value}")
    for path, setting in origin.settings.items():
        words += _option("--set", f"{path}={_written(setting)}")
    return shlex.join(words)


def plain_value(text: str) -> Plain:
    """Return a value of a command line: numbers, true, false and null have YAML's meaning, all else is text.

    Raises ``ValueError`` for what is not finite: ``.inf``, ``nan``, ``1e999``.
    """
    if text in _WORDS:
        return _WORDS[text]
    endless = f"has {text}; needs a finite number"
    if text.strip().lower().lstrip("+-.") in _ENDLESS:
        raise ValueError(endless)
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if abs(number) == math.inf:
            raise ValueError(endless)
        return number
    return text


def _option(flag: str, value: str) -> list[str]:
    """Return flag and value, joined by ``=`` where the value could be read as a flag."""
    return [f"{flag}={value}"] if value.startswith("-") else [flag, value]


def _written(value: object) -> str:
    """Return a value in YAML, as ``--set`` parses it."""
    return shown(value) if value is None or isinstance(value, bool) else str(value)


def _place(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path
