"""Components and attach policies from outside: named in settings, or refused with the names that are known."""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import pytest

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, StartTimer, Tell, TimerDue, TimerKey
from godwit.broker.host import Host
from godwit.broker.messages import Attach, Attached
from godwit.codec import register_states
from godwit.errors import ConfigurationError, SnapshotError
from godwit.mobility import mobile_broker
from godwit.mobility.extensions import (
    Policy,
    component_names,
    register_attach_policy,
    register_component,
)
from godwit.mobility.modes import MODES
from godwit.mobility.relocation import Relocation
from godwit.testing import machines
from tests.snapshots import read_again


class TickerState(msgspec.Struct, frozen=True, tag=True):
    version: ClassVar[int] = 1
    ticks: int


class Ticker:
    """Counts the beats of a timer of its own."""

    label = "ticker"
    host: Host

    def __init__(self) -> None:
        self.ticks = 0

    def join(self, host: Host) -> Handlers:
        self.host = host
        return Handlers(timers={"tick": self.on_tick})

    def on_tick(self, key: TimerKey, now: float) -> list[Effect]:
        self.ticks += 1
        return [StartTimer(key, now + 1.0)]

    def snapshot(self) -> TickerState:
        return TickerState(self.ticks)

    def restore(self, state: TickerState) -> None:
        self.ticks = state.ticks


class Greeter:
    """Attaches as `relocate` does."""

    label = "greeter"

    def __init__(self, relocation: Relocation) -> None:
        self.relocation = relocation

    def join(self, host: Host) -> Handlers:
        return Handlers()

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        return self.relocation.attach(connection, message, now)

    def snapshot(self) -> None:
        return None

    def restore(self, state: None) -> None:
        return None


register_states(TickerState)
register_component("test ticker", Ticker)


@pytest.fixture(autouse=True, scope="module")
def greeter() -> Iterator[None]:
    """The mode is known while these tests run: others take every known mode as a parameter."""
    register_attach_policy("test greeter", Policy(MODES["relocate"], Greeter))
    yield
    del MODES["test greeter"]


def ticking() -> Broker:
    return mobile_broker("b", {}, BrokerConfig(components=("test ticker",)))


def test_a_component_that_settings_name_handles_its_timer() -> None:
    broker = ticking()
    assert broker.handle(TimerDue(("tick",)), 1.0) == [StartTimer(("tick",), 2.0)]
    assert broker.component(Ticker).ticks == 1


def test_its_state_is_part_of_the_brokers() -> None:
    broker = ticking()
    broker.handle(TimerDue(("tick",)), 1.0)
    again = ticking()
    again.restore(read_again(broker.snapshot()))
    assert again.component(Ticker).ticks == 1
    assert again.handle(TimerDue(("tick",)), 2.0) == broker.handle(TimerDue(("tick",)), 2.0)


def test_a_broker_without_the_component_refuses_a_snapshot_with_its_state() -> None:
    plain = mobile_broker("b", {}, BrokerConfig())
    with pytest.raises(SnapshotError, match="holds the state of ticker: this broker has the components groups, "):
        plain.restore(ticking().snapshot())


def test_two_components_that_handle_the_same_timer_are_refused() -> None:
    class Rival(Ticker):
        label = "rival"

    with pytest.raises(ValueError, match="two components of one broker claim 'tick'"):
        Broker("b", {}, BrokerConfig(), components=[Ticker(), Rival()])


def test_two_components_with_one_label_are_refused() -> None:
    with pytest.raises(ValueError, match="two components of one broker claim 'ticker'"):
        Broker("b", {}, BrokerConfig(), components=[Ticker(), Ticker()])


def test_what_a_broker_handles_itself_no_component_may_claim() -> None:
    class Thief(Ticker):
        label = "thief"

        def join(self, host: Host) -> Handlers:
            return Handlers(timers={"ack": self.on_tick})

    with pytest.raises(ValueError, match="two components of one broker claim 'ack'"):
        Broker("b", {}, BrokerConfig(), components=[Thief()])


def test_a_snapshot_without_the_state_of_a_component_is_refused() -> None:
    with pytest.raises(SnapshotError, match="holds no state of 'ticker'"):
        ticking().restore(mobile_broker("b", {}, BrokerConfig()).snapshot())


def test_an_unknown_component_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigurationError, match=r"there is no component 'clock': known are .*test ticker"):
        mobile_broker("b", {}, BrokerConfig(components=("clock",)))
    assert "test ticker" in component_names()


def test_an_attach_policy_that_settings_name_attaches_clients() -> None:
    net = machines("a-b", attach_policies=("test greeter",))
    net.say("a", "c", Attach("ann", mode="test greeter"))
    net.run()
    assert any(isinstance(told.message, Attached) for told in net.told)


def test_without_it_the_mode_is_refused_with_those_that_are_allowed() -> None:
    broker = mobile_broker("b", {}, BrokerConfig())
    effects = broker.handle(heard(Attach("ann", mode="test greeter")), 0.0)
    [bye] = [effect.message for effect in effects if isinstance(effect, Tell)]
    assert bye.reason.startswith("Attach.mode is 'test greeter': allowed are relocate, ask, ")


def test_the_name_of_a_mode_that_exists_cannot_be_taken() -> None:
    with pytest.raises(ValueError, match="there is a mode 'relocate' already"):
        register_attach_policy("relocate", Policy(MODES["ask"], Greeter))


def heard(message: Any) -> Any:
    from godwit.broker.effects import Heard

    return Heard("c", message)
