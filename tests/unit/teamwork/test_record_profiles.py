"""Profiles of records: which have one, and what a query says of it."""

import pytest

from godwit.errors import FilterError, ProfileError
from godwit.teamwork.machine.records import Record
from godwit.teamwork.profile_schema import STANDARD, Element
from godwit.teamwork.record_profiles import RecordProfiles, fields_of_document

PROFILES = RecordProfiles()


def record(record_name: str, /, **fields: object) -> Record:
    return Record(record_name, dict(fields), {}, ())


@pytest.mark.parametrize(
    ("scope", "given", "document"),
    [
        ("team/a.1", record("user/ann", name="Ann", skill=["x"]),
         b'<user id="ann"><name>Ann</name><skill>x</skill></user>'),
        ("community/a.1", record("scope/self", name="B", description="d", sealed=True, join="open"),
         b'<community id="community/a.1"><name>B</name><join>open</join><about>d</about></community>'),
        ("team/a.1", record("listing/a.1", id="community/a.1", name="B", author="ann", clock=3),
         b'<community id="community/a.1"><name>B</name></community>'),
        ("s", record("artefact/1", content="00", name="a", size="many"),
         b'<artefact id="1"><name>a</name><content>00</content></artefact>'),
        ("s", record("message/1", text="hi", author="ann", time=1.5),
         b'<message id="1"><author>ann</author><text>hi</text><time>1.5</time></message>'),
    ],
)  # fmt: skip
def test_a_record_has_a_profile_of_its_fields(scope: str, given: Record, document: bytes) -> None:
    profile = PROFILES.of(scope, given)
    assert profile is not None
    assert profile.document == document
    assert profile.is_searched is (profile.kind != "message")


@pytest.mark.parametrize(
    "given",
    [
        record("member/ann", state="joined"),
        record("scope/self", name="The team"),
        record("artefact/1", content="00", name="a", deleted=True),
        record("artefact/1", name="a"),
        record("user/ann"),
        record("artefact/1", content="00", description="x" * 2_000_000),
    ],
)
def test_other_records_have_none(given: Record) -> None:
    assert PROFILES.of("team/a.1", given) is None
    assert not PROFILES.matches("xql", "//name", given)


def test_a_query_matches_a_profile_in_any_language() -> None:
    ann = record("user/ann", name="Ann", skill=["welding"])
    assert PROFILES.matches("xql", "//skill[. = 'welding']", ann)
    assert PROFILES.matches("filter", "user/skill = 'welding'", ann)
    assert not PROFILES.matches("xpath", "//skill[. = 'optics']", ann)
    assert PROFILES.matches("xql", "//name[. = 'B']", record("scope/self", name="B", join="open"))
    with pytest.raises(FilterError):
        PROFILES.matches("xql", "//[[", ann)


def test_what_another_schema_has_added_is_left_out() -> None:
    schema = {**STANDARD, "user": {**STANDARD["user"], "badge": Element("integer")}}
    profile = RecordProfiles(schema).of("t", record("user/ann", name="Ann", badge=7, skill=["x", "y"]))
    assert profile is not None
    assert b"<badge>7</badge>" in profile.document
    assert fields_of_document(profile.document, schema)[2]["badge"] == 7
    assert fields_of_document(profile.document) == ("user", "ann", {"name": "Ann", "skill": ["x", "y"]})
    with pytest.raises(ProfileError):
        fields_of_document(b"<robot/>")
