"""Filters and events as plain data: what strangers send is bounded before it is looked at."""

import pytest

from godwit.codec import plain_data
from godwit.errors import FilterTooBig
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX, parse


def test_the_text_of_a_client_is_bounded_on_the_wire() -> None:
    text = f"a IN ({', '.join('1' for _ in range(CLIENT_TEXT_BYTES_MAX))})"
    parse(text)
    with pytest.raises(FilterTooBig, match=f"more than {CLIENT_TEXT_BYTES_MAX} bytes"):
        plain_data.filter_of(text)
