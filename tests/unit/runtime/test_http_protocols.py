"""The places of HTTP connections."""

from typing import Any

from godwit.runtime.http_protocols import Place, Places


class Connection:
    """A connection, as places see it."""

    def __init__(self, *, is_idle: bool = False, is_administrators: bool = False) -> None:
        self.is_idle, self.is_administrators = is_idle, is_administrators
        self.is_closed = False
        self.transport = self

    def abort(self) -> None:
        self.is_closed = True


def entered(places: Places, connection: Connection) -> Place | None:
    protocol: Any = connection
    return places.enter(protocol)


def test_who_does_not_read_an_answer_keeps_no_reserved_place() -> None:
    """First the longest idle connection makes room, then the oldest one that is not an administrator's."""
    places = Places(0, reserved=3)
    held = [Connection(is_administrators=True), Connection(), Connection()]
    for each in held:
        assert entered(places, each) is not None
    health = Connection(is_idle=True)
    assert entered(places, health) is not None
    assert [each.is_closed for each in held] == [False, True, False]
    administrator = Connection(is_administrators=True)
    assert entered(places, administrator) is not None
    assert health.is_closed
    assert entered(places, Connection(is_administrators=True)) is not None
    assert [each.is_closed for each in held] == [False, True, True]
    assert entered(places, Connection()) is None  # all are administrators'
    assert not any(each.is_closed for each in (held[0], administrator))
