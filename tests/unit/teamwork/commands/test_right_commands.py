"""Rights are listed, granted and revoked by command: to read documents of others, to search and to subscribe."""

from pathlib import Path
from typing import Any

import pytest

from godwit.errors import GodwitError, Refused
from godwit.teamwork.commands.references import scopes_of
from godwit.teamwork.team import Team
from tests.unit.teamwork.commands.test_commands import alone, asked, create, one


async def with_document(team: Team, folder: Path) -> None:
    """A document of one community, another community, and a user in neither."""
    file = folder / "plan.txt"
    file.write_text("brass")
    await create(team, "Optics")
    await create(team, "Motors")
    await one(team, "create user", name="bob", role="editor", fields=["skill=welding"])
    words = {"community": "Optics", "name": "plan.txt", "fields": ["keyword=public"]}
    await one(team, "add document", path=str(file), **words)


async def granted(team: Team, right: str, document: str = "", of: str = "", **grant: str) -> list[Any]:
    return await asked(team, "grant right", right=right, document=document, of=of, grant=grant)


async def revoked(team: Team, right: str, document: str = "", of: str = "", number: int | None = None) -> list[Any]:
    return await asked(team, "revoke right", right=right, document=document, of=of, number=number)


def is_shown(team: Team) -> bool:
    """Whether bob may see ann's document."""
    [document] = [each for scope in scopes_of(team) for each in team.documents.all(scope)]
    return team.access.may_see("bob", document.scope, f"artefact/{document.id}")


@pytest.mark.parametrize(
    ("place", "grant", "shows"),
    [
        ({"document": "plan.txt"}, {"user": "bob"}, True),
        ({"document": "plan.txt"}, {"role": "editor"}, True),
        ({"document": "plan.txt"}, {"role": "owner"}, False),
        ({"document": "plan.txt"}, {"community": "Motors"}, False),
        ({"document": "plan.txt"}, {"query": "//skill[. = 'welding']"}, True),
        ({"of": "Optics"}, {"user": "bob", "what": "//keyword[. = 'public']"}, True),
        ({"of": "Optics"}, {"user": "bob", "what": "//keyword[. = 'secret']"}, False),
    ],
)
def test_documents_are_read_by_those_whom_a_grant_names(
    tmp_path: Path, place: dict[str, str], grant: dict[str, str], shows: bool
) -> None:
    async def scene(team: Team) -> None:
        await with_document(team, tmp_path)
        assert not is_shown(team)
        [row] = await granted(team, "read", **place, **grant)
        assert is_shown(team) is shows
        assert row.items() >= grant.items()
        assert await asked(team, "rights") == [row]
        assert await revoked(team, "read", **place, number=1) == []
        assert not is_shown(team)

    alone(tmp_path, scene)


def test_searches_and_subscriptions_are_limited_and_set_free(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        await one(team, "create user", name="bob", role="editor", fields=[])
        as_filter = {"language": "filter"}
        for right in ("search", "subscribe"):
            await granted(team, right, role="owner", **as_filter)
            rows = await granted(team, right, what="artefact/keyword = 'public'", **as_filter)
            assert [row["number"] for row in rows] == [1, 2]
        assert [row["right"] for row in await asked(team, "rights")] == ["search"] * 2 + ["subscribe"] * 2
        with pytest.raises(Refused, match="no grant of search covers it"):
            team.access.check_query("bob", "may_search", None)
        [left] = await revoked(team, "search", number=2)
        with pytest.raises(Refused, match="this is the last grant of search: revoke all of them"):
            await revoked(team, "search", number=left["number"])
        assert await revoked(team, "search") == []
        team.access.check_query("bob", "may_search", None)

    alone(tmp_path, scene)


def test_what_is_no_grant_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        await with_document(team, tmp_path)
        for right, place, grant, reason in [
            ("write", {}, {"user": "bob"}, "a right is one of read, search, subscribe, not 'write'"),
            ("search", {"of": "Optics"}, {"user": "bob"}, "search is a right of the whole team"),
            ("read", {}, {"user": "bob"}, "name either the document or the community"),
            ("read", {"document": "plan.txt", "of": "Optics"}, {"user": "bob"}, "name either the document or"),
            ("read", {"document": "plan.txt"}, {}, "this grant would be for everybody and everything"),
            ("read", {"document": "plan.txt"}, {"user": "eve"}, "there is no user 'eve'"),
            ("read", {"document": "plan.txt"}, {"role": "king"}, "a role is one of"),
            ("read", {"document": "plan.txt"}, {"colour": "red"}, "not a valid grant"),
            ("read", {"document": "plan.txt"}, {"user": "bob", "what": "//x"}, "leave it out for one document"),
            ("read", {"of": "Optics"}, {"query": "//["}, "column"),
            ("search", {}, {"what": "//x"}, 'write it in the language "filter"'),
        ]:
            with pytest.raises(GodwitError, match=reason):
                await granted(team, right, **place, **grant)
        await granted(team, "read", document="plan.txt", user="bob")
        with pytest.raises(Refused, match="there is such a grant of read already"):
            await granted(team, "read", document="plan.txt", user="bob")
        with pytest.raises(Refused, match="read has 1 grants: there is no number 2"):
            await revoked(team, "read", document="plan.txt", number=2)
        assert len(await asked(team, "rights")) == 1

    alone(tmp_path, scene)
