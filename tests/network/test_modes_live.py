"""Every mode of moving on real sockets: a client moves while events are published, and the row of its mode holds.

The column *live* of docs/reference/modes.md says yes for all of these.
"""

import pytest

from godwit.baselines import naive_policy  # importing it registers the mode
from godwit.broker.broker_config import BrokerConfig
from godwit.mobility.modes import MODES
from tests.network.fleet import fleet
from tests.network.waiting import a_turn, run, until

EVENTS = 10  # before a move, beside it, and after it
SUBSCRIBING = [name for name, mode in MODES.items() if mode.suits("subscribers") and mode.live == "yes"]
PUBLISHING = [name for name, mode in MODES.items() if mode.for_publishers]


@pytest.mark.parametrize("mode", SUBSCRIBING)
def test_a_subscriber_that_moves_gets_what_its_mode_promises(mode: str) -> None:
    """In the mode explicit it announces its move, and nothing is lost either."""

    async def scene() -> None:
        async with fleet() as every:
            moving, staying = await every.come("s", "b0", mode=mode), await every.come("p", "b2")
            book = every.book
            await book.listen(moving, "n >= 0")
            await every.settled()
            for number in range(3 * EVENTS):
                if number == EVENTS:
                    await every.roam("s", "b3")
                if number == 2 * EVENTS:
                    await moving.attached()
                book.publish(staying, {"n": number})
            await until(lambda: book.count("s") >= 3 * EVENTS, "all have come")
            await every.quiet()
            laws = {violation.law for violation in book.verdict().violations}
            assert laws <= (set() if MODES[mode].ordered else {"order"}), laws

    run(scene)


@pytest.mark.parametrize("mode", PUBLISHING)
def test_what_a_publisher_says_after_its_move_comes_once_and_in_order(mode: str) -> None:
    async def scene() -> None:
        async with fleet(config=BrokerConfig(advertisements="required")) as every:
            van, reader = await every.come("van", "b0", mode=mode), await every.come("s", "b1")
            await reader.subscribe("n >= 0", name="all")
            await van.advertise("n >= 0")
            came: list[int] = []
            wanted = reader.subscriptions["all"]

            async def until_come(begin: int) -> None:
                """Publish until one of these has come: those before it may be lost."""
                number = begin
                while True:
                    await van.publish({"n": number})
                    await every.quiet()
                    await a_turn()
                    while len(wanted):
                        came.append((await wanted.next()).attributes["n"])  # type: ignore[arg-type]
                    if came and came[-1] >= begin:
                        return
                    number += 1

            await until_come(0)
            await every.roam("van", "b3")
            await van.attached()
            await until_come(1_000)
            assert came == sorted(set(came))

    run(scene)


def test_a_naive_subscriber_begins_again_at_each_broker() -> None:
    """It is a baseline: brokers have it if they are configured so."""
    assert naive_policy.promises.live == "if configured"

    async def scene() -> None:
        async with fleet(config=BrokerConfig(attach_policies=("naive",))) as every:
            moving, staying = await every.come("s", "b0", mode="naive"), await every.come("p", "b2")
            await every.book.listen(moving, "n >= 0")
            await every.settled()
            every.book.publish(staying, {"n": 1})
            await until(lambda: every.book.count("s") == 1, "it has come")
            await every.roam("s", "b3")
            await moving.attached()
            await moving.drain()
            await every.quiet()
            every.book.publish(staying, {"n": 2})
            await until(lambda: every.book.count("s") == 2, "it has come to the new session")

    run(scene)
