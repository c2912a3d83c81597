"""An attach policy: a client that turns up elsewhere is sent back to the broker that has its session."""

from godwit.broker.component import Handlers
from godwit.broker.effects import Close, Effect, Tell
from godwit.broker.host import Host
from godwit.broker.messages import Attach, Bye
from godwit.mobility.extensions import Policy, register_attach_policy
from godwit.mobility.modes import Mode
from godwit.mobility.relocation import Relocation


class SendHome:
    """Attaches a client only where its session is."""

    label = "send home"
    host: Host

    def __init__(self, relocation: Relocation) -> None:
        self.relocation = relocation

    def join(self, host: Host) -> Handlers:
        self.host = host
        return Handlers()

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        if message.home in ("", self.host.name):
            return self.relocation.attach(connection, message, now)
        reason = f"your session is at {message.home}: connect there"
        return [Tell(connection, Bye(reason)), Close(connection, reason)]

    def snapshot(self) -> None:
        """Nothing is kept."""

    def restore(self, state: None) -> None:
        """Nothing to take over."""


PROMISES = Mode(
    paper="none",
    what="the client is sent back to the broker that has its session",
    complete=True,
    unique=True,
    ordered=True,
    cost="nothing",
)
POLICY = Policy(PROMISES, SendHome)
register_attach_policy("send home", POLICY)
