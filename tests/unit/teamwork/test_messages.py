"""Messages on real peers: to communities and people, offline, in threads, with receipts, and meetings."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from godwit.errors import Refused
from godwit.teamwork.communities import Communities
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.notification_rules import Channel
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.meetings import Meetings
from godwit.teamwork.messages import Messages
from godwit.teamwork.notification_channels import ChannelError, MessageChannel
from tests.unit.teamwork.live_team import Team, later, on_a_network
from tests.unit.teamwork.notifier_scene import batch_of_one


def test_people_talk_and_others_read_nothing_of_it(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, cid):
            scope = Messages(ann).conversation(["bob"])
            first = Messages(ann).send(scope, "lunch?")
            await later(team)
            [message] = Messages(bob).unread()
            assert (message.author, message.text, message.id) == ("ann", "lunch?", first)
            Messages(bob).mark(scope, first)
            Messages(bob).send(Messages(bob).conversation(["ann"]), "yes", reply_to=first)
            await later(team)
            answered = Messages(ann).thread(scope)
            assert [each.text for each in answered] == ["lunch?", "yes"]
            assert answered[1].reply_to == first
            assert [(receipt.user, bool(receipt.read)) for receipt in answered[0].receipts] == [("bob", True)]
            assert Messages(bob).unread() == []
            assert Messages(cid).conversations() == []
            travelled = b"".join(event.payload or b"" for event in team.net.received(team.keys["cid"].device))
            assert b"lunch" not in travelled

    on_a_network(tmp_path, scene)


def test_the_first_message_of_a_conversation_is_delivered_at_once(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            for others in (["bob"], ["bob", "cid"]):
                scope = Messages(ann).conversation(others)
                message = Messages(ann).send(scope, "lunch?")
                await later(team, 1.0)
                assert message in [each.id for each in Messages(bob).unread()]
                assert "bob" in [each.user for each in Messages(ann).get(scope, message).receipts if each.delivered]

    on_a_network(tmp_path, scene)


def test_a_message_reaches_a_device_that_was_away(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            async with team.peer("bob", "b2"):
                await later(team)
            scope = Messages(ann).conversation(["bob"])
            Messages(ann).send(scope, "call me")
            await later(team)
            async with team.peer("bob", "b3") as bob:
                await later(team)
                assert [message.text for message in Messages(bob).unread()] == ["call me"]

    on_a_network(tmp_path, scene)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (" ", {}, "a message must have 1 to 100,000 characters"),
        ("x" * 100_001, {}, "a message must have 1 to 100,000 characters"),
        ("x", {"reply_to": "nothing"}, "there is no message 'nothing'"),
        ("x", {"attachments": ["a"] * 101}, "at most 100 attachments"),
        (
            "x",
            {"attachments": ["nonsense"]},
            "there is no document 'nonsense' in community/.*: move or add it there first",
        ),
    ],
)
def test_messages_that_cannot_be_are_refused(tmp_path: Path, text: str, options: dict[str, object], said: str) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            scope = Communities(ann).create("All")
            with pytest.raises(Refused, match=said):
                Messages(ann).send(scope, text, **options)  # type: ignore[arg-type]
            with pytest.raises(Refused, match="there is no document 'nonsense'"):
                Meetings(ann).propose(scope, "Review", [100.0], artefacts=["nonsense"])
            with pytest.raises(Refused, match="there is no user 'eve'"):
                Messages(ann).conversation(["eve"])
            with pytest.raises(Refused, match="2 to 100 people, not 1"):
                Messages(ann).conversation(["ann"])

    on_a_network(tmp_path, scene)


def test_a_meeting_is_proposed_answered_and_fixed(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, cid):
            scope = Communities(ann).create("Reviewers")
            for user in ("bob", "cid"):
                Communities(ann).add(scope, user, Role.READER)
            id = Meetings(ann).propose(scope, "Review of the plan", [300.0, 100.0, 200.0], agenda="1. the plan")
            await later(team)
            Meetings(bob).answer(scope, id, {100.0: "no", 200.0: "yes", 300.0: "maybe"})
            Meetings(cid).answer(scope, id, {100.0: "yes", 300.0: "maybe"})
            await later(team)
            meeting = Meetings(ann).get(scope, id)
            assert meeting.times == (100.0, 200.0, 300.0)
            assert meeting.answers["bob"] == {100.0: "no", 200.0: "yes", 300.0: "maybe"}
            assert meeting.best == 100.0
            with pytest.raises(Refused, match="the role of bob is reader, and editor is needed"):
                Meetings(bob).choose(scope, id, 200.0)
            Meetings(ann).choose(scope, id, 200.0)
            await later(team)
            assert [each.chosen for each in Meetings(cid).all(scope)] == [200.0]
            Meetings(ann).cancel(scope, id)
            await later(team)
            assert Meetings(cid).get(scope, id).is_cancelled

    on_a_network(tmp_path, scene)


def test_meetings_and_answers_that_cannot_be_are_refused(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            scope = Communities(ann).create("Reviewers")
            meetings = Meetings(ann)
            for title, times, duration_s, said in (
                ("", [1.0], 60.0, "the title of a meeting"),
                ("x", [], 60.0, "1 to 50 times"),
                ("x", [1.0], 0.0, "lasts more than 0"),
            ):
                with pytest.raises(Refused, match=said):
                    meetings.propose(scope, title, times, duration_s=duration_s)
            id = meetings.propose(scope, "x", [1.0])
            with pytest.raises(Refused, match="2 is not a time of this meeting; they are 1"):
                meetings.answer(scope, id, {2.0: "yes"})
            with pytest.raises(Refused, match="an answer is yes, maybe, no"):
                meetings.answer(scope, id, {1.0: "perhaps"})
            with pytest.raises(Refused, match="there is no meeting"):
                meetings.get(scope, "nothing")

    on_a_network(tmp_path, scene)


def test_a_device_whose_clock_is_wrong_puts_no_message_out_of_place(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, _):
            scope = Messages(ann).conversation(["bob"])
            await later(team)
            far = {"author": "ann", "text": "in the future", "time": 9e9}
            ann.do(ChangeRecord(scope, "message/1", far))
            await later(team)
            Messages(bob).send(scope, "an answer", reply_to="1")
            await later(team)
            for peer in (ann, bob):
                assert [each.text for each in Messages(peer).thread(scope)] == ["in the future", "an answer"]

    on_a_network(tmp_path, scene)


def test_notifications_by_message_are_in_the_notes_of_the_user_once(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann, team.peer("bob", "b2") as bob:
            team.found(ann)
            await later(team)
            channel = MessageChannel(Messages(ann), asyncio.get_running_loop())
            batch = batch_of_one(Channel("message"))
            for _ in range(2):
                await asyncio.to_thread(channel.send, batch)
            await later(team)
            [note] = Messages(ann).thread(Messages(ann).notes())
            assert "plan B" in note.text
            assert "To end it: godwit team subscribe --end 1" in note.text
            assert Messages(bob).thread("conversation/ann.notes") == []
            with pytest.raises(ChannelError, match="no message was sent") as caught:
                await asyncio.to_thread(channel.send, batch_of_one(Channel("message", "community/bob.1")))
            assert caught.value.is_final

    on_a_network(tmp_path, scene)


def test_the_author_sees_when_a_message_was_delivered_and_read_also_if_the_reader_was_away(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            async with team.peer("bob", "b2"):
                await later(team)
            scope = Messages(ann).conversation(["bob", "cid"])
            id = Messages(ann).send(scope, "call me")
            await later(team)
            assert Messages(ann).get(scope, id).receipts == ()  # stored by brokers, and by no reader
            sent_at = team.net.clock.time()
            async with team.peer("bob", "b3") as bob:
                await later(team)
                [receipt] = Messages(ann).get(scope, id).receipts
                assert (receipt.user, receipt.read) == ("bob", None)
                assert receipt.delivered is not None
                assert receipt.delivered >= sent_at
                Messages(bob).mark(scope, id)
            await later(team)
            async with team.peer("bob", "b2"):
                await later(team)
            [after] = Messages(ann).get(scope, id).receipts
            assert after.delivered == receipt.delivered
            assert after.read is not None

    on_a_network(tmp_path, scene)


def test_of_two_devices_that_report_a_message_the_first_time_is_shown(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            await later(team)
            scope = Messages(ann).conversation(["bob"])
            id, record = Messages(ann).send(scope, "call me"), "receipt/{}.bob"
            log = ann.machine.log(scope)
            for device, time in (("one", 20.0), ("two", 30.0)):  # neither knows of the other
                fields = {"author": "bob", "delivered": time}
                made = log.make(device, "bob", record.format(id), fields, time)
                with ann.repository.transaction():
                    log.add(replace(made, parents=()))
            [receipt] = Messages(ann).get(scope, id).receipts
            assert receipt.delivered == 20.0

    on_a_network(tmp_path, scene)
