"""A broker on a disk that is smaller than what it is told: folder, durability and number of events are its arguments.

Started in a namespace of its own with a small file system at FOLDER (`test_small_disk.py`). Says in a line of JSON how
many requests were accepted, what trouble there was, and how large the files are.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Heard, Opened
from godwit.broker.messages import Accepted, Attach, Publish, Request
from godwit.filters.events import Event
from godwit.mobility import mobile_broker
from godwit.runtime.journal import Durability, Journal
from godwit.runtime.node import Node
from godwit.runtime.wire import NATIVE

PAYLOAD = b"x" * 2_000
AT_ONCE = 50
PATIENCE_S = 120.0


class Device:
    """The near end of a client's connection, which counts what is accepted."""

    def __init__(self) -> None:
        self.accepted = 0
        self.changed = asyncio.Event()

    def send(self, message: Any) -> None:
        if isinstance(message, Accepted):
            self.accepted = message.number
            self.changed.set()

    def flush(self) -> None:
        """All was sent."""

    def close(self, reason: str) -> None:
        raise AssertionError(reason)

    async def until(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.accepted < number:
                self.changed.clear()
                await self.changed.wait()


async def main(folder: Path, durability: Durability, events: int) -> None:
    troubles: list[str] = []
    journal = Journal(folder, "b1", durability)
    node = Node(
        lambda: mobile_broker("b1", {}, BrokerConfig(), journal.incarnation), journal, on_trouble=troubles.append
    )
    device = node.ports["c"] = Device()
    node.tell(Opened("c"))
    for message in (Attach("c"),):
        node.tell(Heard("c", message), NATIVE.encode(message))
    for number in range(1, events + 1):
        request = Request(number, Publish(Event({"n": number}, "c", number, PAYLOAD)))
        node.tell(Heard("c", request), NATIVE.encode(request))
        if number % AT_ONCE == 0:
            await device.until(number)
    await device.until(events)
    accepted = node.machine.sessions.session("c").accepted  # type: ignore[attr-defined]
    node.abandon()
    journal.close()
    again = Journal(folder, "b1", durability)
    restarted = Node(lambda: mobile_broker("b1", {}, BrokerConfig(), again.incarnation), again)
    kept = restarted.machine.sessions.session("c").accepted  # type: ignore[attr-defined]
    sizes = {each.name: each.stat().st_size for each in folder.iterdir()}
    print(json.dumps({"accepted": accepted, "kept": kept, "troubles": troubles, "sizes": sizes}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))  # type: ignore[arg-type]
