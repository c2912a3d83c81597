"""Subscriptions in every language, and events that some of them want, as a table that needs no Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from godwit.filters import Event, event
from godwit.languages import Query, parse_query
from godwit.languages.xml_documents import xml_event
from godwit.pipeline import tables
from godwit.pipeline.columns import Form, column_of, to_arrow
from tests.spark.agreement import forms_of

QUERIES = {
    "female": ("xql", "User[Sex = 'female']"),
    "wien": ("xql", "User/Address[Zip = 1050 $and$ City = 'Wien']"),
    "mixed up": ("xql", "User/Address[Zip = 5473 $and$ City = 'Wien']"),
    "all near": ("xql", "User[$all$ Address/Zip $lt$ 2000]"),
    "same by xpath": ("xpath", "/User/Address[Zip = 1050 and City = 'Wien']"),
    "two addresses": ("xpath", "count(/User/Address) = 2"),
    "order": ("cesql", "type = 'order' AND amount > 10"),
    "long order": ("cesql", "type = 'order' AND LENGTH(note) > amount"),
    "no note": ("cesql", "NOT EXISTS note"),
    "dear": ("cql2-text", "amount > 10 AND note LIKE 'a%'"),
    "two sides": ("cql2-text", "amount > weight + 1"),
    "json": ("cql2-json", '{"op": ">", "args": [{"property": "amount"}, {"property": "weight"}]}'),
    "native": ("filter", "amount > 10"),
    "native too": ("filter", "amount > 10"),
    "native sides": ("filter", "amount > weight + 1"),
    "native length": ("filter", "type = 'order' AND length(note) > amount"),
}
DOCUMENTS = [
    """<User><Sex>female</Sex><Address><Zip>1050</Zip><City>Wien</City></Address>
    <Address><Zip>5473</Zip><City>Milano</City></Address></User>""",
    "<User><Sex>male</Sex><Address><Zip>1050</Zip><City>Wien</City></Address></User>",
    """<User><Sex> female </Sex><Address><Zip>1050.0</Zip><City>Graz</City></Address>
    <Address><Zip>8010</Zip><City>Wien</City></Address></User>""",
    "<Group><Sex>female</Sex></Group>",
]
ORDERS: list[dict[str, Any]] = [
    {"type": "order", "amount": amount, "weight": weight, "note": note}
    for amount in (2, 11, 30)
    for weight in (1, 20)
    for note in ("a", "abcdefghijklmnop", "b" * 40)
]
ORDERS += [{"type": "order", "amount": 12}, {"type": "offer"}]


def queries() -> dict[str, Query]:
    return {id: parse_query(text, language) for id, (language, text) in QUERIES.items()}


def events() -> list[Event]:
    made = [xml_event(each.encode()) for each in DOCUMENTS] + [event(each) for each in ORDERS]
    return [
        Event(each.attributes, "p", number, payload=each.payload, content_type=each.content_type)
        for number, each in enumerate(made)
    ]


def expected() -> dict[int, list[str]]:
    """By event, who wants it, as the queries say themselves."""
    wanted = queries()
    found = {each.sequence: sorted(id for id, query in wanted.items() if query.matches(each)) for each in events()}
    return {number: ids for number, ids in found.items() if ids}


def residues() -> int:
    """Pairs that a filter lets through and the exact test does not."""
    return sum(
        query.routable.matches(each) and not query.matches(each) for query in queries().values() for each in events()
    )


def write_table(folder: Path) -> dict[str, Form]:
    """The events as a table."""
    rows = events()
    forms = forms_of([each.attributes for each in rows])
    columns = {
        column_of(name): to_arrow(form, [each.attributes.get(name) for each in rows]) for name, form in forms.items()
    }
    own = {
        "publisher": pa.array([each.publisher for each in rows]),
        "sequence": pa.array([each.sequence for each in rows]),
        "content_type": pa.array([each.content_type for each in rows], pa.string()),
        "payload": pa.array([each.payload for each in rows], pa.binary()),
    }
    with tables.changing(folder, "events") as change:
        tables.save(pa.table({**own, **columns}), change.place("2026-11-15"))
        change.commit(forms)
    return forms
