"""The greeting in the mode `junction`: the last number received for each subscription, without the last broker.

*Paper.* [rebeca §4.1] "re-issues a subscription together with the last received sequence number for this subscription";
"neither client nor broker need to have any knowledge about the old location".
"""

from msgspec import structs

from godwit.broker.messages import Attach, Delivery

__all__ = ["SubscriptionNumbers"]


class SubscriptionNumbers:
    """By subscription, the number of the last delivery that came for it, in one session."""

    def __init__(self, mode: str) -> None:
        self._is_on = mode == "junction"
        self._session = ""
        self._numbers: dict[str, int] = {}

    def came(self, session: str, delivery: Delivery) -> None:
        """A delivery has come for some subscriptions."""
        if not self._is_on:
            return
        if session != self._session:
            self._session, self._numbers = session, {}
        self._numbers.update(dict.fromkeys(delivery.subscriptions, delivery.number))

    def greeting(self, attach: Attach) -> Attach:
        """The greeting as this mode has it. What an application has not read yet has not come."""
        if not self._is_on:
            return attach
        names = {wish.id[1] for wish in attach.wanted}
        known = self._numbers if attach.session == self._session else {}
        numbers = {name: min(number, attach.received) for name, number in known.items() if name in names}
        return structs.replace(attach, home="", numbers=numbers)
