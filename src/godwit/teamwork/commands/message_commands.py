"""Commands about messages and meetings."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from godwit.teamwork.commands.command_table import Commands
from godwit.teamwork.commands.references import (
    community_of,
    conversation_of,
    document_in,
    meeting_of,
    message_of,
    scopes_of,
)
from godwit.teamwork.meetings import Meeting
from godwit.teamwork.messages import Message
from godwit.teamwork.names import NotThere
from godwit.teamwork.team import Team

__all__ = ["COMMANDS"]


def send_message(team: Team, to: Sequence[str], text: str, reply_to: str, attachments: Sequence[str]) -> dict[str, Any]:
    """Send a message to users or a community; an answer goes where its message is."""
    answered = message_of(team, reply_to) if reply_to else None
    scope = answered.scope if answered and not to else conversation_of(team, to)
    attached = [document_in(team, scope, word).id for word in attachments]
    id = team.messages.send(scope, text, reply_to=answered.id if answered else "", attachments=attached)
    return _message(team, team.messages.get(scope, id))


def messages(team: Team, conversation: Sequence[str], unread: bool) -> list[dict[str, Any]]:
    """Messages of a conversation or community, or of all, with receipts of their readers."""
    scopes = [conversation_of(team, conversation)] if conversation else team.messages.conversations()
    found = _merged([team.messages.thread(scope) for scope in scopes])
    if unread:
        wanted = {(message.scope, message.id) for message in team.messages.unread()}
        found = [message for message in found if (message.scope, message.id) in wanted]
    return [_message(team, message) for message in found]


def mark_message(team: Team, message: str, what: str) -> dict[str, Any]:
    """Tell the author that a message was delivered or read."""
    found = message_of(team, message)
    team.messages.mark(found.scope, found.id, what)
    return _message(team, team.messages.get(found.scope, found.id))


def propose_meeting(
    team: Team,
    community: str,
    title: str,
    times: Sequence[float],
    duration_s: float,
    agenda: str,
    documents: Sequence[str],
) -> dict[str, Any]:
    """Propose a meeting to a community."""
    scope = community_of(team, community)
    artefacts = [document_in(team, scope, word).id for word in documents]
    id = team.meetings.propose(scope, title, times, duration_s=duration_s, agenda=agenda, artefacts=artefacts)
    return _meeting(team.meetings.get(scope, id))


def meetings(team: Team, community: str) -> list[dict[str, Any]]:
    """Meetings of a community, or of all."""
    scopes = [community_of(team, community)] if community else scopes_of(team)
    return [_meeting(meeting) for scope in scopes for meeting in team.meetings.all(scope)]


def answer_meeting(team: Team, meeting: str, answers: Mapping[str, str]) -> dict[str, Any]:
    """Tell which times suit the user; `answers` are by time, in seconds since 1970."""
    found = meeting_of(team, meeting)
    team.meetings.answer(found.scope, found.id, {float(time): answer for time, answer in answers.items()})
    return _meeting(team.meetings.get(found.scope, found.id))


def choose_meeting(team: Team, meeting: str, time: float | None) -> dict[str, Any]:
    """Fix the time of a meeting: this one, or that which suits most."""
    found = meeting_of(team, meeting)
    wanted = found.best if time is None else time
    team.meetings.choose(found.scope, found.id, found.times[0] if wanted is None else wanted)
    return _meeting(team.meetings.get(found.scope, found.id))


def cancel_meeting(team: Team, meeting: str) -> dict[str, Any]:
    """Cancel a meeting."""
    found = meeting_of(team, meeting)
    team.meetings.cancel(found.scope, found.id)
    return _meeting(team.meetings.get(found.scope, found.id))


def calendar(team: Team, meeting: str) -> dict[str, Any]:
    """A meeting as an iCalendar file."""
    found = meeting_of(team, meeting)
    return {"id": found.id, "calendar": team.meetings.calendar(found.scope, found.id).decode()}


def _merged(threads: Iterable[Sequence[Message]]) -> list[Message]:
    """All messages by time, but each thread in its own order: a clock that is wrong must not put an answer first."""
    dated: list[tuple[float, Message]] = []
    for thread in threads:
        latest = accumulate((message.time for message in thread), max)
        dated += zip(latest, thread, strict=True)
    return [message for _, message in sorted(dated, key=lambda each: each[0])]


def _message(team: Team, message: Message) -> dict[str, Any]:
    """A message, with the names of its attachments; None for a document that was deleted or moved."""
    names: list[str | None] = []
    for id in message.attachments:
        try:
            names.append(team.documents.get(message.scope, id).name)
        except NotThere:
            names.append(None)
    return {**msgspec.to_builtins(message), "attachment_names": names}


def _meeting(meeting: Meeting) -> dict[str, Any]:
    return {**msgspec.to_builtins(meeting, str_keys=True), "best": meeting.best}


COMMANDS: Commands = {
    "send message": send_message,
    "messages": messages,
    "mark message": mark_message,
    "propose meeting": propose_meeting,
    "meetings": meetings,
    "answer meeting": answer_meeting,
    "choose meeting": choose_meeting,
    "cancel meeting": cancel_meeting,
    "calendar": calendar,
}
