"""The events that a bottom tier forwards, and the share that its subscribers discard. [motion §6]

*Theory.* Subscriptions are matched by their translation, and every pair that is forwarded is decided by the exact test
at the subscriber. Two bottom tiers do the same work on the same subscriptions and publications: *SPEAR*, SEL and SSL by
the BDD matcher, and *ours*, events and filters by the index.

The paper's columns need a reading. "Any event forwarded" is called a residue, yet its residues are 6 to 15 % of what is
matched. What fits all figures: a *residue* is a pair that the subscriber has to decide, because the translation is not
exact there; all others are surely wanted. (20,000: 3.6 % negative and 11.8 % positive make 15.3 %.) Whether a pair is
decided by the translation alone is asked of the same translation: does it let the negated query through as well?

*Rules.*
1. A pair is an event and a subscription. All shares are of the pairs that the tier forwards ("matched").
2. A pair that one tier forwards, and that is wanted, and that the other does not forward, is lost: there must be none.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from godwit.filters import Event, Filter
from godwit.languages.query import Query, Subject, parse_query
from godwit.languages.tiers import iel_of, isl_of, sel_of, spearmatch, ssl_filter, ssl_of
from godwit.languages.tiers.spear import sel_event
from godwit.languages.xml_documents import parsed_document, xml_event
from godwit.languages.xql.parsing import parsed_query
from godwit.languages.xql.routable import FilterTarget, bounds_of_document_query
from godwit.languages.xql.tree import Expression, Not
from godwit.matching import BddMatcher, IndexMatcher
from godwit.reproduce.motion.profile_queries import profile_queries
from godwit.reproduce.motion.profiles import Profiles

__all__ = ["OURS", "SPEAR", "ProfileWorkload", "Residues", "residues"]

SPEAR, OURS = "SPEAR", "ours"
PEERS = 1_000  # [motion §6]


class Residues(msgspec.Struct, frozen=True):
    """A row of Fig. 5 for one tier, in pairs of an event and a subscription."""

    tier: str
    subscriptions: int
    matched: int  # pairs that the tier forwards
    matched_subscriptions: int  # that have some
    positive: int  # pairs that the subscriber has to decide and wants
    negative: int  # that it does not want
    notifications: int  # pairs of an event and a peer; of `PEERS` peers each has the same number of subscriptions
    discarded: int  # those of them that no subscription of the peer wants
    lost: int

    def share(self, count: int) -> float:
        """A count of pairs as a share of what is matched."""
        return count / self.matched if self.matched else 0.0


_profiles = lru_cache(maxsize=1)(Profiles)


class ProfileWorkload:
    """Subscriptions and publications of one size, with what is derived from each once."""

    def __init__(self, seed: int, subscriptions: int, publications: int, *, has_unknown: bool = False) -> None:
        profiles = _profiles(seed)
        self.texts = list(islice(profile_queries(profiles, seed, has_unknown=has_unknown), subscriptions))
        self.documents = profiles.publications(publications, seed)
        self.events = [xml_event(document) for document in self.documents]
        roots = [parsed_document(document) for document in self.documents]
        self.sels = [sel_of(iel_of(root)) for root in roots]
        self._said: dict[int, Expression] = {}
        self._queries: dict[int, Query] = {}

    def said(self, number: int) -> Expression:
        """A subscription as XQL has it."""
        if number not in self._said:
            self._said[number] = parsed_query(self.texts[number])
        return self._said[number]

    def query(self, number: int) -> Query:
        """A subscription as a query of ours."""
        if number not in self._queries:
            self._queries[number] = parse_query(self.texts[number], "xql")
        return self._queries[number]

    def forget(self, number: int) -> None:
        """Keep no more of a subscription than its text: 100,000 of them are large."""
        self._said.pop(number, None)
        self._queries.pop(number, None)

    def ssl(self, number: int) -> Filter:
        """A subscription as SPEAR has it, for a matcher."""
        return ssl_filter(ssl_of(isl_of(self.said(number))))


def residues(
    workload: ProfileWorkload, sizes: Sequence[int], tell: Callable[[str, float], None]
) -> dict[int, tuple[Residues, Residues]]:
    """By number of subscriptions, what each of the two tiers does; the smaller ones are the first of the larger."""
    spear, ours = BddMatcher(), IndexMatcher()
    found: dict[int, tuple[Residues, Residues]] = {}
    decided: dict[tuple[int, int], bool] = {}
    done = 0
    for place, size in enumerate(sizes):
        tell(f"{size:,} subscriptions", place / len(sizes))
        numbers = range(done, size)
        spear.add_many([(number, workload.ssl(number)) for number in numbers])
        ours.add_many([(number, workload.query(number).routable) for number in numbers])
        done = size
        pairs = {
            SPEAR: _pairs(spear, [sel_event(sel) for sel in workload.sels]),
            OURS: _pairs(ours, workload.events),
        }
        _decide(workload, {*pairs[SPEAR], *pairs[OURS]} - decided.keys(), decided)
        wanted = {pair for pair in {*pairs[SPEAR], *pairs[OURS]} if decided[pair]}
        found[size] = (
            _row(workload, SPEAR, size, pairs[SPEAR], decided, wanted),
            _row(workload, OURS, size, pairs[OURS], decided, wanted),
        )
    return found


def _pairs(matcher: Any, events: Sequence[Event]) -> list[tuple[int, int]]:
    return [(number, id) for number, event in enumerate(events) for id in matcher.match(event)]


def _decide(workload: ProfileWorkload, pairs: set[tuple[int, int]], decided: dict[tuple[int, int], bool]) -> None:
    """Run the exact test of each pair; a document is parsed once."""
    subjects: dict[int, Subject] = {}
    for event, id in sorted(pairs):
        if event not in subjects:
            subjects.clear()
            subjects[event] = Subject(workload.events[event])
        decided[event, id] = workload.query(id).wants(subjects[event])


def _row(
    workload: ProfileWorkload,
    tier: str,
    size: int,
    pairs: list[tuple[int, int]],
    decided: dict[tuple[int, int], bool],
    wanted: set[tuple[int, int]],
) -> Residues:
    has_negation = _spear_negation(workload) if tier == SPEAR else _our_negation(workload)
    open_ones = [pair for pair in pairs if not decided[pair] or has_negation(*pair)]
    peers: dict[tuple[int, int], bool] = {}
    for event, id in pairs:
        peers[event, id % PEERS] = peers.get((event, id % PEERS), False) or decided[event, id]
    return Residues(
        tier=tier,
        subscriptions=size,
        matched=len(pairs),
        matched_subscriptions=len({id for _, id in pairs}),
        positive=sum(decided[pair] for pair in open_ones),
        negative=sum(not decided[pair] for pair in open_ones),
        notifications=len(peers),
        discarded=sum(not is_wanted for is_wanted in peers.values()),
        lost=len(wanted - set(pairs)),
    )


def _spear_negation(workload: ProfileWorkload) -> Callable[[int, int], bool]:
    """Whether SPEAR's tier lets the negation of a query through: then its own match was not sure."""
    known: dict[int, Any] = {}

    def lets_through(event: int, id: int) -> bool:
        if id not in known:
            known[id] = ssl_of(isl_of(Not(workload.said(id))))
        return spearmatch(workload.sels[event], known[id])

    return lets_through


def _our_negation(workload: ProfileWorkload) -> Callable[[int, int], bool]:
    known: dict[int, Filter] = {}

    def lets_through(event: int, id: int) -> bool:
        if id not in known:
            known[id] = bounds_of_document_query(Not(workload.said(id)), FilterTarget()).upper
        return known[id].matches(workload.events[event])

    return lets_through
