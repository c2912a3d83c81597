"""The requests of a gateway to the machine for one client: numbered, answered in order, and safe when answered.

*Theory.* The machine answers a request when it is in the journal. So an acknowledgement to a client must wait for the
answers to all earlier requests: a `Gate` releases bytes in order, none before the requests before it are answered.

*Rules.*
1. Requests are numbered from the last one that the session has handled (`Attached.accepted`). An answer covers all
   before it.
2. Bytes added after request n are released after the answer to n; without open requests, at once.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from godwit.broker.administration import BY_ADMINISTRATOR
from godwit.broker.authorisation import NAME_GONE, USER_GONE
from godwit.broker.messages import Denied, Request
from godwit.mqtt.reason_codes import ReasonCode
from godwit.runtime.in_process_connection import InProcessConnection

__all__ = ["Gate", "OnAnswer", "Requests", "code_of_end"]

OnAnswer = Callable[[str | None, bool], None]
"""Called when a request is answered: why it was refused (None: it was not), and whether the client lacks the right."""


class Requests:
    """The requests of one client, and those that are not answered yet.

    Publications are reported by their numbers: many at once to `on_published`, one with a reason to `on_unpublished`.
    """

    def __init__(
        self,
        inner: InProcessConnection,
        accepted: int,
        on_published: Callable[[list[int]], None],
        on_unpublished: Callable[[int, str, bool], None],
    ) -> None:
        self._inner = inner
        self.said = accepted
        self.accepted = accepted
        self._waiting: deque[tuple[int, OnAnswer | int, bool]] = deque()
        self._on_published, self._on_unpublished = on_published, on_unpublished

    def end(self) -> int:
        """Ignore all answers from now on. Returns the number of the last accepted request."""
        self._waiting.clear()
        self._on_published, self._on_unpublished = lambda numbers: None, lambda number, reason, is_denied: None
        return self.accepted

    @property
    def unanswered(self) -> int:
        """The number of unanswered requests."""
        return self.said - self.accepted

    def ask(self, wish: Any, on_answer: OnAnswer | int | None = None, bulk: bytes | None = None) -> None:
        """Send a request; `bulk` as for `InProcessConnection.say`."""
        number = self.said + 1
        said = self._inner.say(Request(number, wish), bulk)
        self.said = number
        if on_answer is not None:
            self._waiting.append((number, on_answer, said is not None and type(said.wish) is Denied))

    def on_accepted(self, number: int) -> None:
        """Every request up to this is handled."""
        self.accepted = max(self.accepted, number)
        waiting = self._waiting
        published: list[int] = []
        while waiting and waiting[0][0] <= number:
            on_answer = waiting.popleft()[1]
            if type(on_answer) is int:
                published.append(on_answer)
                continue
            if published:
                self._on_published(published)
                published = []
            on_answer(None, False)  # type: ignore[operator]
        if published:
            self._on_published(published)

    def on_refused(self, number: int, reason: str) -> None:
        """This one is refused; all before it are handled."""
        self.on_accepted(number - 1)
        self.accepted = max(self.accepted, number)
        if self._waiting and self._waiting[0][0] == number:
            _, on_answer, is_denied = self._waiting.popleft()
            if isinstance(on_answer, int):
                self._on_unpublished(on_answer, reason, is_denied)
            else:
                on_answer(reason, is_denied)


class Gate:
    """Bytes on their way to a client."""

    def __init__(self) -> None:
        self._ready: list[bytes] = []
        self._held: deque[tuple[int, bytes]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether all bytes were released."""
        return not self._held and not self._ready

    def put(self, data: bytes, after: int, accepted: int) -> None:
        """Add bytes, to be released when the requests up to `after` are answered."""
        if after <= accepted and not self._held:
            self._ready.append(data)
        else:
            self._held.append((after, data))

    def put_all(self, parts: list[bytes], after: int, accepted: int) -> None:
        """The same for many."""
        if after <= accepted and not self._held:
            self._ready += parts
        else:
            self._held.append((after, b"".join(parts)))

    def put_at_once(self, data: bytes) -> None:
        """Add bytes that depend on no request."""
        self._ready.append(data)

    def taken(self, accepted: int) -> bytes:
        """The bytes that may be sent now."""
        held = self._held
        while held and held[0][0] <= accepted:
            self._ready.append(held.popleft()[1])
        if not self._ready:
            return b""
        data = self._ready[0] if len(self._ready) == 1 else b"".join(self._ready)
        self._ready.clear()
        return data


def code_of_end(reason: str, otherwise: int) -> int:
    """The reason code for a connection or session that was ended."""
    if reason.startswith(BY_ADMINISTRATOR):
        return ReasonCode.ADMINISTRATIVE_ACTION
    return ReasonCode.NOT_AUTHORIZED if reason in (USER_GONE, NAME_GONE) else otherwise
