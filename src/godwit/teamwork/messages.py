"""Messages to users and communities, in threads, with receipts. [motion §2: "sending and receiving messages"]

A message is a record of the scope of its readers: a community, or a conversation, which is a sealed scope whose members
are the people who talk. Brokers keep it for devices that are away, and peers exchange it as any change.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from godwit.errors import Refused
from godwit.teamwork.documents import check_documents
from godwit.teamwork.machine.changes import Order
from godwit.teamwork.machine.governance import JOINED, Role
from godwit.teamwork.machine.peer_effects import ChangeRecord, Follow
from godwit.teamwork.machine.receipts import DELIVERED, READ, receipt_of
from godwit.teamwork.machine.records import Record
from godwit.teamwork.names import new_id, not_there
from godwit.teamwork.team_peer import TeamPeer

__all__ = ["Message", "Messages", "Receipt"]

TEXT_CHARS_MAX = 100_000
ATTACHMENTS_MAX = 100
PEOPLE_MAX = 100


class Receipt(msgspec.Struct, frozen=True):
    """What happened to a message at one reader: times of day there. Delivered: a device of the reader has stored it."""

    user: str
    delivered: float | None = None
    read: float | None = None


class Message(msgspec.Struct, frozen=True):
    """A message."""

    id: str
    scope: str
    author: str
    text: str
    time: float
    reply_to: str = ""
    attachments: tuple[str, ...] = ()
    receipts: tuple[Receipt, ...] = ()


class Messages:
    """The messages that this user may read."""

    def __init__(self, peer: TeamPeer) -> None:
        self._peer = peer

    # ------------------------------------------------------------ sending

    def send(self, scope: str, text: str, *, reply_to: str = "", attachments: Sequence[str] = (), id: str = "") -> str:
        """Send a message to a community or conversation; its identifier. `attachments`: identifiers of documents
        of the same scope.

        With an `id` of one's own, a message that was sent already is not sent again.
        """
        if not text.strip() or len(text) > TEXT_CHARS_MAX:
            raise Refused(f"a message must have 1 to {TEXT_CHARS_MAX:,} characters, not {len(text):,}")
        if len(attachments) > ATTACHMENTS_MAX:
            raise Refused(f"a message has at most {ATTACHMENTS_MAX} attachments, not {len(attachments)}")
        check_documents(self._peer.repository, scope, attachments)
        if reply_to:
            self.get(scope, reply_to)
        if id and self._peer.repository.record(scope, f"message/{id}") is not None:
            return id
        id = id or new_id()
        fields = {
            "author": self._user,
            "text": text,
            "time": self._peer.time(),
            "reply_to": reply_to or None,
            "attachments": list(attachments) or None,
        }
        self._change(scope, f"message/{id}", {name: value for name, value in fields.items() if value is not None})
        return id

    def conversation(self, users: Iterable[str]) -> str:
        """The conversation with these users: the one there is, or a new one."""
        people = {self._user, *users}
        team = self._peer.machine.governance(self._peer.team)
        for user in people - team.members().keys():
            raise not_there("user", user, team.members())
        if not 2 <= len(people) <= PEOPLE_MAX:
            raise Refused(f"a conversation has 2 to {PEOPLE_MAX} people, not {len(people)}")
        for scope in self._peer.repository.scopes():
            if scope.startswith("conversation/") and self._peer.machine.governance(scope).members().keys() == people:
                return scope
        scope = f"conversation/{self._user}.{new_id()}"
        self._peer.do(Follow(scope))
        self._change(scope, "scope/self", {"sealed": True})
        for user in sorted(people - {self._user}):
            self._change(scope, f"member/{user}", {"state": JOINED, "role": "editor"})
        return scope

    def notes(self) -> str:
        """The user's conversation with nobody else: on all devices of the user, and sealed as any conversation."""
        scope = f"conversation/{self._user}.notes"
        if not self._peer.machine.governance(scope).settings:
            self._peer.do(Follow(scope))
            self._change(scope, "scope/self", {"sealed": True})
        return scope

    # ------------------------------------------------------------ reading

    def get(self, scope: str, id: str) -> Message:
        """One message."""
        record = self._peer.repository.record(scope, f"message/{id}")
        if record is None or "text" not in record.fields:
            raise not_there("message", id, [])
        return self._message(scope, record)

    def thread(self, scope: str) -> list[Message]:
        """All messages of a community or conversation, in the order of the scope: answers after what they answer.

        Times of day do not decide: a device whose clock is wrong would put its messages out of place.
        """
        records = [record for record in self._peer.repository.records(scope, "message") if "text" in record.fields]
        records.sort(key=lambda record: self._order(scope, record))
        return [self._message(scope, record) for record in records]

    def _order(self, scope: str, record: Record) -> Order:
        return min(change.order for change in self._peer.repository.changes_of(scope, record.name))

    def conversations(self) -> list[str]:
        """Conversations and communities with messages."""
        member = [
            scope
            for scope in self._peer.repository.scopes()
            if self._peer.machine.governance(scope).role(self._user) > Role.NONE
        ]
        return [scope for scope in member if next(self._peer.repository.records(scope, "message"), None) is not None]

    def unread(self) -> list[Message]:
        """Messages of others that this user has not marked as read."""
        messages = [message for scope in self.conversations() for message in self.thread(scope)]
        return [each for each in messages if each.author != self._user and not self._receipt(each).read]

    def mark(self, scope: str, id: str, what: str = READ) -> None:
        """Say that a message was delivered to, or read by, this user."""
        if what not in (DELIVERED, READ):
            raise Refused(f"a message is marked as {DELIVERED} or {READ}, not {what!r}")
        if self.get(scope, id).author != self._user:
            self._change(scope, receipt_of(id, self._user), {"author": self._user, what: self._peer.time()})

    # ------------------------------------------------------------ in detail

    @property
    def _user(self) -> str:
        return self._peer.identity.user

    def _change(self, scope: str, record: str, fields: dict[str, Any]) -> None:
        self._peer.do(ChangeRecord(scope, record, fields))

    def _receipt(self, message: Message) -> Receipt:
        return next((each for each in message.receipts if each.user == self._user), Receipt(self._user))

    def _first(self, scope: str, receipt: Record, what: str) -> float | None:
        """The earliest time that a device of the reader has written."""
        times = [receipt.fields.get(what)]
        if any(each.field == what for each in receipt.conflicts):
            times += [change.fields.get(what) for change in self._peer.repository.changes_of(scope, receipt.name)]
        return min((float(each) for each in times if isinstance(each, int | float)), default=None)

    def _message(self, scope: str, record: Record) -> Message:
        fields, id = record.fields, record.name.partition("/")[2]
        receipts = []
        for user in self._peer.machine.governance(scope).members():
            receipt = self._peer.repository.record(scope, receipt_of(id, user))
            if receipt is not None:
                receipts.append(
                    Receipt(user, self._first(scope, receipt, DELIVERED), self._first(scope, receipt, READ))
                )
        return Message(
            id,
            scope,
            str(fields.get("author", "")),
            str(fields["text"]),
            float(fields.get("time", 0.0)),
            str(fields.get("reply_to", "")),
            tuple(map(str, fields.get("attachments", ()))),
            tuple(receipts),
        )
