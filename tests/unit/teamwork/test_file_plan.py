"""Which chunks are fetched next: each at least once, none for long by a slow peer."""

from hypothesis import given
from hypothesis import strategies as st

from godwit.teamwork.file_plan import ChunkPlan


def test_runs_are_in_order_and_a_share_of_what_is_left() -> None:
    plan = ChunkPlan(range(40))
    assert plan.claim(1, "a", 8, 2) == range(8)
    assert plan.claim(2, "b", 100, 2) == range(8, 18)
    for number in range(8):
        assert plan.arrived(number)
    plan.release(1)
    assert plan.claim(1, "a", 8, 2) == range(18, 26)


def test_a_gap_ends_a_run() -> None:
    plan = ChunkPlan([0, 7, 8, 9])
    assert plan.claim(1, "a", 100, 1) == range(1)
    assert plan.claim(2, "a", 100, 1) == range(7, 9)


def test_what_failed_is_given_out_again() -> None:
    plan = ChunkPlan(range(4))
    assert plan.claim(1, "a", 2, 1) == range(2)
    plan.arrived(0)
    plan.release(1)
    assert plan.claim(2, "b", 1, 1) == range(1, 2)


def test_a_chunk_is_asked_of_a_second_peer_when_nothing_else_is_left() -> None:
    plan = ChunkPlan(range(2))
    assert plan.claim(1, "a", 1, 1) == range(1)
    assert plan.claim(2, "a", 1, 1) == range(1, 2)
    assert not plan.has_work("a")
    assert not plan.claim(3, "a", 1, 1), "the same peer is not asked twice"
    assert plan.has_work("b")
    assert plan.claim(4, "b", 1, 1) == range(1)
    assert plan.claim(5, "b", 1, 1) == range(1, 2)
    assert not plan.claim(6, "c", 1, 1), "nobody is asked a third time"
    plan.release(4)
    assert plan.claim(6, "c", 1, 1) == range(1), "unless the second has failed"
    assert plan.arrived(0)
    assert not plan.arrived(0)


@given(
    missing=st.sets(st.integers(0, 60)), steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=80)
)
def test_every_chunk_is_fetched_whoever_fails(missing: set[int], steps: list[tuple[int, int]]) -> None:
    plan, held, arrived = ChunkPlan(missing), dict[int, range](), set[int]()

    def claim(worker: int) -> None:
        if run := plan.claim(worker, f"peer{worker % 3}", 7, 3):
            held[worker] = run

    def end(worker: int, count: int) -> None:
        for number in held.pop(worker)[:count]:
            assert plan.arrived(number) == (number in missing - arrived)
            arrived.add(number)
        plan.release(worker)

    for worker, count in steps:
        if worker in held:
            end(worker, count)
        else:
            claim(worker)
    for worker in list(held):
        end(worker, 0)
    while not plan.is_done:
        claim(0)
        end(0, 100)
    assert arrived >= missing
