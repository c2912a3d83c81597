"""After a loss: a broker has lost its last inputs, so its session may hold what the client has ended or replaced.

*Theory.* The client sends all its subscriptions again. A subscription that it had replaced in the lost inputs is in
force at the broker until then, and one that it had ended stays. So the client tests deliveries itself, and ends
subscriptions that it does not know.

*Rules.*
1. Only while a session continues after a loss (`is_on`): otherwise the broker's decision stands. It stays so until the
   client begins another session: an event may come late for a subscription that has ended long ago. That a session goes
   on under another name shows a loss, but in the modes that rename it at each broker.
2. A broker may not know of its loss: its disk did not report it, and no neighbour knows more. A client to which it had
   acknowledged more requests than it has knows it, and tells its application by the receipt (`of_loss`).
"""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from godwit.broker.messages import Attached, Delivery, NodeId, Receipt, Subscribe, Unsubscribe
from godwit.client.request_outbox import Topic
from godwit.filters.events import Event
from godwit.filters.references import is_open

__all__ = ["AfterLoss", "follows_loss", "of_loss", "wants"]

UNKNOWN_SINCE = 0.0
RENAMING = ("carry", "explicit")  # modes in which a session has another name at each broker, without any loss


def follows_loss(mode: str, session: str, message: Attached) -> bool:
    """Whether a session that is not resumed goes on after a loss. `session`: the one that its client knew, or ""."""
    is_renamed = not message.fresh and session != "" and mode not in RENAMING
    return is_renamed or message.receipt.lost_since is not None


def of_loss(receipt: Receipt) -> Receipt:
    """The receipt of a broker that has lost something and does not know it. (rule 2)"""
    return receipt if receipt.lost_since is not None else structs.replace(receipt, lost_since=UNKNOWN_SINCE)


def wants(wanted: Mapping[Topic, Any], name: str, event: Event) -> bool:
    """Whether a subscription is still there and matches, as far as can be told at a client."""
    wish = wanted.get(("subscription", name))
    return isinstance(wish, Subscribe) and (is_open(wish.filter) or wish.filter.matches(event))


class AfterLoss:
    """Whether a session goes on after a loss, and what of it was ended for that."""

    def __init__(self) -> None:
        self.is_on = False
        self._ended: dict[str, None] = {}

    def begin(self, *, is_on: bool) -> None:
        """A session begins or goes on, after a loss or not."""
        self.is_on = is_on
        self._ended.clear()

    def unknown(self, client: NodeId, delivery: Delivery, wanted: Mapping[Topic, Any]) -> list[Unsubscribe]:
        """The ends of the subscriptions that a delivery is for and that the client does not have, each once."""
        names = [name for name in delivery.subscriptions if ("subscription", name) not in wanted]
        names = [name for name in names if self.is_on and name not in self._ended]
        self._ended.update(dict.fromkeys(names))
        return [Unsubscribe((client, name)) for name in names]
