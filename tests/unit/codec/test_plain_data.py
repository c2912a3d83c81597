"""Filters and events as plain data: what strangers send is bounded before it is looked at."""

import pytest

from godwit.codec import plain_data
from godwit.errors import BadEvent, FilterTooBig
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX, parse
from godwit.filters.values import Point


def test_the_text_of_a_client_is_bounded_on_the_wire() -> None:
    text = f"a IN ({', '.join('1' for _ in range(CLIENT_TEXT_BYTES_MAX))})"
    parse(text)
    with pytest.raises(FilterTooBig, match=f"more than {CLIENT_TEXT_BYTES_MAX} bytes"):
        plain_data.filter_of(text)


def test_attributes_that_somebody_has_written_as_json_are_flattened() -> None:
    user = {"zip": [1050, 5473], "name": "Ann"}
    written = {"n": 1, "user": user, "one": ["a"], "no": None, "at": {"lon": 8, "lat": 47}}
    assert plain_data.json_attributes_of(written) == {
        "n": 1,
        "user/zip": (1050, 5473),
        "user/name": "Ann",
        "one": "a",
        "at": Point(8, 47),
    }


def test_attributes_that_are_plain_are_kept_as_they_are() -> None:
    plain = {"n": 1, "name": "Ann"}
    assert plain_data.json_attributes_of(plain) is plain


def test_what_is_no_value_is_an_error_that_names_the_attribute() -> None:
    with pytest.raises(BadEvent, match="'key'"):
        plain_data.json_attributes_of({"key": [2**70]})
