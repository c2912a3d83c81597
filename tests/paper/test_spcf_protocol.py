"""[spcf §3.1], sentence by sentence, on the network of its Fig. 2: eight brokers and the clients 9, 10, 11 and 12.

The figure's links are not in the text. These make true all that the text says of them: brokers 2 and 4 are on the tree
of broker 8, client 9 is behind another neighbour of 2 than 4, client 10 is at 4, and client 11 at 5, behind 4.
"""

from typing import Any

import pytest

from godwit.baselines.hop_messages import (
    ContextBegins,
    ContextEnds,
    ContextPacket,
    SubscribePacket,
    UnsubscribePacket,
)
from godwit.broker.bloom import BloomFilter
from godwit.broker.topology import shortest_path_trees
from godwit.filters.contexts import of_sender
from godwit.filters.filters import TRUE, Filter, all_of, some
from godwit.filters.language import parse
from godwit.filters.sets import one_of
from tests.property.routing_network import HopNetwork

FIG_2 = (
    *(("8", "2", 1.0), ("2", "1", 1.0), ("2", "4", 1.0), ("4", "5", 1.0)),
    *(("8", "7", 1.0), ("7", "6", 1.0), ("6", "3", 1.0)),
    *(("1", "3", 2.0), ("3", "4", 3.0), ("5", "6", 3.0), ("5", "7", 4.0)),
)
HOMES = {"9": "1", "10": "4", "11": "5", "12": "8"}
C_9, C_10, C_11, C_12 = {"n": 9}, {"n": 10}, {"n": 11}, {"n": 12}
F_9, F_10, F_11 = parse("x >= 1"), parse("x >= 1 AND x < 5"), parse("x = 3")


def of(context: dict[str, int]) -> Filter:
    """A filter on a context that matches this one alone."""
    return some("n", one_of([context["n"]]))


def any_of_them(*contexts: dict[str, int]) -> Filter:
    return some("n", one_of([context["n"] for context in contexts]))


class Fig2(HopNetwork):
    """The example as it stands when 9, 10 and 11 have subscribed to what 12 publishes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(FIG_2, **options)
        for client, home in HOMES.items():
            self.set_context(client, {"n": int(client)}, home)
        self.settle()
        for client, content in (("9", F_9), ("10", F_10), ("11", F_11)):
            self.subscribe(client, all_of(content, of_sender(of(C_12))))
        self.settle().messages()

    def row(self, at: str, broker: str, context: dict[str, int], neighbour: str) -> list[tuple[Filter, str]]:
        """(f_msg, c_s) of one row of the content table at a broker; contexts by their broker."""
        [number] = [n for n, c in self.brokers[at].contexts[broker].live.items() if c == context]
        found = self.brokers[at].content(broker, number, neighbour).values()
        return [(pair.filter, pair.subscriber.partition("/")[2]) for pair in found]

    def way_of(self, kind: type) -> list[tuple[str, str]]:
        return [(a, b) for a, b, _ in self.settle().messages(kind)]


@pytest.fixture
def fig() -> Fig2:
    return Fig2()


# ------------------------------------------------------------ §3.1, and Fig. 1


def test_every_broker_calculates_the_trees_rooted_at_each(fig: Fig2) -> None:
    """ "calculates … the shortest path trees (SPTs) rooted at each broker in the network" """
    trees = shortest_path_trees(FIG_2)
    assert sorted(trees) == sorted(fig.brokers)
    assert dict(trees["8"]) == {"2": "8", "7": "8", "1": "2", "4": "2", "6": "7", "3": "6", "5": "4"}


def test_the_context_table_maps_brokers_to_the_contexts_of_their_clients(fig: Fig2) -> None:
    """ "maps brokers (i.e., their identifiers) to the set of contexts of their clients" """
    for broker in fig.brokers.values():
        table = {name: list(contexts.live.values()) for name, contexts in broker.contexts.items() if contexts.live}
        assert table == {"1": [C_9], "4": [C_10], "5": [C_11], "8": [C_12]}


def test_the_content_table_has_what_comes_from_downstream_along_each_neighbour(fig: Fig2) -> None:
    """ "the figure shows part of the content tables of brokers 2 and 4: the part concerning broker 8" """
    assert fig.row("2", "8", C_12, "1") == [(F_9, "1")]
    assert sorted(fig.row("2", "8", C_12, "4"), key=lambda pair: pair[1]) == [(F_10, "4"), (F_11, "5")]
    assert fig.row("4", "8", C_12, "5") == [(F_11, "5")]
    assert fig.row("4", "8", C_12, "2") == fig.row("4", "8", C_12, "3") == []
    assert len(fig.row("8", "8", C_12, "2")) == 3
    assert fig.row("8", "8", C_12, "7") == []


# ------------------------------------------------------------ §3.1.1 Forwarding


def test_broker_8_encodes_the_matching_contexts_in_a_bloom_filter_and_builds_a_packet(fig: Fig2) -> None:
    """ "broker 8 matches the context filter against the different contexts that are part of its context table" """
    published = fig.publish("12", any_of_them(C_10, C_11), x=3)
    [(a, b, packet)] = fig.messages(ContextPacket)
    assert (a, b) == ("8", "2")
    assert (packet.source, packet.event, packet.event.to) == ("8", published, any_of_them(C_10, C_11))
    assert fig.brokers["8"].contexts["8"].live[packet.context] == C_12
    bloom = BloomFilter(packet.bloom)
    assert [f"1/{name}" in bloom for name in ("4", "5", "1")] == [True, True, False]
    assert packet.bloom == BloomFilter.of(["1/4", "1/5"]).wire()


def test_the_packet_goes_only_toward_broker_4_when_c10_is_meant_and_c9_is_not(fig: Fig2) -> None:
    """ "if we suppose that m matches both f9 and f10 while b includes c10 but not c9 then the packet is forwarded only
    toward broker 4. There the message is first forwarded to the local client 10" """
    published = fig.publish("12", of(C_10), x=2)
    assert fig.way_of(ContextPacket) == [("8", "2"), ("2", "4")]
    assert fig.got(published) == [("10", "s")]


def test_the_forwarding_stops_when_f11_does_not_match_or_c11_is_not_meant_and_otherwise_goes_to_broker_5(
    fig: Fig2,
) -> None:
    """ "either f11 does not match m or c11 is not part of b the forwarding stops, otherwise the packet is sent to
    broker 5" """
    to_5 = [("8", "2"), ("2", "4"), ("4", "5")]
    fig.publish("12", any_of_them(C_10, C_11), x=2)
    assert fig.way_of(ContextPacket) == to_5[:2], "f11 does not match"
    fig.publish("12", of(C_10), x=3)
    assert fig.way_of(ContextPacket) == to_5[:2], "c11 is not meant"
    published = fig.publish("12", any_of_them(C_10, C_11), x=3)
    assert fig.way_of(ContextPacket) == to_5
    assert fig.got(published) == [("10", "s"), ("11", "s")]


def test_the_first_two_fields_isolate_the_relevant_part_of_the_content_table(fig: Fig2) -> None:
    """ "the first two fields are used to isolate the relevant part of the content table" """
    fig.set_context("13", {"n": 13}, "8")
    fig.settle()
    fig.subscribe("9", all_of(parse("x >= 0"), of_sender(of({"n": 13}))), "of 13")
    fig.settle().messages()
    published = fig.publish("13", x=3)
    assert fig.way_of(ContextPacket) == [("8", "2"), ("2", "1")]
    assert fig.got(published) == [("9", "of 13")]


def test_a_message_for_all_goes_wherever_it_matches_and_one_for_nobody_goes_nowhere(fig: Fig2) -> None:
    fig.publish("12", x=3)
    assert sorted(fig.way_of(ContextPacket)) == [("2", "1"), ("2", "4"), ("4", "5"), ("8", "2")]
    fig.publish("12", parse("nothing = 'at all'"), x=3)
    assert fig.way_of(ContextPacket) == []


def test_s5_a_bloom_filter_loses_nobody_and_its_false_positives_are_removed_at_the_last_hop() -> None:
    """ "To avoid the false positives potentially resulting from the use of bloom filters, at this step the context of
    clients potentially interested in the message is actually matched" (footnote 3)"""
    packets, not_addressed = {}, {}
    for rate in (0.9, 0.01, 0.00002):  # the last is hardly ever wrong
        fig = Fig2(bloom_rate=rate)
        others = [f"{number}" for number in range(20, 80)]
        for client in others:
            fig.set_context(client, {"n": int(client)}, str(int(client) % 8 + 1))
        fig.settle()
        for client in others:
            fig.subscribe(client, parse("x >= 0"))
        fig.settle().messages()
        for client in others:
            published = fig.publish("12", of({"n": int(client)}), x=int(client))
            fig.settle()
            assert fig.got(published) == fig.meant(published) == [(client, "s")]
        packets[rate], not_addressed[rate] = len(fig.messages(ContextPacket)), len(fig.not_addressed)
    assert packets[0.9] > 2 * packets[0.00002], "eight bits for a context: many packets go astray"
    assert not_addressed[0.9] > 2 * not_addressed[0.00002], "and are dropped where they arrive"
    assert packets[0.01] <= 1.1 * packets[0.00002]


# ------------------------------------------------------------ §3.1.2 Routing: subscriptions


def test_step_1_a_subscription_is_recorded_in_the_client_table(fig: Fig2) -> None:
    assert fig.brokers["4"].local == {("10", "s"): all_of(F_10, of_sender(of(C_12)))}


def test_step_2_the_brokers_that_must_receive_it_are_those_with_a_context_that_matches(fig: Fig2) -> None:
    """ "it determines the set D of brokers … by matching f_ctx against the contexts in its context table" """
    fig.subscribe("10", all_of(TRUE, of_sender(any_of_them(C_9, C_12))), "two")
    fig.settle()
    reached = {target for _, _, packet in fig.messages(SubscribePacket) for target in packet.targets}
    assert reached == {"1", "8"}


def test_steps_3_and_4_each_neighbour_gets_the_part_in_whose_trees_it_is_the_parent(fig: Fig2) -> None:
    """ "for each neighbor N, it calculates the subset D_N of D that includes only those brokers whose SPT has N as the
    parent node of B_s; if D_N is not empty it forwards a packet" """
    fig.subscribe("10", F_10, "all")
    sent = {b: packet for a, b, packet in fig.messages(SubscribePacket) if a == "4"}
    trees = shortest_path_trees(FIG_2)
    for neighbour in fig.neighbours("4"):
        part = {name for name in ("1", "5", "8") if trees[name]["4"] == neighbour}
        assert set(sent[neighbour].targets if neighbour in sent else ()) == part
    assert {name: sorted(packet.targets) for name, packet in sent.items()} == {"2": ["1", "8"], "5": ["5"]}
    packet = sent["2"]
    assert (packet.home, packet.filter, packet.asks) == ("4", F_10, TRUE)
    assert fig.brokers["4"].contexts["4"].live[packet.context] == C_10


def test_a_broker_that_receives_it_adds_the_pair_to_its_rows_and_repeats_steps_3_and_4(fig: Fig2) -> None:
    """ "adding the pair to all the rows tagged as (B_x, c_x, N_x) where B_x is in D_N, c_x … matches f_ctx, and N_x is
    the broker from which the packet arrived" """
    fig.set_context("13", {"n": 13}, "8")
    fig.settle().messages()
    fig.subscribe("10", all_of(F_11, of_sender(any_of_them({"n": 13}, C_9))), "more")
    assert fig.way_of(SubscribePacket) == [("4", "2"), ("2", "1"), ("2", "8")]
    assert fig.row("2", "8", {"n": 13}, "4") == [(F_11, "4")]
    assert (F_11, "4") not in [pair for pair in fig.row("2", "8", C_12, "4") if pair[1] == "4"]
    assert fig.row("2", "1", C_9, "4") == fig.row("1", "1", C_9, "2") == [(F_11, "4")]
    assert fig.row("8", "8", {"n": 13}, "2") == [(F_11, "4")]


def test_an_unsubscription_takes_the_same_way_and_removes_the_pairs(fig: Fig2) -> None:
    """ "Unsubscriptions are managed similarly" """
    fig.unsubscribe("11")
    assert fig.way_of(UnsubscribePacket) == [("5", "4"), ("4", "2"), ("2", "8")]
    assert fig.row("4", "8", C_12, "5") == []
    assert fig.row("2", "8", C_12, "4") == [(F_10, "4")]
    fig.publish("12", x=3)
    assert ("4", "5") not in fig.way_of(ContextPacket)


# ------------------------------------------------------------ §3.1.2 Routing: contexts


def test_the_subscriptions_of_a_client_whose_context_changes_record_the_new_one(fig: Fig2) -> None:
    """ "(i) the subscriptions of n stored in the various content tables must be changed since they recorded the 'old'
    context" """
    fig.set_context("10", {"n": 100})
    fig.settle()
    [pair] = [pair for pair in fig.brokers["8"].content("8", 1, "2").values() if pair.filter == F_10]
    assert pair.subscriber == "2/4"
    old, new = fig.publish("12", of(C_10), x=2), fig.publish("12", of({"n": 100}), x=2)
    fig.settle()
    assert (fig.got(old), fig.got(new)) == ([], [("10", "s")])


def test_case_i_the_set_of_contexts_remains_the_same(fig: Fig2) -> None:
    fig.set_context("13", C_12, "8")
    fig.settle()
    assert fig.messages() == [], "a second client in a context that is known"
    fig.set_context("13", dict(C_12))
    assert fig.messages() == []
    fig.set_context("14", {"n": 14}, "8")
    fig.settle().messages()
    fig.set_context("14", C_12)
    fig.set_context("13", {"n": 14})
    fig.set_context("14", None)
    sent = [type(message) for _, _, message in fig.settle().messages()]
    assert sent.count(ContextEnds) == sent.count(ContextBegins) == 7, "14's own ended, and began again for 13"


def test_case_ii_the_new_context_is_added_and_the_old_one_removed(fig: Fig2) -> None:
    """ "c'_n must be added … and c_n be removed (because no other B_n client has c_n as its context)" """
    fig.set_context("12", {"n": 120})
    sent = [message for a, b, message in fig.messages() if (a, b) == ("8", "2")]
    assert [type(message) for message in sent] == [ContextBegins, ContextEnds]
    fig.settle()
    for broker in fig.brokers.values():
        assert list(broker.contexts["8"].live.values()) == [{"n": 120}]


def test_case_iii_the_new_context_is_added_and_the_old_one_stays(fig: Fig2) -> None:
    fig.set_context("13", C_12, "8")
    fig.set_context("12", {"n": 120})
    sent = [type(message) for _, _, message in fig.settle().messages()]
    assert sent == [ContextBegins] * 7
    assert list(fig.brokers["3"].contexts["8"].live.values()) == [C_12, {"n": 120}]


def test_a_context_that_is_removed_goes_along_the_tree_of_its_broker_and_takes_its_rows_with_it(fig: Fig2) -> None:
    """ "removing the entries of the content table labelled with the pair (B_n, c_n)" """
    fig.set_context("12", None)
    trees = shortest_path_trees(FIG_2)
    assert sorted(fig.way_of(ContextEnds)) == sorted((parent, node) for node, parent in trees["8"].items())
    for broker in fig.brokers.values():
        assert not broker.contexts["8"].live
        assert broker.sizes()["content"] == 0


def test_a_new_context_attracts_the_subscriptions_that_ask_for_it(fig: Fig2) -> None:
    """ "reissuing those subscriptions previously sent by one of its clients, whose context filter matches c'_n" """
    fig.subscribe("9", all_of(F_9, of_sender(of({"n": 15}))), "of 15")
    assert fig.settle().messages() == [], "nobody is in that context"
    fig.set_context("15", {"n": 15}, "3")
    sent = fig.settle().messages()
    trees = shortest_path_trees(FIG_2)
    begins = sorted((a, b) for a, b, message in sent if type(message) is ContextBegins)
    assert begins == sorted((parent, node) for node, parent in trees["3"].items())
    attracted = [(a, b, message.id) for a, b, message in sent if type(message) is SubscribePacket]
    assert attracted == [("1", "3", ("9", "of 15"))]
    published = fig.publish("15", x=1)
    fig.settle()
    assert fig.got(published) == [("9", "of 15")]


def test_what_has_reached_the_broker_for_another_context_does_not_travel_again(fig: Fig2) -> None:
    """ "there are good chances that they also matched an already existing context, having already travelled up to the
    broker close to the new client" (§4.2)"""
    fig.subscribe("9", F_9, "of all")
    fig.settle().messages()
    fig.set_context("16", {"n": 16}, "8")
    sent = [type(message) for _, _, message in fig.settle().messages()]
    assert sent == [ContextBegins] * 7, "a context costs what a flood along a tree costs, and nothing more"
    published = fig.publish("16", x=1)
    fig.settle()
    assert fig.got(published) == [("9", "of all")]


def test_gsf_is_the_same_with_one_context_and_without_a_bloom_filter() -> None:
    """ "forwards messages along the SPT of the publisher, pruned by using subscriptions as done by SPCF"; the
    publisher's filter is matched "at the last broker only" (§4)"""
    fig = Fig2(strategy="gsf")
    published = fig.publish("12", of(C_10), x=3)
    packets = [packet for _, _, packet in fig.settle().messages(ContextPacket)]
    assert len(packets) == 4, "8-2, 2-1, 2-4, 4-5: also where nobody is meant"
    assert all(packet.bloom is None for packet in packets)
    assert fig.got(published) == [("10", "s")]
    assert [id for id, _ in fig.not_addressed] == [("9", "s"), ("11", "s")]
    fig.set_context("12", {"n": 99})
    assert fig.settle().messages() == []
