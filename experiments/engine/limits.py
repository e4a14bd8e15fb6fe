"""Limits of one design point: time and memory."""

from dataclasses import dataclass

from dsascape.hw_models.text.quantities import BYTES, format_bytes, parse_quantity

SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
NO_LIMIT = "none"


class LimitError(ValueError):
    """A limit that cannot be parsed, or is not positive."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time and memory of one design point; None is unlimited."""

    timeout_s: float | None = 3600.0
    memory_bytes: int | None = 8 * 2**30
    """Bytes beyond those of an idle worker process."""

    @property
    def too_slow(self) -> str:
        """Failure message of a point stopped for its time."""
        return f"took longer than {self.timeout_s:g} s; allow more with --point-timeout, and --retry-failed"

    @property
    def too_large(self) -> str:
        """Failure message of a point that ran out of memory."""
        if self.memory_bytes is None:
            return "needs more memory than this machine has"
        text = format_bytes(self.memory_bytes)
        return f"needs more than {text} of memory; allow more with --point-memory, and --retry-failed"


def read_limits(timeout: str | None, memory: str | None) -> Limits:
    """Parse limits such as ``10 min`` and ``4 GiB``; raise ``LimitError``.

    None gives the default, ``none`` no limit.
    """
    default = Limits()
    return Limits(
        default.timeout_s if timeout is None else _quantity(timeout, SECONDS, "--point-timeout"),
        default.memory_bytes if memory is None else _bytes(_quantity(memory, BYTES, "--point-memory")),
    )


def _quantity(text: str, units: dict[str, float] | dict[str, int], flag: str) -> float | None:
    if text == NO_LIMIT:
        return None
    try:
        value = parse_quantity(text, units)
    except ValueError as error:
        raise LimitError(f"{flag} {error}, or {NO_LIMIT}") from error
    if value <= 0:
        raise LimitError(f"{flag} has {text!r}; needs more than zero, or {NO_LIMIT}")
    return value


def _bytes(value: float | None) -> int | None:
    return None if value is None else round(value)
