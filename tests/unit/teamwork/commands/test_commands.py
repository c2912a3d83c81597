"""Commands over a team: what words mean, what is answered, and what is refused."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from godwit.errors import GodwitError, Refused
from godwit.teamwork.commands import run
from godwit.teamwork.live_peer import LivePeer
from godwit.teamwork.peer_opening import opened, settings_of
from godwit.teamwork.team import Team
from godwit.teamwork.team_folder import join_team, new_team

NOWHERE = "127.0.0.1:1"
COMMUNITY = {"description": "", "join": "open", "rule": "", "language": "xql", "sealed": True, "listed": True}


ONE_SEARCH: dict[str, Any] = {
    "query": "//a",
    "language": "xpath",
    "words": "",
    "kinds": ["artefact"],
    "communities": [],
    "wait_s": 1.0,
    "stays_open": False,
}


def alone(folder: Path, scene: Callable[[Team], Coroutine[Any, Any, None]]) -> None:
    """Play a scene at ann's peer, which has no broker."""

    async def play() -> None:
        new_team(folder / "ann", "ann", brokers=[NOWHERE])
        async with opened(folder / "ann", settings_of(folder / "ann")) as team:
            await scene(team)

    asyncio.run(play())


async def asked(team: Team, command: str, **arguments: Any) -> list[Any]:
    return [answer async for answer in run(team, command, arguments)]


async def one(team: Team, command: str, **arguments: Any) -> Any:
    [answer] = await asked(team, command, **arguments)
    return answer


async def create(team: Team, name: str) -> str:
    return str((await one(team, "create community", name=name, **COMMUNITY))["id"])


def test_a_device_that_has_just_joined_says_that_it_knows_nothing_of_the_team_yet(tmp_path: Path) -> None:
    async def scene(ann: Team) -> None:
        join_team(tmp_path / "bob", ann.invite("bob"))
        async with opened(tmp_path / "bob", settings_of(tmp_path / "bob")) as bob:
            said = "this device has not received the team's data yet (is a device of the team online?)"
            asks: list[tuple[str, dict[str, Any], str]] = [
                ("user", {"name": ""}, f"{said}: there is no user 'bob'; there are ann"),
                ("change profile", {"name": "", "fields": ["skill=optics"]}, f"{said}: bob is not a member"),
                ("create community", {"name": "Optics", **COMMUNITY}, f"{said}: bob is not a member"),
                ("community", {"community": "Optics"}, f"{said}: there is no community 'Optics'"),
                ("search", ONE_SEARCH, said),
            ]
            for command, arguments, text in asks:
                with pytest.raises(Refused) as refused:
                    await asked(bob, command, **arguments)
                assert str(refused.value) == text
            with pytest.raises(Refused, match="has not received the team's data yet"):
                bob.search(words="steel")
            assert (await one(bob, "status"))["user"] == "bob"
            mistakes: list[tuple[str, dict[str, Any], str]] = [
                ("search", ONE_SEARCH | {"query": "//[["}, r"^line 1, column 3: \[ has no place here"),
                ("search", ONE_SEARCH | {"language": "latin"}, "^there is no language 'latin'"),
                ("presence", {"availability": "gone", "status": "", "shown_to": []}, "^availability must be one of"),
                ("nothing", {}, "^there is no command 'nothing'"),
                ("community", {"name": "Optics"}, "^the command 'community' has other arguments"),
            ]
            for command, arguments, text in mistakes:
                with pytest.raises(GodwitError, match=text):
                    await asked(bob, command, **arguments)
        with pytest.raises(Refused, match=r"^there is no community 'Motors'"):
            await one(ann, "community", community="Motors")

    alone(tmp_path, scene)


def test_a_community_is_known_by_name_identifier_and_its_first_characters(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        id = await create(team, "Optics")
        other = await create(team, "Motors")
        for word in (id, "Optics", "optics", id.rpartition(".")[2][:8]):
            assert (await one(team, "community", community=word))["id"] == id
        with pytest.raises(Refused, match="there is no community 'opt'; there are Motors, Optics"):
            await one(team, "community", community="opt")
        with pytest.raises(Refused, match="name a community"):
            await one(team, "community", community="")
        await one(team, "change community", community=other, fields={"name": "Optics"})
        with pytest.raises(Refused, match="'Optics' can mean 2 objects; name one by its identifier"):
            await one(team, "community", community="Optics")

    alone(tmp_path, scene)


def test_a_document_is_stored_changed_and_found(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        file = tmp_path / "mount.txt"
        file.write_text("brass")
        await create(team, "Optics")
        words = {"community": "Optics", "name": "mount.txt", "fields": ["keyword=lens"]}
        added = await one(team, "add document", path=str(file), **words)
        assert added["fields"]["keyword"] == ["lens"]
        file.write_text("aluminium")
        changed = await one(team, "change document", document="mount.txt", path=str(file))
        assert (changed["id"], changed["version"]) == (added["id"], 2)
        got = await one(team, "get document", document=added["id"][:6], version=1)
        assert Path(got["path"]).is_absolute()
        assert Path(got["path"]).read_text() == "brass"
        everything = {"language": "xql", "communities": [], "wait_s": 2.0, "stays_open": False, "kinds": ["artefact"]}
        *results, last = await asked(team, "search", query="", words="aluminium", **everything)
        assert [each["result"]["id"] for each in results] == [added["id"]]
        assert last["progress"]["found"] == 1
        with pytest.raises(Refused, match=r"there is no file plan\.txt"):
            await one(team, "add document", path="plan.txt", **words)

    alone(tmp_path, scene)


def test_a_message_goes_to_people_or_to_a_community(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        await one(team, "create user", name="bob", role="editor", fields=[])
        id = await create(team, "Optics")
        plain = {"reply_to": "", "attachments": []}
        first = await one(team, "send message", to=["bob"], text="hello", **plain)
        assert first["scope"].startswith("conversation/ann.")
        assert (await one(team, "send message", to=["Optics"], text="all", **plain))["scope"] == id
        answer = {"to": [], "text": "again", "reply_to": first["id"], "attachments": []}
        assert (await one(team, "send message", **answer))["scope"] == first["scope"]
        assert [each["text"] for each in await asked(team, "messages", conversation=["bob"], unread=False)] == [
            "hello",
            "again",
        ]
        with pytest.raises(Refused, match=r"'eve' is neither a user .ann, bob. nor a community"):
            await one(team, "send message", to=["eve"], text="x", **plain)
        with pytest.raises(Refused, match="there is no user 'eve'; there are ann, bob"):
            await one(team, "send message", to=["bob", "eve"], text="x", **plain)

    alone(tmp_path, scene)


def test_a_document_is_attached_where_its_readers_are(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        await one(team, "create user", name="bob", role="editor", fields=[])
        file = tmp_path / "plan.txt"
        file.write_text("brass")
        await create(team, "Optics")
        await create(team, "Motors")
        added = await one(team, "add document", path=str(file), community="Optics", name="plan.txt", fields=[])
        attached = {"text": "look", "reply_to": "", "attachments": ["plan.txt"]}
        sent = await one(team, "send message", to=["Optics"], **attached)
        assert (list(sent["attachments"]), sent["attachment_names"]) == ([added["id"]], ["plan.txt"])
        elsewhere = "plan.txt is a document of Optics, not of Motors: move or add it there first"
        with pytest.raises(Refused, match=elsewhere):
            await one(team, "send message", to=["Motors"], **attached)
        times = {"times": [2e9], "duration_s": 60.0, "agenda": "", "documents": ["plan.txt"]}
        with pytest.raises(Refused, match=elsewhere):
            await one(team, "propose meeting", community="Motors", title="Review", **times)
        with pytest.raises(
            Refused, match="cannot be attached to a message to users: send the message to the community"
        ):
            await one(team, "send message", to=["bob"], **attached)
        with pytest.raises(Refused, match="there is no document 'nonsense'"):
            await one(team, "send message", to=["Optics"], **{**attached, "attachments": ["nonsense"]})
        await one(team, "delete document", document="plan.txt")
        [listed] = await asked(team, "messages", conversation=["Optics"], unread=False)
        assert listed["attachment_names"] == [None]

    alone(tmp_path, scene)


def test_an_answer_is_listed_after_its_message_whatever_the_clocks_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(team: Team) -> None:
        await create(team, "Optics")
        await create(team, "Motors")
        plain: dict[str, Any] = {"reply_to": "", "attachments": []}
        start = team.peer.time()

        async def send(at: float, to: str, text: str) -> None:
            with monkeypatch.context() as context:
                context.setattr(LivePeer, "time", lambda peer: start + at)
                await one(team, "send message", to=[to], text=text, **plain)

        await send(10.0, "Optics", "question")
        await send(5.0, "Optics", "answer of a device that is late")
        await send(7.0, "Motors", "before both")
        await send(20.0, "Motors", "after both")
        listed = [each["text"] for each in await asked(team, "messages", conversation=[], unread=False)]
        assert listed == ["before both", "question", "answer of a device that is late", "after both"]

    alone(tmp_path, scene)


def test_a_subscription_by_webhook_tells_the_secret_that_signs(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        wanted = {"name": "all", "kinds": ["artefact"], "query": "", "language": "xql", "expires_s": None}
        rest = {"digest_s": 0.0, "quiet": None, "utc_offset_s": 0.0}
        hook = {"kind": "webhook", "target": "https://example.org/hook"}
        made = await one(team, "subscribe", channels=[hook], **wanted, **rest)
        assert len(bytes.fromhex(made["webhook_secret"])) == 32
        assert made["webhook_secret"] == team.webhook_secret
        assert "webhook_secret" not in await one(team, "subscribe", channels=[{"kind": "desktop"}], **wanted, **rest)
        await one(team, "create user", name="bob", role="editor", fields=[])
        with pytest.raises(Refused, match="signs for ann alone"):
            assert team.as_user("bob").webhook_secret

    alone(tmp_path, scene)


def test_a_command_of_another_version_is_told_so(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        with pytest.raises(Refused, match="there is no command 'sing': is the peer of another version"):
            await asked(team, "sing")
        with pytest.raises(Refused, match="the command 'user' has other arguments"):
            await asked(team, "user", colour="red")

    alone(tmp_path, scene)


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("create user", {"name": "bob", "role": "king", "fields": []}, "a role is one of reader, editor, owner"),
        ("create user", {"name": "a/b", "role": "editor", "fields": []}, "cannot be the name of a user"),
        ("invite user", {"name": "a\nb", "role": "editor", "fields": [], "device": "laptop"}, "cannot be the name"),
        ("user", {"name": "eve"}, "there is no user 'eve'"),
        ("meetings", {"community": "Optics"}, "there is no community 'Optics'"),
        ("mark message", {"message": "ffff", "what": "read"}, "there is no message 'ffff'"),
        ("end subscription", {"subscription": "x"}, "there is no subscription 'x'"),
        ("presence", {"availability": "asleep", "status": "", "shown_to": []}, "availability must be one of"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(
    tmp_path: Path, command: str, arguments: dict[str, Any], said: str
) -> None:
    async def scene(team: Team) -> None:
        with pytest.raises(GodwitError, match=said):
            await asked(team, command, **arguments)

    alone(tmp_path, scene)
