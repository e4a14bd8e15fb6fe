"""Text made safe for terminals and spreadsheets."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def for_terminal(text: str) -> str:
    """Return ``text`` with unprintable characters, line breaks aside, as escape sequences."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode("ascii") for each in text
    )


def for_spreadsheet(text: str) -> str:
    """Return ``text`` with an apostrophe in front where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def without_apostrophe(text: str) -> str:
    """Return ``text`` as it was before `for_spreadsheet`."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
