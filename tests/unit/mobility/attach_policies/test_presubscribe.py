"""Sessions that go ahead of their clients: what a broker remembers of clients that greet it."""

from godwit.broker.effects import Closed, Heard, Opened, StartTimer
from godwit.broker.messages import Attach
from godwit.mobility.attach_policies.presubscribe import (
    AHEAD_AFTER_S,
    BEFORE_SPARE,
    PRESUBSCRIBE,
    PresubscribePolicy,
    PresubscribeState,
)
from godwit.testing.machine_network import Machines, machines

SETTLES_S = 120.0


def remembered(net: Machines, name: str) -> dict[str, str]:
    state = net.machine(name).component(PresubscribePolicy).snapshot()
    assert isinstance(state, PresubscribeState)
    return state.before


def test_greetings_that_lead_to_no_session_leave_little_behind() -> None:
    net = machines("a-b")
    net.pass_time(SETTLES_S)
    for number in range(3 * BEFORE_SPARE):
        net.give("a", Opened(f"connection {number}"))
        greeting = Attach(f"stranger {number}", attempt=5, home="nowhere", mode=PRESUBSCRIBE)
        net.give("a", Heard(f"connection {number}", greeting))
        net.give("a", Closed(f"connection {number}"))
        net.pass_time(SETTLES_S)  # it is given up
    assert len(net.machine("a").sessions) == 0
    assert len(remembered(net, "a")) <= BEFORE_SPARE + 2


def test_a_client_with_a_session_is_remembered_however_many_greet() -> None:
    net = machines("a-b")
    net.pass_time(SETTLES_S)
    net.attach("walker", "b", mode=PRESUBSCRIBE)
    net.pass_time(1.0)
    net.detach("walker")
    net.attach("walker", "a", mode=PRESUBSCRIBE)
    net.pass_time(1.0)
    assert remembered(net, "a") == {"walker": "b"}
    policy = net.machine("a").component(PresubscribePolicy)
    for number in range(3 * BEFORE_SPARE):
        policy._remember(f"stranger {number}", "nowhere")
    assert remembered(net, "a")["walker"] == "b"


def test_a_session_goes_ahead_some_time_after_its_client_has_gone() -> None:
    net = machines("a-b")
    net.pass_time(SETTLES_S)
    net.attach("walker", "a", mode=PRESUBSCRIBE)
    connection = net.machine("a").sessions.session("walker").connection
    effects = net.give("a", Closed(connection))
    due = [effect.at for effect in effects if isinstance(effect, StartTimer) and effect.key == ("ahead", "walker")]
    assert due == [net.now + AHEAD_AFTER_S]
