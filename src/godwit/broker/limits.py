"""Limits: the most that clients can make a border broker store."""

import msgspec
from msgspec.structs import force_setattr

__all__ = ["WINDOW", "Limits"]

WINDOW = 1_024


class Limits(msgspec.Struct, frozen=True):
    """Bounds on sessions, their queues and their memory. All are above 0."""

    sessions_max: int = 10_000
    subscriptions_max: int = 1_000  # of a client
    advertisements_max: int = 100
    filter_literals_max: int = 1_000
    window: int = WINDOW  # deliveries that may be unconfirmed; if nothing is said, no more than a queue holds
    queue_events_max: int = 10_000
    queue_bytes_max: int = 16 * 2**20
    session_expiry_s: float | None = 86_400.0  # after which a client that is away is forgotten; None: never
    notes_max: int = 4_096  # that a client leaves with its session
    note_bytes_max: int = 4_096  # key and value
    seen_window: int = 256  # numbers remembered of a publisher, per session
    seen_publishers_max: int = 1_024
    retained_max: int = 10_000  # events, in the whole network
    retained_bytes_max: int = 64 * 2**20
    notes_bytes_max: int = 2**20  # of all notes of a client
    user_share: float = 1.0  # of sessions, retained events and outboxes of links that one user can take; 1: all
    user_bytes_max: int | None = None  # that queues and notes of one user can take; None: no bound but those above
    user_filter_bytes_max: int | None = None  # that subscriptions and advertisements of one user can take

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value!r}: it must be above 0")
        if self.user_share > 1:
            raise ValueError(f"user_share is {self.user_share!r}: at most 1 is allowed")
        if self.window == WINDOW > self.queue_events_max:
            force_setattr(self, "window", self.queue_events_max)
        if self.window > self.queue_events_max:
            raise ValueError(f"window is {self.window}: at most queue_events_max ({self.queue_events_max}) is allowed")

    @property
    def user_sessions_max(self) -> int:
        """How many sessions one user can have."""
        return max(1, int(self.user_share * self.sessions_max))

    @property
    def user_retained_max(self) -> int:
        """How many retained events one user can have, in the whole network."""
        return max(1, int(self.user_share * self.retained_max))

    @property
    def user_retained_bytes_max(self) -> int:
        """Their size."""
        return max(1, int(self.user_share * self.retained_bytes_max))
