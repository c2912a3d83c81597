"""The checkers. Each law is one function from the ledger to its violations.

| law | it says |
|---|---|
| nothing lost | what is owed (`ledger.py`) comes, unless a queue rule took it, it died with a disk, or was overtaken |
| nothing twice | no client gets an event twice |
| order | a client gets the events of one publisher in the order they were published |
| nothing unwanted | a delivery matches the subscription it is made for |
| nothing misdelivered | an addressed event (`Event.to`) is delivered only if it matches a context that the client had |
| nothing stuck | every event enters the network, unless it was refused, quenched or lost at the source, on record |
| quenching | no event is quenched that a settled subscription wants [mobile §3.2, claim H2] |
| buffering | a source that is away quenches nothing while its buffer has room [mobile §3.2, claim H2] |

*Rules.*
1. A law uses only the ledger.
2. A checker must have caught a fault: `tests/simulation/test_planted_faults.py` and `test_planted_context_faults.py`
   plant faults.

The first three apply only as far as the modes of publisher and client guarantee them (`mobility/modes.py`), and
*nothing misdelivered* only if a client has one session: an abandoned session keeps its old context. Losses, duplicates
and reordering are counted anyway. The laws about tables, queues and settling need the world and are checked in
`network_monitor.py` and `final_checks.py`.
"""

from collections.abc import Iterator

from godwit.filters.filters import Filter
from godwit.simulator.ledger import NEVER, DeclaredContext, EventHistory, EventId, Ledger, RequestHistory
from godwit.simulator.scenario import Expectations
from godwit.simulator.summary import Summary, Violation

__all__ = ["Verdict", "judge", "unmet_expectations"]


class Verdict:
    """The result of the checkers."""

    def __init__(self) -> None:
        self.owed = 0
        self.delivered = 0
        self.lost = 0
        self.duplicated = 0
        self.out_of_order = 0
        self.unwanted = 0
        self.allowed = 0
        self.excused = 0
        self.purged = 0
        self.expired = 0
        self.violations: list[Violation] = []
        self.latencies: list[float] = []  # of deliveries while both ends were connected
        self.catch_up: list[float] = []  # of those for which one of them was away meanwhile
        self.died: list[tuple[str, EventId]] = []  # client and event: owed, and lost with a disk


def judge(ledger: Ledger, *, advertised: bool) -> Verdict:
    """Check the laws on the ledger. `advertised`: only advertised events are owed."""
    verdict = Verdict()
    matching = {id: set(filters) for id, filters in _matches(ledger)}
    meant = dict(_meant(ledger))
    _check_deliveries(ledger, matching, meant, verdict)
    _check_losses(ledger, matching, meant, verdict, advertised=advertised)
    _check_entries(ledger, matching, meant, verdict, advertised=advertised)
    verdict.violations.sort(key=lambda violation: (violation.at, violation.law, violation.text))
    return verdict


def _matches(ledger: Ledger) -> Iterator[tuple[EventId, list[Filter]]]:
    """For each event, the matching filters of all that were ever requested; by plain evaluation, without an index."""
    standings = (*ledger.subscriptions.values(), *ledger.advertisements.values())
    filters = list(dict.fromkeys(v.filter for s in standings for v in s.versions if v.filter is not None))
    for id, fact in ledger.facts.items():
        attributes = fact.event.attributes
        yield id, [filter for filter in filters if filter.holds(attributes)]


def _meant(ledger: Ledger) -> Iterator[tuple[EventId, set[DeclaredContext]]]:
    """For each addressed event, the matching contexts of all that were ever declared."""
    versions = [version for standing in ledger.contexts.values() for version in standing.versions]
    contexts = [version.filter for version in versions if version.filter is not None]
    for id, fact in ledger.facts.items():
        to = fact.event.to
        if to is not None:
            yield id, {declared for declared in contexts if to.holds(declared.context)}


def _check_deliveries(
    ledger: Ledger, matching: dict[EventId, set[Filter]], meant: dict[EventId, set[DeclaredContext]], verdict: Verdict
) -> None:
    for client, deliveries in ledger.deliveries.items():
        seen: set[EventId] = set()
        last: dict[str, int] = {}
        for at, id, subscriptions in deliveries:
            verdict.delivered += 1
            publisher, sequence = id
            if id in seen:
                verdict.duplicated += 1
                if ledger.promises("unique", client, publisher):
                    verdict.violations.append(Violation("nothing twice", f"{_name(id)} came again", at, client))
                continue
            seen.add(id)
            if sequence < last.get(publisher, 0):
                verdict.out_of_order += 1
                text = f"{_name(id)} came after number {last[publisher]}"
                if ledger.promises("ordered", client, publisher):
                    verdict.violations.append(Violation("order", text, at, client))
            last[publisher] = max(sequence, last.get(publisher, 0))
            fact = ledger.facts.get(id)
            if fact is None:
                verdict.violations.append(Violation("nothing unwanted", f"{_name(id)} was never published", at, client))
                continue
            was_away = any(ledger.was_away(each, fact.published_at, at) for each in (client, publisher))
            (verdict.catch_up if was_away else verdict.latencies).append(at - fact.published_at)
            if not ledger.may_mean(fact, client, at, meant.get(id, ())):
                verdict.unwanted += 1
                text = f"{_name(id)} was delivered to a client that it is not addressed to"
                if ledger.promises("unique", client, publisher):  # or one of its sessions knows an older context
                    verdict.violations.append(Violation("nothing misdelivered", text, at, client))
            for name in subscriptions or ("",):
                standing = ledger.subscriptions.get((client, name))
                if standing is None or not standing.permits(fact, at, matching[id]):
                    verdict.unwanted += 1
                    text = f"{_name(id)} {dict(fact.event.attributes)} came for subscription {name!r}"
                    verdict.violations.append(Violation("nothing unwanted", text, at, client))


def _check_losses(
    ledger: Ledger,
    matching: dict[EventId, set[Filter]],
    meant: dict[EventId, set[DeclaredContext]],
    verdict: Verdict,
    *,
    advertised: bool,
) -> None:
    by_filter: dict[Filter, list[RequestHistory[Filter]]] = {}
    for standing in ledger.subscriptions.values():
        for filter in dict.fromkeys(version.filter for version in standing.versions):
            if filter is not None:
                by_filter.setdefault(filter, []).append(standing)
    got = {client: {id for _, id, _ in deliveries} for client, deliveries in ledger.deliveries.items()}
    for id, fact in ledger.facts.items():
        if fact.entered_at == NEVER:
            continue
        may_owe = not advertised or _is_advertised(ledger, fact, matching[id])
        contexts = meant.get(id, ())
        wanting: dict[str, bool] = {}  # by client, whether it is owed; others must not get it
        for filter in matching[id]:
            for standing in by_filter.get(filter, ()):
                client = standing.client
                is_owed = may_owe and standing.owes(fact, matching[id])
                if is_owed and ledger.means(fact, client, contexts):
                    wanting[client] = True
                elif standing.permits(fact, NEVER, matching[id]) and ledger.may_mean(fact, client, NEVER, contexts):
                    wanting.setdefault(client, False)
        for client in sorted(wanting):
            if not wanting[client]:
                verdict.allowed += 1
            else:
                verdict.owed += 1
                if id not in got.get(client, ()):
                    _missing(ledger, client, fact, verdict)


def _missing(ledger: Ledger, client: str, fact: EventHistory, verdict: Verdict) -> None:
    """An owed event that was not delivered: excused, or lost."""
    reason = ledger.gone.get((client, fact.id))
    if reason == "expired":
        verdict.expired += 1
    elif reason is not None:
        verdict.purged += 1
    elif (client, fact.id) in ledger.died or (client, fact.id) in ledger.overtaken:
        verdict.excused += 1
        if (client, fact.id) in ledger.died:
            verdict.died.append((client, fact.id))
    else:
        verdict.lost += 1
        text = f"{_name(fact.id)} {dict(fact.event.attributes)} never came"
        if ledger.promises("complete", client, fact.event.publisher):
            verdict.violations.append(Violation("nothing lost", text, fact.entered_at, client))


def _is_advertised(ledger: Ledger, fact: EventHistory, matching: set[Filter]) -> bool:
    """Whether the publisher's advertisement of this event had settled when it entered."""
    standings = [s for s in ledger.advertisements.values() if s.client == fact.event.publisher]
    return any(standing.owes(fact, matching) for standing in standings)


def _check_entries(
    ledger: Ledger,
    matching: dict[EventId, set[Filter]],
    meant: dict[EventId, set[DeclaredContext]],
    verdict: Verdict,
    *,
    advertised: bool,
) -> None:
    for id, fact in ledger.facts.items():
        if fact.entered_at != NEVER:
            continue
        reason, at = ledger.dropped.get(id, (None, 0.0))
        if reason is None:
            text = f"{_name(id)} was published and no broker has taken it"
            verdict.violations.append(Violation("nothing stuck", text, fact.published_at, id[0]))
        elif reason == "not buffered":
            text = f"{_name(id)} was quenched while its publisher was away and had room for it"
            verdict.violations.append(Violation("buffering", text, fact.published_at, id[0]))
        elif reason == "quenched":
            quenched = EventHistory(fact.event, fact.published_at)
            quenched.entered_at = at
            if advertised and not _is_advertised(ledger, quenched, matching[id]):
                continue  # it would have been refused
            for standing in ledger.subscriptions.values():
                if not ledger.promises("complete", standing.client, id[0]):
                    continue  # while it moves, brokers know no subscriptions of it
                if standing.owes(quenched, matching[id]) and ledger.means(quenched, standing.client, meant.get(id, ())):
                    text = f"{_name(id)} was quenched, and {standing.client} wanted it"
                    verdict.violations.append(Violation("quenching", text, fact.published_at, id[0]))
                    break


def unmet_expectations(summary: Summary, expected: Expectations) -> list[Violation]:
    """Expectations of a scenario, besides the laws, that were not met."""
    bounds: list[tuple[str, float | None, float | None, bool]] = [
        ("delivered_min", summary.delivered, expected.delivered_min, True),
        ("messages_max", summary.messages_sent, expected.messages_max, False),
        ("table_entries_max", summary.table_entries, expected.table_entries_max, False),
        ("latency_p99_ms_max", summary.latency_p99_ms, expected.latency_p99_ms_max, False),
        ("purged_max", summary.purged, expected.purged_max, False),
    ]
    return [
        Violation("expectation", f"{name} is {bound}, and it was {value}", summary.simulated_s)
        for name, value, bound, at_least in bounds
        if bound is not None and value is not None and (value < bound if at_least else value > bound)
    ]


def _name(id: EventId) -> str:
    return f"event {id[1]} of {id[0]}"
