"""A round of chaos in every run of the tests; `make chaos` runs two hundred. And a planted fault is caught."""

from pathlib import Path

import pytest

from godwit.runtime import client_transport, reconnecting
from tests.chaos.broker_processes import NetworkPlan
from tests.chaos.run import CHAIN, SHAPES, hasten, run_chaos
from tests.network.waiting import run

LIMIT_S = 300.0


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((client_transport, "BEAT_S"), (client_transport, "SILENCE_S"), (reconnecting, "RETRY_MAX_S")):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    hasten()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves a socket that fails
@pytest.mark.parametrize(
    ("plan", "kinds"),
    [
        (NetworkPlan(CHAIN, "tree", "full", tls=True), ("kill during start", "link reset")),
        pytest.param(
            NetworkPlan(SHAPES["graph"][0], "graph", "relaxed", tls=False),
            ("kill two at once", "clients reset"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_a_round_of_chaos_breaks_no_law(tmp_path: Path, plan: NetworkPlan, kinds: tuple[str, ...]) -> None:
    found = run(lambda: run_chaos(tmp_path, 1, 1, plan=plan, kinds=kinds), LIMIT_S)
    assert found.broken == {law: [] for law in found.broken}
    assert found.is_ended
    assert found.delivered > 200
    assert found.faults


@pytest.mark.slow
def test_a_broker_that_forgets_is_caught(tmp_path: Path) -> None:
    plan = NetworkPlan(CHAIN, "tree", "memory", tls=False)
    found = run(lambda: run_chaos(tmp_path, 3, 1, plan=plan, kinds=("kill two at once",), patience_s=10.0), LIMIT_S)
    assert any(found.broken.values())
