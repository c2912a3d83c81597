"""Who is at the other end of an HTTP connection, for whoever counts what connections hold.

*Theory.* A connection begins as HTTP and may become a WebSocket: two protocols, one after the other, and requests in
between that know who asks. What they share is one `HttpPeer`, in the state that uvicorn hands to every request.
"""

from collections.abc import Callable

__all__ = ["HttpPeer"]


class HttpPeer:
    """The other end of one connection."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.user_of: Callable[[], str | None] = lambda: None  # None: it was not let in yet
        self.unsent_of: Callable[[], int] = lambda: 0  # bytes that wait before they are given to the transport

    def admit(self, user: str) -> None:
        """It was let in."""
        self.user_of = lambda: user

    @property
    def party(self) -> str:
        """The user, or the host while nobody knows the user."""
        user = self.user_of()
        return self.host if user is None else user

    @property
    def is_admitted(self) -> bool:
        """Whether it was let in."""
        return self.user_of() is not None
