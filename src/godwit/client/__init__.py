"""The client's machine: subscribe, publish, come and go, and get every event once. Pure: no clock, no socket.

>>> from godwit.broker.effects import Heard, Opened
>>> from godwit.broker.messages import Attached, Receipt
>>> from godwit.client import Client
>>> from godwit.filters import parse
>>> ann = Client("ann")
>>> ann.subscribe("alerts", parse("kind = 'alert'"), now=0.0)  # kept until there is a broker
[]
>>> [type(effect.message).__name__ for effect in ann.handle(Opened("harbour"), now=1.0)]
['Attach']
>>> welcome = Attached(accepted=0, fresh=True, receipt=Receipt(), session="harbour/1/1")
>>> [type(effect.message.wish).__name__ for effect in ann.handle(Heard("harbour", welcome), now=1.1)]
['Subscribe']
"""

from typing import TYPE_CHECKING

from godwit.lazy_names import names_from

if TYPE_CHECKING:
    from godwit.client.client import Client, ClientConfig, Refusal
    from godwit.client.complete_merge import MergeBounds
    from godwit.client.merge_receipt import MergeReceipt, MissingEvent
    from godwit.client.replicas import FILTERS, ReplicaConfig, ReplicatedClient

__all__ = [
    "FILTERS",
    "Client",
    "ClientConfig",
    "MergeBounds",
    "MergeReceipt",
    "MissingEvent",
    "Refusal",
    "ReplicaConfig",
    "ReplicatedClient",
]

__getattr__ = names_from(
    __name__,
    {
        "Client": "client",
        "ClientConfig": "client",
        "FILTERS": "replicas",
        "MergeBounds": "complete_merge",
        "MergeReceipt": "merge_receipt",
        "MissingEvent": "merge_receipt",
        "Refusal": "client",
        "ReplicaConfig": "replicas",
        "ReplicatedClient": "replicas",
    },
)
