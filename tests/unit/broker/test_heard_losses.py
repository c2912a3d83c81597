"""Losses are numbered as they are heard, and nothing is left untold when only some are kept."""

from godwit.broker.heard_losses import KEPT_MAX, HeardLosses


def test_a_session_is_told_the_earliest_time_of_what_it_has_not_been_told() -> None:
    losses = HeardLosses()
    assert losses.since(0) is None
    for since in (5.0, 3.0, 9.0):
        losses.hear(since)
    assert [losses.since(after) for after in range(5)] == [3.0, 3.0, 9.0, None, None]


def test_of_many_losses_the_oldest_become_one_and_none_is_left_untold() -> None:
    losses = HeardLosses()
    losses.hear(1.0)
    for number in range(2, 3 * KEPT_MAX):
        losses.hear(float(number))
    state = losses.snapshot()
    assert len(state.losses) == KEPT_MAX
    assert losses.since(0) == losses.since(1) == 1.0
    assert all((losses.since(after) or 0.0) <= after + 1 for after in range(losses.count))
    assert losses.since(losses.count - 1) == losses.count


def test_losses_come_back_from_a_snapshot() -> None:
    losses, again = HeardLosses(), HeardLosses()
    losses.hear(4.0)
    again.restore(losses.snapshot())
    for each in (losses, again):
        each.hear(2.0)
    assert again.snapshot() == losses.snapshot()
