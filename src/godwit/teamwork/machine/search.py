"""A search over the peers of a team: sent to all at once, answered as results arrive. [motion §1, §2]

*Theory.* A question is an event. Brokers keep it for peers that are away, until `until`; so a search that stays open is
answered by peers when they come back, and nothing more is needed for it. Each peer that is asked decides by itself what
it shows: records of scopes in which the asking user has a role, and records that were shown to that user. It answers
once, also when it has found nothing, so that the asker knows who has not answered.

Records of a scope are at all its peers. A peer answers with those that were made on it; the asker finds the others on
its own disk. So a record is sent once, and found also when the peer that made it is away, by members.

*Rules.*
1. A question whose signature is not that of a device of its user is refused; an answer is not taken.
2. Nothing is shown without a right, checked at the peer that shows it.
3. A record is reported once, by whomever it is found; a later answer with a higher score does not report it again.
4. A question is addressed to the peers concerned: those of the members of the scopes in which is searched, or those of
   the whole team. Who the members of a scope are is known to its members; others ask all.
5. At most `OPEN_MAX` searches are open here, `Wanted.limit` records are taken from one peer, and no more than
   `FOUND_MAX` are remembered of one search.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from godwit.errors import FilterError
from godwit.teamwork.machine.bus import Answers, Found, Question, Wanted, addressed_to, signed_bytes_of
from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.scope_log import Devices

__all__ = ["Asking", "Index", "Progress", "Search", "SearchHost", "problem_of"]

OPEN_MAX = 100
LIMIT_MAX = 1_000
FOUND_MAX = 100_000
ADDRESSED_MAX = 200  # users; beyond that all peers of the team are asked, and those that have nothing say so
QUERY_CHARS_MAX = 20_000


class Index(Protocol):
    """Finds records on this peer by their profiles."""

    def find(self, wanted: Wanted, scopes: Collection[str], user: str, *, only_made_here: bool) -> list[Found]:
        """The records of these scopes, and those that were shown to the user, that match; the best first.

        Raises `FilterError` if the query cannot be read.
        """
        ...


class Asking(msgspec.Struct, frozen=True):
    """A search of the user."""

    search: str
    wanted: Wanted
    until: float
    scopes: tuple[str, ...] | None = None
    """Only results of these are wanted: only peers of their members are asked. None: of all."""


class Progress(msgspec.Struct, frozen=True):
    """What has become of a search since the last time."""

    search: str
    found: tuple[Found, ...]
    device: str
    """Who has answered."""
    refused: str = ""


class SearchHost(PartHost, Protocol):
    """What searching needs of its peer."""

    def report(self, progress: Progress) -> None:
        """Tell the user what has been found."""
        ...

    @property
    def team(self) -> str:
        """The scope of the team."""
        ...

    def readable_scopes(self, user: str) -> list[str]:
        """Scopes kept here in which a user has a role."""
        ...


class _Open:
    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self.answered: dict[str, str] = {}
        self.reported: set[tuple[str, str]] = set()

    def news(self, found: Iterable[Found]) -> tuple[Found, ...]:
        """What was not reported yet. (rules 3 and 5)"""
        fresh = []
        for each in found:
            name = each.scope, each.record
            if name not in self.reported and len(self.reported) < FOUND_MAX:
                self.reported.add(name)
                fresh.append(each)
        return tuple(fresh)


class Search:
    """The part of a peer that asks and answers."""

    def __init__(self, host: SearchHost, index: Index, devices: Devices) -> None:
        self._host, self._index, self._devices = host, index, devices
        self._open: dict[str, _Open] = {}

    # ------------------------------------------------------------ asking

    def begin(self, asking: Asking) -> str:
        """Search here, and ask the others; why not, if it cannot be."""
        if reason := problem_of(asking.wanted):
            return reason
        if len(self._open) >= OPEN_MAX:
            return f"{OPEN_MAX} searches are open: end one of them first"
        host = self._host
        if asking.until <= host.now:
            return "a search must end later than now; is the clock of this device right?"
        try:
            here = self._index.find(asking.wanted, host.readable_scopes(host.user), host.user, only_made_here=False)
        except FilterError as error:
            return str(error)
        search = self._open[asking.search] = _Open(asking)
        host.report(Progress(asking.search, search.news(here), host.device))
        question = Question(host.device, host.user, asking.search, asking.wanted, asking.until)
        signature = self._devices.sign(signed_bytes_of(question))
        to = addressed_to(host.team, self.concerned(asking.scopes), besides=host.device)
        host.publish(msgspec.structs.replace(question, signature=signature), until=asking.until, to=to)
        return ""

    def concerned(self, scopes: Collection[str] | None) -> frozenset[str] | None:
        """The users whose peers are asked for results of these scopes; None: all of the team. (rule 4)"""
        users: set[str] = set()
        for scope in scopes or ():
            members = self._host.governance(scope).members()
            if scope == self._host.team or self._host.user not in members:
                return None
            users |= members.keys()
        return frozenset(users) if scopes and len(users) <= ADDRESSED_MAX else None

    def end(self, search: str) -> None:
        """Take no more answers."""
        self._open.pop(search, None)

    def answered(self, search: str) -> dict[str, str]:
        """By device that has answered, why it did not search, or nothing."""
        return dict(self._open[search].answered) if search in self._open else {}

    def on_answers(self, message: Answers) -> bool:
        """What another peer has found; False if it is not taken."""
        search = self._open.get(message.search)
        if search is None or message.for_device != self._host.device or message.device in search.answered:
            return False
        reason = self._devices.check(message.device, message.user, signed_bytes_of(message), message.signature)
        if reason:
            self._host.reject(f"answer of {message.device}", reason)
            return False
        search.answered[message.device] = message.refused
        found = search.news(message.found[: search.asking.wanted.limit])
        self._host.report(Progress(message.search, found, message.device, message.refused))
        return True

    # ------------------------------------------------------------ answering

    def on_question(self, message: Question) -> None:
        """Answer what another peer asks."""
        host = self._host
        if message.until < host.now:
            return
        refused = self._devices.check(message.device, message.user, signed_bytes_of(message), message.signature)
        refused = refused or problem_of(message.wanted)
        found: list[Found] = []
        if not refused:
            scopes = host.readable_scopes(message.user)
            try:
                found = self._index.find(message.wanted, scopes, message.user, only_made_here=True)
            except FilterError as error:
                refused = str(error)
        shown = tuple(found[: message.wanted.limit])
        answer = Answers(host.device, host.user, message.device, message.search, shown, refused)
        signature = self._devices.sign(signed_bytes_of(answer))
        host.publish(msgspec.structs.replace(answer, signature=signature), until=message.until)


def problem_of(wanted: Wanted) -> str:
    """Why a search cannot be, or nothing."""
    if not wanted.kinds:
        return "a search needs at least one kind of record"
    if not (wanted.query or wanted.words):
        return "a search needs a query or words"
    if len(wanted.query) > QUERY_CHARS_MAX or len(wanted.words) > QUERY_CHARS_MAX:
        return f"a query has at most {QUERY_CHARS_MAX:,} characters"
    if not 1 <= wanted.limit <= LIMIT_MAX:
        return f"limit must be 1 to {LIMIT_MAX:,}, not {wanted.limit:,}"
    return ""
