"""A part that was written down and made again answers whatever happens as the first does; without a field, it does not.

The same is asked of brokers in simulated networks by `tests/simulation/test_snapshots.py`.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from godwit.broker.broker import Broker
from godwit.broker.graph import GraphRouting
from godwit.broker.sessions import Sessions
from godwit.broker.tree import TreeRouting
from tests.property.part_plays import PLAYS, Play
from tests.property.part_scripts import IN_NETWORKS, OF_BASELINES, SCRIPTS
from tests.simulation.transcripts_of_brokers import empty, said, state_fields, without
from tests.snapshots import read_again

STEPS_AFTER = 40

Field = tuple[type, str]


def compared(play: Play, seed: int, before: int) -> None:
    random, first = Random(seed), play.make()
    for step in range(before):
        play.let(first, play.draw(random, first, step))
    twin = play.restored(read_again(first.snapshot()))
    assert repr(twin.snapshot()) == repr(first.snapshot())
    for step in range(before, before + STEPS_AFTER):
        call = play.draw(random, first, step)
        assert play.let(twin, call) == play.let(first, call), (step, call)
    again = play.restored(read_again(first.snapshot()))  # which counts what the first has summed up
    assert filter_bytes(again) == filter_bytes(twin) == filter_bytes(first)


def filter_bytes(part: Any) -> list[int]:
    """The memory of filters, as a part has summed it up change by change."""
    if isinstance(part, Broker):
        return [*filter_bytes(part.sessions), *filter_bytes(part.routing)]
    if isinstance(part, Sessions):
        return [part.quotas.filters.bytes, *(session.filters.bytes for session in part)]
    return [part.remote_bytes()] if isinstance(part, TreeRouting | GraphRouting) else []


@pytest.mark.parametrize("name", PLAYS)
@given(seed=st.integers(0, 2**32), before=st.integers(0, 120))
@settings(deadline=None, max_examples=20)
@example(seed=1, before=60)
def test_a_restored_part_answers_as_the_first(name: str, seed: int, before: int) -> None:
    compared(PLAYS[name], seed, before)


# ---------------------------------------------------------------- a field that is forgotten

SEEDS = 40  # of a part; of a broker, three times as many
STEPS_FORGOTTEN = 250  # of a broker; of a part, a fifth of it


def noticed(play: Play, seed: int, sought: set[Field]) -> set[Field]:
    """Of these fields, those without which the part answers otherwise, in one course of things."""
    random, first = Random(seed), play.make()
    before = 10 + seed * 7 % 140
    for step in range(before):
        play.let(first, play.draw(random, first, step))
    state = first.snapshot()
    candidates = sought & said(state).keys()
    if not candidates:
        return set()
    seen = []
    for step in range(before, before + (STEPS_FORGOTTEN if isinstance(first, Broker) else STEPS_FORGOTTEN // 5)):
        call = play.draw(random, first, step)
        seen.append((call, play.let(first, call)))
    return {field for field in candidates if _differs(play, without(state, *field)[0], seen)}


def _differs(play: Play, state: Any, seen: list[Any]) -> bool:
    try:
        twin = play.restored(state)
        return any(play.let(twin, call) != what for call, what in seen)
    except Exception:
        return True


@pytest.mark.slow
def test_a_field_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.broker.session.LOST_SHOWN_MAX", 2)
    left = {field for field in state_fields() if empty(*field) is not NotImplemented and named(field) not in SCRIPTS}
    for play in PLAYS.values():
        for seed in range(3 * SEEDS if isinstance(play.make(), Broker) else SEEDS):
            left -= noticed(play, seed, left)
    assert set(map(named, left)) <= IN_NETWORKS | OF_BASELINES


def named(field: Field) -> str:
    return f"{field[0].__name__}.{field[1]}"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_field_that_chance_rarely_asks_for_is_noticed_when_it_is_forgotten(name: str) -> None:
    script = SCRIPTS[name]
    play = Play(script.make, lambda *_: ("", ()), see=script.see)
    first = script.make()
    for call in script.before:
        play.let(first, call)
    state = first.snapshot()
    twin = play.restored(read_again(state))
    seen = [(call, play.let(first, call)) for call in script.after]
    assert [(call, play.let(twin, call)) for call, _ in seen] == seen
    [field] = [field for field in said(state) if named(field) == name]
    assert _differs(play, without(state, *field)[0], seen)
