"""[pubmob §2, §3, Fig. 2, Fig. 3]: the tables of a broker and the trees they make, line by line.

Each test quotes the sentence, or names the lines, that it holds the code to. `b` is the broker, n, m and k are its
neighbours.
"""

from collections.abc import Mapping

from godwit.broker.messages import Advertise, EntryId, Message, Publish, Subscribe, Synced, Unadvertise, Unsubscribe
from godwit.broker.routing import Answer, DeliverLocally, Forward
from godwit.broker.tree import HERE, TreeRouting
from godwit.filters import Filter, covers, event, intersects, parse
from tests.property.routing_network import TreeNetwork

WIDE, NARROW, ELSEWHERE = parse("x > 0"), parse("x > 10"), parse("y > 0")
A1, A2, S1, S2 = ("p1", "a"), ("p2", "a"), ("c1", "s"), ("c2", "s")

LINE = ["ab", "bc", "cd"]
TREE = ["ab", "bc", "bd", "de", "df"]  # b and d are inner brokers


def broker(neighbours: str = "nmk") -> TreeRouting:
    """A broker whose neighbours have told it that there is nothing to tell."""
    routing = TreeRouting("b", neighbours)
    for n in neighbours:
        routing.on_message(n, Synced("advertisements"), 0.0)
        routing.on_message(n, Synced("subscriptions"), 0.0)
    return routing


def receive(routing: TreeRouting, sender: str, *messages: Message) -> list[tuple[str, str, Filter | None]]:
    """What is sent because of the last of `messages`: to whom, what kind, and the filter."""
    answers: list[Answer] = []
    for message in messages:
        answers = routing.on_message(sender, message, 0.0)
    return sent(answers)


def sent(answers: list[Answer]) -> list[tuple[str, str, Filter | None]]:
    return [
        (answer.peer, type(answer.message).__name__, getattr(answer.message, "filter", None))
        for answer in answers
        if isinstance(answer, Forward)
    ]


def entries(table: Mapping[EntryId, Filter]) -> list[Filter]:
    return list(table.values())


# ------------------------------------------------------------ Figure 2: an advertisement


def test_fig_2_line_2_an_advertisement_is_stored_with_its_sender() -> None:
    routing = broker()
    receive(routing, "n", Advertise(A1, WIDE))
    assert routing.in_ads == {HERE: {}, "n": {A1: WIDE}, "m": {}, "k": {}}


def test_fig_2_line_5_it_goes_to_each_neighbour_but_its_sender() -> None:
    assert receive(broker(), "n", Advertise(A1, WIDE)) == [("m", "Advertise", WIDE), ("k", "Advertise", WIDE)]


def test_fig_2_lines_6_and_7_one_that_a_sent_one_covers_is_remembered_and_not_sent() -> None:
    routing = broker()
    assert receive(routing, "n", Advertise(A1, WIDE), Advertise(A2, NARROW)) == []
    assert list(routing.out_ads["m"].keys()) == [("n", A1), ("n", A2)]  # (a, n, false)
    assert entries(routing.out_ads["m"].told) == [WIDE]


def test_fig_2_line_6_asks_what_was_sent_to_this_neighbour_and_not_to_another() -> None:
    """m's own advertisement covers n's, but was never sent to m."""
    routing = broker()
    receive(routing, "m", Advertise(A1, WIDE))
    assert receive(routing, "n", Advertise(A2, NARROW)) == [("m", "Advertise", NARROW)]


def test_fig_2_lines_8_and_9_one_that_nothing_covers_is_sent_and_remembered_as_sent() -> None:
    routing = broker()
    receive(routing, "n", Advertise(A1, NARROW))
    assert receive(routing, "n", Advertise(A2, ELSEWHERE)) == [
        ("m", "Advertise", ELSEWHERE),
        ("k", "Advertise", ELSEWHERE),
    ]
    assert entries(routing.out_ads["m"].told) == [NARROW, ELSEWHERE]  # (a, n, true)


def test_fig_2_line_12_subscriptions_that_intersect_go_back_towards_it_and_no_others() -> None:
    routing = broker()
    routing.subscribe(S1, NARROW, 0.0)
    receive(routing, "m", Subscribe(S2, ELSEWHERE))
    answers = receive(routing, "n", Advertise(A1, WIDE))
    assert [answer for answer in answers if answer[1] == "Subscribe"] == [
        ("n", "Subscribe", NARROW),
        ("n", "Subscribe", ELSEWHERE),  # an event may have an x and a y
    ]
    routing = broker()
    routing.subscribe(S1, parse("x < 0"), 0.0)
    receive(routing, "m", Subscribe(S2, parse("x > 5")))
    answers = receive(routing, "n", Advertise(A1, parse("ALL x > 0")))
    assert [answer for answer in answers if answer[1] == "Subscribe"] == [("n", "Subscribe", parse("x > 5"))]


def test_fig_2_line_12_not_even_an_intersecting_one_goes_back_to_where_it_came_from() -> None:
    routing = broker()
    receive(routing, "n", Subscribe(S1, NARROW))
    assert receive(routing, "n", Advertise(A1, WIDE)) == [("m", "Advertise", WIDE), ("k", "Advertise", WIDE)]


def test_fig_2_lines_13_and_14_a_subscription_that_a_sent_one_covers_is_remembered_and_not_sent() -> None:
    routing = broker()
    routing.subscribe(S1, WIDE, 0.0)
    routing.subscribe(S2, NARROW, 0.0)
    answers = receive(routing, "n", Advertise(A1, WIDE))
    assert [answer for answer in answers if answer[0] == "n"] == [("n", "Subscribe", WIDE)]
    assert list(routing.out_subs["n"].keys()) == [(HERE, S1), (HERE, S2)]


def test_fig_2_line_13_asks_what_was_sent_to_the_advertisements_sender() -> None:
    """Departs: the figure asks about s's own sender n, but l.14-16 send s to a.sender."""
    routing = broker()
    receive(routing, "k", Advertise(A2, WIDE))
    receive(routing, "m", Subscribe(S1, WIDE))  # is sent to k
    receive(routing, "k", Subscribe(S2, NARROW))
    answers = receive(routing, "n", Advertise(A1, NARROW))
    assert [answer for answer in answers if answer[1] == "Subscribe"] == [("n", "Subscribe", WIDE)]


def test_fig_2_lines_15_and_16_a_subscription_that_nothing_covers_is_sent_and_remembered_as_sent() -> None:
    routing = broker()
    receive(routing, "m", Subscribe(S1, NARROW))
    assert ("n", "Subscribe", NARROW) in receive(routing, "n", Advertise(A1, WIDE))
    assert entries(routing.out_subs["n"].told) == [NARROW]


# ------------------------------------------------------------ Figure 3: a subscription


def test_fig_3_line_2_a_subscription_is_stored_with_its_sender() -> None:
    routing = broker()
    receive(routing, "n", Subscribe(S1, WIDE))
    assert routing.in_subs == {HERE: {}, "n": {S1: WIDE}, "m": {}, "k": {}}


def test_fig_3_line_5_it_goes_to_where_an_intersecting_advertisement_came_from_and_not_to_its_own_sender() -> None:
    routing = broker()
    receive(routing, "n", Advertise(A1, WIDE))
    receive(routing, "m", Advertise(A2, WIDE))
    assert receive(routing, "n", Subscribe(S1, NARROW)) == [("m", "Subscribe", NARROW)]


def test_fig_3_lines_6_and_7_one_that_a_sent_one_covers_is_remembered_and_not_sent() -> None:
    routing = broker()
    receive(routing, "n", Advertise(A1, WIDE))
    receive(routing, "m", Subscribe(S1, WIDE))
    assert receive(routing, "k", Subscribe(S2, NARROW)) == []
    assert list(routing.out_subs["n"].keys()) == [("m", S1), ("k", S2)]
    assert entries(routing.out_subs["n"].told) == [WIDE]


def test_fig_3_lines_8_and_9_one_that_nothing_covers_is_sent_and_remembered_as_sent() -> None:
    routing = broker()
    receive(routing, "n", Advertise(A1, WIDE))
    assert receive(routing, "m", Subscribe(S1, NARROW)) == [("n", "Subscribe", NARROW)]
    assert entries(routing.out_subs["n"].told) == [NARROW]


def test_fig_3_it_is_sent_once_however_many_advertisements_of_a_neighbour_it_intersects() -> None:
    routing = broker()
    receive(routing, "n", Advertise(A1, WIDE), Advertise(A2, ELSEWHERE))
    assert receive(routing, "m", Subscribe(S1, NARROW)) == [("n", "Subscribe", NARROW)]


# ------------------------------------------------------------ §2: subscription covering


def test_s1_covers_s2_iff_all_the_publications_that_match_s2_also_match_s1() -> None:
    assert covers(WIDE, NARROW)
    assert not covers(NARROW, WIDE)
    assert NARROW.matches(event({"x": 11}))
    assert WIDE.matches(event({"x": 11}))


def test_a_subscription_is_sent_iff_no_other_that_covers_it_was_sent_before() -> None:
    """ "it will send it to its neighbours if and only if it has not previously sent them another subscription s', that
    covers s" """
    routing = broker("n")
    receive(routing, "n", Advertise(A1, WIDE))
    assert sent(routing.subscribe(S1, WIDE, 0.0)) == [("n", "Subscribe", WIDE)]
    assert sent(routing.subscribe(S2, NARROW, 0.0)) == []


def test_a_newer_and_wider_subscription_is_sent_and_the_one_it_covers_taken_back() -> None:
    """Departs: the paper leaves the narrower one in the neighbour's tables."""
    routing = broker("n")
    receive(routing, "n", Advertise(A1, WIDE))
    routing.subscribe(S2, NARROW, 0.0)
    assert sent(routing.subscribe(S1, WIDE, 0.0)) == [("n", "Subscribe", WIDE), ("n", "Unsubscribe", None)]


# ------------------------------------------------------------ §2: advertisements


def test_an_advertisement_intersects_a_subscription_iff_some_publication_belongs_to_both() -> None:
    """ "the intersection of the set of the publications determined by the advertisement a and the set of the
    publications that match s is a non-empty set" """
    assert intersects(parse("x BETWEEN 0 AND 5"), parse("x BETWEEN 5 AND 9"))
    assert not intersects(parse("ALL x <= 5"), parse("x > 5"))


def test_a_subscription_is_forwarded_only_to_neighbours_that_sent_intersecting_advertisements() -> None:
    """ "a broker forwards it only to neighbours that previously sent advertisements that intersect the subscription.
    Thus, subscriptions are forwarded only to brokers with potentially interesting publishers." """
    routing = broker()
    receive(routing, "n", Advertise(A1, parse("ALL x > 0")))
    receive(routing, "m", Advertise(A2, parse("ALL x < 0")))
    assert sent(routing.subscribe(S1, parse("x > 5"), 0.0)) == [("n", "Subscribe", parse("x > 5"))]


# ------------------------------------------------------------ §2: distributed publish/subscribe


def test_advertisements_are_flooded_throughout_the_network() -> None:
    """ "advertisements from publishers are flooded throughout the network, and build a distributed advertisement
    tree" """
    network = TreeNetwork(TREE).start()
    network.messages()
    network.advertise("a", "p", WIDE)
    network.settle()
    assert sorted(network.messages(Advertise)) == [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("d", "f")]


def test_subscriptions_flow_in_the_reverse_path_of_intersecting_advertisements() -> None:
    """ "Subscriptions flow in the reverse path of intersecting advertisement trees, and result in a distributed
    multicast tree." """
    network = TreeNetwork(TREE).start()
    network.advertise("a", "p", WIDE)
    network.advertise("c", "q", parse("ALL x < 0"))
    network.settle()
    network.messages()
    network.subscribe("e", "s", NARROW)
    network.settle()
    assert network.messages() == [("e", "d"), ("d", "b"), ("b", "a")]


def test_publications_follow_the_reverse_path_of_matching_subscriptions() -> None:
    """ "Finally publications from a publisher follow the reverse path of matching subscriptions (i.e. the multicast
    tree) and are delivered to interested subscribers." """
    network = TreeNetwork(TREE).start()
    network.advertise("a", "p", WIDE)
    for name, client, filter in (("e", "eve", NARROW), ("c", "cat", WIDE), ("f", "fay", parse("x > 99"))):
        network.subscribe(name, client, filter)
    network.settle()
    network.messages()
    network.publish("a", x=11)
    network.publish("a", x=1)
    network.settle()
    assert sorted(network.messages(Publish)) == [
        *[("a", "b"), ("a", "b"), ("b", "c"), ("b", "c")],
        *[("b", "d"), ("d", "e")],
    ]
    assert network.delivered == {"eve": [1], "cat": [1, 2]}


def test_a_publication_bears_no_address() -> None:
    """ "messages from the publishers (publications) do not contain any address; instead, they are routed through the
    system based on their content" """
    assert Publish.__struct_fields__ == ("event",)
    routing = broker()
    receive(routing, "n", Subscribe(S1, WIDE))
    published = event({"x": 1})
    assert routing.publish(published, 0.0) == [Forward("n", Publish(published))]


def test_a_broker_records_all_subscriptions_and_notifies_on_a_match() -> None:
    """ "the broker, records all subscriptions, and matches publications against all subscriptions. On a match, the
    broker notifies the corresponding subscribers." """
    routing = broker("")
    routing.subscribe(S1, WIDE, 0.0)
    routing.subscribe(S2, NARROW, 0.0)
    one, other = event({"x": 1}), event({"x": 11})
    assert routing.publish(one, 0.0) == [DeliverLocally(one, [S1])]
    [local] = routing.publish(other, 0.0)
    assert isinstance(local, DeliverLocally)
    assert sorted(local.subscriptions) == [S1, S2]
    assert routing.publish(event({"x": 0}), 0.0) == []


# ------------------------------------------------------------ §3: taking back


def test_an_unadvertisement_tears_down_the_advertisement_tree_and_with_it_the_multicast_tree() -> None:
    """ "the teardown of the publisher rooted advertisement tree, which will induce the teardown of corresponding
    multicast trees … after which there is no state associated with the publisher in the system" """
    network = TreeNetwork(LINE).start()
    network.advertise("a", "p", WIDE)
    network.subscribe("d", "s", NARROW)
    network.settle()
    assert network.sizes() == {"in_subs": 4, "in_ads": 4, "out_subs": 3, "out_ads": 3, "matcher": 4}
    network.messages()
    network.unadvertise("a", "p")
    network.settle()
    assert network.sizes() == {"in_subs": 1, "in_ads": 0, "out_subs": 0, "out_ads": 0, "matcher": 1}
    sent = network.wires.sent
    assert {(a, b) for a, b, message in sent if type(message) is Unadvertise} == {("a", "b"), ("b", "c"), ("c", "d")}
    assert {(a, b) for a, b, message in sent if type(message) is Unsubscribe} == {("d", "c"), ("c", "b"), ("b", "a")}


def test_an_advertisement_that_another_covered_is_told_before_that_is_taken_back() -> None:
    routing = broker("nm")
    receive(routing, "n", Advertise(A1, WIDE), Advertise(A2, NARROW))
    assert receive(routing, "n", Unadvertise(A1)) == [("m", "Advertise", NARROW), ("m", "Unadvertise", None)]


def test_a_subscription_stays_where_another_advertisement_still_wants_it() -> None:
    routing = broker("nm")
    routing.subscribe(S1, NARROW, 0.0)
    receive(routing, "n", Advertise(A1, WIDE), Advertise(A2, parse("x > 5")))
    assert receive(routing, "n", Unadvertise(A1))[-1] == ("m", "Unadvertise", None)
    assert entries(routing.out_subs["n"].told) == [NARROW]
    assert ("n", "Unsubscribe", None) in receive(routing, "n", Unadvertise(A2))


def test_an_unsubscription_tells_what_was_covered_before_the_cover_goes() -> None:
    """ "Handling unadvertisements and unsubscriptions follows in a similar manner." """
    routing = broker()
    receive(routing, "n", Advertise(A1, WIDE))
    receive(routing, "m", Subscribe(S1, WIDE))
    receive(routing, "k", Subscribe(S2, NARROW))
    assert receive(routing, "m", Unsubscribe(S1)) == [("n", "Subscribe", NARROW), ("n", "Unsubscribe", None)]


def test_after_everyone_has_left_no_table_holds_anything() -> None:
    network = TreeNetwork(TREE).start()
    network.advertise("a", "p", WIDE)
    network.advertise("f", "q", ELSEWHERE)
    network.subscribe("e", "s", NARROW)
    network.subscribe("c", "t", ELSEWHERE)
    network.settle()
    network.unsubscribe("e", "s")
    network.unadvertise("f", "q")
    network.unadvertise("a", "p")
    network.unsubscribe("c", "t")
    network.settle()
    assert set(network.sizes().values()) == {0}


def test_a_filter_that_is_replaced_is_told_in_one_step_or_before_the_old_one_goes() -> None:
    routing = broker("n")
    receive(routing, "n", Advertise(A1, WIDE))
    routing.subscribe(S1, NARROW, 0.0)
    other = parse("x > 5 AND y = 1")
    assert sent(routing.subscribe(S1, other, 0.0)) == [("n", "Subscribe", other), ("n", "Unsubscribe", None)]


def test_an_advertisement_that_is_replaced_brings_and_takes_back_subscriptions() -> None:
    low, high = parse("ALL x < 0"), parse("ALL x > 0")
    routing = broker("n")
    routing.subscribe(S1, parse("ALL x < -5"), 0.0)
    routing.subscribe(S2, parse("ALL x > 5"), 0.0)
    assert receive(routing, "n", Advertise(A1, low)) == [("n", "Subscribe", parse("ALL x < -5"))]
    assert receive(routing, "n", Advertise(A1, high)) == [
        ("n", "Subscribe", parse("ALL x > 5")),
        ("n", "Unsubscribe", None),
    ]
