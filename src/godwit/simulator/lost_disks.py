"""Lost disks: which brokers have lost theirs, and which clients lost their session with one.

*Rules.*
1. A broker is in `brokers` from the loss of its disk until it restarts.
2. A client is in `clients` from the loss of its session until it is attached again and everything is quiet.
"""

from collections.abc import Callable

__all__ = ["LostDisks"]


class LostDisks:
    """What disk losses have left behind so far."""

    def __init__(self) -> None:
        self.has_lost_any = False
        self.brokers: dict[str, None] = {}  # that are down and have lost their disk
        self.clients: dict[str, None] = {}  # whose session is lost, and who have not been told yet

    def lose(self, broker: str) -> None:
        """A broker has lost its disk."""
        self.brokers[broker] = None

    def lose_session(self, client: str) -> None:
        """A client's session was on a lost disk."""
        self.clients[client] = None

    def restarted(self, broker: str) -> None:
        """A broker runs again, with a new disk or the old one."""
        self.brokers.pop(broker, None)

    def forget_clients(self, is_attached: Callable[[str], bool]) -> None:
        """Those that are attached have been told, and have made their requests again."""
        self.clients = {name: None for name in self.clients if not is_attached(name)}
