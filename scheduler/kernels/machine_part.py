"""Parts of a machine as arguments of memoized functions: what a function takes is its key, and all that it can read."""

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, NoReturn, TypeVar, Union

from pydantic import BaseModel

Unread = Mapping[str, Union[bool, "Unread"]]
"""Fields of a spec that are left out, by name: True, or those of the part that the field holds."""

_Model = TypeVar("_Model", bound=BaseModel)


class MachinePart:
    """Base of frozen dataclasses (``eq=False``) that are equal if their content is, which is written out once.

    Fields are specs (pydantic models) and plain values, whose text tells all that they are.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @cached_property
    def content(self) -> str:
        """Values of all fields as text; a field that is left out stands as left out."""
        return "\n".join([_text(getattr(self, field.name)) for field in fields(self)])

    def __hash__(self) -> int:
        return hash(self.content)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, MachinePart) and type(self) is type(other) and self.content == other.content


@dataclass(frozen=True, slots=True, repr=False)
class LeftOut:
    """Value of a field that a part of a machine leaves out: whoever reads it is told so by an ``AttributeError``."""

    left_out_at: str
    """Path of the field in the machine's spec."""
    part_of: str = "machine"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.left_out_at} is left out of this part of the {self.part_of}, and so is its {name}")

    def __bool__(self) -> NoReturn:
        raise AttributeError(f"{self.left_out_at} is left out of this part of the {self.part_of}")

    def __repr__(self) -> str:
        return "left out"


def left_out(place: str, part_of: str = "machine") -> Any:
    """Return what stands for a field of any type that a part of a machine, or of another record, leaves out."""
    return LeftOut(place, part_of)


def without(spec: _Model, unread: Unread, place: str = "") -> _Model:
    """Return ``spec`` without the fields ``unread``, which are `LeftOut`."""
    changed: dict[str, Any] = {}
    for name, inner in unread.items():
        value, where = getattr(spec, name), f"{place}{name}"
        if isinstance(inner, Mapping):
            changed[name] = None if value is None else without(value, inner, f"{where}.")
        else:
            changed[name] = left_out(where)
    return spec.model_copy(update=changed)


def only(spec: _Model, *read: str) -> _Model:
    """Return ``spec`` with the fields ``read`` alone, those of its parts as ``part.field``; others are `LeftOut`."""
    return without(spec, _all_but(spec, read))


def _all_but(spec: BaseModel, read: Iterable[str]) -> Unread:
    inside: dict[str, list[str]] = {}
    for place in read:
        name, _, inner = place.partition(".")
        inside.setdefault(name, []).append(inner)
    unread: dict[str, bool | Unread] = {name: True for name in type(spec).model_fields if name not in inside}
    for name, inner_places in inside.items():
        if "" not in inner_places:
            unread[name] = _all_but(getattr(spec, name), inner_places)
    return unread


def _text(value: object) -> str:
    return value.model_dump_json(warnings=False, fallback=repr) if isinstance(value, BaseModel) else repr(value)
