"""What a device remembers of the events that it publishes at a fixed broker."""

from types import SimpleNamespace
from typing import Any

import pytest

from godwit.filters.events import Event
from godwit.runtime import adhoc_uplink
from godwit.runtime.adhoc_uplink import Uplink
from tests.network.waiting import run, until


def numbered(number: int, publisher: str = "p") -> Event:
    return Event({"n": number}, publisher=publisher, sequence=number)


def test_an_event_that_another_island_has_brought_up_is_not_taken_for_one_of_this_island() -> None:
    async def scene() -> None:
        uplink = Uplink("net", ["127.0.0.1:1"])
        uplink.take(numbered(6))  # 5 was published in another island
        assert uplink.has_taken("p", 6)
        assert not uplink.has_taken("p", 5)
        uplink.take(numbered(5))  # comes late, and does not go up
        assert uplink.left_out == 1
        assert uplink.has_taken("p", 5)
        assert not uplink.has_taken("q", 5)

    run(scene)


class BrokenOnce:
    """A client that fails in an unexpected way when it publishes for the first time."""

    def __init__(self) -> None:
        self.machine = SimpleNamespace(refusals=[])
        self.published: list[int] = []
        self.has_failed = False

    async def __aenter__(self) -> "BrokenOnce":
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    def publish(self, event: Event, number: int) -> None:
        if not self.has_failed:
            self.has_failed = True
            raise KeyError("unexpected")
        self.published.append(number)

    async def drain(self) -> None:
        pass

    async def close(self, leave: bool) -> None:
        pass


def test_after_an_unexpected_error_it_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        client, troubles = BrokenOnce(), list[str]()
        uplink = Uplink("net", ["127.0.0.1:1"])

        def connect(*brokers: str, **options: Any) -> BrokenOnce:
            troubles.append(uplink.trouble)
            return client

        monkeypatch.setattr(adhoc_uplink, "connect", connect)
        monkeypatch.setattr(adhoc_uplink, "RETRY_S", 0.0)
        uplink.start()
        uplink.take(numbered(1))
        await until(lambda: uplink.brought == 1, "it has tried again")
        await uplink.drained()
        assert (client.published, troubles, uplink.trouble) == ([1], ["", "KeyError('unexpected')"], "")
        await uplink.close()

    run(scene)
