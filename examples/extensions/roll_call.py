"""A component: a client asks its broker who else is connected there."""

from typing import ClassVar

import msgspec

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, Tell
from godwit.broker.host import Host
from godwit.codec import register_messages, register_states
from godwit.mobility.extensions import register_component


class WhoIsHere(msgspec.Struct, frozen=True, tag=True):
    """From a client: who is connected to you?"""


class Connected(msgspec.Struct, frozen=True, tag=True):
    """To a client: these are, and so many questions came before yours."""

    clients: tuple[str, ...]
    asked_before: int


class RollCallState(msgspec.Struct, frozen=True, tag=True):
    """What a journal keeps of the component."""

    version: ClassVar[int] = 1
    asked: int


class RollCall:
    """Answers `WhoIsHere`."""

    label = "roll call"
    host: Host

    def __init__(self) -> None:
        self.asked = 0

    def join(self, host: Host) -> Handlers:
        self.host = host
        return Handlers(client_messages={WhoIsHere: self.on_who_is_here})

    def on_who_is_here(self, connection: str, message: WhoIsHere, now: float) -> list[Effect]:
        names = tuple(session.client for session in self.host.sessions if session.connection is not None)
        self.asked += 1
        return [Tell(connection, Connected(names, self.asked - 1))]

    def snapshot(self) -> RollCallState:
        return RollCallState(self.asked)

    def restore(self, state: RollCallState) -> None:
        self.asked = state.asked


register_messages(WhoIsHere, Connected)
register_states(RollCallState)
register_component("roll call", RollCall)
