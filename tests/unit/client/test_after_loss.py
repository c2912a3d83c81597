"""A client whose broker has lost its last inputs: it says all again, and ends what it does not know."""

from typing import Any

import pytest

from godwit.broker.effects import Closed, Effect, Heard, Notify, Opened, Tell
from godwit.broker.messages import Accepted, Attached, Delivery, Publish, Receipt, Request, Subscribe, Unsubscribe
from godwit.client import Client, ClientConfig
from godwit.filters.events import event


def wishes(effects: list[Effect]) -> list[Any]:
    said = [effect.message for effect in effects if isinstance(effect, Tell)]
    return [(message.number, message.wish) for message in said if isinstance(message, Request)]


def attached(
    client: Client, accepted: int = 0, *, fresh: bool = False, name: str = "b/1/1", **receipt: Any
) -> list[Effect]:
    client.handle(Opened("b"), 0.0)
    return client.handle(Heard("b", Attached(accepted, fresh, Receipt(**receipt), name, "b")), 0.0)


def test_a_broker_that_accepted_less_than_it_said_is_told_all_again() -> None:
    client = Client("c")
    attached(client, fresh=True)
    client.subscribe("all", "n >= 0", 0.0)
    for n in range(3):
        client.publish({"n": n}, 0.0)
    client.handle(Heard("b", Accepted(4)), 0.0)
    client.publish({"n": 3}, 0.0)  # which is not acknowledged
    client.handle(Closed("b"), 1.0)
    said = wishes(attached(client, accepted=2))
    assert [number for number, _ in said] == [3, 4]
    assert isinstance(said[0][1], Subscribe)
    assert isinstance(said[1][1], Publish)
    assert said[1][1].event.sequence == 4
    assert client.is_attached


def test_what_was_ended_in_lost_inputs_is_ended_again_and_not_shown() -> None:
    client = Client("c")
    attached(client, fresh=True)
    client.subscribe("kept", "n < 5", 0.0)
    client.subscribe("ended", "n >= 0", 0.0)
    client.unsubscribe("ended", 0.0)
    client.handle(Heard("b", Accepted(3)), 0.0)
    client.handle(Closed("b"), 1.0)
    attached(client, accepted=2, name="b/2/1", lost_since=0.0, session_lost=True)
    first = client.handle(Heard("b", Delivery(1, event({"n": 7}, publisher="p", sequence=1), ("ended",))), 1.0)
    assert [wish for _, wish in wishes(first)] == [Unsubscribe(("c", "ended"))]
    assert not [effect for effect in first if isinstance(effect, Notify)]
    both = event({"n": 1}, publisher="p", sequence=2)
    second = client.handle(Heard("b", Delivery(2, both, ("ended", "kept"))), 1.0)
    assert wishes(second) == []  # it was said once
    assert [effect for effect in second if isinstance(effect, Notify)] == [Notify(both, ("kept",))]


def test_without_a_loss_the_broker_decides_what_a_subscription_has_let_in() -> None:
    client = Client("c")
    attached(client, fresh=True)
    client.subscribe("ended", "n >= 0", 0.0)
    client.unsubscribe("ended", 0.0)
    client.handle(Heard("b", Accepted(2)), 0.0)
    late = event({"n": 1}, publisher="p", sequence=1)
    assert Notify(late, ("ended",)) in client.handle(Heard("b", Delivery(1, late, ("ended",))), 1.0)


@pytest.mark.parametrize("mode", ["carry", "explicit"])
def test_a_session_that_is_renamed_at_each_broker_is_none_after_a_loss(mode: str) -> None:
    client = Client("c", ClientConfig(mode=mode))
    attached(client, fresh=True)
    client.subscribe("ended", "n >= 0", 0.0)
    client.unsubscribe("ended", 0.0)
    client.handle(Heard("b", Accepted(2)), 0.0)
    client.handle(Closed("b"), 1.0)
    attached(client, accepted=2, name="c/1/1")
    late = event({"n": 1}, publisher="p", sequence=1)
    assert Notify(late, ("ended",)) in client.handle(Heard("b", Delivery(1, late, ("ended",))), 1.0)


def test_a_session_under_another_name_holds_what_was_ended_since() -> None:
    client = Client("c")
    attached(client, fresh=True)
    client.handle(Closed("b"), 1.0)
    attached(client, name="b/1/2")
    late = event({"n": 1}, publisher="p", sequence=1)
    effects = client.handle(Heard("b", Delivery(1, late, ("ended",))), 1.0)
    assert Notify(late, ("ended",)) not in effects
    assert any(isinstance(effect, Tell) and "ended" in str(effect.message) for effect in effects)
