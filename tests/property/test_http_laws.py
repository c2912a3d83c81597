"""Whatever is posted is events, or refused with a line and a reason; whatever comes as an id is ours, or none."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.filters.events import Event
from godwit.runtime.http_events import BadBody, events_in
from godwit.runtime.http_listening import resume_position

CASES = settings(deadline=None)

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
DATA = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("attributes", "payload", "payload_base64", "content_type", "to", "expires_in", "context", "n")
SAID = st.dictionaries(st.sampled_from(FIELDS), DATA, max_size=5)


def read_in(body: bytes) -> list[Event] | tuple[int, str]:
    try:
        return events_in(body, 1_000.0)
    except BadBody as bad:
        return bad.line, str(bad)


@CASES
@given(st.binary(max_size=200) | st.lists(SAID, max_size=3).map(msgspec.json.encode))
def test_a_body_is_events_or_refused_with_its_line(body: bytes) -> None:
    read = read_in(body)
    if isinstance(read, list):
        assert all(event.published_at == 1_000.0 for event in read)
    else:
        assert read[0] >= 1
        assert read[1]


@CASES
@given(st.lists(SAID, min_size=2, max_size=4))
def test_events_on_lines_are_those_of_the_array(said: list[dict[str, object]]) -> None:
    assert read_in(msgspec.json.encode(said)) == read_in(b"\n".join(map(msgspec.json.encode, said)))


@CASES
@given(st.text(max_size=40) | st.from_regex(r"\A[^@\s]{1,8}@[^:\s]{1,8}:\d{1,5}\Z"))
def test_an_id_is_one_of_ours_or_none(text: str) -> None:
    found = resume_position(text)
    assert found is None or (found[0] != "" and found[2] >= 0)
