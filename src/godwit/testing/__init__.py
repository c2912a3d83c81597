"""Networks in memory for tests: brokers and clients on asyncio, and pure machines that a test drives step by step.

>>> import asyncio
>>> from godwit.testing import machines, network
>>> async def scene() -> str:
...     async with network(brokers=3) as net:
...         anna = await net.client("anna", at="b1")
...         van = await net.client("van 7", at="b3")
...         parking = await anna.subscribe("kind = 'parking' AND cost < 3")
...         await net.settled()
...         await anna.move("b2")
...         van.publish({"kind": "parking", "cost": 2})
...         event = await parking.next()
...         return f"{event.publisher}: {event.attributes['cost']}"
>>> asyncio.run(scene())
'van 7: 2'

`machines` has neither an event loop nor a clock: the test decides what happens next.

>>> net = machines("a-b b-c")
>>> ann, van = net.attach("ann", "a"), net.attach("van", "c")
>>> net.ask("ann", ann.subscribe("parking", "cost < 3", net.now))
>>> net.ask("van", van.publish({"cost": 2}, net.now))
>>> net.notified("ann")
[('van', 1)]
"""

from godwit.testing.broker_factory import broker, neighbours, topology
from godwit.testing.machine_network import Machine, Machines, build, machines
from godwit.testing.memory_disk import MemoryJournal
from godwit.testing.memory_network import Arriving, Network, network
from godwit.testing.observations import Handled, Notified, Recorded, Sent, Told
from godwit.testing.virtual_clock import VirtualClock

__all__ = [
    "Arriving",
    "Handled",
    "Machine",
    "Machines",
    "MemoryJournal",
    "Network",
    "Notified",
    "Recorded",
    "Sent",
    "Told",
    "VirtualClock",
    "broker",
    "build",
    "machines",
    "neighbours",
    "network",
    "topology",
]
