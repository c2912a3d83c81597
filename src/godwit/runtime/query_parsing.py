"""A thread that parses the queries of clients, one text after the other. Parties take turns.

*Theory.* Parsing a query of 32 KB takes up to 0.2 s, so a thread does it. A user with a thousand connections may send
one over each. Texts of each party (a user, or a client) wait in a line of their own: others wait for one of them.

*Rules.*
1. Texts of one party are parsed in order.
2. Between two texts of a party, every other party that waits has one parsed.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from godwit.errors import FilterError
from godwit.languages.client_queries import answer_to
from godwit.languages.operators import Operator
from godwit.languages.query import Query

__all__ = ["QueryParser"]

Answer = Query | FilterError


class QueryParser:
    """The thread, and the texts that wait for it."""

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        self._operators = operators
        self._lines: dict[str, deque[tuple[str, str, asyncio.Future[Answer]]]] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._is_busy = self._is_closed = False

    def parse(self, party: str, text: str, language: str) -> "asyncio.Future[Answer]":
        """The query that a text says, or what is wrong with it. Cancelled when the broker stops."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            answer.cancel()
            return answer
        self._lines.setdefault(party, deque()).append((text, language, answer))
        self._next()
        return answer

    def _next(self) -> None:
        if self._is_busy or not self._lines:
            return
        party = next(iter(self._lines))
        line = self._lines.pop(party)
        text, language, answer = line.popleft()
        if line:
            self._lines[party] = line  # behind all others
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "queries")
        self._is_busy = True
        loop = asyncio.get_running_loop()
        parsing = loop.run_in_executor(self._thread, answer_to, text, language, self._operators)
        parsing.add_done_callback(lambda done: self._on_parsed(done, answer))

    def _on_parsed(self, done: "asyncio.Future[Answer]", answer: "asyncio.Future[Answer]") -> None:
        self._is_busy = False
        if done.cancelled():  # the broker stops
            answer.cancel()
            return
        error = done.exception()
        if not answer.done():
            answer.set_result(done.result() if error is None else FilterError(f"the query cannot be parsed: {error}"))
        self._next()

    def close(self) -> None:
        """Stop parsing."""
        self._is_closed = True
        for line in self._lines.values():
            for _, _, answer in line:
                answer.cancel()
        self._lines.clear()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
