"""Looking for sessions by the routing tables: what neighbours say of the same client, by accident or on purpose."""

from typing import Any

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Arrived, Heard, LinkUp, Opened, Send
from godwit.broker.messages import Attach, Frame, Hello, Subscribe, Synced
from godwit.filters.filters import TRUE
from godwit.mobility import mobile_broker
from godwit.mobility.move_checks import ROUNDS_MAX
from godwit.mobility.move_messages import FetchedSubscription, FetchSession


def told(broker: Any, *messages: Any) -> None:
    for number, message in enumerate((Synced("advertisements"), Synced("subscriptions"), *messages)):
        broker.handle(Arrived("n", Frame(number + 1, 0, message)), 1.0)


def test_a_client_is_looked_for_though_another_device_of_its_name_was_with_the_same_attempt() -> None:
    for round in (1, 7, ROUNDS_MAX):
        broker: Any = mobile_broker("b", {"n": 1.0}, BrokerConfig())
        broker.handle(LinkUp("n"), 0.0)
        broker.handle(Arrived("n", Hello(1, 1, 0, 1, True)), 0.0)
        told(broker, FetchSession("ann", "n", 3, 1, "x/1/1", (FetchedSubscription("s", TRUE, 0),), (), round))
        broker.handle(Opened("c"), 2.0)
        wanted = (Subscribe(("ann", "s"), TRUE),)
        effects = broker.handle(
            Heard("c", Attach("ann", session="x/1/1", attempt=3, mode="junction", wanted=wanted)), 2.0
        )
        sent = [each.frame.message for each in effects if isinstance(each, Send) and isinstance(each.frame, Frame)]
        [fetch] = [each for each in sent if isinstance(each, FetchSession)]
        assert (fetch.to, fetch.attempt, fetch.round) == ("b", 3, min(round + 1, ROUNDS_MAX))


def test_a_round_that_no_search_comes_to_is_a_fault() -> None:
    for round in (-1, ROUNDS_MAX + 1):
        broker: Any = mobile_broker("b", {"n": 1.0}, BrokerConfig())
        broker.handle(LinkUp("n"), 0.0)
        broker.handle(Arrived("n", Hello(1, 1, 0, 1, True)), 0.0)
        told(broker, FetchSession("ann", "n", 3, 1, "x/1/1", (), (), round))
        assert f"round {round} of a FetchSession" in broker.links["n"].fault
