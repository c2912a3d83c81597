"""Settings of a client, and the record of a refused wish."""

import msgspec

from godwit.client.request_outbox import Wish

__all__ = ["ClientConfig", "Refusal"]


class ClientConfig(msgspec.Struct, frozen=True):
    """How a client behaves."""

    quench: bool = False  # ask for the combined filter, and do not send what nobody wants
    buffer_events_max: int = 1_000
    in_flight_max: int = 128  # requests; below the `seen_window` of brokers
    confirm_every: int = 16  # deliveries
    confirm_after_s: float = 0.05
    seen_window: int = 1  # of a publisher's numbers; 1: what is behind the last has come, or has come too late
    seen_publishers_max: int = 1_024
    receipts_max: int = 100  # kept for the application, and as many refusals
    sequence_start: int = 0
    mode: str = "relocate"  # how it moves from broker to broker (mobility/modes.py)


class Refusal(msgspec.Struct, frozen=True):
    """A wish that the broker has refused, and why."""

    wish: Wish
    reason: str
