"""Values of a machine file that calibration writes, with their sources."""

from dataclasses import dataclass

MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the file, with its source as a comment."""

    text: str
    source: str

    def __str__(self) -> str:
        return f"{self.text}  # {self.source}"
