"""Review meetings: times are proposed, members answer, one time is chosen. [motion §2: "organizing review meetings"]

A meeting is a record of a community; each member's answer is a record of its own, so that answers never contradict each
other. Times are seconds since 1970. Each member is reminded by the own device (`notifier.py`), and `calendar` is a file
for other programs.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from godwit.errors import Refused
from godwit.teamwork.documents import check_documents
from godwit.teamwork.machine.notification_rules import REMIND_S
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.machine.records import Record
from godwit.teamwork.meeting_calendar import TIME_MAX, Attendee, CalendarEntry, calendar_file
from godwit.teamwork.names import new_id, not_there
from godwit.teamwork.team_peer import TeamPeer

__all__ = ["ANSWERS", "Meeting", "Meetings", "answers_of"]

ANSWERS = ("yes", "maybe", "no")
WEIGHTS = {"yes": 2, "maybe": 1}
TIMES_MAX = 50
TITLE_CHARS_MAX = 200
DURATION_MAX_S = 7 * 86_400
REMIND_MAX_S = 30 * 86_400


class Meeting(msgspec.Struct, frozen=True):
    """A meeting."""

    id: str
    scope: str
    author: str
    title: str
    agenda: str
    times: tuple[float, ...]
    duration_s: float
    artefacts: tuple[str, ...]
    chosen: float | None
    is_cancelled: bool
    answers: dict[str, dict[float, str]]
    """By user and time."""
    remind_s: float = REMIND_S
    """How long before it begins members are reminded."""

    @property
    def best(self) -> float | None:
        """The time that suits most: a yes counts twice as much as a maybe; of equals, the earliest."""
        scores = dict.fromkeys(self.times, 0)
        for by_time in self.answers.values():
            for time, answer in by_time.items():
                if time in scores:
                    scores[time] += WEIGHTS.get(answer, 0)
        return min(scores, key=lambda time: (-scores[time], time), default=None)


class Meetings:
    """The meetings of the communities of this user."""

    def __init__(self, peer: TeamPeer) -> None:
        self._peer = peer

    def propose(
        self,
        scope: str,
        title: str,
        times: Sequence[float],
        *,
        duration_s: float = 3600.0,
        agenda: str = "",
        artefacts: Sequence[str] = (),
        remind_s: float = REMIND_S,
    ) -> str:
        """Propose a meeting to a community; its identifier. `artefacts`: identifiers of documents of that community."""
        if not title.strip() or len(title) > TITLE_CHARS_MAX:
            raise Refused(f"the title of a meeting must have 1 to {TITLE_CHARS_MAX} characters, not {len(title)}")
        if not 1 <= len(set(times)) <= TIMES_MAX:
            raise Refused(f"a meeting needs 1 to {TIMES_MAX} times to choose from, not {len(set(times))}")
        if not 0 < duration_s <= DURATION_MAX_S:
            raise Refused(f"a meeting lasts more than 0 and at most {DURATION_MAX_S:,} seconds, not {duration_s:g}")
        if not 0 <= remind_s <= REMIND_MAX_S:
            raise Refused(f"members are reminded 0 to {REMIND_MAX_S:,} seconds before a meeting, not {remind_s:g}")
        for time in times:
            if not 0 <= time < TIME_MAX:
                raise Refused(f"a time is in seconds since 1970, from 0 to {TIME_MAX:,}, not {time:g}")
        check_documents(self._peer.repository, scope, artefacts)
        id = new_id()
        fields = {
            "author": self._peer.identity.user,
            "title": title,
            "agenda": agenda,
            "times": sorted(set(times)),
            "duration_s": duration_s,
            "artefacts": list(artefacts),
            "remind_s": remind_s,
        }
        self._change(scope, f"meeting/{id}", fields)
        return id

    def answer(self, scope: str, id: str, answers: Mapping[float, str]) -> None:
        """Say which times suit this user: yes, maybe or no."""
        meeting = self.get(scope, id)
        for time, answer in answers.items():
            if time not in meeting.times:
                raise Refused(f"{time:g} is not a time of this meeting; they are {', '.join(map(str, meeting.times))}")
            if answer not in ANSWERS:
                raise Refused(f"an answer is {', '.join(ANSWERS)}, not {answer!r}")
        user = self._peer.identity.user
        given = [[time, answer] for time, answer in sorted(answers.items())]
        self._change(scope, f"answer/{id}.{user}", {"author": user, "answers": given})

    def choose(self, scope: str, id: str, time: float) -> None:
        """Fix the time of a meeting."""
        if time not in self.get(scope, id).times:
            raise Refused(f"{time:g} is not a time of this meeting")
        self._change(scope, f"meeting/{id}", {"chosen": time})

    def cancel(self, scope: str, id: str) -> None:
        """Let a meeting not take place."""
        self.get(scope, id)
        self._change(scope, f"meeting/{id}", {"cancelled": True})

    def get(self, scope: str, id: str) -> Meeting:
        """One meeting."""
        record = self._peer.repository.record(scope, f"meeting/{id}")
        meeting = self._meeting(scope, record) if record is not None else None
        if meeting is None:
            raise not_there("meeting", id, [])
        return meeting

    def all(self, scope: str) -> list[Meeting]:
        """All meetings of a community, by their first or chosen time."""
        found = (self._meeting(scope, record) for record in self._peer.repository.records(scope, "meeting"))
        return sorted(
            (meeting for meeting in found if meeting is not None),
            key=lambda meeting: meeting.chosen or meeting.times[0],
        )

    def calendar(self, scope: str, id: str) -> bytes:
        """The meeting as an iCalendar file (RFC 5545): the time that was chosen, or all that were proposed."""
        meeting, record = self.get(scope, id), f"meeting/{id}"
        changes = self._peer.repository.changes_of(scope, record)
        times = meeting.times if meeting.chosen is None else (meeting.chosen,)
        status = "CANCELLED" if meeting.is_cancelled else "TENTATIVE" if meeting.chosen is None else "CONFIRMED"
        members = sorted({meeting.author, *self._peer.machine.governance(scope).members()})
        entries = [
            CalendarEntry(
                uid=f"{id}@{scope}" if meeting.chosen is not None else f"{id}.{place}@{scope}",
                title=meeting.title,
                description=_description(meeting),
                begins=begins,
                ends=begins + meeting.duration_s,
                status=status,
                sequence=len(changes) - 1,
                changed=max((change.time for change in changes), default=0.0),
                remind_s=meeting.remind_s,
                organizer=meeting.author,
                attendees=tuple(self._attendee(meeting, user, begins) for user in members),
            )
            for place, begins in enumerate(times)
        ]
        return calendar_file(entries)

    def _attendee(self, meeting: Meeting, user: str, time: float) -> Attendee:
        profile = self._peer.repository.record(self._peer.team, f"user/{user}")
        fields = profile.fields if profile else {}
        mail = fields.get("mail", "")
        first = mail[0] if isinstance(mail, list | tuple) and mail else mail
        answer = "yes" if user == meeting.author else meeting.answers.get(user, {}).get(time, "")
        return Attendee(user, str(fields.get("name") or user), first if isinstance(first, str) else "", answer)

    def _change(self, scope: str, record: str, fields: dict[str, Any]) -> None:
        self._peer.do(ChangeRecord(scope, record, fields))

    def _meeting(self, scope: str, record: Record) -> Meeting | None:
        """The meeting of a record; None if the record is none: the program of another peer may not check it."""
        try:
            said = msgspec.convert(record.fields, _MeetingFields)
        except msgspec.ValidationError:
            return None
        id = record.name.partition("/")[2]
        answers = {}
        for user in self._peer.machine.governance(scope).members():
            answer = self._peer.repository.record(scope, f"answer/{id}.{user}")
            if answer is not None:
                answers[user] = answers_of(answer)
        return Meeting(
            *(id, scope, said.author, said.title, said.agenda, said.times, said.duration_s, said.artefacts),
            *(said.chosen, said.cancelled, answers, said.remind_s),
        )


Seconds = Annotated[float, msgspec.Meta(ge=0, lt=TIME_MAX)]


class _MeetingFields(msgspec.Struct, frozen=True):
    """The fields of a record of a meeting."""

    times: Annotated[tuple[Seconds, ...], msgspec.Meta(min_length=1)]
    author: str = ""
    title: str = ""
    agenda: str = ""
    duration_s: Annotated[float, msgspec.Meta(gt=0, le=DURATION_MAX_S)] = 3600.0
    artefacts: tuple[str, ...] = ()
    chosen: Seconds | None = None
    cancelled: bool = False
    remind_s: Annotated[float, msgspec.Meta(ge=0, le=REMIND_MAX_S)] = REMIND_S


def answers_of(answer: Record) -> dict[float, str]:
    """By time, what a user has answered; nothing if the record says nothing that can be read."""
    try:
        given = msgspec.convert(answer.fields.get("answers", ()), list[tuple[float, str]])
    except msgspec.ValidationError:
        return {}
    return dict(given)


def _description(meeting: Meeting) -> str:
    artefacts = [f"Document: {each}" for each in meeting.artefacts]
    return "\n".join([meeting.agenda, *artefacts] if meeting.agenda else artefacts)
