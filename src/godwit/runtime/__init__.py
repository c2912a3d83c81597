"""The runtime: the same machines on real sockets and disks. So far the native protocol, its journal and its client.

>>> import asyncio
>>> from godwit.broker.config import BrokerConfig
>>> from godwit.mobility import mobile_broker
>>> from godwit.runtime import Node, Server, connect
>>> async def scene() -> str:
...     node = Node(lambda: mobile_broker("b1", {}, BrokerConfig()))
...     server = Server("b1", node, {})
...     address = await server.listen("127.0.0.1", 0)
...     async with connect(address, name="ann") as ann, connect(address, name="van 7") as van:
...         parking = await ann.subscribe("kind = 'parking' AND cost < 3", sender="battery > 20")
...         van.set_context({"battery": 80}, part="gauge")
...         van.publish({"kind": "parking", "cost": 2})
...         event = await parking.next()
...     await server.close()
...     await node.close()
...     return f"{event.publisher}: {event.attributes['cost']}"
>>> asyncio.run(scene())
'van 7: 2'
"""

from godwit.runtime.admission import Credentials, Door, Principal
from godwit.runtime.client import Asked, Connected, State, Subscription, connect
from godwit.runtime.journal import Durability, Journal
from godwit.runtime.linking import LinkGuard
from godwit.runtime.node import Node
from godwit.runtime.rates import Traffic
from godwit.runtime.security import SecuritySettings, door_from
from godwit.runtime.tcp import Address, Server
from godwit.runtime.tls import LinkSettings, TlsSettings, client_context, link_guard, server_context

__all__ = [
    "Address",
    "Asked",
    "Connected",
    "Credentials",
    "Door",
    "Durability",
    "Journal",
    "LinkGuard",
    "LinkSettings",
    "Node",
    "Principal",
    "SecuritySettings",
    "Server",
    "State",
    "Subscription",
    "TlsSettings",
    "Traffic",
    "client_context",
    "connect",
    "door_from",
    "link_guard",
    "server_context",
]
