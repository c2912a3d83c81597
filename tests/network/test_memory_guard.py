"""A broker holds no more than it was told to: load goes in a documented order, and nobody new is taken meanwhile."""

from pathlib import Path
from typing import Any

from godwit.broker.held_filters import entry_size
from godwit.broker.messages import Attach, Bye, Publish, Request, Subscribe
from godwit.filters.events import Event
from godwit.filters.language import parse
from godwit.runtime.memory_guard import MemoryGuard
from godwit.runtime.wire import Frames, Intro
from tests.network.guarded import Guarded, good_client, guarded, heard
from tests.network.waiting import run, until

BIG = 100_000


async def away(broker: Guarded, name: str) -> None:
    """A client that subscribes to everything large, and goes."""
    reader, writer = await broker.open()
    wish = Subscribe((name, "s"), parse("big = TRUE"))
    writer.write(Frames.packed([Intro(), Attach(name), Request(1, wish)]))
    await heard(reader, 2)
    writer.close()
    session = broker.node.machine.sessions.session(name)  # type: ignore[attr-defined]
    await until(lambda: session.connection is None)


def test_load_is_shed_in_order_and_counted_by_kind(tmp_path: Path) -> None:
    async def scene() -> None:
        async with guarded(folder=tmp_path) as broker, good_client(broker) as is_served:
            guard = MemoryGuard(broker.node, broker.server.memory, 10 * BIG)
            guard.servers.append(broker.server)
            stranger = await broker.open()
            stranger[1].write((60_000).to_bytes(4, "big") + bytes(50_000))  # never let in
            known = await broker.open()
            known[1].write(Frames.packed([Intro()]) + (2**20).to_bytes(4, "big") + bytes(2 * BIG))
            before = guard.held()["filters"]
            for name in ("first", "second"):
                await away(broker, name)
            assert guard.held()["filters"] - before == 2 * entry_size("s", parse("big = TRUE"))
            p = await broker.open()
            events = [Publish(Event({"big": True}, "p", n, bytes(BIG))) for n in range(1, 5)]
            p[1].write(Frames.packed([Intro(), Attach("p"), *(Request(n, w) for n, w in enumerate(events, 1))]))
            await heard(p[0], 2)
            await until(lambda: guard.held()["partial"] > 2 * BIG and guard.held()["queues"] > 8 * BIG)
            guard.bytes_max = sum(guard.held().values()) - 40_000  # a little less than there is
            guard.check()
            assert guard.held()["partial"] == 2 * BIG + 4
            memory: Any = broker.server.memory
            assert memory.is_full
            newcomer = await broker.open()
            assert isinstance((await heard(newcomer[0], 1))[0], Bye)
            newcomer[1].close()
            guard.bytes_max = sum(guard.held().values()) - 40_000
            guard.check()
            assert guard.held()["partial"] == 0
            guard.bytes_max = 5 * BIG
            guard.check()
            await until(lambda: guard.held()["queues"] < 5 * BIG)
            names = {session.client for session in broker.node.machine.sessions}  # type: ignore[attr-defined]
            assert "first" not in names
            assert "second" in names
            guard.check()
            assert not memory.is_full
            await is_served()
            for _, writer in (stranger, known, p):
                writer.close()

    run(scene)
