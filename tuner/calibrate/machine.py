"""What differs between kinds of machines when they are calibrated: protocols, with one implementation for each kind."""

from pathlib import Path
from typing import Any, Protocol

from dsascape.hw_models import AnyHardware


class Described(Protocol):
    """Machine that facts and figures describe."""

    @property
    def text(self) -> str:
        """Text of its file."""

    @property
    def spec(self) -> AnyHardware:
        """The machine as it is simulated."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be measured and is assumed, and what disturbed the rest."""

    def as_json(self) -> dict[str, Any]:
        """Return the facts that ``calibrate --json`` prints in front of the machine's values."""

    def lines(self, out: Path, took_s: float | None) -> tuple[str, ...]:
        """Return lines about the machine, whose file is ``out``; ``took_s``: seconds of calibrating, if known."""


class Calibrated(Protocol):
    """Facts and figures of a machine."""

    @property
    def usual_name(self) -> str:
        """Name of the machine where its file has none."""

    def described(self, name: str, day: str) -> Described:
        """Return the machine, measured on ``day`` (ISO date, empty: today).

        Raises ``HardwareError``, ``ValueError`` or ``ArithmeticError`` for figures that describe no machine.
        """
