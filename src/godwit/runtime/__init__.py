"""The runtime: the machines on real sockets and disks, with the native protocol, its journal and its client.

>>> import asyncio
>>> from godwit.broker.broker_config import BrokerConfig
>>> from godwit.mobility import mobile_broker
>>> from godwit.runtime import Node, NativeServer, connect
>>> async def scene() -> str:
...     node = Node(lambda: mobile_broker("b1", {}, BrokerConfig()))
...     server = NativeServer("b1", node, {})
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

from typing import TYPE_CHECKING

from godwit.lazy_names import names_from

if TYPE_CHECKING:
    from godwit.runtime.authentication import Authenticator, Credentials, Principal
    from godwit.runtime.connecting import connect
    from godwit.runtime.journal import Durability, Journal
    from godwit.runtime.link_authentication import LinkGuard
    from godwit.runtime.network_client import NetworkClient, PendingRequest, State, Subscription
    from godwit.runtime.node import Node
    from godwit.runtime.rate_limits import TrafficLimits
    from godwit.runtime.replicated_client import ReplicatedNetworkClient
    from godwit.runtime.security import SecuritySettings, authenticator_from
    from godwit.runtime.tcp import Address, NativeServer
    from godwit.runtime.tls import LinkSettings, TlsSettings, client_context, link_guard, server_context

__all__ = [
    "Address",
    "Authenticator",
    "Credentials",
    "Durability",
    "Journal",
    "LinkGuard",
    "LinkSettings",
    "NativeServer",
    "NetworkClient",
    "Node",
    "PendingRequest",
    "Principal",
    "ReplicatedNetworkClient",
    "SecuritySettings",
    "State",
    "Subscription",
    "TlsSettings",
    "TrafficLimits",
    "authenticator_from",
    "client_context",
    "connect",
    "link_guard",
    "server_context",
]

__getattr__ = names_from(
    __name__,
    {
        "Address": "tcp",
        "Authenticator": "authentication",
        "Credentials": "authentication",
        "Durability": "journal",
        "Journal": "journal",
        "LinkGuard": "link_authentication",
        "LinkSettings": "tls",
        "NativeServer": "tcp",
        "NetworkClient": "network_client",
        "Node": "node",
        "PendingRequest": "network_client",
        "Principal": "authentication",
        "ReplicatedNetworkClient": "replicated_client",
        "SecuritySettings": "security",
        "State": "network_client",
        "Subscription": "network_client",
        "TlsSettings": "tls",
        "TrafficLimits": "rate_limits",
        "authenticator_from": "security",
        "client_context": "tls",
        "connect": "connecting",
        "link_guard": "tls",
        "server_context": "tls",
    },
)
