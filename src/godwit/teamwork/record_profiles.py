"""The profiles of records: which records have one, as an XML document, and whether a query matches it.

Profiles of users, communities and artefacts are those of `profile_schema.py`. Messages, meetings and presence have
one, too, for subscriptions: they are not found by searches.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from lxml import etree

from godwit.errors import ProfileError
from godwit.languages import Query
from godwit.languages.xml_documents import parsed_document, xml_subject
from godwit.languages.xml_trees import Tree
from godwit.teamwork.machine.records import Record
from godwit.teamwork.profile_schema import STANDARD, Element, Schema
from godwit.teamwork.profiles import checked_fields, document_of, profile_of
from godwit.teamwork.query_languages import parse_profile_query

__all__ = ["RecordProfile", "RecordProfiles", "fields_of_document"]

TEXT, TEXTS, NUMBER, NUMBERS = (
    Element(),
    Element(repeatable=True),
    Element("number"),
    Element("number", repeatable=True),
)
OF_MESSAGES: Schema = {
    "message": {"author": TEXT, "text": TEXT, "time": NUMBER, "reply_to": TEXT, "attachments": TEXTS},
    "meeting": {
        "author": TEXT,
        "title": TEXT,
        "agenda": TEXT,
        "times": NUMBERS,
        "duration_s": NUMBER,
        "artefacts": TEXTS,
        "chosen": NUMBER,
        "cancelled": Element("boolean"),
    },
    "presence": {"user": TEXT, "availability": TEXT, "status": TEXT},
}
SEARCHED = frozenset({"artefact", "user", "community"})
QUERIES_MAX = 1_000  # that are kept parsed


class RecordProfile(NamedTuple):
    """The profile of a record."""

    kind: str
    id: str
    fields: dict[str, Any]
    document: bytes

    @property
    def is_searched(self) -> bool:
        """Whether searches find it."""
        return self.kind in SEARCHED


class RecordProfiles:
    """Makes profiles, by the schema of the organisation."""

    def __init__(self, schema: Schema = STANDARD) -> None:
        self.schema = schema
        self._all = {**schema, **OF_MESSAGES}
        self._queries: dict[tuple[str, str], Query] = {}

    def of(self, scope: str, record: Record) -> RecordProfile | None:
        """The profile of a record; None if it has none, or was deleted."""
        kind, _, id = record.name.partition("/")
        fields: Mapping[str, Any] = record.fields
        if kind == "listing" or (kind == "scope" and "join" in fields):  # the team and conversations cannot be joined
            kind, id = "community", scope if kind == "scope" else str(fields.get("id", ""))
            fields = {**fields, "about": fields.get("description")}
        if kind not in self._all or not fields or fields.get("deleted"):
            return None
        if kind == "artefact" and "content" not in fields:
            return None
        kept = self._readable(kind, fields)
        try:
            return RecordProfile(kind, id, kept, document_of(kind, id, kept, self._all))
        except ProfileError:
            return None  # it is too large: it was made by a program that does not check

    def matches(self, language: str, query: str, record: Record, scope: str = "") -> bool:
        """Whether a query matches the profile of a record. Raises `FilterError` if the query cannot be read."""
        profile = self.of(scope, record)
        if profile is None:
            return False
        parsed, subject = self.query(language, query), xml_subject(profile.document)
        return parsed.routable.matches(subject.event) and parsed.wants(subject)

    def query(self, language: str, text: str) -> Query:
        """A query, parsed once."""
        known = self._queries.get((language, text))
        if known is None:
            known = parse_profile_query(language, text)
            if len(self._queries) >= QUERIES_MAX:
                self._queries.clear()
            self._queries[language, text] = known
        return known

    def _readable(self, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that are elements of the schema, without those of another type: other peers may not check."""
        kept: dict[str, Any] = {}
        for name, value in fields.items():
            if value is not None and name in self._all[kind]:
                try:
                    kept |= checked_fields(kind, {name: value}, self._all)
                except ProfileError:
                    continue
        return kept


def fields_of_document(data: bytes, schema: Schema = STANDARD) -> tuple[str, str, dict[str, Any]]:
    """Kind, identifier and fields of a document that another peer has sent; what the schema does not know is left out.

    An organisation may have extended the schema at that peer and not here. `ProfileError` if it is not a profile at
    all.
    """
    try:
        return profile_of(data, schema)
    except ProfileError:
        root = parsed_document(data)
        kind = str(root.tag)
        if kind not in schema:
            raise
        for child in list(root):
            if not _is_readable(kind, child, schema):
                root.remove(child)
        return profile_of(etree.tostring(root, encoding="utf-8"), schema)


def _is_readable(kind: str, child: Tree, schema: Schema) -> bool:
    """Whether an element, alone, is one of the schema."""
    alone = etree.Element(kind)
    alone.append(deepcopy(child))
    try:
        profile_of(etree.tostring(alone, encoding="utf-8"), schema)
    except ProfileError:
        return False
    return True
