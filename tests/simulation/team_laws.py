"""The laws of a team, judged on what a played scenario ends with: in the simulator, and with processes.

| law | checker |
|---|---|
| what a peer acknowledged survives its kill, and reaches all who may have it | `check_acknowledged` |
| peers that have met converge | `check_convergence` |
| nobody holds or is shown anything without a right; changes without a right do not count | `check_rights` |
| keys are with members alone, and the next key is not with those who left | `check_keys` |
| nothing that members write can be read on its way | `check_secrecy` |
| a search finds all that reachable peers may show, once | `check_searches` |
| a file that arrives is the file that was stored | `check_files` |
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from godwit.teamwork.machine.records import Record
from godwit.teamwork.machine.store import Store
from tests.simulation.team_scenarios import ANN, BOB, BOBS, CID, EVE, MEMBERS

__all__ = ["AFTER_CID", "FORGED", "LAWS", "Acknowledged", "Fetched", "Outcome", "PeerAtEnd", "Searched", "is_converged"]

AFTER_CID = "report without cid"
FORGED = "forged"


class Acknowledged(NamedTuple):
    """A change that a peer has taken from its user."""

    place: int
    scope: str
    record: str
    field: str
    value: Any


class Searched(NamedTuple):
    """A search and all that came of it."""

    place: int
    name: str
    found: tuple[tuple[str, str], ...]
    """Scope and record of each result, as they came."""
    others: tuple[str, ...] = ()
    """Of these, what other devices have answered: scopes."""
    answered: frozenset[str] = frozenset()
    """Devices."""


class Fetched(NamedTuple):
    """A file that a device has fetched from others."""

    place: int
    content: str
    """The hash that the document names."""
    hash: str
    """The hash of the bytes that are there."""


class PeerAtEnd(NamedTuple):
    """What a device has on its disk."""

    user: str
    device: str
    store: Store
    key_in_use: Callable[[str], str | None]
    has_key: Callable[[str, str], bool]


class Outcome(NamedTuple):
    """What a scenario ends with."""

    scope: str
    """The community of ann, bob and, before he left, cid."""
    private: str
    """The community of bob."""
    team: str
    """The scope of the team, which all have; empty where there is none."""
    peers: list[PeerAtEnd]
    acknowledged: list[Acknowledged]
    searches: list[Searched]
    stored: dict[str, int]
    """By hash of a file that was stored, how long it is."""
    fetched: list[Fetched]
    payloads: list[bytes]
    """What went over brokers, as they see it."""

    def holders(self) -> dict[str, list[int]]:
        """By scope, the places that must have all of it."""
        found = {self.scope: list(MEMBERS), self.private: list(BOBS)}
        return {**found, self.team: list(range(len(self.peers)))} if self.team else found


# ------------------------------------------------------------ the laws


def check_acknowledged(outcome: Outcome) -> None:
    """All that a member was told is kept is at all members, also what lost against another change."""
    for each in outcome.acknowledged:
        places = outcome.holders()[each.scope] if each.place in MEMBERS else [each.place]
        for place in places:
            changes = outcome.peers[place].store.changes_of(each.scope, each.record)
            assert any(change.fields.get(each.field) == each.value for change in changes), (place, each)


def is_converged(vectors: list[Any]) -> bool:
    """Whether all have the same changes."""
    return all(vector == vectors[0] for vector in vectors)


def check_convergence(outcome: Outcome) -> None:
    for scope, places in outcome.holders().items():
        stores = [outcome.peers[place].store for place in places]
        assert is_converged([store.vector(scope) for store in stores]), scope
        for kind in ("artefact", "member", "key", "user", "device"):
            records = [list(store.records(scope, kind)) for store in stores]
            assert all(other == records[0] for other in records), (scope, kind)


def titles(outcome: Outcome, place: int, scope: str) -> set[str]:
    return {str(record.fields.get("title")) for record in outcome.peers[place].store.records(scope, "artefact")}


def check_rights(outcome: Outcome) -> None:
    for place in MEMBERS:
        assert AFTER_CID in titles(outcome, place, outcome.scope)
        assert FORGED not in titles(outcome, place, outcome.scope)
    assert AFTER_CID not in titles(outcome, CID, outcome.scope)
    assert titles(outcome, EVE, outcome.scope) <= {FORGED, "None"}
    for place in set(range(len(outcome.peers))) - {*BOBS}:
        assert not titles(outcome, place, outcome.private)


def check_keys(outcome: Outcome) -> None:
    peers = outcome.peers
    names = {record.name.partition("/")[2] for record in peers[ANN].store.records(outcome.scope, "key")}
    in_use = peers[ANN].key_in_use(outcome.scope)
    assert in_use is not None
    assert all(peers[place].has_key(outcome.scope, in_use) for place in MEMBERS)
    assert not peers[CID].has_key(outcome.scope, in_use)
    assert not any(peers[EVE].has_key(outcome.scope, name) for name in names)


def check_secrecy(outcome: Outcome) -> None:
    written = {each.value.encode() for each in outcome.acknowledged if each.field == "title"}
    assert written
    assert outcome.payloads
    for payload in outcome.payloads:
        assert not any(title in payload for title in written)


def check_searches(outcome: Outcome) -> None:
    devices = {peer.device for peer in outcome.peers}
    last = {each.place: each for each in outcome.searches if each.name == "last"}
    for place in (ANN, BOB):
        peer = outcome.peers[place]
        assert sorted(last[place].found) == sorted(_shown_records(outcome, peer.user))
        assert last[place].answered - {peer.device} == devices - {peer.device}
    for each in outcome.searches:
        user = outcome.peers[each.place].user
        assert len(each.found) == len(set(each.found)), each
        if user == "eve":
            assert all(scope == outcome.scope for scope, _ in each.found)  # what she has made herself
            assert not each.others
        if user != "bob":
            private = {found for found in each.found if found[0] == outcome.private}
            assert private <= _shown_records(outcome, user)


def _shown_records(outcome: Outcome, user: str) -> set[tuple[str, str]]:
    """What a user may see of all that there is, and that a search for reports finds."""
    names = set()
    for place in MEMBERS:
        for scope, members in ((outcome.scope, ("ann", "bob")), (outcome.private, ("bob",))):
            for record in outcome.peers[place].store.records(scope, "artefact"):
                is_shown = user in members or _is_shown_to(record, user)
                if is_shown and "report" in str(record.fields.get("title")):
                    names.add((scope, record.name))
    return names


def _is_shown_to(record: Record, user: str) -> bool:
    grants = record.fields.get("shown_to") or ()
    return any(grant == user or (isinstance(grant, dict) and grant.get("user") == user) for grant in grants)


def check_files(outcome: Outcome) -> None:
    for place in MEMBERS:
        for record in outcome.peers[place].store.records(outcome.scope, "artefact"):
            assert record.fields.get("content") in {*outcome.stored, None}
    for file in outcome.fetched:
        assert file.content == file.hash, file


LAWS: tuple[Callable[[Outcome], None], ...] = (
    check_acknowledged,
    check_convergence,
    check_rights,
    check_keys,
    check_secrecy,
    check_searches,
    check_files,
)
