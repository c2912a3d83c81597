"""A broker in a process of its own, to be killed: name, folder, port, durability. It prints its port."""

import asyncio
import sys
from pathlib import Path

from godwit.broker.broker import BrokerConfig
from godwit.mobility import MobileBroker
from godwit.runtime import Journal, Node, Server


async def main(name: str, folder: str, port: str, durability: str) -> None:
    journal = None if durability == "memory" else Journal(Path(folder) / name, name, durability)  # type: ignore[arg-type]
    node = Node(lambda: MobileBroker(name, {}, BrokerConfig()), journal)
    server = Server(name, node, {})
    address = await server.listen("127.0.0.1", int(port))
    print(address.port, flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
