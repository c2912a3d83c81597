"""Operations of the HTTP API: meetings, answers to them, and their calendar files."""

from typing import Literal

import msgspec
from starlette.responses import Response

from godwit.teamwork.meetings import Meeting
from godwit.teamwork.web_calls import CALENDAR, Call, Operation

__all__ = ["OPERATIONS"]

AnswerWord = Literal["yes", "maybe", "no"]


class AnswerGiven(msgspec.Struct, frozen=True):
    """What a member answers to one time."""

    user: str
    time: float
    answer: str


class MeetingShown(msgspec.Struct, frozen=True):
    """A meeting. Times are seconds since 1970."""

    id: str
    scope: str
    author: str
    title: str
    agenda: str
    times: list[float]
    duration_s: float
    documents: list[str]
    chosen: float | None
    best: float | None
    is_cancelled: bool
    answers: list[AnswerGiven]


class NewMeeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A meeting to be proposed."""

    title: str
    times: list[float]
    duration_s: float = 3600.0
    agenda: str = ""
    documents: list[str] = []


class AnswerToTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a time suits the user."""

    time: float
    answer: AnswerWord


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The time at which a meeting takes place."""

    time: float


def all_meetings(call: Call) -> list[MeetingShown]:
    """The meetings of all communities of the user, by time."""
    scopes = [community.id for community in call.team.communities.mine()]
    found = [_shown(meeting) for scope in scopes for meeting in call.team.meetings.all(scope)]
    return sorted(found, key=lambda meeting: meeting.chosen or meeting.times[0])


def meetings(call: Call) -> list[MeetingShown]:
    """The meetings of a scope, by time."""
    return [_shown(meeting) for meeting in call.team.meetings.all(call.scope)]


def meeting(call: Call) -> MeetingShown:
    """One meeting."""
    return _shown(call.team.meetings.get(call.scope, call.part("id")))


def propose_meeting(call: Call) -> MeetingShown:
    """Propose a meeting."""
    said: NewMeeting = call.takes
    id = call.team.meetings.propose(
        call.scope,
        said.title,
        said.times,
        duration_s=said.duration_s,
        agenda=said.agenda,
        artefacts=said.documents,
    )
    return _shown(call.team.meetings.get(call.scope, id))


def answer_meeting(call: Call) -> MeetingShown:
    """Say which times suit the user."""
    answers = {each.time: each.answer for each in call.takes}
    call.team.meetings.answer(call.scope, call.part("id"), answers)
    return meeting(call)


def choose_time(call: Call) -> MeetingShown:
    """Fix the time of a meeting."""
    call.team.meetings.choose(call.scope, call.part("id"), call.takes.time)
    return meeting(call)


def cancel_meeting(call: Call) -> MeetingShown:
    """Let a meeting not take place."""
    call.team.meetings.cancel(call.scope, call.part("id"))
    return meeting(call)


def calendar(call: Call) -> Response:
    """A meeting as an iCalendar file."""
    data = call.team.meetings.calendar(call.scope, call.part("id"))
    headers = {"content-disposition": 'attachment; filename="meeting.ics"', "x-content-type-options": "nosniff"}
    return Response(data, headers={**headers, "content-type": f"{CALENDAR}; charset=utf-8"})


def _shown(meeting: Meeting) -> MeetingShown:
    answers = [
        AnswerGiven(user, time, answer)
        for user, by_time in sorted(meeting.answers.items())
        for time, answer in sorted(by_time.items())
    ]
    return MeetingShown(
        *(meeting.id, meeting.scope, meeting.author, meeting.title, meeting.agenda, list(meeting.times)),
        *(meeting.duration_s, list(meeting.artefacts), meeting.chosen, meeting.best, meeting.is_cancelled, answers),
    )


OF_SCOPE = "/api/scopes/{kind}/{scope}/meetings"
ONE = f"{OF_SCOPE}/{{id}}"
OPERATIONS = (
    Operation("GET", "/api/meetings", all_meetings, "List all meetings of the user.", gives=list[MeetingShown]),
    Operation("GET", OF_SCOPE, meetings, "List meetings of a scope.", gives=list[MeetingShown]),
    Operation("POST", OF_SCOPE, propose_meeting, "Propose a meeting.", NewMeeting, MeetingShown, status=201),
    Operation("GET", ONE, meeting, "Show a meeting.", gives=MeetingShown),
    Operation("PUT", f"{ONE}/answers", answer_meeting, "Answer proposed times.", list[AnswerToTime], MeetingShown),
    Operation("POST", f"{ONE}/choose", choose_time, "Fix the time.", Choice, MeetingShown),
    Operation("POST", f"{ONE}/cancel", cancel_meeting, "Cancel a meeting.", gives=MeetingShown),
    Operation("GET", f"{ONE}/calendar.ics", calendar, "Download an iCalendar file.", media=CALENDAR),
)
