"""[rebeca §5] Tables 1 to 4 to the letter, from the code that brokers run; Table 2 also from brokers that run. (R1)"""

from itertools import accumulate

import pytest

from godwit.broker.tree import TreeRouting
from godwit.filters.filters import And, Filter, Some
from godwit.filters.sets import Places
from godwit.mobility import Movements, from_edges, steps
from godwit.mobility.location_tree import FollowedFilters
from godwit.mobility.possible_values import PossibleValues
from tests.paper.roaming_world import Roaming

FIGURE_7 = from_edges([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])

TABLE_1 = ["a b c d", "abc abd acd bcd", "abcd abcd abcd abcd", "abcd abcd abcd abcd"]
TABLE_2 = {"a": ["a", "abc", "abcd", "abcd"], "b": ["b", "abd", "abcd", "abcd"], "d": ["d", "bcd", "abcd", "abcd"]}
TABLE_3_SLOW = ["a b c d", "abc abd acd bcd", "abc abd acd bcd", "abc abd acd bcd"]
TABLE_3_FAST = ["a b c d", "abcd abcd abcd abcd", "abcd abcd abcd abcd", "abcd abcd abcd abcd"]
TABLE_4 = ["a b c d", "abc abd acd bcd", "abc abd acd bcd", "abcd abcd abcd abcd"]


def ploc(place: str, count: int) -> str:
    return "".join(sorted(map(str, FIGURE_7.ploc(place, count))))


def row(count: int) -> str:
    return " ".join(ploc(place, count) for place in "abcd")


def filters(delays: list[float], dwell_s: float) -> list[str]:
    """F_0 to F_k along a path whose links take so long, for a client at each place."""
    return [row(0), *(row(steps(elapsed_s, dwell_s, "paper")) for elapsed_s in accumulate(delays))]


def test_table_1_values_of_ploc() -> None:
    assert [row(count) for count in range(4)] == TABLE_1


def test_table_2_when_a_subscription_takes_as_long_as_the_consumer_stays() -> None:
    by_place = list(zip(*(line.split() for line in filters([1.0, 1.0, 1.0], dwell_s=1.0)), strict=True))
    assert {place: list(by_place["abcd".index(place)]) for place in "abd"} == TABLE_2


@pytest.mark.parametrize("delays", [[1, 1, 1], [30, 30, 30], [98, 0.5, 0.5]])
def test_table_3_top_when_the_sum_of_delays_is_less_than_the_stay(delays: list[float]) -> None:
    assert filters(delays, dwell_s=100) == TABLE_3_SLOW


@pytest.mark.parametrize("dwell_s", [0.1, 1, 50])
def test_table_3_bottom_when_the_stay_is_much_less_than_the_first_delay(dwell_s: float) -> None:
    assert filters([120, 50, 50], dwell_s) == TABLE_3_FAST


def test_table_4_for_the_delays_of_figure_8() -> None:
    assert filters([120, 50, 50], dwell_s=100) == TABLE_4
    assert [steps(at, 100, "paper") for at in accumulate([120, 50, 50, 20])] == [1, 1, 2, 2]


def test_the_bound_takes_a_step_more_than_the_paper_but_where_the_paper_always_has_one() -> None:
    for elapsed_s in range(0, 1_000, 7):
        paper, bound = steps(elapsed_s, 100, "paper"), steps(elapsed_s, 100)
        assert bound == (paper if elapsed_s < 100 else paper + 1)


# ------------------------------------------------------------ by brokers that run

DWELL_S = 0.03  # a link takes 20 ms there and back, and with slack 25 ms


def line_of_brokers(reduction: str = "covering") -> Roaming:
    """B1, where the consumer is, to B4, where the producer is. [rebeca Fig. 6, one broker more]"""
    network = Roaming("B1-B2 B2-B3 B3-B4", Movements({"location": FIGURE_7}), reduction=reduction)
    network.come("P", "B4")
    network.advertise("P", "service = 'parking'")
    network.come("C", "B1")
    move(network, "a")
    network.subscribe("C", "service = 'parking' AND location WITHIN myloc")
    network.settle()
    return network


def move(network: Roaming, place: str) -> None:
    network.command("C", lambda client, now: client.move_to(place, now, dwell_s=DWELL_S))


def in_force(network: Roaming) -> list[str]:
    """F_0 to F_3: the exact test at B1, and what came from the broker before at B2, B3 and B4."""
    session = network.broker("B1").sessions.session("C")
    assert session is not None
    found = [places_in(session.exact["F"])]
    for before, broker in (("B1", "B2"), ("B2", "B3"), ("B3", "B4")):
        routing = network.broker(broker).routing
        assert isinstance(routing, TreeRouting)
        assert isinstance(routing.further, FollowedFilters)
        [entry] = routing.further.followed[before].values()
        assert isinstance(entry.possible["location"], PossibleValues)
        assert places_in(entry.loosened) == "".join(sorted(map(str, entry.possible["location"].values)))
        found.append(places_in(entry.loosened))
    return found


def places_in(filter: Filter) -> str:
    assert isinstance(filter, And)
    [values] = [part.values for part in filter.parts if isinstance(part, Some) and part.attribute == "location"]
    assert isinstance(values, Places)
    return "".join(sorted(values.names))


@pytest.mark.parametrize("reduction", ["simple", "covering", "merging"])
def test_table_2_stands_in_the_tables_of_brokers(reduction: str) -> None:
    network = line_of_brokers(reduction)
    for place in "abd":
        move(network, place)
        network.settle()
        assert in_force(network) == TABLE_2[place]


def test_only_brokers_hear_of_a_move_for_which_it_makes_a_difference() -> None:
    network = line_of_brokers()
    for place in "bd":
        network.handled.clear()
        move(network, place)
        network.settle()
        sent = {kind.__name__: count for kind, count in network.handled.items()}
        # F1 changes at B2, which tells B3; there F2 is the same as before, and B4 hears nothing
        assert sent.get("FollowUpdate") == 2
        assert "Follow" not in sent
        assert "Subscribe" not in sent


def test_a_move_that_makes_no_difference_at_all_is_told_to_nobody() -> None:
    network = line_of_brokers()
    network.handled.clear()
    move(network, "a")
    network.settle()
    assert "FollowUpdate" not in {kind.__name__ for kind in network.handled}
