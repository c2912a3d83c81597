"""Profiles in XML: from fields and back, with a schema that an organisation extends."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import ProfileError
from godwit.languages import parse_query
from godwit.languages.xml_documents import DOCUMENT_BYTES_MAX, xml_event
from godwit.teamwork.profile_schema import GROUP, STANDARD, Element, Schema, extended
from godwit.teamwork.profiles import checked_fields, document_of, profile_of

ANN = {
    "name": "Ann <Smith> & Söhne",
    "role": ["manager"],
    "skill": ["motors", "python"],
    "address": [{"zip": "1050", "city": "Wien"}, {"zip": "5473", "city": "Milano"}],
    "about": " two\nlines\r\n\tand a tab ",
}
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")).filter(
    lambda text: all(ord(character) & 0xFFFE != 0xFFFE or ord(character) > 0xFFFF for character in text)
)
VALUES = {
    "text": texts,
    "integer": st.integers(-(2**53), 2**53),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-100, 100),
    "boolean": st.booleans(),
    "date": st.dates().map(lambda day: day.isoformat()),
    "time": st.datetimes(timezones=st.timezones().filter(lambda zone: zone.key == "UTC")).map(
        lambda at: at.isoformat()
    ),
}
EVERY_TYPE: Schema = {
    "user": {
        **{name: Element(name) for name in VALUES},
        **{f"{name}s": Element(name, repeatable=True) for name in VALUES},
        "group": Element(GROUP, parts={name: Element(name) for name in VALUES}),
        "groups": Element(GROUP, repeatable=True, parts={name: Element(name, repeatable=True) for name in VALUES}),
    }
}


def fields_for(elements: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: value_for(element) for name, element in elements.items()})


def value_for(element: Element) -> st.SearchStrategy[Any]:
    one = fields_for(element.parts) if element.type == GROUP else VALUES[element.type]
    return st.lists(one, min_size=1, max_size=3) if element.repeatable else one


@given(texts.filter(bool), fields_for(EVERY_TYPE["user"]))
def test_fields_become_a_document_and_the_same_fields_again(id: str, fields: dict[str, Any]) -> None:
    assert checked_fields("user", fields, EVERY_TYPE) == fields
    profile = profile_of(document_of("user", id, fields, EVERY_TYPE), EVERY_TYPE)
    assert profile == ("user", id, fields)
    for name, value in profile.fields.items():
        assert type(value) is type(fields[name])


def test_a_profile_is_found_by_the_queries_of_the_paper() -> None:
    event = xml_event(document_of("user", "ann", ANN))
    assert profile_of(event.payload or b"").fields == ANN
    for text in (
        "/user[address/zip $gt$ 1040]/role",
        "user[$any$ role='manager']",
        "//city = 'Milano'",
        "user/@id = 'ann'",
    ):
        assert parse_query(text, "xql").matches(event)
    assert not parse_query("user[skill = 'rust']", "xql").matches(event)


def test_fields_of_the_machine_are_no_part_of_a_profile() -> None:
    fields = {"title": "Plan", "locked_by": "ann", "size": 7, "content": None}
    assert document_of("artefact", "1", fields) == b'<artefact id="1"><size>7</size><title>Plan</title></artefact>'


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"skil": ["x"]}, r"no element user/skil: allowed are about, address, .*skill"),
        ({"skill": "python"}, r"user/skill may be there several times: give a list, not 'python'"),
        ({"name": ["Ann"]}, r"user/name must be a text, not \['Ann'\]"),
        ({"name": "bell \x07"}, r"user/name has a character that XML does not have: '\\x07' at place 6"),
        ({"name": "\ud800"}, r"character that XML does not have"),
        ({"address": ["Wien"]}, r"user/address is a group: give a table of its parts, not 'Wien'"),
        ({"address": [{"town": "Wien"}]}, r"no element user/address/town: allowed are city, country"),
        ({"skill": ["x"] * 1001}, r"user/skill is there 1,001 times: at most 1,000"),
    ],
)
def test_wrong_fields_are_refused_with_what_is_allowed(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ProfileError, match=why):
        checked_fields("user", fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("integer", value) for value in (True, 1.5, "1", 2**53 + 1)),
        *(("number", value) for value in (False, float("nan"), float("inf"), "2")),
        *(("boolean", value) for value in (1, "true")),
        *(("date", value) for value in ("16.11.2026", "2026-02-30", "20261116", 5)),
        *(("time", value) for value in ("2026-11-16T20:30:00", "2026-11-16", "soon", 5)),
        *(("text", value) for value in (5, b"x", None)),
    ],
)
def test_values_of_another_type_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ProfileError, match=f"user/{name}s must be "):
        checked_fields("user", {f"{name}s": [value]}, EVERY_TYPE)


def test_none_removes_a_field() -> None:
    assert checked_fields("user", {"name": None}) == {"name": None}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"<team/>", "no profiles of 'team': allowed are user, community, artefact"),
        (b"<user><nick>x</nick></user>", "no element user/nick: allowed are about"),
        (b"<user><name>a</name><name>b</name></user>", "user/name is there twice"),
        (b"<user><name><b>a</b></name></user>", "user/name holds elements: a text is allowed"),
        (b"<artefact><size>big</size></artefact>", "artefact/size must be a whole number"),
        (b"<user", "a profile that cannot be read: line 1"),
        (b"<user><about>" + b"x" * 10_000_000 + b"</about></user>", "cannot be read: an XML document of 10,000,0"),
        (b'<!DOCTYPE user [<!ENTITY a "b">]><user><name>&a;</name></user>', "declares entities"),
    ],
)
def test_wrong_documents_are_refused(document: bytes, why: str) -> None:
    with pytest.raises(ProfileError, match=why):
        profile_of(document)


def test_a_profile_that_is_too_large_is_refused_with_the_element_to_shorten() -> None:
    with pytest.raises(
        ProfileError, match=r"user 'ann' has 10,000,\d+ bytes: at most 1,048,576 are allowed; shorten about"
    ):
        document_of("user", "ann", {"name": "Ann", "about": "x" * 10_000_000})
    assert len(document_of("user", "ann", {"about": "x" * 1_000_000})) < DOCUMENT_BYTES_MAX


# ------------------------------------------------------------ extensions


def extension(folder: Path, text: str) -> Schema:
    path = folder / "profiles.toml"
    path.write_text(text, encoding="utf-8")
    return extended(STANDARD, path)


def test_an_organisation_adds_elements(tmp_path: Path) -> None:
    schema = extension(
        tmp_path,
        """
        [user.badge]
        type = "integer"
        [user.training]
        type = "group"
        repeatable = true
        parts.course = { type = "text" }
        parts.passed = { type = "date" }
        [user.address]
        type = "group"
        repeatable = true
        parts.floor = { type = "integer" }
        """,
    )
    fields = {
        "badge": 17,
        "training": [{"course": "cranes", "passed": "2026-11-16"}],
        "address": [{"city": "Wien", "floor": 3}],
    }
    assert checked_fields("user", fields, schema) == fields
    assert profile_of(document_of("user", "ann", fields, schema), schema).fields == fields
    with pytest.raises(ProfileError, match="no element user/badge"):
        checked_fields("user", {"badge": 17})
    assert "badge" not in STANDARD["user"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[users.badge]", "no profiles of 'users': allowed are user, community, artefact"),
        ("user = 5", "no profiles of 'user'"),
        ("[user.Badge]", r"user.Badge: a name has small letters"),
        ("[user]\nbadge = 5", "user.badge: an element is a table with `type`, not 5"),
        ("[user.badge]\ntyp = 'text'", "'typ' is not known: allowed are parts, repeatable, type"),
        ("[user.badge]\ntype = 'int'", "the type 'int' is not known: allowed are text, integer"),
        ("[user.badge]\nrepeatable = 1", "repeatable is true or false, not 1"),
        ("[user.badge]\ntype = 'group'", "a group, and nothing else, has parts"),
        ("[user.badge]\nparts.a = {}", "a group, and nothing else, has parts"),
        (
            "[user.badge]\ntype = 'group'\nparts.a = {type = 'group', parts = {b = {}}}",
            "badge.parts.a: the type 'group'",
        ),
        ("[user.name]\ntype = 'integer'", "user.name already exists, and is something else"),
        (
            "[user.address]\ntype='group'\nrepeatable=true\nparts.zip={type='integer'}",
            "address.parts.zip already exists",
        ),
        ("[user", "is not a TOML file"),
    ],
)
def test_a_wrong_extension_is_refused_with_what_is_allowed(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ProfileError, match=why) as told:
        extension(tmp_path, text)
    assert "profiles.toml" in str(told.value)


def test_an_extension_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"none.toml cannot be read: No such file"):
        extended(STANDARD, tmp_path / "none.toml")
