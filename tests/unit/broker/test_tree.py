"""The tree family when memories are lost: who holds events back, who waits for whom, and what stays in force.

What its tables do while everyone remembers is in tests/paper/test_pubmob_tables.py.
"""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker import advertisement_reviews, held_events, placements, reductions, tree
from godwit.broker.advertisement_reviews import REVIEW
from godwit.broker.effects import StartTimer, StopTimer, Trace
from godwit.broker.messages import (
    Advertise,
    ChannelTail,
    LinkState,
    Message,
    Packet,
    Publish,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from godwit.broker.queues import event_size
from godwit.broker.routing import Answer, DeliverLocally, Forward
from godwit.broker.tree import CONCERNS_EFFORT_MAX, HOLD_S, HOLD_TIMER, RELEASE_TIMER, TreeRouting
from godwit.errors import PeerFault
from godwit.filters import FALSE, TRUE, Event, Filter, event, parse
from godwit.filters.effort import REMEMBERED_EFFORT_MAX, Effort
from tests.property.routing_network import TreeNetwork
from tests.raw_messages import read
from tests.snapshots import restored

WIDE, NARROW = parse("x > 0"), parse("x > 10")
S, A = ("ann", "s"), ("pat", "a")
ADS, SUBS = Synced("advertisements"), Synced("subscriptions")
LINE = ["ab", "bc", "cd", "de"]


def numbered(number: int, **attributes: int) -> Event:
    return event({"x": 1, **attributes}, publisher="p", sequence=number)


def told_everything(neighbours: str = "nm", **options: object) -> TreeRouting:
    routing = TreeRouting("b", neighbours, **options)  # type: ignore[arg-type]
    for n in neighbours:
        routing.on_message(n, ADS, 0.0)
        routing.on_message(n, SUBS, 0.0)
    return routing


def reviewed(routing: TreeRouting, neighbour: str, now: float = 0.0) -> list[list[Answer]]:
    """Let the review of a neighbour's advertisements come to its end: what each part answers."""
    parts = []
    while neighbour in routing.reviews:
        parts.append(routing.on_timer_due((REVIEW, neighbour), now))
    return parts


# ------------------------------------------------------------ holding events back


def test_a_broker_without_neighbours_has_nothing_to_wait_for() -> None:
    routing = TreeRouting("b", ())
    routing.subscribe(S, TRUE, 0.0)
    assert routing.is_settled()
    assert routing.publish(numbered(1), 0.0) == [DeliverLocally(numbered(1), [S])]


def test_a_broker_that_starts_holds_events_until_all_neighbours_have_told_it_everything() -> None:
    routing = TreeRouting("b", "nm")
    routing.subscribe(S, TRUE, 0.0)
    assert routing.publish(numbered(1), 5.0) == [StartTimer(HOLD_TIMER, 5.0 + HOLD_S)]
    assert routing.on_message("n", Publish(numbered(2)), 6.0) == []  # the timer runs
    routing.on_message("n", ADS, 7.0)
    routing.on_message("n", SUBS, 7.0)
    routing.on_message("m", ADS, 7.0)
    assert not routing.is_settled()
    assert routing.held_back() == [Publish(numbered(1)), Publish(numbered(2))]
    answers = routing.on_message("m", SUBS, 8.0)
    assert StopTimer(HOLD_TIMER) in answers
    assert [answer for answer in answers if isinstance(answer, DeliverLocally)] == [
        DeliverLocally(numbered(1), [S]),
        DeliverLocally(numbered(2), [S]),
    ]
    assert (routing.is_settled(), routing.held_back()) == (True, [])


def test_what_was_held_goes_where_the_tables_say_when_they_are_whole_and_not_back() -> None:
    routing = TreeRouting("b", "nm", advertised=False)
    routing.on_message("n", Publish(numbered(1)), 0.0)
    routing.on_message("n", Subscribe(S, TRUE), 0.0)
    routing.on_message("n", SUBS, 0.0)
    routing.on_message("m", Subscribe(A, TRUE), 0.0)
    answers = routing.on_message("m", SUBS, 0.0)
    assert answers[-1] == Forward("m", Publish(numbered(1)))
    assert sum(isinstance(answer, Forward) and type(answer.message) is Publish for answer in answers) == 1


def test_events_are_not_held_once_the_tables_are_whole() -> None:
    routing = told_everything()
    routing.subscribe(S, TRUE, 0.0)
    assert routing.publish(numbered(1), 0.0) == [DeliverLocally(numbered(1), [S])]


def test_a_neighbour_that_stays_away_is_waited_for_so_long_and_no_longer() -> None:
    routing = TreeRouting("b", "nm")
    routing.on_message("n", ADS, 0.0)
    routing.on_message("n", Subscribe(S, WIDE), 0.0)
    routing.on_message("n", SUBS, 0.0)
    [timer] = routing.publish(numbered(1), 0.0)
    assert isinstance(timer, StartTimer)
    answers = routing.on_timer_due(timer.key, timer.at)
    assert Forward("n", Publish(numbered(1))) in answers
    assert Forward("n", SUBS) in answers  # and the wave goes on without it
    assert (routing.is_settled(), routing.held_back()) == (True, [])
    assert routing.on_message("m", ADS, 99.0) == []  # better late than never
    assert routing.on_message("m", SUBS, 99.0) == []


def test_a_neighbour_that_stays_away_may_want_everything_if_there_was_a_life_before() -> None:
    routing = TreeRouting("b", "nm")
    for message in (ADS, SUBS):
        routing.on_message("n", message, 0.0)
    routing.subscribe(S, TRUE, 0.0)
    routing.publish(numbered(1), 0.0)
    routing.note_past_life()
    answers = routing.on_timer_due(HOLD_TIMER, HOLD_S)
    told = [answer.message for answer in answers if isinstance(answer, Forward) and answer.peer == "m"]
    assert [type(message) for message in told] == [Subscribe, Synced, Publish]  # what m must know goes first
    to_n = {type(answer.message) for answer in answers if isinstance(answer, Forward) and answer.peer == "n"}
    assert {Advertise, Synced} <= to_n  # m may publish anything, and what n publishes may be for it
    assert not routing.is_settled()
    assert Forward("m", Publish(numbered(2))) in routing.publish(numbered(2), HOLD_S)

    restarted = TreeRouting("b", "nm")
    restarted.restore(routing.snapshot())
    for tables in (routing, restarted):
        tables.on_message("m", ADS, 99.0)
        tables.on_message("m", SUBS, 99.0)
        assert tables.is_settled()
        assert tables.publish(numbered(3), 99.0) == [DeliverLocally(numbered(3), [S])]
        assert tables.in_subs["m"] == tables.in_ads["m"] == {}


@pytest.mark.parametrize("bound", ["HELD_MAX", "HELD_BYTES_MAX"])
def test_what_is_held_is_bounded_and_what_is_too_much_is_recorded_as_lost(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(held_events, bound, 2 if bound == "HELD_MAX" else 2 * event_size(numbered(1)))
    routing = TreeRouting("b", "n")
    for number in (1, 2):
        routing.publish(numbered(number), 0.0)
    [trace] = routing.publish(numbered(3), 0.0)
    assert isinstance(trace, Trace)
    assert (trace.record.kind, trace.record.publisher, trace.record.sequence) == ("lost", "p", 3)
    assert len(routing.held_back()) == 2
    assert (
        routing.remote_bytes() == restored(routing, TreeRouting("b", "n")).remote_bytes() == 2 * event_size(numbered(1))
    )
    for told in (ADS, SUBS):
        routing.on_message("n", told, 1.0)
    assert routing.remote_bytes() == 0


def backlog(monkeypatch: pytest.MonkeyPatch, count: int) -> TreeRouting:
    """A broker that holds so many events of each of two neighbours, of which it hands on three at a time."""
    monkeypatch.setattr(tree, "RELEASED_AT_ONCE", 3)
    routing = TreeRouting("b", "nm", advertised=False)
    routing.subscribe(S, TRUE, 0.0)
    for number in range(1, count + 1):
        for peer in "nm":
            routing.on_message(peer, Publish(Event({}, peer, number)), 0.0)
    routing.on_message("n", SUBS, 1.0)
    return routing


def delivered(answers: list[Answer]) -> list[tuple[str, int]]:
    return [answer.event.id for answer in answers if isinstance(answer, DeliverLocally)]


def test_what_was_held_is_handed_on_a_few_at_a_time_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    routing = backlog(monkeypatch, 4)
    answers, handed = routing.on_message("m", SUBS, 1.0), list[tuple[str, int]]()
    while routing.held_back():
        assert len(delivered(answers)) == 3
        assert answers[-1] == StartTimer(RELEASE_TIMER, 1.0)
        assert not routing.is_whole()  # what must go behind these events has to wait
        handed += delivered(answers)
        routing = restored(routing, TreeRouting("b", "nm", advertised=False))
        answers = routing.on_timer_due(RELEASE_TIMER, 1.0)
    handed += delivered(answers)
    assert handed == [(peer, number) for number in range(1, 5) for peer in "nm"]
    assert StartTimer(RELEASE_TIMER, 1.0) not in answers
    assert routing.is_whole()


def test_an_event_that_comes_meanwhile_goes_behind_those_that_were_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_events, "HELD_MAX", 8)  # and is never too much
    routing = backlog(monkeypatch, 4)
    handed = delivered(routing.on_message("m", SUBS, 1.0))
    number = 4
    while routing.held_back():
        number += 1
        handed += delivered(routing.on_message("n", Publish(Event({}, "n", number)), 1.0))
    assert [each for peer, each in handed if peer == "n"] == list(range(1, number + 1))
    assert [each for peer, each in handed if peer == "m"] == [1, 2, 3, 4]
    assert routing.on_timer_due(RELEASE_TIMER, 1.0) == []


def test_another_life_that_begins_meanwhile_holds_the_rest_until_it_knows_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routing = backlog(monkeypatch, 4)
    routing.on_message("m", SUBS, 1.0)
    routing.begin_life(2, {}, 1.0)
    assert routing.on_timer_due(RELEASE_TIMER, 1.0) == [StartTimer(HOLD_TIMER, 1.0 + HOLD_S)]
    assert len(routing.held_back()) == 5
    assert len(delivered(routing.on_timer_due(HOLD_TIMER, 1.0 + HOLD_S))) == 3


# ------------------------------------------------------------ waves


def test_a_broker_with_one_neighbour_begins_the_wave_when_the_link_opens() -> None:
    assert TreeRouting("b", "n").on_peer_up("n", 0.0) == [Forward("n", ADS)]
    assert TreeRouting("b", "n", advertised=False).on_peer_up("n", 0.0) == [Forward("n", SUBS)]


def test_a_broker_with_several_waits_for_all_others_before_it_says_that_it_has_told_all() -> None:
    routing = TreeRouting("b", "nmk", advertised=False)
    assert routing.on_peer_up("n", 0.0) == []
    assert routing.on_message("n", SUBS, 0.0) == []
    assert routing.on_message("m", SUBS, 0.0) == [Forward("k", SUBS)]
    assert [answer for answer in routing.on_message("k", SUBS, 0.0) if isinstance(answer, Forward)] == [
        Forward("n", SUBS),
        Forward("m", SUBS),
    ]


def test_subscriptions_are_complete_only_when_the_neighbours_advertisements_are() -> None:
    """They depend on them: whoever has not advertised yet has been told too little."""
    routing = TreeRouting("b", "n")
    routing.subscribe(S, NARROW, 0.0)
    assert routing.on_peer_up("n", 0.0) == [Forward("n", ADS)]
    [told] = routing.on_message("n", Advertise(A, WIDE), 0.0)
    assert isinstance(told, Forward)
    assert isinstance(told.message, Subscribe)
    assert routing.on_message("n", ADS, 0.0) == [Forward("n", SUBS)]


def test_a_network_that_starts_at_once_settles_and_each_says_each_thing_once() -> None:
    network = TreeNetwork(["ab", "bc", "bd", "de", "df"]).start()
    assert all(broker.is_settled() for broker in network.brokers.values())
    assert len(network.messages(Synced)) == 2 * 2 * len(network.links)


def test_a_link_that_opens_again_says_nothing_again() -> None:
    network = TreeNetwork(LINE).start()
    network.messages()
    network.connect()
    assert network.messages() == []


# ------------------------------------------------------------ memories that are lost


def lively() -> TreeNetwork:
    """A line with a subscriber at each end and a publisher at each end, whose events each wants."""
    network = TreeNetwork(LINE).start()
    for name in "ae":
        network.advertise(name, f"pub {name}", WIDE)
        network.subscribe(name, f"sub {name}", NARROW)
    network.settle()
    network.messages()
    return network


def test_a_broker_without_memory_is_told_everything_and_routes_as_before() -> None:
    network = lively()
    before = network.sizes()
    network.forget("c")
    for neighbour in "bd":
        network.meet(neighbour, "c")
    network.settle()
    assert network.sizes() == before
    assert all(broker.is_settled() for broker in network.brokers.values())
    network.publish("a", x=11)
    network.settle()
    assert network.delivered == {"sub a": [1], "sub e": [1]}


def test_until_it_has_told_anew_what_it_had_told_before_stays_in_force() -> None:
    network = lively()
    network.forget("c")
    network.meet("b", "c")
    assert list(network.brokers["b"].in_subs["c"].values()) == [NARROW]
    assert not network.brokers["b"].is_settled()
    network.publish("a", x=11)  # goes to c all the same, and is held there
    network.settle()
    assert network.brokers["c"].held_back() != []
    assert network.delivered == {"sub a": [1]}
    network.meet("d", "c")
    network.settle()
    assert network.delivered == {"sub a": [1], "sub e": [1]}


def test_what_died_with_the_memory_is_forgotten_by_the_neighbours_when_all_is_told_and_not_before() -> None:
    routing = told_everything("nm", advertised=False)
    for name in ("one", "two"):
        routing.on_message("n", Subscribe((name, "s"), WIDE), 0.0)
    routing.on_peer_forgot("n", [], 0.0)
    routing.on_message("n", Subscribe(("one", "s"), WIDE), 0.0)
    assert list(routing.in_subs["n"]) == [("one", "s"), ("two", "s")]
    assert not routing.is_settled()
    routing.on_message("n", SUBS, 0.0)
    assert list(routing.in_subs["n"]) == [("one", "s")]
    assert routing.is_settled()


def test_synced_advertisements_leave_subscriptions_alone() -> None:
    routing = told_everything()
    routing.on_message("n", Advertise(A, WIDE), 0.0)
    routing.on_message("n", Subscribe(S, WIDE), 0.0)
    routing.on_peer_forgot("n", [], 0.0)
    answers = routing.on_message("n", ADS, 0.0)
    assert [type(answer.message) for answer in answers if isinstance(answer, Forward)] == [Unadvertise]
    assert (routing.in_ads["n"], routing.in_subs["n"]) == ({}, {S: WIDE})
    routing.on_message("n", SUBS, 0.0)
    assert routing.in_subs["n"] == {}


def test_an_entry_that_a_newcomer_takes_back_itself_is_not_taken_back_twice() -> None:
    routing = told_everything("nm", advertised=False)
    routing.on_message("n", Subscribe(S, WIDE), 0.0)
    routing.on_peer_forgot("n", [], 0.0)
    routing.on_message("n", Unsubscribe(S), 0.0)
    assert routing.on_message("n", SUBS, 0.0) == []


def test_a_newcomer_is_told_entries_then_that_these_are_all_and_then_the_events_it_missed() -> None:
    routing = told_everything("nm")
    routing.on_message("n", Advertise(A, WIDE), 0.0)
    routing.subscribe(S, NARROW, 0.0)
    routing.advertise(("here", "a"), parse("y = 1"), 0.0)
    undelivered: list[Message] = [Publish(numbered(1)), Unsubscribe(("old", "s")), ADS, Publish(numbered(2))]
    answers = routing.on_peer_forgot("n", undelivered, 0.0)
    messages = [answer.message for answer in answers if isinstance(answer, Forward) and answer.peer == "n"]
    assert [type(message) for message in messages] == [Advertise, Subscribe, Synced, Synced, Publish, Publish]
    assert messages[-2:] == [Publish(numbered(1)), Publish(numbered(2))]


def test_ids_of_a_new_life_do_not_replace_those_of_the_old() -> None:
    """What is still in force under an old id may be another filter."""
    ids = []
    for incarnation in (1, 2):
        routing = told_everything("n", advertised=False, incarnation=incarnation)
        [told] = routing.subscribe(S, WIDE, 0.0)
        assert isinstance(told, Forward)
        assert isinstance(told.message, Subscribe)
        ids.append(told.message.id)
    assert ids[0] != ids[1]


@pytest.mark.parametrize("advertised", [True, False])
def test_two_adjacent_brokers_that_both_lost_their_memory_do_not_wait_for_each_other_for_ever(advertised: bool) -> None:
    network = TreeNetwork(LINE, advertised=advertised).start()
    network.advertise("a", "pub", WIDE)
    network.subscribe("e", "sub", NARROW)
    network.settle()
    network.forget("b", "c")
    network.meet("a", "b")
    network.connect("bc")
    network.meet("d", "c")
    network.publish("a", x=11)
    network.settle()
    assert all(broker.is_settled() for broker in network.brokers.values())
    assert network.wires.timers == {}
    assert network.delivered == {"sub": [1]}


@given(
    parents=st.lists(st.integers(0, 5), min_size=2, max_size=5),
    lost=st.sets(st.integers(0, 5), max_size=4),
    places=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=5),
    seed=st.integers(0, 2**32),
    reduction=st.sampled_from(["simple", "identity", "covering", "merging"]),
    advertised=st.booleans(),
)
def test_whoever_loses_its_memory_the_others_go_on_as_before(
    parents: list[int],
    lost: set[int],
    places: list[tuple[int, int]],
    seed: int,
    reduction: str,
    advertised: bool,
) -> None:
    """On any tree, in any order of arrival: all settles, and subscribers whose broker lived get every event."""
    names = "abcdef"[: len(parents) + 1]
    links = [names[min(parent, child)] + names[child + 1] for child, parent in enumerate(parents)]
    network = TreeNetwork(links, reduction=reduction, advertised=advertised).start()
    for name in names:
        network.advertise(name, f"pub {name}", TRUE)
    for number, (place, bound) in enumerate(places):
        network.subscribe(names[place % len(names)], f"sub {number}", parse(f"x > {bound}"))
    network.settle()
    gone = [names[place] for place in sorted(lost) if place < len(names)]
    network.forget(*gone)
    random = Random(seed)
    greetings = list(network.links)
    random.shuffle(greetings)
    for a, b in greetings:
        if (a in gone) == (b in gone):
            network.connect(a + b)
        else:
            network.meet(*((b, a) if a in gone else (a, b)))
        for _ in range(random.randrange(20)):
            if ready := network.ready():
                network.deliver(*random.choice(ready))
    network.settle()
    assert all(broker.is_settled() for broker in network.brokers.values())
    living = [name for name in names if name not in gone]
    for name in living:
        network.publish(name, x=5)
        network.settle()
    wanted = list(range(1, len(living) + 1))
    expected = {
        f"sub {number}": wanted
        for number, (place, bound) in enumerate(places)
        if names[place % len(names)] in living and bound < 5 and living
    }
    assert network.delivered == expected


# ------------------------------------------------------------ links that are given up, snapshots


def test_what_waited_for_a_link_that_is_given_up_waits_on() -> None:
    undelivered: list[Message] = [Subscribe(S, WIDE), Publish(numbered(1))]
    assert told_everything().on_link_dead("n", undelivered, 0.0) == [Forward("n", each) for each in undelivered]


def test_a_snapshot_routes_as_the_original_did() -> None:
    network = lively()
    routing = network.brokers["c"]
    copy = restored(routing, network._made("c"))
    for x in (0, 5, 11):
        published = numbered(1, x=x)
        assert copy.on_message("b", Publish(published), 0.0) == routing.on_message("b", Publish(published), 0.0)
    assert copy.sizes() == routing.sizes()
    assert copy.subscribe(S, parse("x > 3"), 0.0) == routing.subscribe(S, parse("x > 3"), 0.0)


def test_a_snapshot_keeps_what_is_held() -> None:
    routing = TreeRouting("b", "n")
    routing.publish(numbered(1), 0.0)
    assert restored(routing, TreeRouting("b", "n")).held_back() == [Publish(numbered(1))]


def test_what_anybody_wants_is_each_filter_once() -> None:
    routing = told_everything()
    routing.subscribe(S, WIDE, 0.0)
    routing.on_message("n", Subscribe(S, WIDE), 0.0)
    routing.on_message("m", Subscribe(S, NARROW), 0.0)
    assert routing.wanted() == [WIDE, NARROW]


def test_a_filter_that_matches_nothing_can_be_subscribed_to() -> None:
    routing = told_everything(advertised=False)
    routing.subscribe(S, FALSE, 0.0)
    assert routing.publish(numbered(1), 0.0) == []


# ------------------------------------------------------------ what no honest neighbour sends


@pytest.mark.parametrize(
    "message",
    [
        None,
        7,
        "Subscribe",
        Synced(),
        Synced("nothing"),  # type: ignore[arg-type]
        ChannelTail(),
        LinkState("n", 1, 1, {}),
        Packet("n", 1, {"b": 1}, ChannelTail()),
        Publish(None),  # type: ignore[arg-type]
        Publish(Event(None)),  # type: ignore[arg-type]
        Publish(Event({"x": object()})),  # type: ignore[dict-item]
        Publish(Event({"x": [1]})),  # type: ignore[dict-item]
        Publish(Event({"x": float("nan")})),
        Publish(Event({5: 5})),  # type: ignore[dict-item]
        Publish(Event({}, publisher=[])),  # type: ignore[arg-type]
        Publish(Event({}, sequence="1")),  # type: ignore[arg-type]
        Subscribe("s", TRUE),  # type: ignore[arg-type]
        Subscribe(("ann", "s", "t"), TRUE),  # type: ignore[arg-type]
        Subscribe((1, "s"), TRUE),  # type: ignore[arg-type]
        Subscribe(S, None),  # type: ignore[arg-type]
        Subscribe(S, "x >"),  # type: ignore[arg-type]
        Subscribe(S, parse("x > my.threshold")),
        Subscribe(S, type(WIDE)("x", 5)),  # type: ignore[arg-type, call-arg]
        Subscribe(S, type(WIDE)(5, WIDE.values)),  # type: ignore[arg-type, call-arg, union-attr]
        Advertise(S, parse("y < 1 OR place IN (myloc)")),
        Unsubscribe(S),
        Unsubscribe([]),  # type: ignore[arg-type]
        Unsubscribe(([], "s")),  # type: ignore[arg-type]
        Unadvertise(A),
        Unadvertise(None),  # type: ignore[arg-type]
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_that_no_honest_neighbour_sends_is_a_fault_and_changes_nothing(message: Message) -> None:
    routing = told_everything()
    routing.on_message("m", Subscribe(S, WIDE), 0.0)
    routing.on_message("m", Advertise(A, WIDE), 0.0)
    before = repr(routing.snapshot())
    with pytest.raises(PeerFault):
        routing.on_message("n", read(message), 0.0)
    assert repr(routing.snapshot()) == before


def test_a_neighbour_tells_so_many_entries_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "ENTRIES_MAX", 2)
    routing = told_everything()
    for name in ("one", "two", "one"):
        routing.on_message("n", Subscribe((name, "s"), WIDE), 0.0)
    with pytest.raises(PeerFault, match="more than 2 entries"):
        routing.on_message("n", Subscribe(("three", "s"), WIDE), 0.0)
    routing.on_message("n", Subscribe(("one", "s"), NARROW), 0.0)  # to replace one is allowed


# ------------------------------------------------------------ effort


def only_values(first: int) -> Filter:
    """A filter of which each literal must be held against each of another such one."""
    return parse(" OR ".join(f"ALL a = {2 * i + first}" for i in range(40)))


def test_a_neighbour_is_told_what_it_takes_too_long_to_find_out_it_need_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    efforts: list[Effort] = []

    def counted(steps_max: int) -> Effort:
        efforts.append(Effort(steps_max))
        return efforts[-1]

    monkeypatch.setattr(tree, "Effort", counted)
    routing = told_everything("n")
    for number in range(20):
        routing.on_message("n", Advertise(("pat", str(number)), only_values(200 * number)), 0.0)
    efforts.clear()
    assert routing.concerns(only_values(1), "n")
    assert CONCERNS_EFFORT_MAX < efforts[0].spent <= CONCERNS_EFFORT_MAX + 2 * REMEMBERED_EFFORT_MAX
    assert not routing.concerns(parse("ALL a = 1"), "n"), "a small one is held against all of them"


def test_subscriptions_stay_told_when_it_takes_too_long_to_find_out_whether_they_may_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routing = told_everything("n")
    routing.on_message("n", Advertise(A, parse("ALL a = 1")), 0.0)
    assert routing.subscribe(S, parse("ALL a = 1"), 0.0)
    monkeypatch.setattr(advertisement_reviews, "COMPARING_EFFORT_MAX", 0)
    routing.on_message("n", Advertise(("pat", "b"), parse("ALL a = 1")), 0.0)
    assert routing.on_message("n", Unadvertise(A), 0.0) == []
    assert len(routing.out_subs["n"].told) == 1


@pytest.mark.parametrize("reduction", ["covering", "merging"])
def test_what_one_advertisement_places_takes_a_bounded_number_of_steps(
    reduction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[Effort] = []

    def counted(common: Effort | None) -> Effort:
        shares.append(placements.share_of(common))
        return shares[-1]

    monkeypatch.setattr(reductions, "share_of", counted)
    monkeypatch.setattr(advertisement_reviews, "PLACING_EFFORT_MAX", 20_000)
    routing = told_everything("n", reduction=reduction)
    wanted = [only_values(200 * number) for number in range(40)]
    for number, filter in enumerate(wanted):
        routing.subscribe(("ann", str(number)), filter, 0.0)
    shares.clear()
    routing.on_message("n", Advertise(A, TRUE), 0.0)
    reviewed(routing, "n")
    assert 20_000 < sum(share.spent for share in shares) <= 20_000 + 2 * REMEMBERED_EFFORT_MAX + len(wanted)
    assert list(routing.out_subs["n"].told.values()) == wanted, "what could not be compared is told"


def test_what_a_neighbour_does_not_tell_again_is_placed_within_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    routing = told_everything("nm")
    routing.on_message("m", Advertise(A, TRUE), 0.0)
    for number in range(10):
        routing.on_message("n", Subscribe(("pat", str(number)), parse(f"x > {number}")), 0.0)
    narrow = parse("x > 50 AND y = 1")
    routing.subscribe(S, narrow, 0.0)
    routing.on_peer_forgot("n", (), 0.0)
    routing.on_message("n", Subscribe(("pat", "9"), parse("x > 9")), 0.0)
    monkeypatch.setattr(tree, "REPLACING_EFFORT_MAX", 0)
    routing.on_message("n", SUBS, 0.0)
    assert {*routing.out_subs["m"].told.values()} == {parse("x > 9"), narrow}, "it is told though it is covered"


@pytest.mark.parametrize("way", ["a new neighbour", "a new life"])
@pytest.mark.parametrize("reduction", ["covering", "merging"])
def test_to_tell_a_neighbour_everything_takes_a_bounded_number_of_steps(
    way: str, reduction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[Effort] = []

    def counted(common: Effort | None) -> Effort:
        shares.append(placements.share_of(common))
        return shares[-1]

    routing = told_everything("n", reduction=reduction)
    routing.on_message("n", Advertise(A, TRUE), 0.0)
    wanted = [only_values(200 * number) for number in range(40)]
    for number, filter in enumerate(wanted):
        routing.subscribe(("ann", str(number)), filter, 0.0)
    monkeypatch.setattr(reductions, "share_of", counted)
    monkeypatch.setattr(tree, "ADVERTISING_EFFORT_MAX", 20_000)
    monkeypatch.setattr(tree, "TELLING_EFFORT_EACH", 0)
    if way == "a new life":
        peer = "n"
        routing.begin_life(2, {}, 0.0)
    else:
        peer = "m"
        monkeypatch.setattr(routing, "concerns", lambda *asked: True)
        routing.set_neighbour(peer, 1.0, is_new=True)
    assert sum(share.spent for share in shares) <= 20_000 + 2 * REMEMBERED_EFFORT_MAX + len(wanted)
    assert {*wanted} <= {*routing.out_subs[peer].told.values()}, "what could not be compared is told"


@pytest.mark.parametrize("takes_back", [False, True])
def test_an_advertisement_that_adds_nothing_looks_at_no_subscription(
    monkeypatch: pytest.MonkeyPatch, takes_back: bool
) -> None:
    routing = told_everything()
    for number in range(50):
        routing.subscribe(("ann", f"s{number}"), parse(f"x = {number}"), 0.0)
    [*told] = routing.on_message("n", Advertise(("all", "all"), TRUE), 0.0)
    assert len(told) == 51  # the advertisement goes on, and fifty subscriptions come back
    asked: list[Filter] = []

    def noted(ad: Filter, wanted: Filter, effort: Effort) -> bool:
        asked.append(wanted)
        return True

    monkeypatch.setattr(advertisement_reviews, "intersects", noted)
    for wide in (WIDE, NARROW, WIDE):
        routing.on_message("n", Advertise(A, wide), 0.0)
    if takes_back:
        routing.on_message("n", Unadvertise(A), 0.0)
    assert asked == []
    routing.on_message("n", Unadvertise(("all", "all")), 0.0)  # now it does
    assert len(asked) >= 50


def test_the_question_whether_an_advertisement_adds_something_takes_a_bounded_number_of_steps() -> None:
    entries = {("pat", str(number)): parse(f"x > {number}") for number in range(3 * reductions.ADDING_EFFORT_MAX)}
    narrow = parse("x > 100_000".replace("_", ""))
    assert reductions.are_covered((narrow, None), entries, ("pat", "0"))
    last = {("pat", str(number)): parse(f"y > {number}") for number in range(2 * reductions.ADDING_EFFORT_MAX)}
    assert not reductions.are_covered((narrow,), {**last, A: TRUE}, S)  # not looked at any more
    assert not reductions.are_covered((narrow,), {A: TRUE}, A)  # its own former filter does not count


@pytest.mark.parametrize("is_slow_first", [False, True])
def test_an_answer_about_an_advertisement_does_not_depend_on_an_equal_filter_that_was_asked_about_before(
    is_slow_first: bool,
) -> None:
    """A broker that handles its journal again has not been asked before, and must decide alike."""
    many = " OR ".join(f"order{is_slow_first} <> {number} AND b < {number}" for number in range(300))
    slow, fast = parse(f"({many}) AND c = 1"), parse(f"c = 1 AND ({many})")
    assert slow == fast
    wanted = parse(f"order{is_slow_first} > 1 AND b > 1000 AND c = 2")
    found = {}
    for filter in (slow, fast) if is_slow_first else (fast, slow):
        found[filter is slow] = reductions.are_covered((wanted,), {S: filter, A: TRUE}, ("pat", "0"))
    assert found == {True: False, False: True}
