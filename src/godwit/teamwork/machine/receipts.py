"""Receipts of messages: a message is delivered when a device of the reader has stored it.

*Theory.* A receipt is a record beside its message, `receipt/MESSAGE.USER`, with the times of day at which the message
was `delivered` and `read`. The first is written here, together with the message itself: both are in one transaction of
the driver. So a delivered message is on a disk, and a message on a disk is reported as delivered when a
broker is reached, even if the process was killed in between.

*Rules.*
1. There is one receipt per user, for all devices. A device writes it when it stores the message, unless it has it from
   another device of the user already; the earliest time is shown.
2. Messages from the time before a user was a member have no receipt of that user.
3. In a scope with more than `MEMBERS_MAX` members there are none: every message would make as many changes as there are
   members, each of them for everybody. Readers may still mark messages as read.
4. Receipts of all messages in one input are one event per scope.
5. A receipt that may not be written (the community is archived, a quota is used up) is left out.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.records import Record
from godwit.teamwork.machine.store import Store

__all__ = ["DELIVERED", "MEMBERS_MAX", "READ", "ReceiptHost", "Receipts", "receipt_of"]

DELIVERED, READ = "delivered", "read"
MEMBERS_MAX = 50


def receipt_of(message: str, user: str) -> str:
    """The name of the record that says what has become of a message at a user."""
    return f"receipt/{message}.{user}"


class ReceiptHost(PartHost, Protocol):
    """What receipts need of their peer."""

    def change_together(self, scope: str, records: Mapping[str, dict[str, Any]]) -> None:
        """Make those changes that the user may make, by name of the record, and publish them in one event."""
        ...


class Receipts:
    """The part of a peer that reports messages as delivered."""

    def __init__(self, host: ReceiptHost, store: Store) -> None:
        self._host, self._store = host, store
        self._came: dict[str, dict[str, None]] = {}  # by scope, names of messages of this input, in order

    def on_record(self, scope: str, record: Record) -> None:
        """A record is different now."""
        kind, _, id = record.name.partition("/")
        if kind == "message":
            self._came.setdefault(scope, {})[record.name] = None
        elif kind == "member" and id == self._host.user:  # messages may have come before the role was known
            names = {each.name: None for each in self._store.records(scope, "message")}
            if names:
                self._came.setdefault(scope, {}).update(names)

    def write(self) -> None:
        """An input was handled: report what it has brought. (rule 4)"""
        came, self._came = self._came, {}
        for scope, names in came.items():
            if len(self._host.governance(scope).members()) <= MEMBERS_MAX:  # (rule 3)
                delivered = [name.partition("/")[2] for name in names if self._is_delivered(scope, name)]
                fields = {"author": self._host.user, DELIVERED: self._host.now}
                self._host.change_together(
                    scope, {receipt_of(message, self._host.user): dict(fields) for message in delivered}
                )

    def _is_delivered(self, scope: str, name: str) -> bool:
        """Whether this is a message for the user that nobody has reported yet. (rules 1 and 2)"""
        user, record = self._host.user, self._store.record(scope, name)
        if record is None or "text" not in record.fields or record.fields.get("author") == user:
            return False
        known = self._store.record(scope, receipt_of(name.partition("/")[2], user))
        if known is not None and DELIVERED in known.fields:
            return False
        change = self._store.change(scope, record.decided_by["text"])
        return change is not None and self._host.governance(scope).role(user, change.order) > Role.NONE
