"""Wording of messages that every room uses: numbers with their nouns."""

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
