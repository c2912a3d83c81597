"""Confirmation of deliveries to the broker: in groups, and soon after a delivery."""

from godwit.broker.effects import Effect, StartTimer, StopTimer, Tell, TimerKey
from godwit.broker.messages import Received
from godwit.client.client_config import ClientConfig

__all__ = ["CONFIRM_TIMER", "Confirmations"]

CONFIRM_TIMER: TimerKey = ("confirm",)


class Confirmations:
    """The deliveries of this connection that are not confirmed yet."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._last = 0  # the number of the last delivery, which may have come before over another connection
        self._count = 0  # since the last Received

    def came(self, number: int) -> None:
        """A delivery has come over this connection."""
        self._last = number

    def due(self, connection: str, now: float) -> list[Effect]:
        """What has come is to be confirmed, now or in a moment."""
        self._count += 1
        if self._count >= self._config.confirm_every:
            return [StopTimer(CONFIRM_TIMER), *self.said(connection)]
        return [StartTimer(CONFIRM_TIMER, now + self._config.confirm_after_s)] if self._count == 1 else []

    def said(self, connection: str) -> list[Effect]:
        """Confirm all that has come, if anything has."""
        if not self._count:
            return []
        self._count = 0
        return [Tell(connection, Received(self._last))]

    def stop(self) -> list[Effect]:
        """The connection is gone: the next Attach says how far we are."""
        if not self._count:
            return []
        self._count = 0
        return [StopTimer(CONFIRM_TIMER)]
