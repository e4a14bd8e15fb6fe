"""Extensions of installed packages: listed by entry points, imported on demand, with failures as messages."""

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any

from dsascape.hw_models.text.raised import where_raised


class ExtensionError(ValueError):
    """An extension of an installed package that cannot be used; the message names the package to mend."""


@dataclass(frozen=True)
class Extensions:
    """A group of entry points: the name of each extension and its place, as in ``module:object``."""

    group: str
    """Name of the group, such as ``dsascape.policies``."""
    noun: str
    """Word for one of them in messages, such as policy."""
    built_in: Mapping[str, str] = field(default_factory=dict)
    """Places of those that come with dsascape, by name; packages cannot replace them."""

    def entries(self) -> dict[str, EntryPoint]:
        """Return the entry points by name, built-in ones first; of equal names the first."""
        return self._entries()[0]

    def duplicates(self) -> tuple[str, ...]:
        """Return a message for each extension whose name is used by another."""
        return self._entries()[1]

    def _entries(self) -> tuple[dict[str, EntryPoint], tuple[str, ...]]:
        entries = {name: EntryPoint(name, place, self.group) for name, place in self.built_in.items()}
        taken = []
        for entry in importlib.metadata.entry_points(group=self.group):
            first = entries.setdefault(entry.name, entry)
            if first.value != entry.value:
                taken.append(f"{self.described(entry)} has the name of {first.value}, which is used; rename it")
        return entries, tuple(taken)

    def described(self, entry: EntryPoint) -> str:
        """Return an extension's name, place and package, for messages."""
        package = f" of package {entry.dist.name}" if entry.dist is not None else ""
        return f"{self.noun} {entry.name!r} of the entry point {entry.value!r}{package}"

    def load(self, entry: EntryPoint) -> Any:
        """Return the object of an entry point; raise ``ExtensionError`` if its import fails."""
        try:
            return entry.load()
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            place = where_raised(error)
            where = f" ({place})" if place else ""
            raise ExtensionError(
                f"{self.described(entry)} cannot be imported: {type(error).__name__}: {error}{where}; mend or remove"
                " the package"
            ) from error
