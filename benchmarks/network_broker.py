"""A broker in a process of its own, to be measured: one JSON object as argument, its ports as first line of output.

Keys: `name`, `durability`, `folder`, `neighbours` (name to port; 0: that one dials us), `port`, `profile` (a file for
what cProfile has found, written when SIGTERM comes).
"""

import asyncio
import cProfile
import json
import signal
import sys
from pathlib import Path
from typing import Any

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import Limits
from godwit.filters import event, parse
from godwit.matching import IndexMatcher
from godwit.mobility import mobile_broker
from godwit.runtime import Journal, NativeServer, Node
from godwit.runtime.activity_monitor import ActivityMonitor
from godwit.runtime.gc_tuning import tune_garbage_collector
from godwit.runtime.mqtt_gateway import MqttGateway
from godwit.runtime.tcp import Address

LIMITS = Limits(subscriptions_max=10_000, sessions_max=20_000)


def warm_up() -> None:
    """Have what is compiled at first use ready before a client comes, as in a broker that has work to do."""
    matcher = IndexMatcher()
    matcher.add_many(enumerate(map(parse, ("topic = 'news'", "price > 1 AND kind = 'K1'"))))
    matcher.match(event({"topic": "news", "price": 2.0, "kind": "K1"}))


async def serve(said: dict[str, Any]) -> None:
    """Serve until SIGTERM comes."""
    name, durability = said["name"], said["durability"]
    journal = None if durability == "memory" else Journal(Path(said["folder"]) / name, name, durability)
    neighbours = {peer: Address("127.0.0.1", port) if port else None for peer, port in said["neighbours"].items()}
    costs = dict.fromkeys(neighbours, 1.0)
    node = Node(lambda: mobile_broker(name, costs, BrokerConfig(limits=LIMITS)), journal)
    if said.get("watch", True):
        ActivityMonitor(node)  # as every broker has that answers HTTP; what it keeps is bounded
    warm_up()
    server = NativeServer(name, node, neighbours)
    address = await server.listen("127.0.0.1", said["port"])
    gateway = MqttGateway(node, broker_name=name)
    mqtt = await gateway.listen("127.0.0.1", 0)
    server.dial_all()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print(json.dumps({"native": address.port, "mqtt": mqtt.port}), flush=True)
    await stop.wait()
    await gateway.close()
    await server.close()
    await node.close()


def run(said: dict[str, Any]) -> None:
    """On uvloop where it is installed, as `godwit serve` does."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(said))
    else:
        uvloop.run(serve(said))


def main(said: dict[str, Any]) -> None:
    """Serve, and write a profile if that is asked for."""
    tune_garbage_collector()
    if not said.get("profile"):
        run(said)
        return
    profile = cProfile.Profile()
    profile.runcall(run, said)
    profile.dump_stats(said["profile"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
