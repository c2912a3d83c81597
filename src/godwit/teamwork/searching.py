"""A search for its user: results as they arrive, and the devices that have not answered yet. [motion §1, §2]

    async for result in team.search("//skill[. = 'welding']"):
        print(result.kind, result.name)

*Rules.*
1. A result is given once, whichever peers have it.
2. A search ends when all peers have answered; when all but those that are away have, and not before `QUIET_S`, since a
   peer that has just started may not have heard yet who has come; or after `wait_s`. A peer of which nothing is known
   may be here, and is waited for. A search that stays open ends when it is told to, or after `OPEN_S`: brokers keep the
   question for peers that are away, and they answer when they come back. It goes on when its own peer is started again
   (`open_searches.py`).
3. `results` are ranked, the best first; the iterator gives them as they come.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from godwit.errors import BadEvent, FilterError, ProfileError, Refused
from godwit.runtime.clock import Clock
from godwit.teamwork.live_peer import Listener
from godwit.teamwork.machine.bus import Found, Wanted
from godwit.teamwork.machine.peer_effects import (
    EndSearch,
    Input,
    PeerReport,
    SearchAnswered,
    StartSearch,
)
from godwit.teamwork.machine.search import Asking, Index, Progress, problem_of
from godwit.teamwork.names import new_id
from godwit.teamwork.profile_schema import STANDARD, Schema
from godwit.teamwork.record_profiles import fields_of_document

__all__ = [
    "KINDS",
    "OPEN_S",
    "WAIT_S",
    "AllPeers",
    "SearchProgress",
    "SearchResult",
    "SearchRunner",
    "Searching",
    "ThisPeer",
]

KINDS = ("artefact", "user", "community")
WAIT_S = 5.0
QUIET_S = 2.0  # for news of peers that were away, and their answers
OPEN_S = 7 * 86_400.0
GRACE_S = 30.0  # for answers that are under way when the search ends


class SearchResult(msgspec.Struct, frozen=True):
    """A profile that was found."""

    kind: str
    """artefact, user or community"""
    id: str
    """Of the document or community, or the name of the user."""
    scope: str
    record: str
    name: str
    fields: dict[str, Any]
    """The profile."""
    score: float
    """How well it fits: the higher, the better."""
    device: str
    """The peer that has answered."""


class SearchProgress(msgspec.Struct, frozen=True):
    """How far a search is."""

    found: int
    answered: tuple[str, ...]
    """Devices."""
    waiting: tuple[str, ...]
    """Devices that have not answered and are not known to be away."""
    away: tuple[str, ...]
    """Devices that have said that they go, or nothing for long."""
    refused: dict[str, str]
    """By device that did not search, why."""

    def __str__(self) -> str:
        missing, away = len(self.waiting) + len(self.away), len(self.away)
        asked = f"{missing} {'peer has' if missing == 1 else 'peers have'} not answered"
        return f"{self.found} found; {asked}; {away} {'is' if away == 1 else 'are'} away"


class SearchRunner(Protocol):
    """Carries a search out."""

    def begin(self, asking: Asking, tell: Callable[[Progress], None]) -> None:
        """Begin, and tell of each answer. `Refused` if it cannot be."""
        ...

    def end(self, search: str) -> None:
        """Tell of no more answers."""
        ...


class SearchPeer(Protocol):
    """What a search of all peers needs of its own."""

    def do(self, input: Input) -> object:
        """A command of the user."""
        ...

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener what happens."""
        ...


class AllPeers:
    """Asks this peer and all others, in the name of its user."""

    def __init__(self, peer: SearchPeer) -> None:
        self._peer = peer
        self._ends: dict[str, Callable[[], None]] = {}

    def begin(self, asking: Asking, tell: Callable[[Progress], None]) -> None:
        """Ask."""

        def listen(happened: PeerReport) -> None:
            if isinstance(happened, SearchAnswered) and happened.progress.search == asking.search:
                tell(happened.progress)

        self._ends[asking.search] = self._peer.listen(listen)
        try:
            self._peer.do(StartSearch(asking))
        except BaseException:
            self._ends.pop(asking.search)()
            raise

    def end(self, search: str) -> None:
        """Take no more answers."""
        if (end := self._ends.pop(search, None)) is not None:
            end()
            self._peer.do(EndSearch(search))


class ThisPeer:
    """Asks this peer alone, for a user whom other peers cannot be asked for: their answers go by who has signed."""

    def __init__(self, index: Index, scopes: Callable[[], Collection[str]], user: str, device: str) -> None:
        self._index, self._scopes, self._user, self._device = index, scopes, user, device

    def begin(self, asking: Asking, tell: Callable[[Progress], None]) -> None:
        """Search."""
        if problem := problem_of(asking.wanted):
            raise Refused(problem)
        try:
            found = self._index.find(asking.wanted, self._scopes(), self._user, only_made_here=False)
        except FilterError as error:
            raise Refused(str(error)) from error
        tell(Progress(asking.search, tuple(found), self._device))

    def end(self, search: str) -> None:
        """Nothing more comes anyway."""


class Searching:
    """A search that runs. Made by `Team.search`."""

    def __init__(
        self,
        runner: SearchRunner,
        wanted: Wanted,
        asked: Collection[str],
        is_away: Callable[[str], bool],
        clock: Clock,
        *,
        scopes: Collection[str] | None = None,
        open_until: float | None = None,
        wait_s: float = WAIT_S,
        schema: Schema = STANDARD,
        id: str = "",
        on_end: Callable[[str], None] = lambda id: None,
    ) -> None:
        """`asked`: the devices that may answer; `is_away`: whether one cannot be expected to, now.

        `open_until`: a time of day until which it stays open. `id`: of a search that goes on. `on_end` is called when
        it has ended permanently.
        """
        self.id = id or new_id()
        self._on_end = on_end
        self._runner, self._asked, self._is_away, self._schema = runner, frozenset(asked), is_away, schema
        self._scopes = None if scopes is None else frozenset(scopes)
        self._found: dict[tuple[str, ...], SearchResult] = {}
        self._fresh: deque[SearchResult] = deque()
        self._answered: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._is_over, self._is_settled, self._stays_open = False, False, open_until is not None
        now = clock.time()
        until = now + wait_s + GRACE_S if open_until is None else open_until
        self._timers = [clock.call_later(wait_s if open_until is None else open_until - now, self.end)]
        if open_until is None:
            self._timers.append(clock.call_later(min(QUIET_S, wait_s), self._settle))
        try:
            asked_in = None if scopes is None else tuple(sorted(scopes))
            runner.begin(Asking(self.id, wanted, until, asked_in), self._on_progress)
        except BaseException:
            self._stop_timers()
            raise

    # ------------------------------------------------------------ results

    def __aiter__(self) -> "Searching":
        return self

    async def __anext__(self) -> SearchResult:
        while not self._fresh:
            if self._is_over:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._fresh.popleft()

    async def finished(self) -> list[SearchResult]:
        """All results, ranked, when the search has ended."""
        while not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        return self.results

    @property
    def results(self) -> list[SearchResult]:
        """What was found so far, the best first. (rule 3)"""
        return sorted(self._found.values(), key=lambda result: (-result.score, result.kind, result.name, result.record))

    @property
    def progress(self) -> SearchProgress:
        """Who has answered, and who has not."""
        missing = {device: self._is_away(device) for device in sorted(self._asked - self._answered.keys())}
        return SearchProgress(
            len(self._found),
            tuple(sorted(self._answered)),
            tuple(device for device, is_away in missing.items() if not is_away),
            tuple(device for device, is_away in missing.items() if is_away),
            {device: reason for device, reason in self._answered.items() if reason},
        )

    @property
    def is_over(self) -> bool:
        """Whether no more results come."""
        return self._is_over

    def end(self) -> None:
        """Take no more answers."""
        if not self._is_over:
            self.leave()
            self._on_end(self.id)

    def leave(self) -> None:
        """Take no more answers now: a search that stays open goes on when the peer is started again."""
        if not self._is_over:
            self._is_over = True
            self._stop_timers()
            self._runner.end(self.id)
            self._changed.set()

    # ------------------------------------------------------------ in detail

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def _on_progress(self, progress: Progress) -> None:
        self._answered[progress.device] = progress.refused
        for found in progress.found:
            self._take(found, progress.device)
        self._changed.set()
        self._end_if_all_have_answered()

    def _take(self, found: Found, device: str) -> None:
        """Give a result, unless it was given. (rule 1)"""
        if self._scopes is not None and found.scope not in self._scopes:
            return
        try:
            kind, id, fields = fields_of_document(found.profile, self._schema)
        except (ProfileError, BadEvent):
            return  # of a peer with another schema, or one that lies
        key = (kind, id) if kind == "community" else (found.scope, found.record)
        if key not in self._found:
            result = SearchResult(
                kind, id, found.scope, found.record, str(fields.get("name", id)), fields, found.score, device
            )
            self._found[key] = result
            self._fresh.append(result)

    def _settle(self) -> None:
        self._is_settled = True
        self._end_if_all_have_answered()

    def _end_if_all_have_answered(self) -> None:
        """End when nobody is left who could answer soon. (rule 2)"""
        if not self._stays_open and (
            self._asked <= self._answered.keys() or (self._is_settled and not self.progress.waiting)
        ):
            self.end()
