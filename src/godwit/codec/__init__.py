"""Messages and states as bytes: the wire format, and the stored form of machines.

>>> from godwit.broker.messages import Publish
>>> from godwit.codec import MESSAGES, Codec
>>> from godwit.filters import event
>>> json = Codec(MESSAGES, as_json=True)
>>> json.decode(json.encode(Publish(event({"kind": "alert"})))).event.attributes
{'kind': 'alert'}
"""

from typing import TYPE_CHECKING

from godwit.lazy_names import names_from

if TYPE_CHECKING:
    from godwit.codec.message_codec import MESSAGES, Codec, register_messages
    from godwit.codec.snapshots import SNAPSHOTS, STATES, DriverState, Snapshots, pack, register_states, unpack
    from godwit.codec.type_registry import TypeRegistry

__all__ = [
    "MESSAGES",
    "SNAPSHOTS",
    "STATES",
    "Codec",
    "DriverState",
    "Snapshots",
    "TypeRegistry",
    "pack",
    "register_messages",
    "register_states",
    "unpack",
]

__getattr__ = names_from(
    __name__,
    {
        "Codec": "message_codec",
        "DriverState": "snapshots",
        "MESSAGES": "message_codec",
        "SNAPSHOTS": "snapshots",
        "STATES": "snapshots",
        "Snapshots": "snapshots",
        "TypeRegistry": "type_registry",
        "pack": "snapshots",
        "register_messages": "message_codec",
        "register_states": "snapshots",
        "unpack": "snapshots",
    },
)
