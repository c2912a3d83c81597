"""CloudEvents as events and back: both modes, data of all types, and what is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import BadEvent
from godwit.filters import Event, Point, event, parse
from godwit.languages.cloud_events import (
    BATCH,
    HTTP,
    MQTT,
    STRUCTURED,
    event_from_binary,
    event_from_structured,
    events_from_batch,
    is_binary,
    is_structured,
    to_batch,
    to_binary,
    to_structured,
)

REQUIRED = {"specversion": "1.0", "id": "A234", "source": "/sensors/7", "type": "com.example.reading"}


def said(**members: Any) -> bytes:
    return json.dumps({**REQUIRED, **members}).encode()


def test_attributes_of_a_cloud_event_are_attributes_of_the_event_and_its_data_is_the_payload() -> None:
    got = event_from_structured(said(time="2018-04-05T17:31:00+02:00", hop=3, urgent=True, data={"zip": [1050, 5473]}))
    assert got.attributes == {
        **REQUIRED,
        "time": "2018-04-05T17:31:00+02:00",
        "hop": 3,
        "urgent": True,
        "data/zip": (1050, 5473),
    }
    assert (got.payload, got.content_type) == (b'{"zip": [1050, 5473]}', "application/json")
    assert parse("type LIKE 'com.example.%' AND \"data/zip\" = 5473").matches(got)


def test_data_need_not_be_flattened() -> None:
    assert event_from_structured(said(data={"zip": 1050}), flatten=False).attributes == REQUIRED


@pytest.mark.parametrize(
    ("members", "payload", "content_type"),
    [
        ({}, None, None),
        ({"data": None}, None, None),
        ({"datacontenttype": "text/plain"}, None, "text/plain"),
        ({"data": "abc", "datacontenttype": "text/plain"}, b"abc", "text/plain"),
        ({"data": "", "datacontenttype": "text/plain"}, b"", "text/plain"),
        ({"data": "<a>é</a>", "datacontenttype": "application/xml"}, "<a>é</a>".encode(), "application/xml"),
        ({"data": "abc"}, b'"abc"', "application/json"),
        ({"data": 1.50}, b"1.5", "application/json"),
        (
            {"data": [1, {"a": None}], "datacontenttype": "application/problem+json; charset=utf-8"},
            b'[1, {"a": null}]',
            None,
        ),
        ({"data_base64": "/wA=", "datacontenttype": "application/octet-stream"}, b"\xff\0", "application/octet-stream"),
        ({"data_base64": "AQID", "data": None, "datacontenttype": "image/png"}, b"\1\2\3", "image/png"),
    ],
)
def test_data_of_every_type_comes_back_as_it_was(
    members: dict[str, Any], payload: bytes | None, content_type: str | None
) -> None:
    first = event_from_structured(said(**members))
    assert first.payload == payload
    assert content_type is None or first.content_type == content_type
    again = event_from_structured(to_structured(first))
    assert again == first
    before, after = json.loads(said(**members)), json.loads(to_structured(first))
    assert {name for name in before if before[name] is not None and not name.startswith("data")} == {
        name for name in after if not name.startswith("data")
    } or "datacontenttype" in before


def test_json_data_keeps_its_spelling() -> None:
    body = (
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data": {"n": 1.000e2, "big": 123456789012345678901} }'
    )
    got = event_from_structured(body, flatten=False)
    assert got.payload == b'{"n": 1.000e2, "big": 123456789012345678901}'
    assert got.payload in to_structured(got)


def test_binary_mode_over_http() -> None:
    headers = {
        "CE-SpecVersion": "1.0",
        "ce-id": "1",
        "ce-source": "/s",
        "ce-type": "t",
        "ce-comment": "Euro%20%E2%82%AC%20%F0%9F%98%80 100%",
        "ce-quoted": '"a \\"word\\""',
        "Content-Type": "application/json",
        "Host": "example.org",
    }
    got = event_from_binary(headers, b'{"zip": 1050}')
    assert got.attributes["comment"] == "Euro € 😀 100%"
    assert got.attributes["quoted"] == 'a "word"'
    assert got.attributes["data/zip"] == 1050
    assert (got.attributes["datacontenttype"], got.content_type) == ("application/json", "application/json")
    back, body = to_binary(got)
    assert back["ce-comment"] == "Euro%20%E2%82%AC%20%F0%9F%98%80%20100%25"
    assert (back["content-type"], body) == ("application/json", b'{"zip": 1050}')
    assert event_from_binary(back, body) == got
    assert is_binary(headers)
    assert not is_binary({"content-type": STRUCTURED})


def test_binary_mode_over_mqtt_has_no_prefix_and_encodes_nothing() -> None:
    got = event_from_binary({**REQUIRED, "comment": "100% é", "content-type": "text/plain"}, b"abc", MQTT)
    assert got.attributes == {**REQUIRED, "comment": "100% é", "datacontenttype": "text/plain"}
    assert event_from_binary(*to_binary(got, MQTT), MQTT) == got


def test_binary_mode_has_no_types() -> None:
    got = event_from_structured(said(hop=3, urgent=True))
    headers, body = to_binary(got)
    assert event_from_binary(headers, body).attributes == {**REQUIRED, "hop": "3", "urgent": "true"}


def test_data_without_a_type_is_no_json_in_binary_mode() -> None:
    got = event_from_binary({f"ce-{name}": value for name, value in REQUIRED.items()}, b"\xff{")
    assert (got.payload, got.content_type, "datacontenttype" in got.attributes) == (b"\xff{", None, False)
    assert json.loads(to_structured(got))["datacontenttype"] == "application/octet-stream"


def test_batches() -> None:
    events = [event_from_structured(said(n=1)), event_from_structured(said(n=2, data={"a": 1}))]
    assert events_from_batch(to_batch(events)) == events
    assert is_structured("application/cloudevents+json; charset=UTF-8")
    assert not is_structured(BATCH)
    assert not is_structured(None)


def test_another_event_gets_the_required_attributes() -> None:
    native = event({"kind": "parking", "free": 3}, publisher="car park 7", sequence=12, payload=b"x")
    got = json.loads(to_structured(native))
    assert got == {
        "specversion": "1.0",
        "id": "car park 7/12",
        "source": "/car%20park%207",
        "type": "godwit.event",
        "kind": "parking",
        "free": 3,
        "datacontenttype": "application/octet-stream",
        "data": "x",
    }


def test_the_context_of_the_sender_is_left_out() -> None:
    assert b"battery" not in to_structured(Event({**REQUIRED, "sender.battery": 20}))


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({"price": 2.5}, "price"),
        ({"user/zip": 1050}, "user/zip"),
        ({"Kind": "x"}, "Kind"),
        ({"place": Point(8, 47)}, "place"),
        ({"n": (1, 2)}, "n"),
        ({"n": 2**31}, "n"),
    ],
)
def test_what_a_cloud_event_cannot_have_is_refused_by_name(attributes: dict[str, Any], name: str) -> None:
    for give in (to_structured, to_binary):
        with pytest.raises(BadEvent, match=name):
            give(Event(attributes))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "JSON object"),
        (b"[]", "JSON object"),
        (b'{"a":', "JSON object"),
        (b"[" * 100_000, "JSON object"),
        (
            b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "deep|recursion",
        ),
        (said(specversion="0.3"), "specversion '0.3': supported is '1.0'"),
        (said(id=""), "'id'"),
        (said(id=5), "'id'"),
        (said(source=None), "'source'"),
        (said(type=None), "'type'"),
        (said(Extension="x"), "Extension"),
        (said(my_ext="x"), "my_ext"),
        (said(price=2.5), "price"),
        (said(big=2**31), "big"),
        (said(nested={"a": 1}), "nested"),
        (said(data=1, data_base64="AQID"), "not both"),
        (said(data_base64="§"), "base64"),
        (said(data_base64=5), "base64"),
        (said(datacontenttype=5), "datacontenttype"),
        (said(data={"a": 1}, datacontenttype="text/plain"), "text/plain"),
        (said(data_base64="/wA=", datacontenttype="application/json"), "data"),
        (said(data={"a": "x" * 70_000}), "70000 characters"),
        (b'{"specversion":"\xff"}', "specversion.*utf-8"),
    ],
)
def test_a_wrong_cloud_event_is_refused_with_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(BadEvent, match=reason):
        event_from_structured(body)


def test_wrong_headers_are_refused_with_the_reason() -> None:
    headers = {f"ce-{name}": value for name, value in REQUIRED.items()}
    with pytest.raises(BadEvent, match="ce-x: what is encoded with % is not valid UTF-8"):
        event_from_binary({**headers, "ce-x": "%FF"}, b"")
    with pytest.raises(BadEvent, match="content type of the data is that of the message"):
        event_from_binary({**headers, "ce-datacontenttype": "text/plain"}, b"")
    with pytest.raises(BadEvent, match="'type'"):
        event_from_binary({"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/"}, b"")
    with pytest.raises(BadEvent, match="data is not valid JSON: "):
        event_from_binary({**headers, "content-type": "application/json"}, b"{")


NAMES = st.text("abz019", min_size=1, max_size=4)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    st.dictionaries(NAMES, st.one_of(TEXTS, st.booleans(), st.integers(-(2**31), 2**31 - 1)), max_size=4),
    st.one_of(st.none(), st.binary(min_size=1, max_size=20)),
    st.sampled_from(["text/plain", "image/png", "application/octet-stream"]),
)
def test_events_come_back_the_same_in_structured_mode_and_texts_in_binary_mode(
    extensions: dict[str, Any], payload: bytes | None, kind: str
) -> None:
    made = Event({**REQUIRED, "datacontenttype": kind, **extensions}, payload=payload, content_type=kind)
    assert event_from_structured(to_structured(made)) == made
    texts = {name: value for name, value in made.attributes.items() if isinstance(value, str)}
    made = Event(texts, payload=payload, content_type=kind)
    for mode in (HTTP, MQTT):
        headers, body = to_binary(made, mode)
        assert mode is MQTT or all(value.isascii() for value in headers.values())
        assert event_from_binary(headers, body, mode) == made


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXTS, inner)),
        max_leaves=8,
    )
)
def test_json_data_comes_back_the_same(data: Any) -> None:
    body = said(data=data)
    got = event_from_structured(body, flatten=False)
    assert json.loads(to_structured(got)).get("data") == data
    assert event_from_structured(to_structured(got), flatten=False) == got
