"""The index of profiles finds what looking at every profile finds, in any language, with any rights and words."""

import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from godwit.errors import FilterError
from godwit.filters import Filter, ends_with, holds_text, interval, like, one_of, starts_with, to_text
from godwit.languages import NATIVE, Query, parse_query
from godwit.languages.xml_documents import xml_event
from godwit.languages.xql.printing import printed_query
from godwit.teamwork import profile_index as module
from godwit.teamwork import profile_postings
from godwit.teamwork.profile_index import Entry, ProfileIndex, Rights
from tests.property import strategies as draw
from tests.property.xml_strategies import documents, queries, small_documents, small_queries, xpath_queries

SCOPES = ("community/ann.1", "community/bob.2", "directory/ann.0")
WORDS = ("apple", "pear", "pearl", "plum")
LONG_TEXTS = [
    "x" * 64,
    "x" * 65,
    "x" * 64 + "y",
    "y" * 70,
    "\U0010ffff",
    "\U0010ffffx",
    "é" * 66,
    "\ue000",
    "x" * 63 + "\ud7ff",
]
PATHS = ("a", "a/b", "a/b/c", "a/@p", "a/b/@p", "//c", "//b", "//b/@p", "xml:namespace", "xml:repeated", "no/such")
MODES: dict[str, dict[str, Any]] = {
    "as it is": {"PROBED_FROM": 16},
    "probing and joining always": {"PROBED_FROM": 0, "JOINED_FROM": 0, "ROWS_PER_CANDIDATE": 10**6},
    "counting nothing": {"COUNTED_MAX": 1, "PROBED_FROM": 0, "JOINED_FROM": 0, "ROWS_PER_CANDIDATE": 10**6},
}

texts = st.one_of(
    st.sampled_from([text for text in map(str, draw.TEXTS) if text.isprintable()]), st.sampled_from(LONG_TEXTS)
)


def long_document(p: str, texts: list[str]) -> bytes:
    elements = "".join(f"<b p={quoteattr(p)}><c>{escape(text)}</c></b>" for text in texts)
    return f"<a p='1'>{elements}</a>".encode()


long_documents = st.builds(long_document, st.sampled_from(LONG_TEXTS), st.lists(texts, max_size=3))
profiles = st.lists(
    st.tuples(
        st.sampled_from(SCOPES),
        st.integers(0, 5).map("artefact/{}".format),
        st.one_of(small_documents(), documents(), long_documents),
        st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join),
    ),
    min_size=1,
    max_size=10,
)
sets = st.one_of(
    draw.value_sets(),
    st.sampled_from(LONG_TEXTS).flatmap(
        lambda text: st.sampled_from(
            [
                one_of([text, ""]),
                starts_with(text),
                starts_with(text[:64]),
                interval(low=text),
                interval(high=text, high_open=True),
                interval("x", text + "z") if text >= "x" else interval(text, "x"),
                ends_with(text[-2:]),
                holds_text(text[1:3] or "x"),
                like(f"_{text[1:3]}%"),
            ]
        )
    ),
)
native = st.one_of(draw.filters(8, PATHS, sets), draw.filters(4, PATHS, draw.number_sets()))
rights = st.builds(
    Rights,
    st.one_of(st.none(), st.sets(st.sampled_from([*SCOPES, "community/none"]))),
    st.sampled_from([None, lambda scope, record: record.endswith(("1", "2", "3"))]),
)
search_texts = st.sampled_from(["", "", "pear", "pear*", "plum apple", '"apple pear"'])


def native_query(filter: Filter) -> Query:
    return Query(NATIVE, to_text(filter), filter)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProfileIndex]:
    made = ProfileIndex(tmp_path_factory.mktemp("index") / "index.sqlite")
    yield made
    made.close()


def entries_of(found: list[tuple[str, str, bytes, str]]) -> list[Entry]:
    return [Entry(*each, revision=place) for place, each in enumerate(found, 1)]


def brute_force(entries: list[Entry], query: Query | None, allowed: Rights, text: str) -> set[tuple[str, str]]:
    """What a search must find, by looking at every profile."""
    latest = {(each.scope, each.record): each for each in entries}
    return {
        name
        for name, each in latest.items()
        if (allowed.scopes is None or each.scope in allowed.scopes)
        and (allowed.predicate is None or allowed.predicate(*name))
        and (query is None or query.matches(xml_event(each.document)))
        and has_words(each.body, text)
    }


def has_words(body: str, text: str) -> bool:
    padded = f" {body} "
    for phrase, word in re.findall(r'"([^"]*)"|(\S+)', text):
        wanted = f" {phrase or word} ".replace("* ", "")
        if wanted not in padded:
            return False
    return True


def check(index: ProfileIndex, entries: list[Entry], query: Query | None, allowed: Rights, text: str) -> None:
    index.clear()
    for each in entries[:2]:
        index.put(each)
    index.put_many(entries[2:])
    for mode in MODES.values():
        with patch.multiple(module, **mode):
            found = index.search(query, allowed, text=text)
        names = [(each.scope, each.record) for each in found.results]
        assert found.is_complete
        assert len(names) == len(set(names))
        assert set(names) == brute_force(entries, query, allowed, text)
        scores = [each.score for each in found.results]
        assert scores == sorted(scores, reverse=True)


@given(profiles, st.one_of(queries(), small_queries()), rights, search_texts)
def test_xql(index: ProfileIndex, found: list[tuple[str, str, bytes, str]], said, allowed: Rights, text: str) -> None:
    check(index, entries_of(found), parse_query(printed_query(said), "xql"), allowed, text)


@given(profiles, xpath_queries(), rights, search_texts)
def test_xpath(index: ProfileIndex, found: list[tuple[str, str, bytes, str]], said, allowed: Rights, text: str) -> None:
    try:
        query = parse_query(said, "xpath")
    except FilterError:
        assume(False)
    check(index, entries_of(found), query, allowed, text)


@draw.many(2)
@given(profiles, native, rights, search_texts)
def test_native(
    index: ProfileIndex, found: list[tuple[str, str, bytes, str]], said: Filter, allowed: Rights, text: str
) -> None:
    check(index, entries_of(found), native_query(said), allowed, text)


@pytest.mark.parametrize(
    "text",
    [
        "\"a/b/c\" LIKE 'x%'",
        "CASEI(\"a/b/c\") = 'X'",
        '"a/b/c" > 1 OR "//c" = \'\'',
        'NOT ("a/b" IS NULL) AND "a/b/c" BETWEEN 0 AND 2',
    ],
)
@settings(max_examples=40)
@given(found=profiles, allowed=rights)
def test_cql2(index: ProfileIndex, text: str, found: list[tuple[str, str, bytes, str]], allowed: Rights) -> None:
    check(index, entries_of(found), parse_query(text, "cql2-text"), allowed, "")


@given(profiles, st.lists(st.tuples(st.sampled_from(SCOPES), st.integers(0, 5)), max_size=4), native)
def test_profiles_that_were_removed_leave_nothing_behind(
    index: ProfileIndex, found: list[tuple[str, str, bytes, str]], removed: list[tuple[str, int]], said: Filter
) -> None:
    entries = entries_of(found)
    index.clear()
    index.put_many(entries)
    gone = {(scope, f"artefact/{number}") for scope, number in removed}
    for name in gone:
        index.remove(*name)
    left = [each for each in entries if (each.scope, each.record) not in gone]
    names = {(each.scope, each.record) for each in index.search(native_query(said)).results}
    assert names == brute_force(left, native_query(said), Rights(None), "")
    for scope, record in {(each.scope, each.record) for each in left}:
        index.remove(scope, record)
    assert index.row_count() == 0


@pytest.mark.parametrize("fault", ["a key is cut", "a number is rounded"])
def test_an_index_that_misses_rows_is_caught(index: ProfileIndex, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [Entry(SCOPES[0], "artefact/1", b"<a><b><c>abcdef</c><c>2.5</c></b></a>")]
    said = "\"a/b/c\" = 'abcdef'" if fault == "a key is cut" else '"a/b/c" > 2'
    check(index, entries, parse_query(said), Rights(None), "")
    if fault == "a key is cut":
        monkeypatch.setattr(module, "key_of", lambda text: text[:3])
    else:
        monkeypatch.setattr(profile_postings, "float", lambda number: round(number) + 1.0, raising=False)
    with pytest.raises(AssertionError):
        check(index, entries, parse_query(said), Rights(None), "")
