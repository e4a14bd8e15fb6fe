"""The one reader of files that others may have written: regular files of bounded size, and JSON within limits.

YAML is parsed by `yaml_file` and SQLite opened by `database`, both on the files that this module admits. JSON may be
nested at most 128 levels deep and hold 5,000,000 values; keys occur once in an object, numbers are finite and whole
ones fit into 64 bits, text has no half of a surrogate pair. Messages start with the file's name.
"""

import itertools
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dsascape.hw_models.text.messages import nearest
from dsascape.hw_models.text.text_file import EncodingError, decoded
from dsascape.wording import count, near_names

MIB = 2**20
DEEPEST = 128
"""Most levels of lists and objects within each other."""
MOST_VALUES = 5_000_000
_MOST_WHOLE = 2**63
_CHARACTERS_SHOWN = 200
_MOST_BESIDE = 1000
"""Most files of a folder that are compared with the name of one that is missing."""


class RecordError(ValueError):
    """A file that cannot be read as a record; the message starts with its name."""


def shown_path(path: Path) -> str:
    """Return ``path`` as messages show it: escaped if it is not printable."""
    return str(path) if str(path).isprintable() else repr(str(path))


def read_bytes(path: Path, most_bytes: int, needs: str = "a file") -> bytes:
    """Return the content of a regular file of at most ``most_bytes`` bytes; raise ``RecordError`` for anything else.

    Links are followed. A pipe or a device is refused before anything is read from it.
    """
    where = shown_path(path)
    try:
        handle = _opened(path, where, needs)
        with os.fdopen(handle, "rb") as file:
            size_bytes = os.fstat(handle).st_size
            content = b"" if size_bytes > most_bytes else file.read(most_bytes + 1)
    except OSError as error:
        meant = _named_alike(path) if isinstance(error, FileNotFoundError) else ""
        raise RecordError(f"{where}: {reason_of(error)}{meant}") from error
    size_bytes = max(size_bytes, len(content))
    if size_bytes > most_bytes:
        raise RecordError(f"{where}: has {_least(size_bytes, most_bytes)}; at most {_readable(most_bytes)} are read")
    return content


def reason_of(error: OSError) -> str:
    """Return the system's reason in lower case, without the file's name."""
    return (error.strerror or str(error)).lower()


def _named_alike(path: Path) -> str:
    """Return the file beside a missing one that may be meant, as `nearest` does: names without their ends are alike."""
    try:
        beside = {each.stem: each.name for each in itertools.islice(path.parent.iterdir(), _MOST_BESIDE)}
    except OSError:
        return ""
    return "".join(nearest(beside[stem], [beside[stem]]) for stem in near_names(path.stem, beside))


def _opened(path: Path, where: str, needs: str) -> int:
    """Return a descriptor of the regular file at ``path``, which has not been read from."""
    if "\0" in str(path):
        raise RecordError(f"{where}: a file name cannot contain a zero byte")
    _check_kind(path.stat().st_mode, where, needs)  # opening a device may have effects
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        _check_kind(os.fstat(handle).st_mode, where, needs)
    except RecordError:
        os.close(handle)
        raise
    return handle


def _check_kind(mode: int, where: str, needs: str) -> None:
    if stat.S_ISDIR(mode):
        raise RecordError(f"{where}: is a directory; needs {needs}")
    if not stat.S_ISREG(mode):
        raise RecordError(f"{where}: is not a regular file; needs {needs}")


def _least(size_bytes: int, most_bytes: int) -> str:
    return f"{size_bytes} B" if size_bytes > most_bytes + 1 else "more"


def _readable(size_bytes: int) -> str:
    return f"{size_bytes} ({size_bytes // MIB} MiB)" if size_bytes % MIB == 0 else f"{size_bytes} B"


def read_text(path: Path, most_bytes: int, needs: str = "a file") -> str:
    """Return the text of a file, without its byte order mark; raise ``RecordError`` where it is not UTF-8 text."""
    content = read_bytes(path, most_bytes, needs)
    try:
        return decoded(content)
    except EncodingError as error:
        raise RecordError(f"{shown_path(path)}: {error}") from error


def read_json(path: Path, most_bytes: int, needs: str = "a JSON file") -> Any:
    """Return the JSON document in a file; raise ``RecordError`` for anything else, or for one beyond the limits."""
    return parse_json(read_text(path, most_bytes, needs), shown_path(path))


def json_lines(path: Path, most_bytes: int, most_lines: int) -> Iterator[tuple[str, Any]]:
    """Yield each line of a file with its place, as in ``FILE:3``, and the JSON document in it.

    Raises ``RecordError`` for a line that has none, and for more than ``most_lines`` lines.
    """
    lines = read_text(path, most_bytes, "a file with a JSON object a line").split("\n")
    if lines[-1] == "":
        del lines[-1]
    if len(lines) > most_lines:
        raise RecordError(f"{shown_path(path)}: has {count(len(lines), 'line')}; at most {most_lines:,} are read")
    for number, line in enumerate(lines, 1):
        where = f"{shown_path(path)}:{number}"
        yield where, parse_json(line, where)


def parse_json(text: str, where: str, deepest: int = DEEPEST, *, any_number: bool = False) -> Any:
    """Return the JSON document in ``text``; raise ``RecordError``, which starts with ``where``, for anything else.

    With ``any_number``, the caller checks the ranges of numbers itself, field by field.
    """
    if text.count(",") > 2 * MOST_VALUES:  # before anything is built of them
        raise RecordError(f"{where}: has more than {MOST_VALUES:,} values")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=float if any_number else _refused)
    except RecursionError:
        raise RecordError(f"{where}: is nested more than {count(deepest, 'level')} deep") from None
    except ValueError as error:
        raise RecordError(f"{where}: is not JSON: {str(error)[:_CHARACTERS_SHOWN]}") from error
    wrong = _beyond(value, deepest, _CHECKS | _ANY_NUMBER if any_number else _CHECKS)
    if wrong:
        raise RecordError(f"{where}: {wrong}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            raise ValueError(f"key {key[:80]!r} is duplicate")
        entries[key] = value
    return entries


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _beyond(value: Any, deepest: int, checks: Mapping[type, Callable[[Any], str]]) -> str:
    """Return what of a document is beyond a limit; empty where nothing is. Works without recursion."""
    level: list[Any] = [value]
    values = depth = 0
    while level:
        depth += 1
        further: list[Any] = []
        values += len(level)
        for each in level:
            check = checks.get(type(each))
            if check is None:
                further.extend(each)
                if type(each) is dict:
                    further.extend(each.values())
            elif wrong := check(each):
                return wrong
        if values > MOST_VALUES:
            return f"has more than {MOST_VALUES:,} values"
        if depth > deepest + 1 or (depth > deepest and any(type(each) in (list, dict) for each in level)):
            return f"is nested more than {count(deepest, 'level')} deep"
        level = further
    return ""


def _wrong_text(text: str) -> str:
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"has text with half of a surrogate pair: {text[:40]!a}"
    return ""


def _wrong_whole(number: int) -> str:
    if -_MOST_WHOLE <= number < _MOST_WHOLE:
        return ""
    return f"has a whole number of {count(number.bit_length(), 'bit')}, not 64"


def _wrong_number(number: float) -> str:
    return "" if math.isfinite(number) else "has a number beyond the range of double precision"


def _right(value: object) -> str:
    del value
    return ""


_ANY_NUMBER: dict[type, Callable[[Any], str]] = {int: _right, float: _right}
_CHECKS: dict[type, Callable[[Any], str]] = {
    str: _wrong_text, int: _wrong_whole, float: _wrong_number, bool: _right, type(None): _right,
}  # fmt: skip
"""What may be wrong with a single value, by type; lists and objects are not in it."""
