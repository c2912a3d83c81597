"""A session that begins with large filters is placed in slices, and what must follow waits for the last."""

from typing import Any

import pytest

from godwit.broker.effects import Heard, Opened
from godwit.broker.messages import (
    Advertise,
    Attach,
    Attached,
    Bye,
    Delivery,
    PastConnection,
    Publish,
    Request,
    Subscribe,
    Unsubscribe,
)
from godwit.filters.events import Event
from godwit.filters.language import parse
from godwit.mobility.move_messages import Collect
from godwit.mobility.publisher_presence import PUBLISHER_MODES, PublisherConfig
from godwit.mobility.session_entries import BEGINNING, SessionEntries
from godwit.testing import Machines, machines

COUNT, LITERALS = 8, 400


def text(number: int) -> str:
    """Filters that cover each other, and match x = 1."""
    return " OR ".join(("x = 1", *(f"a{n} > {n + number}" for n in range(LITERALS))))


FILTERS = tuple(parse(text(number)) for number in range(COUNT))
WANTED = tuple(Subscribe(("ann", f"s{number}"), filter) for number, filter in enumerate(FILTERS))
SAID = tuple(Advertise(("pat", f"p{number}"), filter) for number, filter in enumerate(FILTERS))


class Carrying:
    """A line of brokers. A client was at `a` and has come to `c`, in the mode `carry`; a publisher is at `b`."""

    def __init__(self, wanted: tuple[Subscribe, ...] = WANTED) -> None:
        self.net: Machines = machines("a-b b-c c-d", advertisements="off")
        self.net.pass_time(1.0)
        self.net.say("a", "old", Attach("ann", attempt=1, mode="carry"))
        for number, wish in enumerate(wanted, 1):
            self.net.say("a", "old", Request(number, wish))
        [self.session] = [each.message.session for each in self.net.told if type(each.message) is Attached]
        self.net.say("b", "pat", Attach("pat", attempt=1))
        self.net.hang_up("a", "old")
        self.published = 0
        self.greet("c", 2, "a", wanted=wanted)

    def greet(self, at: str, attempt: int, *before: str, **said: Any) -> None:
        log = tuple(PastConnection(broker, number, 1.0) for number, broker in enumerate(before, 1))
        said = {"mode": "carry", "log": log, "wanted": WANTED, **said}
        connection = f"{at}{attempt}"
        self.net.open[at, connection] = None
        self.net.give(at, Opened(connection))
        self.net.give(at, Heard(connection, Attach("ann", attempt=attempt, session=self.session, **said)))
        self.net.run()

    def publish(self) -> None:
        self.published += 1
        self.net.say("b", "pat", Request(self.published, Publish(Event({"x": 1}, "pat", self.published))))

    def delivered(self) -> set[int]:
        """What has come, some of it again: the client confirms nothing."""
        return {each.message.event.sequence for each in self.net.told if type(each.message) is Delivery}

    def asked(self) -> list[tuple[str, int]]:
        """Whom the broker `c` has asked, and with which attempt."""
        questions = [message for _, _, message in self.net.sent if type(message) is Collect]
        return [(message.home, message.attempt) for message in questions if message.to == "c"]

    def is_waiting(self, at: str = "c") -> bool:
        entries: SessionEntries = self.net.brokers[at].component(SessionEntries)
        return entries.is_waiting("ann")

    def placed(self, at: str = "c") -> int:
        routing = self.net.brokers[at].routing
        return sum(routing.local_filter(wish.id) is not None for wish in WANTED)

    def entries(self) -> int:
        return sum(sum(broker.routing.sizes().values()) for broker in self.net.brokers.values())


def test_brokers_are_asked_for_what_they_keep_when_the_last_subscription_is_placed() -> None:
    carrying = Carrying()
    assert 0 < carrying.placed() < COUNT
    assert [each.client for each in carrying.net.told if type(each.message) is Attached] == ["old", "pat", "c2"]
    carrying.publish()
    while carrying.is_waiting():
        assert carrying.asked() == []
        carrying.net.pass_time(0.01)
    carrying.publish()
    carrying.net.pass_time(5.0)
    assert carrying.asked()[0] == ("a", 2)
    assert (carrying.placed(), carrying.placed("a")) == (COUNT, 0)
    assert carrying.delivered() == {1, 2}


def test_small_filters_are_placed_at_once_and_the_question_follows() -> None:
    small = tuple(Subscribe(("ann", f"s{n}"), parse(f"x = {n}")) for n in range(3))
    carrying = Carrying(small)
    assert not carrying.is_waiting()
    assert carrying.asked()


def test_a_client_that_leaves_between_two_slices_leaves_nothing() -> None:
    carrying = Carrying()
    carrying.net.say("c", "c2", Bye("she leaves"))
    assert not carrying.is_waiting()
    carrying.net.pass_time(30.0)
    assert carrying.entries() == 0


@pytest.mark.parametrize("mode", ["carry", "relocate"])
def test_a_client_that_moves_on_between_two_slices_misses_nothing(mode: str) -> None:
    carrying = Carrying()
    carrying.publish()
    home = {} if mode == "carry" else {"home": "c", "since": 2, "log": ()}
    carrying.net.hang_up("c", "c2")
    carrying.greet("d", 3, "a", "c", mode=mode, **home)
    carrying.publish()
    carrying.net.pass_time(30.0)
    assert carrying.delivered() == {1, 2}
    carrying.net.say("d", "d3", Bye("she leaves"))
    carrying.net.pass_time(30.0)
    assert carrying.entries() == 0


def test_a_broker_that_asks_in_vain_is_asked_when_the_last_subscription_is_placed() -> None:
    carrying = Carrying()
    carrying.net.forge("b", "c", Collect("ann", "c", "b", 1))
    carrying.net.run()
    assert carrying.is_waiting()
    assert carrying.asked() == []
    carrying.net.pass_time(5.0)
    assert {("a", 2), ("b", 2)} <= set(carrying.asked())


def test_what_has_changed_before_its_turn_is_placed_as_it_is_now() -> None:
    carrying = Carrying()
    carrying.net.say("c", "c2", Request(1, Unsubscribe(("ann", "s7"))))
    carrying.net.say("c", "c2", Request(2, Subscribe(("ann", "s6"), parse("x = 2"))))
    carrying.net.pass_time(5.0)
    routing = carrying.net.brokers["c"].routing
    assert routing.local_filter(("ann", "s7")) is None
    assert routing.local_filter(("ann", "s6")) == parse("x = 2")
    assert carrying.placed() == COUNT - 1


@pytest.mark.parametrize("mode", PUBLISHER_MODES)
def test_large_advertisements_of_a_publisher_are_placed_in_slices(mode: str) -> None:
    net = machines("a-b b-c", advertisements="optional")
    net.pass_time(1.0)
    net.say("a", "one", Attach("pat", attempt=1, mode=mode, wanted=SAID))
    assert net.brokers["a"].component(SessionEntries).is_waiting("pat")
    net.pass_time(5.0)
    assert not net.brokers["a"].component(SessionEntries).is_waiting("pat")
    assert any(type(each.input).__name__ == "TimerDue" and each.input.key[0] == BEGINNING for each in net.log)
    net.say("a", "one", Bye("he leaves"))
    net.pass_time(5.0)
    assert sum(sum(broker.routing.sizes().values()) for broker in net.brokers.values()) == 0


# ---------------------------------------------------------------- brokers that advertise for a publisher


class ToC:
    """A predictor that says `c` to everybody."""

    def next_broker(self, client: str, here: str, visit: int, before: str | None = None) -> str | None:
        return "c"


class Advertising:
    """A line of brokers, and a publisher at `a` with large advertisements, for which `c` advertises, too."""

    def __init__(self, mode: str) -> None:
        moving = PublisherConfig(predictor=ToC(), prefetch_s=20.0, nearest={"a": ("c",)}, proxies=1)
        self.net: Machines = machines("a-b b-c", advertisements="optional", moving=moving)
        self.net.pass_time(1.0)
        self.advertised = [0]  # at c, in each input
        routing, handle = self.net.brokers["c"].routing, self.net.brokers["c"].handle
        advertise, unadvertise = routing.advertise, routing.unadvertise

        def handling(input: Any, now: float) -> Any:
            self.advertised.append(0)
            return handle(input, now)

        def advertising(id: Any, *said: Any) -> Any:
            self.advertised[-1] += 1
            return advertise(id, *said)

        def unadvertising(id: Any, *said: Any) -> Any:
            self.advertised[-1] += 1
            return unadvertise(id, *said)

        routing.advertise, routing.unadvertise = advertising, unadvertising
        self.net.brokers["c"].handle = handling
        self.net.say("a", "one", Attach("pat", attempt=1, mode=mode, wanted=SAID))
        if mode != "proxy":
            self.net.pass_time(5.0)
            self.net.hang_up("a", "one")

    def is_waiting(self) -> bool:
        entries: SessionEntries = self.net.brokers["c"].component(SessionEntries)
        return entries.is_waiting("pat")

    def entries(self) -> int:
        return sum(sum(broker.routing.sizes().values()) for broker in self.net.brokers.values())


@pytest.mark.parametrize("mode", ["proxy", "prefetching"])
def test_a_broker_that_advertises_for_a_publisher_does_so_in_slices(mode: str) -> None:
    publishing = Advertising(mode)
    assert publishing.is_waiting()
    publishing.net.pass_time(5.0)
    assert not publishing.is_waiting()
    assert sum(publishing.advertised) >= COUNT
    assert 0 < max(publishing.advertised) < COUNT


def test_proxies_that_are_told_to_stop_between_two_slices_hold_nothing() -> None:
    publishing = Advertising("proxy")
    publishing.net.say("a", "one", Bye("he leaves"))
    publishing.net.pass_time(5.0)
    assert not publishing.is_waiting()
    assert publishing.entries() == 0


def test_a_publisher_that_is_expected_and_does_not_come_is_advertised_for_no_longer_in_slices() -> None:
    publishing = Advertising("prefetching")
    publishing.net.pass_time(5.0)
    publishing.advertised.clear()
    publishing.advertised.append(0)
    publishing.net.pass_time(30.0)
    assert sum(publishing.advertised) >= COUNT
    assert max(publishing.advertised) < COUNT
    assert publishing.entries() == 0


@pytest.mark.parametrize("mode", ["proxy", "prefetching"])
def test_a_publisher_that_comes_between_two_slices_has_all_its_advertisements(mode: str) -> None:
    publishing = Advertising("prefetching")
    net = publishing.net
    assert publishing.is_waiting()
    net.say("c", "two", Attach("pat", attempt=2, home="a", since=1, mode=mode, wanted=SAID))
    net.pass_time(5.0)
    assert not publishing.is_waiting()
    session = net.brokers["c"].sessions.session("pat")
    assert len(session.advertisements) == COUNT
    net.say("c", "two", Bye("he leaves"))
    net.pass_time(60.0)
    assert publishing.entries() == 0
