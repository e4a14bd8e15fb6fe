"""Decoding of text files: UTF-8, with or without a byte order mark."""

import codecs

BYTE_ORDER_MARK = codecs.BOM_UTF8
_OTHERS = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
"""Byte order marks of other encodings; UTF-32 first, because its marks begin like those of UTF-16."""
_WIDTHS = {"UTF-32": 4, "UTF-16": 2}


class EncodingError(ValueError):
    """Content that is not UTF-8 text; the message continues a sentence that begins with the file's name."""


def decoded(content: bytes) -> str:
    """Return the text of a file, without its byte order mark; raise ``EncodingError`` if it is not UTF-8."""
    content = content.removeprefix(BYTE_ORDER_MARK)
    other = _other_encoding(content)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{content[error.start]:02x} at offset {error.start}"
        raise EncodingError(f"is not UTF-8 text ({wrong}){_but(other)}") from error
    if other:
        raise EncodingError(f"is not UTF-8 text (zero bytes between the others){_but(other)}")
    return text


def _but(encoding: str) -> str:
    return f", but {encoding}; save it as UTF-8" if encoding else ""


def _other_encoding(content: bytes) -> str:
    """Return the encoding if it is UTF-16 or UTF-32, by its mark or its zero bytes; otherwise an empty string."""
    for encoding, marks in _OTHERS.items():
        width = _WIDTHS[encoding]
        if len(content) % width == 0 and (content.startswith(marks) or _is_padded(content, width)):
            return encoding
    return ""


def _is_padded(content: bytes, width: int) -> bool:
    """Return whether most units of ``width`` bytes are one byte padded with zeros, before or after it."""
    zeros = [2 * content[place::width].count(0) > len(content) // width for place in range(width)]
    return (not zeros[0] and all(zeros[1:])) or (not zeros[-1] and all(zeros[:-1]))
