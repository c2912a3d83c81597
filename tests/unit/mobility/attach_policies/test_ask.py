"""The mode `ask`: questions for what a client wants, where several brokers wait for the same client."""

from typing import Any

import pytest

from godwit.broker.effects import Arrived
from godwit.broker.messages import Attach, Frame, Packet
from godwit.mobility.move_messages import AskInterests, Replay
from godwit.mobility.relocation import Relocation
from godwit.testing.machine_network import machines
from tests.session_states import session_state
from tests.transcripts.network import Network

OVERLAYS = {"tree": "a-b b-c", "graph": "a-b b-c c-a"}
STATE = session_state(name="old/1/1")


def started(family: str) -> Network:
    net = Network(OVERLAYS[family], family=family)
    net.start(1.0)
    return net


def come(net: Network, broker: str, home: str, attempt: int) -> None:
    """A client that brings nothing comes to a broker and names another as the place of its session."""
    connection = f"ann#{broker}{attempt}"
    net.open(connection, broker)
    net.say(broker, connection, Attach("ann", mode="ask", session=f"{home}/1/1", home=home, attempt=attempt))


def questions(net: Network) -> int:
    """How often a broker received a question for what the client wants."""
    inputs = [input for node in net.nodes.values() for input, _, _ in node.journal]
    return sum(isinstance(_message(input), AskInterests) for input in inputs)


def _message(input: Any) -> Any:
    message = input.frame.message if isinstance(input, Arrived) and isinstance(input.frame, Frame) else None
    return message.message if isinstance(message, Packet) else message


@pytest.mark.parametrize("family", OVERLAYS)
@pytest.mark.parametrize("attempts", [(1, 2), (2, 1), (1, 1)])
def test_brokers_that_name_each_other_as_the_home_of_a_client_stop_asking_each_other(
    family: str, attempts: tuple[int, int]
) -> None:
    """Their own questions end it: of two brokers that wait for a client, one supersedes the other."""
    net = started(family)
    come(net, "a", "b", attempts[0])
    come(net, "b", "a", attempts[1])
    come(net, "c", "a", 3)
    net.run(30.0)
    assert 3 <= questions(net) < 20


@pytest.mark.parametrize("family", OVERLAYS)
def test_a_question_is_not_sent_in_circles_while_a_part_of_the_session_is_here(family: str) -> None:
    """The broker is superseded, and waits for the rest: nobody else can say what the client wants."""
    net = started(family)
    come(net, "a", "b", 1)
    net.nodes["a"].machine.component(Relocation).on_replay(
        "b", Replay("ann", "a", 1, STATE, (), is_last=False), net.now
    )
    come(net, "b", "a", 2)
    net.run(1.0)
    come(net, "c", "a", 3)
    before = questions(net)
    net.run(9.0)
    assert questions(net) - before < 5


@pytest.mark.parametrize("family", OVERLAYS)
def test_a_client_that_moves_takes_along_what_waited_for_it(family: str) -> None:
    net = machines("a-b b-c", family=family)
    net.pass_time(60.0)
    net.ask("ann", net.attach("ann", "a", mode="ask").subscribe("s", "n > 0", net.now))
    net.attach("pub", "c")
    net.pass_time(60.0)
    net.detach("ann")
    net.ask("pub", net.clients["pub"].publish({"n": 1}, net.now))
    net.pass_time(1.0)
    net.attach("ann", "b", mode="ask")
    net.pass_time(60.0)
    net.ask("pub", net.clients["pub"].publish({"n": 2}, net.now))
    net.pass_time(60.0)
    assert net.notified("ann") == [("pub", 1), ("pub", 2)]
    assert net.machine("a").sessions.session("ann") is None
