"""[spcf §3.1.1], sentence by sentence, as brokers match at every hop: Fig. 2, over link state.

The network is that of `test_spcf_protocol.py`, which has the paper's protocol by the letter on a fixed overlay.
"""

from typing import Any

import pytest

from godwit.broker.bloom import BloomFilter
from godwit.broker.hop_stream import HopStream
from godwit.broker.routing import DeliverLocally
from godwit.broker.spcf import spcf_routing
from godwit.broker.stream_messages import HopPacket
from godwit.filters.contexts import of_sender, stamped
from godwit.filters.events import Event, event
from godwit.filters.filters import Filter, all_of
from tests.paper.test_spcf_protocol import C_12, F_9, F_10, F_11, FIG_2, HOMES, any_of_them, of
from tests.property.routing_network import GraphNetwork

CONTEXTS: dict[str, dict[str, int]] = {client: {"n": int(client)} for client in HOMES}


class Fig2(GraphNetwork):
    """The example as it stands when 9, 10 and 11 have subscribed to what 12 publishes."""

    def __init__(self) -> None:
        costs = {(min(a, b), max(a, b)): cost for a, b, cost in FIG_2}
        super().__init__(costs, costs, lambda *options: spcf_routing(*options, hops=HopStream()))
        self.got: dict[str, list[tuple[str, int]]] = {client: [] for client in HOMES}
        self.start()
        for client, home in HOMES.items():
            self.carry_out(home, self.brokers[home].set_context(client, CONTEXTS[client], self.now))
        for client, content in (("9", F_9), ("10", F_10), ("11", F_11)):
            self.subscribe(HOMES[client], (client, "s"), all_of(content, of_sender(of(C_12))))
        self.settle()
        self.wires.sent.clear()

    def on_answer(self, name: str, answer: Any) -> None:
        """The exact test of `Event.to`, which is the sessions' work."""
        if isinstance(answer, DeliverLocally):
            for client, _ in answer.subscriptions:
                if answer.event.to is None or answer.event.to.holds(CONTEXTS[client]):
                    self.got[client].append(answer.event.id)

    def said_by_12(self, x: int, to: Filter | None = None) -> Event:
        """Client 12 publishes. [spcf §3: publish(m; f_ctx)]"""
        self.sequences["12"] += 1
        said = stamped(event({"x": x}, publisher="12", sequence=self.sequences["12"], to=to), CONTEXTS["12"])
        self.carry_out("8", self.brokers["8"].publish(said, self.now))
        self.settle()
        return said

    def way(self) -> list[tuple[str, str]]:
        """The links that the event has crossed since this was asked last."""
        found = [(a, b) for a, b, message in self.wires.sent if isinstance(message, HopPacket)]
        self.wires.sent.clear()
        return sorted(found)

    def receivers(self, said: Event) -> list[str]:
        return sorted(client for client, ids in self.got.items() if said.id in ids)

    def rows(self, at: str) -> dict[str, list[str]]:
        """The content table for broker 8 at a broker: by neighbour, whose subscriptions. [spcf Fig. 1]"""
        broker, found = self.brokers[at], dict[str, list[str]]()
        for home, entries in broker.remote.items():
            if (neighbour := broker.topology.below("8").get(home)) is not None:
                found.setdefault(neighbour, []).extend(client for client, _ in entries)
        return found


@pytest.fixture
def fig() -> Fig2:
    return Fig2()


def test_content_tables_have_what_is_wanted_downstream_along_each_neighbour(fig: Fig2) -> None:
    """ "for each other broker B_p … and each neighbor N, the set of content filters and contexts coming from clients
    attached to brokers that are downstream along N in the SPT rooted at B_p" """
    assert {name: sorted(clients) for name, clients in fig.rows("2").items()} == {"1": ["9"], "4": ["10", "11"]}
    assert fig.rows("4") == {"5": ["11"]}
    assert fig.brokers["7"].remote == fig.brokers["6"].remote == {}


def test_a_packet_is_routed_along_the_tree_of_its_broker_to_neighbours_that_have_to_receive_it(fig: Fig2) -> None:
    """ "a 'standard' content matching is performed to find the neighbors that have to receive the packet" """
    assert fig.receivers(fig.said_by_12(3)) == ["10", "11", "9"]
    assert fig.way() == [("2", "1"), ("2", "4"), ("4", "5"), ("8", "2")]
    assert fig.receivers(fig.said_by_12(7)) == ["9"]
    assert fig.way() == [("2", "1"), ("8", "2")]


def test_the_matching_ones_are_encoded_in_a_bloom_filter(fig: Fig2) -> None:
    """ "matches the context filter f_ctx against the different contexts … and encodes the matching ones in a bloom
    filter b" """
    fig.said_by_12(3, any_of_them(CONTEXTS["10"], CONTEXTS["11"]))
    packet = next(message for _, _, message in fig.wires.sent if isinstance(message, HopPacket))
    assert (packet.source, packet.targets) == ("8", None)
    assert packet.bloom is not None
    named = ["1/9", "4/10", "5/11"]
    assert BloomFilter(packet.bloom).among(named) == ["4/10", "5/11"]


def test_only_those_that_are_part_of_the_bloom_filter_are_considered(fig: Fig2) -> None:
    """ "if we suppose that m matches both f_9 and f_10 while b includes c_10 but not c_9 … then the packet is forwarded
    only toward broker 4 … if we suppose that … c_11 is not part of b the forwarding stops" """
    assert fig.receivers(fig.said_by_12(3, of(CONTEXTS["10"]))) == ["10"]
    assert fig.way() == [("2", "4"), ("8", "2")]


def test_otherwise_the_packet_is_sent_on(fig: Fig2) -> None:
    """ "otherwise the packet is sent to broker 5" """
    assert fig.receivers(fig.said_by_12(3, any_of_them(CONTEXTS["10"], CONTEXTS["11"]))) == ["10", "11"]
    assert fig.way() == [("2", "4"), ("4", "5"), ("8", "2")]


def test_false_positives_are_left_out_where_the_context_is_matched(fig: Fig2, monkeypatch: pytest.MonkeyPatch) -> None:
    """ "To avoid the false positives … the context of clients potentially interested in the message is actually matched
    against the context filter" (note 3)"""
    monkeypatch.setattr(BloomFilter, "__contains__", lambda self, element: True)
    assert fig.receivers(fig.said_by_12(3, of(CONTEXTS["10"]))) == ["10"]
    assert fig.way() == [("2", "1"), ("2", "4"), ("4", "5"), ("8", "2")]


def test_an_event_to_nobody_goes_nowhere(fig: Fig2) -> None:
    assert fig.receivers(fig.said_by_12(3, of({"n": 99}))) == []
    assert fig.way() == []


def test_when_a_link_is_gone_hops_on_the_new_tree_know_what_passes_them(fig: Fig2) -> None:
    """Ours: the paper's overlay stays. Without its link to 4, broker 2 is no longer between 8 and 4."""
    fig.take_down(("2", "4"))
    for end in (("2", "4"), ("4", "2")):
        fig.give_up(*end)
    fig.links.remove(("2", "4"))
    fig.settle()
    assert fig.receivers(fig.said_by_12(3)) == ["10", "11", "9"]
    assert fig.way() == [("2", "1"), ("5", "4"), ("7", "5"), ("8", "2"), ("8", "7")]
    assert {name: sorted(clients) for name, clients in fig.rows("7").items()} == {"5": ["10", "11"]}
    assert fig.rows("2") == {"1": ["9"]}
