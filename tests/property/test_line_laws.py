"""An event in a line of JSON is the same event when it is read."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import BadEvent
from godwit.filters.events import Event
from godwit.filters.json_lines import line_of, whole_event_of
from godwit.filters.language import parse
from tests.property.strategies import attributes

TIMES = st.none() | st.floats(min_value=0, max_value=4e9)
NAMES = ("n", "a/b", "sender.x", "sender.", "größe", "publisher")


def events() -> st.SearchStrategy[Event]:
    return st.builds(
        Event,
        attributes(NAMES),
        st.text(min_size=1, max_size=5),
        st.integers(min_value=1, max_value=2**63 - 1),
        payload=st.none() | st.binary(max_size=8),
        content_type=st.none() | st.text(max_size=4),
        published_at=TIMES,
        expires_at=TIMES,
        to=st.sampled_from([None, parse("x > 3")]),
    )


@given(events())
def test_what_is_written_is_read(event: Event) -> None:
    line = msgspec.json.encode(line_of(event))
    assert b"\n" not in line
    types = {name: type(value) for name, value in event.attributes.items()}
    for read in (msgspec.json.decode(line), json.loads(json.dumps(line_of(event)))):
        again = whole_event_of(read)
        assert again == event
        assert {name: type(value) for name, value in again.attributes.items()} == types


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "is a JSON object with `attributes`"),
        ({"attributes": {}}, "has a `publisher`"),
        ({"attributes": {}, "publisher": "p", "sequence": True}, "has a `publisher`"),
        ({"attributes": {}, "publisher": "p", "sequence": 1, "published_at": "now"}, "seconds since 1970"),
        ({"attributes": {}, "publisher": "p", "sequence": 1, "x": 1}, "'x' is not a field of events"),
        ({"attributes": {}, "publisher": "p", "sequence": 1, "payload_base64": "?"}, "not valid base64"),
    ],
)
def test_what_is_no_event_is_said(data: Any, said: str) -> None:
    with pytest.raises(BadEvent, match=said):
        whole_event_of(data)
