"""What an application has read is what brokers are told, also when a session goes on under another name."""

import asyncio
from typing import Any

from godwit.broker.effects import Closed, Heard, Opened
from godwit.broker.messages import Attached, Delivery, Receipt, Received
from godwit.client.client import ClientConfig
from godwit.filters.events import Event
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.pending_requests import Unread
from tests.network.waiting import a_turn


def test_all_up_to_the_first_that_is_not_read_is_read() -> None:
    unread = Unread()
    for number in (1, 2, 3):
        unread.came(number, 1)
    unread.read(2)
    assert (unread.count, unread.read_up_to) == (2, 0)
    unread.read(1)
    assert (unread.count, unread.read_up_to) == (1, 2)


def test_what_comes_again_counts_when_what_it_may_be_is_read() -> None:
    unread = Unread()
    unread.came(7, 1)
    unread.came(8, 1)
    unread.start_over()
    for number in (1, 2):
        unread.came_again(number)
    unread.read(0)
    assert (unread.count, unread.read_up_to) == (1, 0)
    unread.read(0)
    assert (unread.count, unread.read_up_to) == (0, 2)
    unread.came_again(3)
    unread.came_again(2)
    assert unread.read_up_to == 3


def test_a_session_under_another_name_is_confirmed_though_nothing_in_it_is_new() -> None:
    """Else brokers, which keep so many unconfirmed deliveries under way and no more, would tell nothing more."""

    async def scene() -> None:
        client = NetworkClient([], "r", ClientConfig(mode="named"), confirms_read=True)
        asking = asyncio.create_task(client.subscribe("n >= 0", name="sub"))
        await a_turn()
        events = [Event({"n": n}, "p", n + 1) for n in range(3)]

        def come(session: str, fresh: bool) -> None:
            client.handle(Opened("b"))
            client.handle(Heard("b", Attached(0, fresh, Receipt(), session, "b")))
            for number, event in enumerate(events, start=1):
                client.handle(Heard("b", Delivery(number, event, ("sub",))))

        def told() -> list[Any]:
            return [message.number for message in client._unsent if type(message) is Received]

        come("b/1/1", fresh=True)
        client.handle(Closed("b"))
        client._unsent.clear()
        come("b/2/1", fresh=False)
        subscription = client.subscriptions["sub"]
        assert len(subscription) == 3
        subscription.take(2)
        await a_turn()
        assert told() == []
        subscription.take(1)
        await a_turn()
        assert told() == [3]
        asking.cancel()

    asyncio.run(scene())
