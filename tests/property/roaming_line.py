"""Three brokers in a line, a – b – c, which know of each other. Clients say whatever a test lets them say."""

from typing import Any

import godwit.baselines  # noqa: F401 (it has the mode naive)
from godwit.broker.messages import Attached, NodeId
from godwit.testing import Machines, build

NAMES = ("a", "b", "c")


class RoamingLine(Machines):
    def __init__(self, **config: Any) -> None:
        super().__init__()
        build(self, "a-b b-c", **{"attach_policies": ("naive",), **config})
        self.pass_time(1.0)

    def start_again(self, name: NodeId, *, keeps_disk: bool) -> None:
        """A broker crashes and comes back."""
        self.crash(name, keeps_disk=keeps_disk)
        self.run()
        self.restart(name, rejoins=True)
        self.run()

    def block(self, *links: str) -> None:
        """What is sent over these links is lost from now on, and over no other."""
        self.blocked = {(link[0], link[1]) for each in links for link in (each, each[::-1])}

    def sessions_told(self) -> list[str]:
        """The names of all sessions that clients have heard of."""
        return [message.session for _, _, message in self.told if isinstance(message, Attached)]

    def is_attached(self, at: NodeId, connection: str) -> bool:
        return any(isinstance(said, Attached) for where, over, said in self.told if (where, over) == (at, connection))
