"""Elements of profiles from the words of users."""

from typing import Any

import pytest

from godwit.errors import ProfileError
from godwit.teamwork.commands.profile_fields import fields_of
from godwit.teamwork.profile_schema import Element

SCHEMA = {"user": {"badge": Element("integer"), "height": Element("number"), "remote": Element("boolean")}}


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ([], {}),
        (["name=Ann Miller"], {"name": "Ann Miller"}),
        (["name=a=b"], {"name": "a=b"}),
        (["name=first", "name=last"], {"name": "last"}),
        (["skill=optics"], {"skill": ["optics"]}),
        (["skill=optics", "skill=motors"], {"skill": ["optics", "motors"]}),
        (['skill:=["optics"]'], {"skill": ["optics"]}),
        (["skill="], {"skill": None}),
        (['address:={"city": "Zurich"}'], {"address": [{"city": "Zurich"}]}),
    ],
)
def test_words_become_fields_of_the_type_that_the_schema_says(words: list[str], fields: dict[str, Any]) -> None:
    assert fields_of("user", words) == fields


def test_numbers_and_truth_values_are_such() -> None:
    assert fields_of("user", ["badge=7", "height=1.75", "remote=yes"], SCHEMA) == {
        "badge": 7,
        "height": 1.75,
        "remote": True,
    }


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("name", "'name' is not a field: write name=value"),
        ("=Ann", "is not a field"),
        (":=1", "is not a field"),
        ("colour=red", "there is no element user/colour"),
        ("skill:=[", "what stands after := must be JSON"),
        ("name:=3", "user/name"),
    ],
)
def test_what_is_no_field_is_refused(word: str, said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        fields_of("user", [word])


@pytest.mark.parametrize("word", ["badge=x", "height=tall", "remote=perhaps"])
def test_a_value_of_another_type_is_refused(word: str) -> None:
    with pytest.raises(ProfileError, match="this element holds a value of type"):
        fields_of("user", [word], SCHEMA)
