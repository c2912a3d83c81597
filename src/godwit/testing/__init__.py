"""Networks for tests: pure machines that a test drives step by step.

>>> from godwit.testing import machines
>>> net = machines("a-b b-c")
>>> ann, van = net.attach("ann", "a"), net.attach("van", "c")
>>> net.ask("ann", ann.subscribe("parking", "cost < 3", net.now))
>>> net.ask("van", van.publish({"cost": 2}, net.now))
>>> net.notified("ann")
[('van', 1)]
"""

from godwit.testing.brokers import broker, neighbours, topology
from godwit.testing.machines import Handled, Machine, Machines, Notified, Recorded, Sent, Told, build, machines

__all__ = [
    "Handled",
    "Machine",
    "Machines",
    "Notified",
    "Recorded",
    "Sent",
    "Told",
    "broker",
    "build",
    "machines",
    "neighbours",
    "topology",
]
