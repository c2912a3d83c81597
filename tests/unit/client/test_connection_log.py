"""The log of a client's connections has brokers by their names, also where the client dials addresses."""

from godwit.broker.messages import PastConnection
from godwit.client.connection_log import ConnectionLog


def test_a_broker_is_noted_by_the_name_that_it_has_said() -> None:
    log = ConnectionLog()
    log.greet("10.0.0.1:7077", 1, 1.0)
    log.name("10.0.0.1:7077", "b1")
    others, _ = log.greet("10.0.0.2:7077", 2, 5.0)
    assert others == (PastConnection("b1", 1, 5.0),)


def test_a_broker_that_has_not_answered_is_noted_by_its_address() -> None:
    log = ConnectionLog()
    log.greet("10.0.0.1:7077", 1, 1.0)
    others, _ = log.greet("b2", 2, 5.0)
    assert others == (PastConnection("10.0.0.1:7077", 1, 5.0),)


def test_two_addresses_of_one_broker_are_one_entry() -> None:
    log = ConnectionLog()
    for number, address in enumerate(("10.0.0.1:7077", "[::1]:7077"), start=1):
        log.greet(address, number, float(number))
        log.name(address, "b1")
    others, _ = log.greet("b2", 3, 9.0)
    assert others == (PastConnection("b1", 2, 9.0),)
    log.strike(("b1",), "b2")
    assert len(log) == 1
