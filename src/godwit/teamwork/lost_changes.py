"""Lost changes of a user: another change was made at the same time, or the right to it had ended.

Two peers that change the same thing offline converge to the same state (`machine/records.py` defines the rule), and one
of the two changes is lost. It stays in the history, and its author is notified. [motion §2]

*Rules.*
1. A user is notified of a change that lost a field to a concurrent change of another user, on any device.
2. A user is notified of a change that was allowed when made on this device, and is refused now: somebody has locked the
   document, archived the community or ended the membership at the same time. (On other devices a right may not be known
   *yet*.) This includes messages, and answers to meetings.
3. A user is notified of each change once, and not of an invitation or of joining: who joins does not know the changes
   of the community yet, the invitation among them.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from godwit.teamwork.machine.changes import Change, ChangeId
from godwit.teamwork.machine.governance import INVITED, JOINED
from godwit.teamwork.machine.records import Record

__all__ = ["KINDS", "LostChange", "lost_changes"]

KINDS = frozenset({"user", "scope", "member", "artefact", "meeting"})
"""Kinds of records of which this is told. Others are written by one user, or by the peer itself."""
WRITTEN_BY_ONE = frozenset({"message", "answer"})
"""Kinds whose changes do not lose against others, and may be refused."""
EXCERPT_CHARS = 60
OF_CONTENT = frozenset({"root", "size", "type", "changed", "created", "version"})
"""Fields of a document that go with its content."""


class LostChange(msgspec.Struct, frozen=True):
    """A change that lost."""

    change: Change
    fields: tuple[str, ...]
    """What it had set and no longer sets."""
    by: str = ""
    """The author of the change that decided otherwise."""
    refused: str = ""
    """Why it is refused, if it is."""

    def title(self, record: Record) -> str:
        """What the user is told."""
        if self.refused:
            return f"Your {_said(self.change, record)} does not count: {self.refused}"
        what = ", ".join(self.fields)
        return f"Your change of {_name(record)} ({what}) was replaced: {self.by} changed it at the same time"


class ChangeLookup(Protocol):
    """Where changes are found."""

    def change(self, scope: str, id: ChangeId) -> Change | None: ...


def lost_changes(
    changes: ChangeLookup, scope: str, record: Record, user: str, device: str, is_told: Callable[[ChangeId], bool]
) -> list[LostChange]:
    """The changes of a user to a record that have lost, and of which the user was not told."""
    kind = record.name.partition("/")[0]
    if kind not in KINDS | WRITTEN_BY_ONE:
        return []
    found = []
    conflicts = record.conflicts if kind in KINDS else ()
    for id in dict.fromkeys(each.lost for each in conflicts):  # (rule 1)
        lost = None if is_told(id) else changes.change(scope, id)
        if lost is not None and lost.user == user:
            of_change = [each for each in conflicts if each.lost == id]
            winner = changes.change(scope, of_change[-1].decided)
            if winner is not None and _is_answer_to_invitation(lost, winner):
                continue
            fields = [each.field for each in of_change]
            if "content" in fields:
                fields = [field for field in fields if field not in OF_CONTENT]
            found.append(LostChange(lost, tuple(fields), winner.user if winner else ""))
    for each in record.refused:  # (rule 2)
        refused = None if each.change[0] != device or is_told(each.change) else changes.change(scope, each.change)
        if refused is not None and refused.user == user and not _joins(refused):
            found.append(LostChange(refused, tuple(refused.fields), refused=each.reason))
    return found


def _is_answer_to_invitation(lost: Change, winner: Change) -> bool:
    """Whether a user has joined whom somebody had invited. (rule 3)"""
    return _joins(winner) and lost.fields.get("state") == INVITED


def _joins(change: Change) -> bool:
    return change.record == f"member/{change.user}" and change.fields.get("state") == JOINED


def _said(change: Change, record: Record) -> str:
    """What a user has done that is refused. A record that nobody else has changed says nothing: the change does."""
    match change.kind:
        case "message":
            text = " ".join(str(change.fields.get("text", "")).split())
            return f'message "{text if len(text) <= EXCERPT_CHARS else text[: EXCERPT_CHARS - 1] + "…"}"'
        case "answer":
            return "answer to a meeting"
    return f"change of {_name(record, change)}"


def _name(record: Record, change: Change | None = None) -> str:
    """What a record is, for people."""
    kind, _, id = record.name.partition("/")
    fields = {**(change.fields if change is not None else {}), **record.fields}
    title = str(fields.get("title") or fields.get("name") or id)
    match kind:
        case "user":
            return f"the profile of {id}"
        case "member":
            return f"the membership of {id}"
        case "scope":
            return f"the settings of {title}" if "name" in record.fields else "the settings of the team"
    return title
