"""A client with a store, in a process of its own, which kills itself at a chosen moment or waits to be killed.

It takes a JSON object as its argument: `address`, `store`, `say` (language and text of what it is to want from now on,
or null), and `dies`: "stored", when that is on the disk and nobody was told; "sent", when it was just written to the
socket; "" for not by itself. It says `ready` when a broker has answered all that it asked for, and then the number of
each event that it has handled. With `STORING_CLIENT_FORGETS` in its environment, nothing is
on the disk when it dies: a planted fault.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from godwit.broker.messages import Request, Subscribe
from godwit.runtime import connect
from godwit.runtime.client_transport import TcpTransport
from godwit.runtime.subscription_store import SubscriptionStore

SUBSCRIPTION = "q"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_when_stored() -> None:
    put = SubscriptionStore.put

    def put_and_die(*arguments: Any, **more: Any) -> int:
        number = put(*arguments, **more)
        die()
        return number

    SubscriptionStore.put = put_and_die  # type: ignore[method-assign]


def die_when_sent() -> None:
    write = TcpTransport.write

    def write_and_die(self: TcpTransport, messages: list[Any]) -> None:
        write(self, messages)
        if any(isinstance(each, Request) and isinstance(each.wish, Subscribe) for each in messages):
            die()

    TcpTransport.write = write_and_die  # type: ignore[method-assign]


async def main(said: dict[str, Any]) -> None:
    client = connect(said["address"], name="ann", store=Path(said["store"]), confirm="read", mode="named")
    async with client:
        await client.attached()
        await client.drain()
        if said["say"] is not None:
            if "STORING_CLIENT_FORGETS" in os.environ:
                SubscriptionStore.put = lambda *_, **__: 1  # type: ignore[method-assign]
            if said["dies"]:
                {"stored": die_when_stored, "sent": die_when_sent}[said["dies"]]()
            language, text = said["say"]
            await client.subscribe(text, language=language, name=SUBSCRIPTION)
        print("ready", flush=True)
        subscription = client.subscriptions[SUBSCRIPTION]
        while True:
            for event in await subscription.waiting(1):
                print(event.attributes["n"], flush=True)
                subscription.take(1)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
