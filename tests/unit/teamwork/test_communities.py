"""Communities on real peers: who finds them, who gets in and who is refused."""

from pathlib import Path

import pytest

from godwit.errors import Refused
from godwit.teamwork.communities import Communities
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.people import People
from godwit.teamwork.profile_schema import STANDARD, extended
from godwit.teamwork.query_languages import OFFERED
from tests.unit.teamwork.live_team import Team, later, on_a_network


def test_an_open_community_is_found_and_joined(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            id = Communities(ann).create("Reviewers", description="who reviews", join="open")
            await later(team)
            [listing] = Communities(bob).listed()
            assert (listing["name"], listing["join"]) == ("Reviewers", "open")
            Communities(bob).join(listing["id"])
            await later(team)
            for peer in (ann, bob):
                assert Communities(peer).get(id).members == {"ann": "owner", "bob": "reader"}
            assert [each.name for each in Communities(bob).mine()] == ["Reviewers"]

    on_a_network(tmp_path, scene)


def test_a_user_who_was_invited_joins_and_leaves(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, cid):
            id = Communities(ann).create("Merger", listed=False)
            Communities(ann).invite(id, "bob", Role.EDITOR)
            await later(team)
            Communities(bob).join(id)
            Communities(cid).join(id)
            await later(team)
            assert Communities(ann).get(id).members == {"ann": "owner", "bob": "editor"}
            assert Communities(cid).listed() == []
            Communities(bob).leave(id)
            await later(team)
            assert Communities(ann).get(id).members == {"ann": "owner"}

    on_a_network(tmp_path, scene)


def test_a_user_asks_is_approved_and_removed(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            id = Communities(ann).create("Optics")
            await later(team)
            Communities(bob).ask(id)
            await later(team)
            assert Communities(ann).get(id).asking == ("bob",)
            Communities(ann).add(id, "bob", Role.EDITOR)
            assert Communities(ann).get(id).asking == ()
            await later(team)
            assert Communities(bob).get(id).members == {"ann": "owner", "bob": "editor"}
            Communities(ann).remove(id, "bob")
            await later(team)
            assert Communities(ann).get(id).members == {"ann": "owner"}

    on_a_network(tmp_path, scene)


def test_a_rule_makes_members(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            id = Communities(ann).create("Optics", join="rule", rule="//skill")
            People(bob).change_profile({"skill": ["optics"]})
            await later(team)
            assert Communities(bob).get(id).members == {"ann": "owner", "bob": "reader"}

    on_a_network(tmp_path, scene)


@pytest.mark.parametrize(
    ("language", "rule"),
    [
        *OFFERED.items(),
        ("xql", "/user[@id = 'bob']"),
        ("xql", "/user/address[city = 'Porto']"),
        ("xql", "//*[. = 'optics']"),
        ("xql", "/*[skill = 'optics' $and$ $not$ place = 'Porto']"),
        ("xpath", "count(//skill) > 2"),
        ("cql2-text", '"user/skill" LIKE \'opt%\' AND "user/place" IS NULL'),
    ],
)
def test_rules_about_users_are_taken(tmp_path: Path, language: str, rule: str) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            id = Communities(ann).create("Optics", join="rule", rule=rule, language=language)
            Communities(ann).change(id, rule="//role[. = 'x']", language="xql")
            with pytest.raises(Refused, match="'community' is no element"):
                Communities(ann).change(id, rule="//community")
            assert Communities(ann).get(id).rule == "//role[. = 'x']"

    on_a_network(tmp_path, scene)


def test_a_rule_over_elements_of_an_organisation_is_taken_where_they_are_known(tmp_path: Path) -> None:
    (tmp_path / "organisation.toml").write_text('[user.badge]\ntype = "integer"\n')
    schema = extended(STANDARD, tmp_path / "organisation.toml")

    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            Communities(ann, schema).create("Badges", join="rule", rule="//badge")
            with pytest.raises(Refused, match="'badge' is no element"):
                Communities(ann).create("Badges", join="rule", rule="//badge")

    on_a_network(tmp_path, scene)


def test_an_archived_community_takes_no_changes_until_it_is_opened_again(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        from godwit.teamwork.messages import Messages

        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            id = Communities(ann).create("Past")
            Communities(ann).archive(id)
            with pytest.raises(Refused, match="the community is archived"):
                Messages(ann).send(id, "hello")
            Communities(ann).change(id, archived=False)
            Messages(ann).send(id, "hello")

    on_a_network(tmp_path, scene)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": ""}, "the name of a community"),
        ({"name": "a\nb"}, "the name of a community"),
        ({"name": "x" * 201}, "the name of a community"),
        ({"name": "x", "join": "maybe"}, "join must be one of open, approval, rule"),
        (
            {"name": "x", "join": "rule", "rule": "//community[. = 'x']"},
            "a rule tests profiles of users, and 'community' is no element of one: use about, address, .*, skill",
        ),
        ({"name": "x", "join": "rule", "rule": "/user[skil = 'x']"}, "'skil' is no element"),
        ({"name": "x", "join": "rule", "rule": "//skill[. = 'x'] | //member"}, "'member' is no element"),
        ({"name": "x", "join": "rule", "rule": "members = 'x'", "language": "filter"}, "'members' is no element"),
        ({"name": "x", "join": "rule", "rule": "artefact/name = 'x'", "language": "cql2"}, "'artefact' is no element"),
        ({"name": "x", "join": "rule", "rule": "]["}, "the rule of a community must be a query"),
        ({"name": "x", "join": "rule", "rule": "x", "language": "klingon"}, "the rule of a community must be a query"),
        ({"name": "x", "rule": "x"}, "a rule needs join"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            with pytest.raises(Refused, match=said):
                Communities(ann).create(**settings)  # type: ignore[arg-type]
            assert not [scope for scope in ann.repository.scopes() if scope.startswith("community/")]

    on_a_network(tmp_path, scene)


def test_a_user_that_is_not_there_is_named_with_those_who_are(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            id = Communities(ann).create("Optics")
            with pytest.raises(Refused, match="there is no user 'eve'; there are ann, bob, cid"):
                Communities(ann).invite(id, "eve")
            with pytest.raises(Refused, match="a community has no 'colour'"):
                Communities(ann).change(id, colour="red")

    on_a_network(tmp_path, scene)


def test_a_device_that_was_never_here_hears_of_invitations_when_it_comes(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        from godwit.teamwork.messages import Messages

        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            id = Communities(ann).create("Merger", listed=False)
            Communities(ann).invite(id, "bob", Role.EDITOR)
            scope = Messages(ann).conversation(["bob"])
            Messages(ann).send(scope, "welcome")
            await later(team)
            async with team.peer("bob", "b3") as bob:
                await later(team)
                assert [message.text for message in Messages(bob).unread()] == ["welcome"]
                Communities(bob).join(id)
                await later(team)
                assert Communities(ann).get(id).members == {"ann": "owner", "bob": "editor"}

    on_a_network(tmp_path, scene)


def test_the_listing_of_a_community_follows_what_another_owner_has_changed(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, cid):
            id = Communities(ann).create("Bridges")
            Communities(ann).add(id, "bob", Role.OWNER)
            await later(team)
            Communities(bob).change(id, name="Tunnels")
            await later(team)
            for peer in (ann, bob, cid):
                assert [each["name"] for each in Communities(peer).listed()] == ["Tunnels"]
            before = ann.repository.vector(team.scope)
            await later(team)
            assert ann.repository.vector(team.scope) == before

    on_a_network(tmp_path, scene)
