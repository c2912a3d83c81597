"""A client's subscriptions in its store, and how answers of brokers change them.

*Rules.*
1. A subscription is on the disk before it is sent. [motion Fig. 2]
2. A client that starts sends the stored subscriptions, the newest of each name. If that is refused, and a broker had
   accepted an earlier one, that one is sent again: it is still in force.
3. A subscription that was replaced before it was sent leaves no row: no broker can have it.
4. Answers are stored whether the application waits for them or not. If that fails it is reported to the loop's
   exception handler: the rows still exist, and the next client of this name sends them again.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from godwit.client.client import Client
from godwit.errors import Refused, StoreError
from godwit.runtime.pending_requests import PendingRequest
from godwit.runtime.subscription_store import StoredSubscription, SubscriptionStore
from godwit.runtime.wanted_queries import Wanted

__all__ = ["StoredWishes"]


class _Client(Protocol):
    """The client of a store."""

    machine: Client

    def want_stored(self, number: int, row: StoredSubscription) -> None:
        """Send a stored subscription."""

    def lose(self, name: str, fault: Refused) -> None:
        """An earlier subscription was refused."""


class StoredWishes:
    """The store of a client that is running."""

    def __init__(self, path: Path, client: _Client) -> None:
        self._client = client
        self._store = SubscriptionStore(path, client.machine.name)
        self._first = self._store.number + 1  # of the rows of this process
        self._unanswered: set[PendingRequest] = set()

    def restore(self, now: float) -> None:
        """Send the stored subscriptions. (rule 2)"""
        for number, row in list(self._store.newest()):
            if row.expires is not None and row.expires <= now:
                self._store.end(row.name)
            else:
                self._client.want_stored(number, row)

    def put(self, name: str, said: Wanted) -> int:
        """Write a subscription to the disk; returns the number of its row. (rules 1 and 3)"""
        before = self._store.number_of(name)
        is_unsent = before >= self._first and ("subscription", name) in self._client.machine.outbox
        return self._store.put(said.stored(name), instead_of=before if is_unsent else 0)

    def watch(self, name: str, number: int, asked: PendingRequest) -> None:
        """A subscription was sent: its answer is pending."""
        self._when_answered(asked, partial(self._on_wish_answered, name, number))

    def watch_end(self, name: str, asked: PendingRequest) -> None:
        """The end of a subscription was sent: its answer is pending."""
        self._when_answered(asked, partial(self._on_end_answered, name, self._store.number_of(name)))

    def end(self, name: str) -> None:
        """A broker has ended a subscription."""
        self._write(lambda: self._store.end(name))

    def close(self, *, leave: bool) -> None:
        """Close the store; `leave`: empty it."""
        if leave:
            self._write(self._store.clear)
        self._store.close()

    def _when_answered(self, asked: PendingRequest, do: Callable[[Exception | None], None]) -> None:
        self._unanswered.add(asked)

        def on_answer(fault: Exception | None) -> None:
            self._unanswered.discard(asked)
            self._write(lambda: do(fault))

        asked.when_answered(on_answer)

    def _on_wish_answered(self, name: str, number: int, fault: Exception | None) -> None:
        if fault is None:
            self._store.accept(name, number)
        elif isinstance(fault, Refused):  # otherwise there is no answer
            before = self._store.refuse(name, number)
            if ("subscription", name) not in self._client.machine.wanted:
                if before is not None:  # rule 2
                    self._client.want_stored(*before)
                else:
                    self._client.lose(name, fault)

    def _on_end_answered(self, name: str, number: int, fault: Exception | None) -> None:
        if fault is None:
            self._store.end(name, up_to=number)

    def _write(self, do: Callable[[], None]) -> None:
        """Change the store; errors are reported. (rule 4)"""
        try:
            do()
        except StoreError as error:
            about = {"message": "a client cannot write to its store", "exception": error}
            asyncio.get_running_loop().call_exception_handler(about)
