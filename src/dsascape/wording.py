"""Wording of messages that every room uses: numbers with their nouns, and names close to one that is unknown."""

from collections.abc import Iterable
from difflib import get_close_matches

_HISSING = ("s", "x", "z", "ch", "sh")
_VOWELS = "aeiou"


def count(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural: ``1 kernel``, ``1,024 kernels``, ``0 policies``."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a regular noun, of several words that of the last: ``design points``, ``policies``."""
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_HISSING) else f"{noun}s"


_LONGEST_WORD = 80
_SHORT = 5
"""Letters of a short word, at most."""
_LEAST_INSIDE = 3
"""Characters of a word, at least, for names that contain it to be meant."""


def near_names(word: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to ``most`` of the names in ``known`` that ``word`` may stand for, the likeliest first.

    Capitals, spaces and signs between words do not count: ``H100`` is ``h100``. A name that differs in them alone comes
    first, then names that contain the word, the shortest first, then those like it, from ``cutoff`` (0 to 1) on. What
    is like a short word begins as it does: ``b100`` is not ``h100``, and ``npu`` not ``gpu``.
    """
    names = list(known)
    wanted = _letters(word[:_LONGEST_WORD])
    same = [name for name in names if _letters(name) == wanted]
    inside = [name for name in names if wanted in _letters(name)] if len(wanted) >= _LEAST_INSIDE else []
    letters = {_letters(name): name for name in names}
    begun = [each for each in letters if len(wanted) > _SHORT or each[:1] == wanted[:1]]
    alike = [letters[each] for each in get_close_matches(wanted, begun, most, cutoff)]
    return list(dict.fromkeys([*same, *sorted(inside, key=len), *alike]))[:most] if wanted else []


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean ...?)" with the likeliest of `near_names`, or an empty string."""
    return "".join(f" (did you mean {name}?)" for name in near_names(word, known))


def _letters(text: str) -> str:
    return "".join(each for each in text.casefold() if each.isalnum())
