"""Administrators see clients whose sessions are on their way."""

from types import SimpleNamespace
from typing import Any

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.messages import Attach
from godwit.mobility import mobile_broker
from godwit.mobility.arrival import Arrival
from godwit.mobility.relocation import Relocation
from godwit.runtime.session_answers import SessionAnswers


def test_clients_that_came_before_their_sessions_are_moving() -> None:
    machine: Any = mobile_broker("b1", {"b2": 1.0}, BrokerConfig())
    node: Any = SimpleNamespace(machine=machine)
    answers = SessionAnswers(node, SimpleNamespace())  # type: ignore[arg-type]
    assert "moving" not in answers.all()
    for client in ("tram", "van"):
        arrival = Arrival(Attach(client, 1, session="s", home="b2"), "c1", gives_up_at=9.0)
        machine.component(Relocation).put_arrival(arrival)
    told = answers.all(limit=1)
    assert (told["count"], told["moving_count"]) == (0, 2)
    assert [(row["client"], row["from"], row["gives_up_at"]) for row in told["moving"]] == [("tram", "b2", 9.0)]
    assert [row["client"] for row in answers.all(search="va")["moving"]] == ["van"]
