"""The peer of an HTTP connection, for the memory account of connections.

*Theory.* A connection begins as HTTP and may become a WebSocket: two protocols, one after the other, and requests in
between that authenticate the user. They share one `HttpPeer`, in the state that uvicorn passes to every request.
"""

from collections.abc import Callable

__all__ = ["HttpPeer"]


class HttpPeer:
    """The other end of one connection."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.user_of: Callable[[], str | None] = lambda: None  # None: not authenticated yet
        self.unsent_of: Callable[[], int] = lambda: 0  # bytes that wait for the transport
        self.is_administrator = False  # it was authenticated as one

    def admit(self, user: str, *, is_administrator: bool = False) -> None:
        """The peer was authenticated."""
        self.user_of = lambda: user
        self.is_administrator = is_administrator

    @property
    def party(self) -> str:
        """The user, or the host before authentication."""
        user = self.user_of()
        return self.host if user is None else user

    @property
    def is_admitted(self) -> bool:
        """Whether it is authenticated."""
        return self.user_of() is not None
