"""Targets that read texts of users: queries of other languages, XML documents, CloudEvents, tokens."""

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from random import Random

from godwit.errors import BadEvent, FilterError, PeerFault
from godwit.filters.events import Event, event
from godwit.languages import parse_query
from godwit.languages.cloud_events import HTTP, event_from_binary, event_from_structured, events_from_batch
from godwit.languages.xml_documents import flattened_document, parsed_document, xml_event
from godwit.runtime.tokens import TokenKeys
from tests.fuzz.spoiling import Case, spoilt, spoilt_text

__all__ = ["DOCUMENTS"]

WORDS = (
    *("AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "EXISTS", "(", ")", "[", "]", "{", "}", ",", "="),
    *("!=", "<", ">=", "'a'", "'%'", '"', "'", "1", "-1", "1e400", "2147483648", "0.1", "TRUE", "//", "/", "@", "*"),
    *("..", ".", "$and$", "$not$", "$any$", "!", "|", "UPPER", "SUBSTRING(", "INT(", "S_INTERSECTS(", "CASEI("),
    *("POINT(", "T_BEFORE(", "DATE('2024-02-30')", "position()", "last()", "count(", "not("),
    *("\x00", "\x01", "\\", "\u2028", "\ud7ff", "\U0001f427"),
)
QUERIES = {
    "cesql": (
        "cost < 3 AND kind = 'parking'",
        "UPPER(kind) LIKE 'P%' OR NOT EXISTS cost",
        "INT(cost) + 2 IN (1, 2, 3)",
    ),
    "cql2-text": (
        "cost < 3 AND kind = 'parking'",
        "S_INTERSECTS(place, POLYGON((0 0, 1 0, 1 1, 0 0))) OR CASEI(kind) LIKE 'p%'",
        "cost BETWEEN 1 AND 2 AND T_BEFORE(at, TIMESTAMP('2024-05-01T12:00:00Z'))",
    ),
    "cql2-json": (
        '{"op": "and", "args": [{"op": "<", "args": [{"property": "cost"}, 3]}, {"op": "not", "args": [false]}]}',
        '{"op": "s_intersects", "args": [{"property": "place"}, {"type": "Point", "coordinates": [8.5, 47.3]}]}',
    ),
    "xpath": ("/bus[line = '5' or delay > 60]/stop[2] = 'Main'", "//stop[not(@closed) and position() < last()]"),
    "xql": ("bus/at[lon $gt$ 8.5 $and$ lon $lt$ 8.6]", "//stop[. = 'Main'] | bus[@line = '5']/stop[0 to 2]"),
}
XML = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<bus line="5"><stop open="no">A &amp; B</stop><![CDATA[<x>]]></bus>',
    b"<bus><at><lon>8.54</lon></at><!-- late --><?now?></bus>",
    b'<!DOCTYPE bus [<!ELEMENT bus ANY>]><b:bus xmlns:b="urn:b"><b:delay>60</b:delay></b:bus>',
    '<?xml version="1.0" encoding="UTF-16"?><bus/>'.encode("utf-16"),
)
CLOUD_EVENT = (
    b'{"specversion": "1.0", "id": "1", "source": "/a", "type": "t", "time": "2024-05-01T12:00:00Z", "ext": 3,'
    b' "datacontenttype": "application/json", "data": {"cost": 2, "tags": ["a", "b"], "at": {"x": null}}}'
)
BASE64 = b'{"specversion": "1.0", "id": "1", "source": "/a", "type": "t", "data_base64": "AQID"}'
SECRET = "a secret of a test, which is long enough for every algorithm of this family: 64 bytes"
HEADERS = "ce-specversion: 1.0|ce-id: 1|ce-source: /a%20b|ce-type: t|ce-ext: 3|content-type: application/json"


@cache
def _events() -> tuple[Event, ...]:
    return event({"kind": "parking", "cost": 2, "x": "a", "at": "2024-05-01T12:00:00Z"}), event({}), xml_event(XML[0])


def query(draw: Random, language: str) -> None:
    """A query, and its test of events."""
    text = spoilt_text(draw.choice(QUERIES[language]), WORDS, draw)
    with suppress(FilterError):
        found = parse_query(text, language)
        for each in _events():
            found.matches(each)


def xml_document(draw: Random) -> None:
    """An XML document, and its attributes."""
    data = spoilt(draw.choice(XML), draw)
    with suppress(BadEvent):
        flattened_document(parsed_document(data))


def cloud_event(draw: Random) -> None:
    """CloudEvents in all three modes."""
    match draw.randrange(3):
        case 0:
            read: Callable[[], object] = partial(
                event_from_structured, spoilt(draw.choice((CLOUD_EVENT, BASE64)), draw)
            )
        case 1:
            read = partial(events_from_batch, spoilt(b"[" + CLOUD_EVENT + b", " + BASE64 + b"]", draw))
        case _:
            lines = spoilt(HEADERS.encode(), draw).decode("latin-1").split("|")
            headers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            read = partial(event_from_binary, headers, spoilt(b'{"cost": 2}', draw), HTTP)
    with suppress(BadEvent):
        read()


@cache
def _keys() -> tuple[TokenKeys, tuple[str, ...]]:
    import jwt

    claims = {"exp": 4_000_000_000, "sub": "ann", "godwit": {"publish": ["x < 3"], "subscribe": ["TRUE"]}}
    tokens = [jwt.encode(claims, SECRET, algorithm="HS256", headers=more) for more in ({}, {"kid": "k"}, {"typ": None})]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "secret"
        file.write_text(SECRET, encoding="utf-8")
        return TokenKeys(file, ("HS256",)), tuple(tokens)


def token(draw: Random) -> None:
    """A token: spoilt as text, or with spoilt claims and a right signature."""
    import jwt

    keys, tokens = _keys()
    text = spoilt(draw.choice(tokens).encode(), draw).decode("latin-1")
    if draw.random() < 0.5:
        odd = draw.choice(("", "x", -1, 1e400, 10**400, None, True, [], ["x"], {}, {"publish": "x"}, {"publish": [3]}))
        claims = {"exp": 4_000_000_000, "sub": "ann", draw.choice(("exp", "sub", "nbf", "iat", "aud", "godwit")): odd}
        with suppress(TypeError, ValueError, OverflowError):  # what no token can have
            text = jwt.api_jws.encode(json.dumps(claims).encode(), SECRET, "HS256")
    with suppress(PeerFault):
        keys.claims(text)


DOCUMENTS: dict[str, Case] = {
    **{f"{language} text": partial(query, language=language) for language in QUERIES},
    "XML document": xml_document,
    "CloudEvent": cloud_event,
    "tokens": token,
}
