"""A broker that is started again with another configuration: what it takes over, and what it refuses."""

import io
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from godwit.errors import ConfigurationError
from godwit.runtime import connect
from godwit.runtime.broker_server import BrokerServer
from godwit.runtime.configuration import Override, load
from godwit.runtime.log import make_log
from tests.network.waiting import run

LIMIT_S = 300.0


@asynccontextmanager
async def station(
    folder: Path, name: str, log: io.StringIO | None = None, /, **changes: str
) -> AsyncIterator[BrokerServer]:
    """A broker in this process; keys with two underscores for the dot."""
    said = {
        "broker__name": name,
        "listen__native": "127.0.0.1:0",
        "listen__mqtt": "",
        "listen__http": "",
        "journal__folder": str(folder / name),
        **changes,
    }
    flags = [Override(f"--set {key}", tuple(key.split("__")), text) for key, text in said.items()]
    found = BrokerServer(load(None, None, flags), make_log(format="json", to=log or io.StringIO()))
    await found.start()
    try:
        yield found
    finally:
        await found.stop()


@pytest.mark.parametrize("family", ["tree", "graph"])
@pytest.mark.parametrize("advertisements", ["optional", "off"])
def test_a_neighbour_more_is_told_what_clients_want_here(tmp_path: Path, family: str, advertisements: str) -> None:
    """Both ends have sessions, of closed and open filters, from before there was a link; then both name each other."""
    alike = {"broker__family": family, "broker__advertisements": advertisements, "places__location": "line 3"}

    async def scene() -> None:
        async with AsyncExitStack() as clients:
            async with station(tmp_path, "b1", **alike) as b1, station(tmp_path, "b2", **alike) as b2:
                ann = await clients.enter_async_context(connect(b1.listening["native"], name="ann"))
                van = await clients.enter_async_context(connect(b2.listening["native"], name="van"))
                ann.set_context({"location": "1"})
                wanted = [await ann.subscribe("n >= 0"), await ann.subscribe("at = myloc")]
                back = await van.subscribe("answer = 1")
                await ann.drain()
            async with (
                station(tmp_path, "b2", neighbours__b1="", **alike) as b2,
                station(tmp_path, "b1", neighbours__b2=str(b2.listening["native"]), **alike) as b1,
            ):
                await ann.move(b1.listening["native"])
                await van.move(b2.listening["native"])
                await ann.attached()
                await van.attached()
                while not all(one.changed.is_set() for one in wanted):  # until brokers have told each other
                    van.publish({"n": 1, "at": "1"})
                    await van.drain()
                ann.publish({"answer": 1})
                assert (await back.next()).attributes["answer"] == 1

    run(scene())


def test_other_bounds_hold_from_the_next_start_on(tmp_path: Path) -> None:
    async def scene() -> None:
        for most in (3, 1, 2):
            async with station(tmp_path, "b1", limits__subscriptions_max=str(most)) as b1:
                assert b1.node.machine.sessions.limits.subscriptions_max == most  # type: ignore[attr-defined]
        async with station(tmp_path, "b1", limits__subscriptions_max="2") as b1:  # from the journal alone
            assert b1.node.machine.sessions.limits.subscriptions_max == 2  # type: ignore[attr-defined]

    run(scene())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"broker__family": "graph"}, "broker.family, which was 'tree'"),
        ({"security__asserted": "['role']"}, "security.asserted, which was ()"),
        ({"links__resend_s": "2"}, "(links)"),
        ({"places__location": "line 4"}, "(places)"),
        ({"neighbours__b3": ""}, "without the neighbour b2"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_in_words(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    async def scene() -> None:
        async with station(tmp_path, "b1", neighbours__b2=""):
            pass
        with pytest.raises(ConfigurationError) as caught:
            async with station(
                tmp_path, "b1", **({"neighbours__b2": ""} if "neighbours__b3" not in changes else {}), **changes
            ):
                pass
        assert reason in str(caught.value)
        assert "start with an empty one: set another journal.folder" in str(caught.value)
        async with station(tmp_path, "b1", neighbours__b2=""):  # nothing was changed
            pass

    run(scene())
