"""Brokers: pure machines that route events by content. No clock, no socket, no randomness, no logging.

>>> from godwit.broker import Broker, BrokerConfig
>>> from godwit.broker.effects import LinkUp
>>> broker = Broker("b1", {"b2": 1.0}, BrokerConfig(reduction="covering"))
>>> [type(effect).__name__ for effect in broker.handle(LinkUp("b2"), now=0.0)]
['StopTimer', 'Send', 'StartTimer']
"""

from typing import TYPE_CHECKING

from godwit.lazy_names import names_from

if TYPE_CHECKING:
    from godwit.broker.broker import Broker
    from godwit.broker.broker_config import BrokerConfig
    from godwit.broker.limits import Limits
    from godwit.broker.links import LinkConfig
    from godwit.broker.reductions import REDUCTIONS

__all__ = ["REDUCTIONS", "Broker", "BrokerConfig", "Limits", "LinkConfig"]

__getattr__ = names_from(
    __name__,
    {
        "Broker": "broker",
        "BrokerConfig": "broker_config",
        "Limits": "limits",
        "LinkConfig": "links",
        "REDUCTIONS": "reductions",
    },
)
