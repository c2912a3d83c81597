"""Ad hoc networks: devices that move, without any fixed broker; the event broker is one of them. [mobile §3.1]

Pure machines. A device holds a client and, while it leads its island, an event broker.

| module | subject |
|---|---|
| `adhoc_node` | discovery by beacons, election, leases, merging and coordinating |
| `device` | relaying, and what client, event broker and circuits in one device send each other |
| `radio_routes` | which node is reached over which neighbour; which leaders were heard |
| `circuits` | a `Link` whose frames are relayed, instead of a connection |
| `session_following` | sessions that go to the event broker that their client follows |
| `event_broker` | a broker that hands over its sessions as a whole, or whose neighbours come and go |
| `radio_messages` | the messages |
"""

from godwit.adhoc.adhoc_node import AdHocNode
from godwit.adhoc.device import AdHocConfig

__all__ = ["AdHocConfig", "AdHocNode"]
