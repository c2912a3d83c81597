"""The receipt of a client with several sessions: displayed, duplicate and missing events.

*Rules.*
1. A receipt counts from the start of the client. What it names is bounded: the last `NAMED_MAX` of each kind.
2. An event is named as missing when the merge knows of it: it was overtaken, or a replica had it and nobody brought it.
   Only the filter `complete` knows that; the other filters count what they do not display as suppressed.

*Paper.* [mobile §5]: completeness, and where it is given up.
"""

from collections import deque
from collections.abc import Iterable
from typing import Literal

import msgspec

from godwit.broker.effects import Effect, Notify, Trace
from godwit.broker.messages import NodeId

__all__ = ["NAMED_MAX", "GivenUp", "MergeReceipt", "MissingEvent", "ReceiptKeeper"]

NAMED_MAX = 1_000


class MissingEvent(msgspec.Struct, frozen=True):
    """An event that was not displayed. `gap`: no replica brought it; `overtaken`: it came after a later one."""

    publisher: str
    sequence: int
    replica: NodeId  # that had it, or brought it too late
    reason: Literal["gap", "overtaken"]


class GivenUp(msgspec.Struct, frozen=True):
    """A replica that was not waited for any longer, or ("" as its name) an event that could not be held any longer."""

    replica: NodeId
    reason: str


class MergeReceipt(msgspec.Struct, frozen=True):
    """What happened to the events since the client was made."""

    displayed: int = 0
    suppressed: int = 0  # came from another replica before, or were older than the last of their publisher
    missing: tuple[MissingEvent, ...] = ()  # the last ones
    missing_more: int = 0  # number of further events, beyond those in `missing`
    given_up: tuple[GivenUp, ...] = ()  # the last ones
    given_up_more: int = 0


class ReceiptKeeper:
    """Writes a receipt from the effects of the machine."""

    def __init__(self) -> None:
        self._displayed = self._suppressed = self._missing_count = self._given_up_count = 0
        self._missing: deque[MissingEvent] = deque(maxlen=NAMED_MAX)
        self._given_up: deque[GivenUp] = deque(maxlen=NAMED_MAX)

    def count(self, effects: Iterable[Effect]) -> None:
        """Take notice of what the machine asks for."""
        for effect in effects:
            if type(effect) is Notify:
                self._displayed += 1
            elif type(effect) is Trace:
                record = effect.record
                if record.kind == "suppressed":
                    self._suppressed += 1
                elif record.kind in ("gap", "overtaken"):
                    self._missing_count += 1
                    reason: Literal["gap", "overtaken"] = "gap" if record.kind == "gap" else "overtaken"
                    self._missing.append(MissingEvent(record.publisher, record.sequence, record.peer, reason))
                elif record.kind == "unawaited":
                    self._given_up_count += 1
                    self._given_up.append(GivenUp(record.peer, record.detail))

    @property
    def receipt(self) -> MergeReceipt:
        """As of now."""
        return MergeReceipt(
            self._displayed,
            self._suppressed,
            tuple(self._missing),
            self._missing_count - len(self._missing),
            tuple(self._given_up),
            self._given_up_count - len(self._given_up),
        )
