"""Text files are UTF-8, with or without a byte order mark; other encodings are rejected by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsascape.hw_models.text.text_file import BYTE_ORDER_MARK, EncodingError, decoded

LATIN = st.text(st.characters(min_codepoint=1, max_codepoint=255), min_size=8)


@given(text=st.text().filter(lambda text: not text.startswith("\ufeff") and "\0" not in text))
def test_a_byte_order_mark_is_no_part_of_the_text(text: str) -> None:
    assert decoded(text.encode()) == text
    assert decoded(BYTE_ORDER_MARK + text.encode()) == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@given(text=LATIN)
def test_other_encodings_of_unicode_are_named(encoding: str, mark: str, text: str) -> None:
    with pytest.raises(EncodingError, match=f"but {encoding.upper()[:6]}; save it as UTF-8"):
        decoded((mark + text).encode(encoding))


def test_bytes_that_are_no_text_are_named_with_their_place() -> None:
    with pytest.raises(EncodingError, match=r"^is not UTF-8 text \(byte 0x80 at offset 2\)$"):
        decoded(b"ab\x80cde")
