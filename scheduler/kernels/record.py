"""Base of the records of files (schedules, pins), and the types of their numbers."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[int, Field(ge=0, lt=2**53)]
Size = Annotated[int, Field(ge=1, lt=2**53)]
Few = Annotated[int, Field(ge=1, le=1024)]
Numbers = Annotated[tuple[Number, ...], Field(strict=False)]
Sizes = Annotated[tuple[Size, ...], Field(strict=False)]


class Record(BaseModel):
    """Base of all records of a file: strictly typed, unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)
