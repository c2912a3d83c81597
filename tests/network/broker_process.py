"""Brokers in processes of their own, to be killed.

This program is started once. For each line on its standard input, a JSON list of arguments, it forks: so a broker is
there at once, whatever Python takes to start. The broker connects to `--tell`, says `--token` and its process, then its
port, and then a line for each trouble with its disk and each relief. It ends when that connection does.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

import msgspec

from godwit.broker.broker_config import BrokerConfig
from godwit.matching.warm_up import warm_up
from godwit.mobility import mobile_broker
from godwit.mobility.publisher_presence import PublisherSettings
from godwit.runtime import Address, Journal, NativeServer, Node, node, tcp
from godwit.runtime.journal import new_incarnation
from godwit.runtime.mqtt_gateway import MqttGateway


def arguments(line: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("durability")
    parser.add_argument("neighbours", nargs="*", help="name=host:port, or name= where it dials us")
    parser.add_argument("--snapshot-bytes", type=int, default=node.SNAPSHOT_BYTES)
    parser.add_argument("--mqtt", type=int, help="the port for MQTT, which is then said after the other")
    parser.add_argument("--config", default="{}", help="the settings of BrokerConfig, in JSON")
    parser.add_argument("--publishers", default="{}", help="the settings of PublisherSettings, in JSON")
    parser.add_argument("--tell", type=int, help="the port of who has started us")
    parser.add_argument("--token")
    return parser.parse_args(json.loads(line))


def address(text: str) -> Address | None:
    host, _, port = text.rpartition(":")
    return Address(host, int(port)) if host else None


class Lazy(Journal):
    """A planted fault: it says of batches that they are safe, and writes them fifty at a time."""

    unwritten: tuple[bytes, ...] = ()

    def append(self, data: bytes) -> int:
        self.unwritten += (data,)
        if len(self.unwritten) >= 50:
            for each in self.unwritten:
                super().append(each)
            self.unwritten = ()
        return self.number


async def main(said: argparse.Namespace) -> None:
    told = socket.create_connection(("127.0.0.1", said.tell))
    asyncio.get_running_loop().add_reader(told, os._exit, 1)

    def tell(text: str) -> None:
        told.sendall(f"{text}\n".encode())

    tell(f"{said.token} {os.getpid()}")
    name, durability = said.name, said.durability
    neighbours = {peer: address(at) for peer, _, at in (each.partition("=") for each in said.neighbours)}
    tcp.REDIAL_MAX_S = 0.5  # a test has less time than a network
    node.SNAPSHOT_BYTES = said.snapshot_bytes
    journal: Journal | None = None
    if durability == "lazy":
        journal = Lazy(said.folder / name, name, "relaxed")
    elif durability != "memory":
        journal = Journal(said.folder / name, name, durability)
    incarnation = new_incarnation() if journal is None else journal.incarnation
    costs = dict.fromkeys(neighbours, 1.0)
    config = msgspec.json.decode(said.config, type=BrokerConfig)
    moving = msgspec.json.decode(said.publishers, type=PublisherSettings).config()
    running = Node(
        lambda: mobile_broker(name, costs, config, incarnation, moving=moving),
        journal,
        on_trouble=lambda text: tell(f"trouble: {text}"),
    )
    server = NativeServer(name, running, neighbours)
    running.on_relief.insert(0, lambda: tell("relief"))
    listening = await server.listen("127.0.0.1", said.port)
    server.dial_all()
    tell(str(listening.port))
    if said.mqtt is not None:
        tell(str((await MqttGateway(running, broker_name=name).listen("127.0.0.1", said.mqtt)).port))
    await asyncio.get_running_loop().create_future()


def fork_for_each_line() -> None:
    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            try:
                asyncio.run(main(arguments(line)))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)


if __name__ == "__main__":
    fork_for_each_line()
