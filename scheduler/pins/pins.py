"""Pins as records: decisions about layers that the user fixes, by selector, and what became of them in a schedule.

A policy plans as if there were no pins; the schedule of its plan is then made with them. What a pin does not say is
searched as always. Where several selectors stand for one layer, the later in the file wins, decision by decision.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import Field

from dsascape.fusion.plan import FusionPlan
from dsascape.scheduler.errors import PinError
from dsascape.scheduler.kernels.layer import Layer
from dsascape.scheduler.kernels.record import Record
from dsascape.scheduler.pins.selectors import PlacedLayers, Selected, selected


class LayerPin(Record):
    """Decisions that are fixed for a layer; machine kinds derive their own. Fields that are None are left open."""

    @property
    def decided(self) -> dict[str, Any]:
        """The decisions that are fixed, as in a file."""
        return self.model_dump(mode="json", exclude_none=True)

    def with_later(self, later: "LayerPin") -> "LayerPin":
        """Return this pin with the decisions of a later one in place of its own."""
        return self.model_copy(update={name: getattr(later, name) for name in later.decided})


class AppliedPin(Record):
    """A pin that a schedule was made with: its selector, the outputs of the layers that have it, and what it fixes."""

    selector: str
    layers: tuple[str, ...] = Field(strict=False)
    decided: dict[str, Any]

    def __str__(self) -> str:
        return f"pinned {self.selector}: {json.dumps(self.decided)} for {', '.join(self.layers)}"


@dataclass(frozen=True)
class Pins:
    """The pins of a network on one kind of machine, in the order of the file."""

    layers: tuple[tuple[str, LayerPin], ...]
    """Selector and decisions."""
    source: str = "pins"
    """File that messages name."""

    def on(self, plan: FusionPlan, layers: PlacedLayers) -> "PinsOfPlan[Any]":
        """Return the pins for a plan; ``layers`` gives the layers of its schedule without pins.

        Raises ``PinError`` for a selector that stands for none of the plan's operators.
        """
        entries = []
        for selector, pin in self.layers:
            try:
                entries.append(_Entry(selector, selected(selector, plan, layers), pin))
            except PinError as error:
                raise PinError(f"{self.source}: layers.{error}") from error
        return PinsOfPlan(tuple(entries), self.source)


@dataclass(frozen=True, slots=True)
class _Entry:
    selector: str
    operators: Selected
    pin: LayerPin


PinT = TypeVar("PinT", bound=LayerPin)


@dataclass(frozen=True, slots=True)
class Pinned(Generic[PinT]):
    """Decisions that are fixed for one layer, and where the file says so, for messages."""

    pin: PinT
    where: str

    def at(self, key: str) -> str:
        """Return the place of one decision for a message."""
        return f"{self.where}: {key}"


@dataclass(frozen=True)
class PinsOfPlan(Generic[PinT]):
    """Pins resolved to the operators of a plan."""

    entries: tuple[_Entry, ...]
    source: str

    def of(self, layer: Layer) -> Pinned[PinT] | None:
        """Return what is fixed for ``layer``; None if nothing is."""
        found = [entry for entry in self.entries if entry.operators.has(layer)]
        if not found:
            return None
        pin = found[0].pin
        for entry in found[1:]:
            pin = pin.with_later(entry.pin)
        names = ", ".join([entry.selector for entry in found])
        merged: Any = pin
        return Pinned(merged, f"{self.source}: layers.{names}")

    def applied(self, layers: Iterable[Layer]) -> tuple[AppliedPin, ...]:
        """Return what the pins hold for in a schedule with these layers.

        Raises ``PinError`` for a pin that none of them has.
        """
        outputs: dict[str, dict[str, None]] = {entry.selector: {} for entry in self.entries}
        for layer in layers:
            for entry in self.entries:
                if entry.operators.has(layer):
                    outputs[entry.selector][layer.sink.name] = None
        for selector, names in outputs.items():
            if not names:
                raise PinError(
                    f"{self.source}: layers.{selector}: no layer of the schedule has operators of all these; see the"
                    " layers of dsascape simulate --json, or the kernels of dsascape fuse"
                )
        return tuple([
            AppliedPin(selector=entry.selector, layers=tuple(outputs[entry.selector]), decided=entry.pin.decided)
            for entry in self.entries
        ])  # fmt: skip


def pins_text(applied: Iterable[AppliedPin]) -> list[str]:
    """Return a line for each pin of a schedule."""
    return [f"  {each}" for each in applied]


def without_empty_pins(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schedule's document without its pins where there are none."""
    return {key: value for key, value in document.items() if key != "pins" or value}
