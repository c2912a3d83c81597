"""iCalendar files of meetings, read back by a parser: times, people, answers, cancellation, and odd texts."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import icalendar
import msgspec
import pytest

from godwit.errors import Refused
from godwit.teamwork.communities import Communities
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.meetings import Meetings
from godwit.teamwork.people import People
from tests.unit.teamwork.live_team import Team, later, on_a_network

NINE = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
TEN = NINE + timedelta(hours=1)


def events(file: bytes) -> list[Any]:
    """The entries of a file, which has to be well formed."""
    lines = file.split(b"\r\n")
    assert all(len(line) <= 75 for line in lines)
    assert not any(b"\n" in line or b"\r" in line for line in lines)
    calendar = icalendar.Calendar.from_ical(file)
    assert (calendar["VERSION"], bool(calendar["PRODID"])) == ("2.0", True)
    found = calendar.walk("VEVENT")
    for event in found:
        assert not event.errors
        assert {"UID", "DTSTAMP", "DTSTART", "DTEND", "SUMMARY", "ORGANIZER"} <= set(event)
    return list(found)


def test_a_meeting_becomes_an_entry_that_follows_its_changes(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.together() as (ann, bob, cid):
            People(bob).change_profile({"name": "Bob Builder", "mail": ["bob@example.org"]})
            scope = Communities(ann).create("Reviewers")
            for user in ("bob", "cid"):
                Communities(ann).add(scope, user, Role.READER)
            meetings, times = Meetings(ann), [NINE.timestamp(), TEN.timestamp()]
            id = meetings.propose(scope, "Review: plan; part 2, änderungen", times, agenda="1. plan\n2. rest " * 20)
            await later(team)
            Meetings(bob).answer(scope, id, dict.fromkeys(times, "yes"))
            Meetings(cid).answer(scope, id, {times[1]: "no"})
            await later(team)

            proposed = events(meetings.calendar(scope, id))
            assert [(each["STATUS"], each.start) for each in proposed] == [("TENTATIVE", NINE), ("TENTATIVE", TEN)]
            assert len({str(each["UID"]) for each in proposed}) == 2

            meetings.choose(scope, id, times[1])
            [fixed] = events(meetings.calendar(scope, id))
            assert (fixed["STATUS"], fixed.start, fixed.end) == ("CONFIRMED", TEN, TEN + timedelta(hours=1))
            assert fixed["SUMMARY"] == "Review: plan; part 2, änderungen"
            assert "1. plan\n2. rest" in fixed["DESCRIPTION"]
            people = {str(each): each.params["PARTSTAT"] for each in fixed["ATTENDEE"]}
            assert people == {"mailto:bob@example.org": "ACCEPTED", "mailto:cid@godwit.invalid": "DECLINED"}
            assert fixed["ORGANIZER"].params["CN"] == "ann"
            [alarm] = fixed.walk("VALARM")
            assert alarm["TRIGGER"].dt == -timedelta(minutes=15)

            meetings.cancel(scope, id)
            [cancelled] = events(meetings.calendar(scope, id))
            assert (cancelled["STATUS"], cancelled["UID"]) == ("CANCELLED", fixed["UID"])
            assert cancelled["SEQUENCE"] > fixed["SEQUENCE"]
            await later(team)
            assert Meetings(bob).calendar(scope, id) == meetings.calendar(scope, id)

    on_a_network(tmp_path, scene)


def test_names_cannot_add_lines_to_the_file(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            People(ann).change_profile({"name": 'A"\r\nATTENDEE:mailto:x@y', "mail": ["a@b\r\nX-EVIL:1"]})
            scope = Communities(ann).create("Reviewers")
            id = Meetings(ann).propose(scope, "x\r\nSTATUS:CANCELLED", [NINE.timestamp()], agenda="a\r\nb")
            [event] = events(Meetings(ann).calendar(scope, id))
            assert event["STATUS"] == "TENTATIVE"
            assert "ATTENDEE" not in event
            assert "X-EVIL" not in event

    on_a_network(tmp_path, scene)


@pytest.mark.parametrize(
    ("times", "options", "said"),
    [
        ([float("nan")], {}, "a time is in seconds since 1970"),
        ([1e30], {}, "a time is in seconds since 1970"),
        ([-1.0], {}, "a time is in seconds since 1970"),
        ([1.0], {"remind_s": -5.0}, "members are reminded 0 to 2,592,000 seconds before"),
    ],
)
def test_times_that_no_calendar_has_are_refused(
    tmp_path: Path, times: list[float], options: dict[str, Any], said: str
) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            scope = Communities(ann).create("Reviewers")
            with pytest.raises(Refused, match=said):
                Meetings(ann).propose(scope, "x", times, **options)

    on_a_network(tmp_path, scene)


def test_a_record_that_is_no_meeting_and_a_clock_far_off_hinder_nothing(tmp_path: Path) -> None:
    async def scene(team: Team) -> None:
        async with team.peer("ann", "b1") as ann:
            team.found(ann)
            scope = Communities(ann).create("Reviewers")
            meetings = Meetings(ann)
            id = meetings.propose(scope, "good", [NINE.timestamp()])
            bad: list[dict[str, Any]] = [{"times": "x"}, {"times": [float("nan")]}, {"times": [1.0], "chosen": {}}]
            for number, fields in enumerate([*bad, {"times": []}]):
                ann.do(ChangeRecord(scope, f"meeting/bad{number}", fields))
            ann.do(ChangeRecord(scope, f"answer/{id}.ann", {"author": "ann", "answers": 5}))
            assert [each.title for each in meetings.all(scope)] == ["good"]
            assert meetings.get(scope, id).answers == {"ann": {}}
            with pytest.raises(Refused, match="there is no meeting 'bad0'"):
                meetings.get(scope, "bad0")
            changes = ann.repository.changes_of(scope, f"meeting/{id}")
            for time in (1e300, float("nan"), -5.0):
                odd = [msgspec.structs.replace(each, time=time) for each in changes]
                meetings._peer = OddClock(ann, odd)
                [event] = events(meetings.calendar(scope, id))
                assert event["DTSTAMP"].dt == datetime(1970, 1, 1, tzinfo=UTC)

    on_a_network(tmp_path, scene)


class OddClock:
    """A peer whose changes bear times of a clock that is wrong."""

    def __init__(self, peer: Any, changes: list[Any]) -> None:
        self._peer, self._changes = peer, changes

    def __getattr__(self, name: str) -> Any:
        return self if name == "repository" else getattr(self._peer, name)

    def changes_of(self, scope: str, record: str) -> list[Any]:
        return self._changes

    def record(self, scope: str, name: str) -> Any:
        return self._peer.repository.record(scope, name)
