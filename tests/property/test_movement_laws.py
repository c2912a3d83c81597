"""Laws of movement: whatever the model, a client is at one place at a time, and its way is its own."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from godwit.simulator.movement import Ground, Move, itineraries, joined
from godwit.simulator.roaming_settings import Roaming
from godwit.simulator.topologies import Overlay, leaves, random_tree

BEGINS_S, ENDS_S = 10.0, 600.0


@st.composite
def grounds(draw: st.DrawFn) -> Ground:
    overlay: Overlay = random_tree(draw(st.integers(2, 12)), Random(draw(st.integers(0, 99))))
    places = draw(st.sampled_from((overlay.brokers, leaves(overlay))))
    seed = draw(st.integers(0, 1_000))
    return Ground(overlay=overlay, places=places, seed=seed, begins_s=BEGINS_S, ends_s=ENDS_S)


@st.composite
def lines(draw: st.DrawFn) -> Roaming:
    confined_to = draw(st.none() | st.integers(1, 6))
    return Roaming(
        model="line",
        cell_km=draw(st.sampled_from((0.1, 0.5, 1.0))),
        speeds_kmh=draw(st.sampled_from(((50.0,), (5.0, 50.0, 100.0)))),
        away_s=draw(st.sampled_from((0.0, 0.5, 3.0))),
        confined_to=confined_to,
        overshoot=0 if confined_to is None else draw(st.integers(0, 3)),
    )


randoms = st.builds(Roaming, per_s=st.sampled_from((0.1, 1.0)), away_s=st.sampled_from((0.0, 2.0, 50.0)))


def ways(roaming: Roaming, ground: Ground, clients: int = 3) -> dict[str, tuple[Move, ...]]:
    places = ground.places
    return itineraries(roaming, ground, {f"p{k}": places[k % len(places)] for k in range(clients)})


@given(randoms | lines(), grounds())
def test_moves_lie_within_their_time_and_one_ends_before_the_next_begins(roaming: Roaming, ground: Ground) -> None:
    for moves in ways(roaming, ground).values():
        for move in moves:
            assert BEGINS_S <= move.leaves_s <= move.arrives_s <= ENDS_S
            assert move.to in ground.overlay.brokers
        assert roaming.model == "random" or joined(moves) == moves
        for move, later in pairwise(joined(moves)):
            assert move.arrives_s <= later.leaves_s


@given(randoms | lines(), grounds())
def test_the_same_seed_gives_the_same_ways(roaming: Roaming, ground: Ground) -> None:
    assert ways(roaming, ground) == ways(roaming, ground)


@given(lines(), grounds())
def test_who_else_moves_changes_nothing_about_a_clients_way(roaming: Roaming, ground: Ground) -> None:
    few, many = ways(roaming, ground, 2), ways(roaming, ground, 5)
    assert few == {client: many[client] for client in few}


@given(lines(), grounds())
def test_along_a_line_each_move_leads_to_the_next_cell_after_the_time_that_a_cell_takes(
    roaming: Roaming, ground: Ground
) -> None:
    street = ground.places
    for k, moves in enumerate(ways(roaming, ground).values()):
        passed = [k % len(street), *(street.index(move.to) for move in moves)]
        assert all(abs(later - cell) == 1 for cell, later in pairwise(passed))
        laps_s = [roaming.cell_km * 3_600 / speed for speed in roaming.speeds_kmh]
        ways_s = [later.leaves_s - move.leaves_s for move, later in pairwise(moves)]
        turns = [before == after for before, after in zip(passed, passed[2:], strict=False)]
        assert any(
            all(abs(way_s - lap_s * (2 if turned else 1)) < 1e-6 for way_s, turned in zip(ways_s, turns, strict=True))
            for lap_s in laps_s
        )
        assert all(abs(move.arrives_s - move.leaves_s - roaming.away_s) < 1e-9 for move in moves)


@given(lines(), grounds())
def test_a_confined_client_is_never_more_than_delta_cells_past_its_own(roaming: Roaming, ground: Ground) -> None:
    street = ground.places
    width = min(roaming.confined_to or len(street), len(street))
    for k, moves in enumerate(ways(roaming, ground).values()):
        entered = {k % len(street), *(street.index(move.to) for move in moves)}
        assert max(entered) - min(entered) < width + 2 * roaming.overshoot
        assert all(abs(cell - k % len(street)) < width + roaming.overshoot for cell in entered)
