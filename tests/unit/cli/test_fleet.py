"""The demonstration's own book-keeping: it must see what is lost, doubled or out of order."""

from godwit.cli.fleet.demo_run import Fleet
from godwit.cli.fleet.fleet_ledger import FleetLedger, FleetVerdict
from godwit.cli.fleet.screen import account
from godwit.cli.fleet.town import BROKERS, DURATION_S, drives, metres, nearest
from godwit.filters.language import parse


def told(ledger: FleetLedger, n: int, **attributes: object) -> dict[str, object]:
    said = {"by": "p", "n": n, **attributes}
    ledger.publish(said, {"role": "tow"}, None)
    return said


def test_what_matches_and_does_not_come_is_lost() -> None:
    ledger = FleetLedger()
    reader = ledger.reader("r", parse("x > 1"))
    first, _ = told(ledger, 1, x=2), told(ledger, 2, x=1)
    last = told(ledger, 3, x=3)
    reader.take(first)
    assert (ledger.missing(), ledger.verdict().lost) == (1, 1)
    reader.take(last)
    verdict = ledger.verdict()
    assert verdict.is_clean
    assert (verdict.published, verdict.expected, verdict.delivered) == (3, 2, 2)


def test_what_comes_twice_or_too_late_is_seen() -> None:
    ledger = FleetLedger()
    reader = ledger.reader("r", parse("x > 0"))
    first, second = told(ledger, 1, x=1), told(ledger, 2, x=1)
    for each in (second, first, first):
        reader.take(each)
    verdict = ledger.verdict()
    assert (verdict.lost, verdict.doubled, verdict.disordered) == (0, 1, 2)
    assert not verdict.is_clean


def test_senders_and_receivers_context_count() -> None:
    ledger = FleetLedger()
    tow = ledger.reader("tow", parse("sender.role = 'tow'"), {"role": "tow"})
    taxi = ledger.reader("taxi", parse("sender.role = 'taxi'"), {"role": "taxi"})
    said = {"by": "p", "n": 1, "x": 1}
    ledger.publish(said, {"role": "tow"}, parse("role = 'tow'"))
    ledger.publish({**said, "n": 2}, {"role": "taxi"}, parse("role = 'tow'"))
    tow.take(said)
    assert ledger.verdict().is_clean
    assert taxi.came == []


def test_what_comes_to_somebody_else_is_seen() -> None:
    ledger = FleetLedger()
    tow = ledger.reader("tow", parse("x > 0"), {"role": "tow"})
    taxi = ledger.reader("taxi", parse("x > 0"), {"role": "taxi"})
    said = {"by": "p", "n": 1, "x": 1}
    ledger.publish(said, {}, parse("role = 'tow'"))
    tow.take(said)
    assert ledger.verdict().is_clean
    taxi.take(said)
    assert (ledger.verdict().strange, ledger.verdict().is_clean) == (1, False)


def test_a_reader_whose_filter_follows_it_is_not_held_to_everything() -> None:
    ledger = FleetLedger()
    reader = ledger.reader("r", parse("x > 0"), is_fixed=False)
    told(ledger, 1, x=1)
    assert ledger.verdict().is_clean
    reader.take({"by": "p", "n": 1})
    reader.take({"by": "p", "n": 1})
    assert ledger.verdict().doubled == 1


def test_every_car_changes_brokers() -> None:
    for drive in drives():
        assert drive.times == sorted(drive.times)
        at, visited = nearest(drive.at(0.0)), set[str]()
        for second in range(int(DURATION_S)):
            at = nearest(drive.at(float(second)), at)
            visited.add(at)
        assert len(visited) > 1, drive.car


def test_who_is_at_a_broker_stays_unless_another_is_clearly_nearer() -> None:
    centre, east = BROKERS["centre"], BROKERS["east"]
    between = ((centre[0] + east[0]) / 2 + 0.0005, (centre[1] + east[1]) / 2)
    assert metres(between, east) < metres(between, centre)
    assert nearest(between) == "east"
    assert nearest(between, "centre") == "centre"
    assert nearest(east, "centre") == "east"
    assert nearest(east, "east", frozenset({"east"})) == "centre"


def test_the_account_has_what_the_books_say_is_lost() -> None:
    verdict = FleetVerdict()
    verdict.lost = 3
    assert account(Fleet({}, 1), verdict)["lost"] == 3
