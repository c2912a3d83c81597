"""The schema of an organisation at its peers: given by settings or an option, checked, and known to some peers only."""

from pathlib import Path
from typing import Any

import pytest

from godwit.errors import ConfigurationError, ProfileError
from godwit.teamwork.peer_opening import opened, settings_of
from godwit.teamwork.profile_schema import STANDARD, extended, fingerprint
from godwit.teamwork.team_folder import new_team
from tests.unit.teamwork.open_teams import OpenTeams, play

EXTENSION = """
[user.badge]
type = "integer"

[user.training]
type = "group"
repeatable = true
parts.course = { type = "text" }
parts.passed = { type = "date" }

[artefact.project]
repeatable = true
"""
NOWHERE = "127.0.0.1:1"


def file_of(folder: Path, text: str = EXTENSION) -> Path:
    path = folder / "organisation.toml"
    path.write_text(text)
    return path


# ---------------------------------------------------------------- giving it to a peer


def test_settings_name_a_file_relative_to_the_folder_and_an_option_goes_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_team(tmp_path / "ann", "ann", brokers=[NOWHERE])
    file_of(tmp_path / "ann")
    (tmp_path / "ann" / "peer.toml").write_text('schema = "organisation.toml"')
    file_of(tmp_path, "[user.pager]")
    monkeypatch.chdir(tmp_path)

    async def elements(**said: Any) -> set[str]:
        async with opened(tmp_path / "ann", settings_of(tmp_path / "ann", **said)) as team:
            return set(team.schema["user"]) - set(STANDARD["user"])

    async def scene(teams: OpenTeams) -> None:
        assert await elements() == {"badge", "training"}
        assert await elements(schema="organisation.toml") == {"pager"}
        assert await elements(schema="") == set()

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "schema: .*organisation.toml cannot be read: No such file"),
        ("[user", "schema: .*organisation.toml is not a TOML file"),
        ("[planet.size]", "there are no profiles of 'planet': allowed are user, community, artefact"),
        ('[user.badge]\ntype = "colour"', "user.badge: the type 'colour' is not known: allowed are text, integer"),
        ('[user.name]\ntype = "integer"', "user.name already exists, and is something else"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_the_peer_starts(
    tmp_path: Path, text: str | None, said: str
) -> None:
    new_team(tmp_path / "ann", "ann", brokers=[NOWHERE])
    if text is not None:
        file_of(tmp_path / "ann", text)
    (tmp_path / "ann" / "peer.toml").write_text('schema = "organisation.toml"')
    with pytest.raises(ConfigurationError, match=said):
        settings_of(tmp_path / "ann")


# ---------------------------------------------------------------- profiles


def test_profiles_are_checked_and_found_by_the_elements_of_the_organisation(tmp_path: Path) -> None:
    schema = extended(STANDARD, file_of(tmp_path))

    async def scene(teams: OpenTeams) -> None:
        async with teams.together(schema=schema) as (ann, bob, _):
            bob.people.change_profile({"badge": 17, "training": [{"course": "rigging", "passed": "2026-05-01"}]})
            for wrong, said in (
                ({"badge": "x"}, "user/badge must be a whole number"),
                ({"training": [{"passed": "yesterday"}]}, "user/training/passed must be a date"),
                ({"shoe": 42}, "there is no element user/shoe: allowed are .*badge.*training"),
            ):
                with pytest.raises(ProfileError, match=said):
                    bob.people.change_profile(wrong)
            await teams.later()
            assert ann.people.get("bob").profile["badge"] == 17
            [result] = await teams.found(ann.search("//user[badge = 17 $and$ training/course = 'rigging']"))
            assert (result.id, result.fields["badge"]) == ("bob", 17)

    play(tmp_path, scene)


def test_a_peer_without_the_schema_keeps_what_it_does_not_know_and_shows_the_rest(tmp_path: Path) -> None:
    schema = extended(STANDARD, file_of(tmp_path))

    async def scene(teams: OpenTeams) -> None:
        async with teams.together() as (ann, bob, _):
            del bob
        async with teams.open("ann") as ann, teams.open("cid", schema=schema) as cid:  # ann has the standard one
            cid.people.change_profile({"badge": 17, "skill": ["rigging"]})
            await teams.later()
            assert ann.people.get("cid").profile == {"name": "Cid", "skill": ["rigging"]}
            with pytest.raises(ProfileError, match="there is no element user/badge"):
                ann.people.change_profile({"badge": 1}, "cid")
            ann.people.change_profile({"place": ["Bern"]}, "cid")
            [result] = await teams.found(ann.search("//user[skill = 'rigging']"))
            assert result.fields == {"name": "Cid", "skill": ["rigging"], "place": ["Bern"]}
            assert await teams.found(ann.search("//user[badge = 17]", wait_s=1.0)) == []
            await teams.later()
            assert cid.people.get("cid").profile["badge"] == 17  # what ann changed has removed nothing
        async with teams.open("ann", schema=schema) as ann:  # her index is made again
            [result] = await teams.found(ann.search("//user[badge = 17]", wait_s=1.0))
            assert result.fields["badge"] == 17

    play(tmp_path, scene)


def test_a_value_that_the_schema_here_does_not_allow_is_left_out_of_the_profile(tmp_path: Path) -> None:
    number, text = extended(STANDARD, file_of(tmp_path)), extended(STANDARD, file_of(tmp_path, "[user.badge]"))

    async def scene(teams: OpenTeams) -> None:
        async with teams.together():
            pass
        async with teams.open("ann", schema=number) as ann, teams.open("bob", schema=text) as bob:
            bob.people.change_profile({"badge": "seventeen", "skill": ["rigging"]})
            await teams.later()
            [result] = await teams.found(ann.search("//user[skill = 'rigging']"))
            assert result.fields == {"name": "Bob", "skill": ["rigging"]}

    play(tmp_path, scene)


def test_two_schemas_have_two_fingerprints(tmp_path: Path) -> None:
    schemas = [STANDARD, extended(STANDARD, file_of(tmp_path)), extended(STANDARD, file_of(tmp_path, "[user.badge]"))]
    assert len({fingerprint(each) for each in schemas}) == 3
    assert fingerprint(STANDARD) == ""
