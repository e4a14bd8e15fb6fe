"""Pins: decisions about layers that the user fixes, the rest being left to the scheduler's searches."""

from dsascape.scheduler.pins.file import pin_schema, read_pins, used_pins
from dsascape.scheduler.pins.pins import AppliedPin, LayerPin, Pins, PinsOfPlan

__all__ = ["AppliedPin", "LayerPin", "Pins", "PinsOfPlan", "pin_schema", "read_pins", "used_pins"]
