"""Which brokers of a plan get a link."""

from hypothesis import given
from hypothesis import strategies as st

from godwit.pipeline.mobility.cells import BrokerPlacement, GridCells
from godwit.planning.assessment import Pair
from godwit.planning.broker_links import planned_links


def placement(*lons: float) -> BrokerPlacement:
    names = tuple(f"b{number}" for number in range(len(lons)))
    return BrokerPlacement(names, lons, (0.0,) * len(lons), (100.0,) * len(lons), GridCells(1.0))


def pair(a: str, b: str, moves: int) -> Pair:
    return Pair(a=a, b=b, there=moves, back=0, clients=1, share=0.0)


def test_brokers_with_moves_between_them_are_neighbours_and_the_rest_is_linked_by_the_shortest_way() -> None:
    links = planned_links(
        placement(0.0, 1.0, 1.9, 3.0), [pair("b0", "b3", 9), pair("b1", "b3", 5), pair("b0", "b1", 4)]
    )
    assert [(link.a, link.b, link.moves) for link in links] == [("b0", "b3", 9), ("b1", "b2", 0), ("b1", "b3", 5)]


def test_a_tree_can_be_of_some_brokers_only() -> None:
    assert [(link.a, link.b) for link in planned_links(placement(0.0, 1.0, 2.0), [], ["b2", "b0"])] == [("b0", "b2")]
    assert planned_links(placement(0.0), []) == ()


@given(st.integers(2, 7), st.data())
def test_no_other_tree_has_more_moves(size: int, data: st.DataObject) -> None:
    names = [f"b{number}" for number in range(size)]
    ends = [(a, b) for a in names for b in names if a < b]
    counts = {end: data.draw(st.integers(0, 9)) for end in ends}
    pairs = [pair(a, b, count) for (a, b), count in counts.items() if count]
    links = planned_links(placement(*(float(number) for number in range(size))), pairs)
    # Kruskal's algorithm, which finds the best tree in another way
    part = {name: name for name in names}
    best = 0
    for a, b in sorted(ends, key=lambda end: -counts[end]):
        if part[a] != part[b]:
            best += counts[a, b]
            old, new = part[a], part[b]
            part = {name: new if held == old else held for name, held in part.items()}
    assert len(links) == size - 1
    assert sum(link.moves for link in links) == best
