"""CloudEvents by polling: `GET /events` whose answer is one CloudEvent, in structured or binary mode, or a batch.

*Theory.* The answer to a poll ends, so it can have what a stream cannot: the content type of a CloudEvent, and its
headers. A poll attaches to the listener's session, waits for an event, answers, and detaches. The header
`Last-Event-ID` of the answer names the last event in it. Sending it back with the next poll confirms these events, and
the following ones are returned.

*Rules.*
1. The receiver chooses: by the parameter `format`, or by the preferred type of its `Accept` header.
2. Unconfirmed events are returned again: nothing is lost with an answer that does not arrive.
3. Without an event within `wait_s` the answer is 204. Its id covers events that no query matched. Pending tests are
   awaited for up to `TESTING_S`.
4. A new poll of the same client takes over the session from an earlier one, which is then answered by 503.
"""

import asyncio
from collections.abc import Callable

from starlette.datastructures import QueryParams
from starlette.responses import Response

from godwit.broker.messages import Delivery, Revoked
from godwit.filters.events import Event
from godwit.languages.cloud_events import BATCH, STRUCTURED
from godwit.runtime import given_cloud_events
from godwit.runtime.authentication import Principal
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.http_listening import Listener, Listening
from godwit.runtime.http_requests import Problem
from godwit.runtime.node import Node

__all__ = ["POLLED", "EventPoll", "accepted_format", "checked_poll"]

WAIT_S, WAIT_S_MAX = 20.0, 60.0
TESTING_S = 1.0
EVENTS, EVENTS_MAX = 100, 1_000
LAST_ID, LOST_SINCE = "last-event-id", "godwit-lost-since"

POLLED = ("cloudevents-structured", "cloudevents-binary", "cloudevents-batch")
"""Formats whose answer ends."""

STREAM = "text/event-stream"
_BY_TYPE = {STRUCTURED: POLLED[0], BATCH: POLLED[2]}


def accepted_format(accept: str) -> str:
    """The preferred format of an `Accept` header; "" if it has no CloudEvents, or prefers streams."""
    best, found = 0.0, ""
    for part in accept.split(","):
        kind, *parameters = [each.strip().lower() for each in part.split(";")]
        liking = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                try:
                    liking = float(value)
                except ValueError:
                    liking = 0.0
        if (kind in _BY_TYPE or kind == STREAM) and liking > best:
            best, found = liking, _BY_TYPE.get(kind, "")
    return found


def checked_poll(params: QueryParams) -> tuple[float, int]:
    """The time to wait, and the largest number of events. Problem if they are not allowed."""
    wait_s = _number(params, "wait_s", WAIT_S, WAIT_S_MAX)
    return wait_s, int(_number(params, "events_max", EVENTS, EVENTS_MAX, least=1))


def _number(params: QueryParams, name: str, default: float, most: float, least: float = 0) -> float:
    said = params.get(name)
    try:
        number = default if said is None else float(said)
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise Problem(400, f"{name} is {(said or '')[:40]!r}: allowed are numbers from {least} to {most:.0f}")
    return number


class EventPoll:
    """One poll."""

    def __init__(
        self,
        node: Node,
        principal: Principal,
        listening: Listening,
        *,
        format: str,
        tests: EdgeTests,
        on_end: Callable[["EventPoll"], None],
    ) -> None:
        self._format = format
        self._principal = principal
        self._on_end = on_end
        self._came = asyncio.Event()  # an event, or the end
        self._ends_with_tests = False  # the time to wait is over
        self._deliveries: list[Delivery] = []
        self._problem: Problem | None = None
        self._listener = Listener(
            node,
            principal,
            listening,
            tests=tests,
            on_tested=self._on_tested,
            on_suspended=lambda reason: self._fail(403, reason),
            on_closed=lambda reason: self._fail(401 if principal.ended_because else 503, reason),
            on_revoked=self._on_revoked,
        )

    async def answer(self, wait_s: float, events_max: int) -> Response:
        """Wait for the answer. Problem if there is none."""
        try:
            await self._listener.open()
            await self._wait(wait_s)
            if self._listener.is_testing and not self._came.is_set():
                self._ends_with_tests = True
                await self._wait(TESTING_S)
            return self._response(1 if self._format != POLLED[2] else events_max)
        finally:
            self._listener.close()
            self._on_end(self)

    async def _wait(self, seconds: float) -> None:
        """Wait for an event, or the end."""
        try:
            async with asyncio.timeout(seconds):
                await self._came.wait()
        except TimeoutError:
            pass

    def end(self) -> None:
        """Answer at once: the broker stops."""
        self._came.set()

    def _on_tested(self, deliveries: list[Delivery]) -> None:
        self._deliveries += deliveries
        is_over = self._ends_with_tests and not self._listener.is_testing
        if is_over or any(delivery.subscriptions for delivery in deliveries):
            self._came.set()

    def _on_revoked(self, revoked: Revoked) -> None:
        if self._listener.is_open and revoked.ended:
            self._fail(403, revoked.reason)

    def _fail(self, status: int, reason: str) -> None:
        self._problem = self._problem or Problem(status, reason)
        self._came.set()

    def _response(self, events_max: int) -> Response:
        number, events = self._listener.seen, list[Event]()
        for delivery in self._deliveries:
            if len(events) == events_max:
                break
            number = delivery.number
            if delivery.subscriptions and self._principal.may_have(delivery.event):
                events.append(delivery.event)
        if not events and self._problem is not None:
            raise self._problem
        headers = {LAST_ID: self._listener.id_of(number), "cache-control": "no-store"}
        if (since := self._listener.taken_loss()) is not None:
            headers[LOST_SINCE] = f"{since:.3f}"
        if not events:
            return Response(status_code=204, headers=headers)
        if self._format == POLLED[1]:
            said, body = given_cloud_events.binary(events[0])
            return Response(body, headers={**said, **headers})
        if self._format == POLLED[2]:
            return Response(given_cloud_events.batch(events), headers={**headers, "content-type": BATCH})
        return Response(given_cloud_events.structured(events[0]), headers={**headers, "content-type": STRUCTURED})
