"""A team over simulated brokers: peers move, brokers crash and lose their disks, links break, processes end; by seed.

One run is played for a seed, and every law of `team_laws.py` is checked on it. `tests/network/test_team_scenarios.py`
plays the same scenarios with processes.
"""

from collections.abc import Callable
from functools import cache

import pytest

from godwit.teamwork.machine import exchange, scope_keys, scope_log, search
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer import Peer
from godwit.teamwork.machine.records import folded
from godwit.teamwork.machine.store import MemoryStore
from tests.seeds import few
from tests.simulation import team_laws
from tests.simulation.simulated_team import PRIVATE, played
from tests.simulation.team_bus import SCOPE
from tests.simulation.team_laws import Outcome
from tests.simulation.team_scenarios import drawn
from tests.simulation.team_world import SimulatedPeer

ROUNDS = 40
SEEDS = range(10)


@cache
def run(seed: int) -> Outcome:
    return played(drawn(seed, ROUNDS))


@pytest.mark.parametrize("law", team_laws.LAWS)
@pytest.mark.parametrize("seed", few(SEEDS, 5))
def test_a_law_holds_whatever_happens(seed: int, law: Callable[[Outcome], None]) -> None:
    law(run(seed))


def test_runs_are_repeated_from_their_seed() -> None:
    first, second = run(3), played(drawn(3, ROUNDS))
    assert [peer.store.vector(SCOPE) for peer in first.peers] == [peer.store.vector(SCOPE) for peer in second.peers]
    assert len(first.payloads) == len(second.payloads)
    assert first.searches == second.searches


# ------------------------------------------------------------ planted faults


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers what others lack."""
    monkeypatch.setattr(exchange.Exchange, "_answer", lambda self, scope, least: None)


def generous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are given to whoever asks."""
    monkeypatch.setattr(scope_keys, "Role", type("Everybody", (), {"NONE": None, "OWNER": Role.OWNER}))


def open_hearted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches show everything to everybody."""
    monkeypatch.setattr(Peer, "readable_scopes", lambda self, user: [SCOPE, PRIVATE])


def repetitive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is reported by everybody who has it."""
    monkeypatch.setattr(search._Open, "news", lambda self, found: tuple(found))


def lawless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes without a right count."""
    monkeypatch.setattr(scope_log, "folded", lambda name, changes, refusal: folded(name, changes))


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends takes what its disk has with it, but for what others have."""
    begin_again = SimulatedPeer.begin_again

    def forget(self: SimulatedPeer) -> None:
        self.store = MemoryStore()
        begin_again(self)

    monkeypatch.setattr(SimulatedPeer, "begin_again", forget)


def outspoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sealed."""
    monkeypatch.setattr(scope_keys.ScopeKeys, "in_use", lambda self, scope: None)


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], Callable[[Outcome], None]] = {
    silent: team_laws.check_convergence,
    generous: team_laws.check_keys,
    open_hearted: team_laws.check_searches,
    repetitive: team_laws.check_searches,
    lawless: team_laws.check_rights,
    forgetful: team_laws.check_acknowledged,
    outspoken: team_laws.check_secrecy,
}


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_fault_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    def play_and_check() -> None:
        for seed in SEEDS:
            PLANTED[plant](played(drawn(seed, ROUNDS)))

    with pytest.raises(AssertionError):
        play_and_check()
