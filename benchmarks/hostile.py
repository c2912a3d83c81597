"""How long an innocent client waits, and how much memory a broker takes, while somebody attacks it. `make hostile`.

Two brokers of `godwit serve` with users. Ann publishes two hundred events a second and subscribes to them, at one of
the brokers; the longest time from publishing to delivery is her wait. Mallory has a single grant and a process of its
own with the lowest priority (it would be on another machine: its own work must delay nobody), and does one of the
attacks below. Memory is what is resident of the broker and of the processes that it starts, beside what was before the
attack. Of the latter files that they have mapped do not count: these are libraries, which the broker has mapped, too.

*Work* is the processor time that the broker has taken while an event of Ann was on its way, at most: what others work
on the same machine is not in it. A wait that is much longer than the work is theirs, or that of the disk.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from time import clock_gettime, perf_counter
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import aiomqtt
import httpx
import typer
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import this_machine, undisturbed
from godwit.errors import GodwitError
from godwit.runtime import connect
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.users import hashed

WAIT_MS_TARGET = 50.0
MEMORY_TARGET = 1.3
EVENTS_PER_S = 200
ATTACK_S_MAX = 120.0
QUIET_S = 3.0
GRANT = "kind = 'parking'"
BASIC = f"Basic {b64encode(b'mallory:secret').decode()}"


class Ports(NamedTuple):
    """Where the attacked broker listens."""

    native: int
    mqtt: int
    http: int


Attack = Callable[[Ports], Awaitable[None]]
ATTACKS: dict[str, Attack] = {}


def attack(what: str) -> Callable[[Attack], Attack]:
    """Name an attack, as the table shows it."""

    def named(function: Attack) -> Attack:
        ATTACKS[what] = function
        return function

    return named


def mallory(ports: Ports, name: str = "mallory/1") -> NetworkClient:
    return connect(f"127.0.0.1:{ports.native}", name=name, user="mallory", password="secret")


async def refused(client: NetworkClient, filter: str, name: str = "") -> None:
    with suppress(GodwitError):
        async with asyncio.timeout(ATTACK_S_MAX):
            await client.subscribe(filter, name=name)


def any_of(count: int, form: str, salt: int = 0) -> str:
    return " OR ".join(form.format(i=i, j=i + salt) for i in range(count))


@attack("20 subscriptions of 900 literals that are refused")
async def refused_subscriptions(ports: Ports) -> None:
    async with mallory(ports) as client:
        for salt in range(20):
            await refused(client, f"kind != 'parking' AND ({any_of(450, '(a{i} > {j} AND b{i} < {j})', salt)})")


@attack("14 subscriptions of 900 literals, told to a neighbour")
async def large_subscriptions(ports: Ports) -> None:
    async with mallory(ports) as client:
        for salt in range(14):
            await refused(client, f"{GRANT} AND ({any_of(449, '(a{i} > {j} AND b{i} < {j})', salt)})")


@attack("conjunction of 300 disjunctions")
async def product(ports: Ports) -> None:
    async with mallory(ports) as client:
        for salt in range(5):
            both = " AND ".join(f"(a{i} = {i + salt} OR b{i} = {i} OR c{i} = {i})" for i in range(300))
            await refused(client, f"{GRANT} AND {both}")


@attack("1,000 subscriptions a LIKE '%x1_y%'")
async def likes(ports: Ports) -> None:
    async with mallory(ports) as client, asyncio.TaskGroup() as group:
        for i in range(1_000):
            group.create_task(refused(client, f"{GRANT} AND a LIKE '%x{i}_y%'"))


@attack("20 context changes under 100 subscriptions of 900 literals")
async def context_changes(ports: Ports) -> None:
    async with mallory(ports) as client:
        for salt in range(100):
            await refused(client, f"{GRANT} AND ({any_of(899, 'a{i} = my.p', salt)})")
        for value in range(20):
            with suppress(GodwitError):
                await client.set_context({"p": value})


@attack("one event of 300 KB in five texts under 100 subscriptions LIKE '%q1_z%'")
async def long_text(ports: Ports) -> None:
    async with mallory(ports) as client:
        for i in range(100):
            await refused(client, f"{GRANT} AND a{i % 5} LIKE '%q{i}_z%'")
        await client.publish({"kind": "parking", **{f"a{part}": "q1" * 30_000 for part in range(5)}})


@attack("10 filters of 1 MB as text")
async def long_filter(ports: Ports) -> None:
    async with mallory(ports) as client:
        for salt in range(10):
            await refused(client, any_of(60_000, "a = {j:012d}", salt))


@attack("9,000 sessions of one user")
async def many_sessions(ports: Ports) -> None:
    for first in range(0, 9_000, 100):
        async with AsyncExitStack() as stack:
            for i in range(first, first + 100):
                client = await stack.enter_async_context(mallory(ports, f"mallory/{i}"))
                with suppress(GodwitError):
                    await client.attached(10)


@attack("20,000 retained events of one user")
async def many_retained(ports: Ports) -> None:
    async with mallory(ports) as client:
        for i in range(20_000):
            client.publish({"kind": "parking", "n": i}, retain=f"parking/{i}")
            if i % 500 == 0:
                with suppress(GodwitError):
                    await client.flushed(60)


@attack("64 half frames of 16 MB")
async def half_frames(ports: Ports) -> None:
    writers = []
    for _ in range(64):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", ports.native)
            writers.append(writer)
            writer.write((16 * 2**20 - 1).to_bytes(4, "big") + bytes(15 * 2**20))
    for writer in writers:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(2):
                await writer.drain()
    for writer in writers:
        writer.transport.abort()


@attack("a publisher that never waits: 30,000 events of 1 KB")
async def flood(ports: Ports) -> None:
    async with mallory(ports) as client:
        for i in range(30_000):
            client.publish({"kind": "parking", "n": i, "text": "x" * 1_000})
            if i % 2_000 == 0:
                with suppress(GodwitError):
                    await client.flushed(60)


@attack("1,001 event streams over HTTP")
async def streams(ports: Ports) -> None:
    writers = []
    wanted = quote(f"{GRANT} AND n = -1")
    head = f"GET /events?filter={wanted} HTTP/1.1\r\nHost: b1\r\nAuthorization: {BASIC}\r\n\r\n".encode()
    opened = 0
    for _ in range(1_001):
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", ports.http)
            writer.write(head)
            writers.append(writer)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    opened += b" 200 " in await reader.readline()
    assert opened > 900, f"only {opened} streams were opened"
    for writer in writers:
        writer.transport.abort()


@attack("random bytes on 300 connections")
async def noise(ports: Ports) -> None:
    drawn = random.Random(1)
    for port in (ports.native, ports.mqtt, ports.http):
        for _ in range(100):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(2):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(drawn.randbytes(4_000))
                    await writer.drain()
                    writer.close()


# ---------------------------------------------------------------- queries and documents of thin clients


def thin(ports: Ports) -> aiomqtt.Client:
    """Mallory over MQTT, whose border broker runs its queries."""
    level = aiomqtt.ProtocolVersion.V5
    more = {"username": "mallory", "password": "secret", "identifier": "thin", "protocol": level}
    return aiomqtt.Client("127.0.0.1", ports.mqtt, **more)  # type: ignore[arg-type]


def said(packet: int, *pairs: tuple[str, str], content_type: str = "") -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for pair in pairs:
        properties.UserProperty = pair
    if content_type:
        properties.ContentType = content_type
    return properties


async def tested(ports: Ports, language: str, texts: list[str], payloads: list[bytes], content_type: str) -> None:
    """Subscribe by these queries, and publish what all of them must be asked about."""
    async with thin(ports) as client:
        for number, text in enumerate(texts):
            query = said(PacketTypes.SUBSCRIBE, ("$where", text), ("$language", language))
            with suppress(aiomqtt.MqttError):
                await client.subscribe(f"t/0?{GRANT}{' ' * number}", qos=1, properties=query)
        for payload in payloads:
            about = said(PacketTypes.PUBLISH, ("kind", "parking"), ("a", "a" * 5_000), content_type=content_type)
            with suppress(aiomqtt.MqttError):
                await client.publish("t/0", payload, qos=1, properties=about)
        await asyncio.sleep(5)  # while the tests run


def document(elements: int) -> bytes:
    return b"<a>" + b"<b><c><d>1</d></c></b>" * elements + b"</a>"


@attack("20 queries //*//*//* over 200 documents of 31 KB")
async def deep_paths(ports: Ports) -> None:
    await tested(ports, "xpath", ["//*//*//*[//*]"] * 20, [document(1_400)] * 200, "application/xml")


@attack("100 queries of 300 predicates over 500 documents")
async def many_predicates(ports: Ports) -> None:
    texts = [" or ".join(f"//d={i}{j}" for i in range(300)) for j in range(100)]
    await tested(ports, "xpath", texts, [document(20)] * 500, "application/xml")


@attack("50 queries of 5,000 predicates")
async def too_many_predicates(ports: Ports) -> None:
    text = " or ".join(f"//d{i}" for i in range(5_000))  # more do not fit into a user property
    await tested(ports, "xpath", [text] * 50, [document(1)], "application/xml")


@attack("100 catastrophic patterns over 200 texts of 5,000 letters")
async def patterns(ports: Ports) -> None:
    texts = [f"a LIKE '{'%a' * 40}%b{i}'" for i in range(100)]
    await tested(ports, "cesql", texts, [b"x"] * 200, "text/plain")


@attack("150 XML documents of 1 MB over HTTP, every third one broken")
async def large_documents(ports: Ports) -> None:
    head = {"authorization": BASIC, "content-type": "application/xml"}
    bodies = [document(2_800) + b" " * 900_000, document(2_800) * 15 + b"</a>", b"<a>" * 300_000]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports.http}", timeout=60, trust_env=False) as client:
        for _ in range(50):
            for body in bodies:
                with suppress(httpx.HTTPError):
                    await client.post("/events", content=body, headers=head)


# ---------------------------------------------------------------- the innocent client


def processor_s(process: int) -> float:
    """The processor time that another process has taken, of all its threads."""
    return clock_gettime((~process << 3) | 2)  # its clock's number, as clock_getcpuclockid(3) makes it on Linux


class Sent(NamedTuple):
    """When an event was published."""

    at: float
    worked: float  # by the broker until then


class Wait:
    """The waits of Ann for a broker."""

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self.longest_ms = 0.0
        self.work_ms = 0.0
        self.count = 0

    def begin(self) -> None:
        self.longest_ms, self.work_ms, self.count = 0.0, 0.0, 0

    def now(self) -> Sent:
        return Sent(perf_counter(), processor_s(self._broker))

    def since(self, sent: Sent) -> None:
        """An event that was sent then has come now, or has not yet."""
        self.longest_ms = max(self.longest_ms, (perf_counter() - sent.at) * 1e3)
        self.work_ms = max(self.work_ms, (processor_s(self._broker) - sent.worked) * 1e3)


async def ann(port: int, wait: Wait, is_ready: asyncio.Event) -> None:
    """Publish and receive, for as long as it is let."""
    sent: dict[int, Sent] = {}
    async with connect(f"127.0.0.1:{port}", name="ann/1", user="ann", password="secret") as client:
        subscription = await client.subscribe("kind = 'news'")

        async def read() -> None:
            async for event in subscription:
                wait.since(sent.pop(int(event.attributes["n"])))  # type: ignore[arg-type]
                wait.count += 1
                is_ready.set()

        async def say() -> None:
            n = 0
            while True:
                n += 1
                sent[n] = wait.now()
                client.publish({"kind": "news", "n": n})
                if n % EVENTS_PER_S == 0:  # what has not come yet waits, too
                    wait.since(min(sent.values()))
                await asyncio.sleep(1 / EVENTS_PER_S)

        await asyncio.gather(read(), say())


def config(folder: Path, name: str, neighbour: str) -> Path:
    secret = hashed("secret", rounds=1, memory_kib=8, lanes=1)
    users = folder / "users.toml"
    users.write_text(
        f"[users.ann]\npassword = '{secret}'\npublish = ['*']\nsubscribe = ['*']\n\n"
        f'[users.mallory]\npassword = \'{secret}\'\npublish = ["{GRANT}"]\nsubscribe = ["{GRANT}"]\n'
    )
    secret_file = folder / "links.secret"
    secret_file.write_text("a secret of links, long enough to be one")
    file = folder / f"{name}.toml"
    file.write_text(
        f'[broker]\nname = "{name}"\n\n[listen]\nnative = "127.0.0.1:0"\nmqtt = "127.0.0.1:0"\nhttp = "127.0.0.1:0"\n\n'
        f'[neighbours]\n{neighbour}\n\n[links]\nsecret = "{secret_file}"\n\n'
        f'[security]\nanonymous = "never"\nusers = "{users}"\n\n[journal]\nfolder = "{folder / name}"\n'
    )
    return file


def resident(process: int) -> tuple[int, int]:
    """Bytes of a process in memory, and those of them that belong to files."""
    try:
        _, pages, of_files, *_ = map(int, Path(f"/proc/{process}/statm").read_text().split())
    except (OSError, ValueError):  # it is gone
        return 0, 0
    return pages * 4_096, of_files * 4_096


class Served:
    """A broker in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, said: dict[str, Any]) -> None:
        self.process, self.said = process, said

    def port(self, door: str) -> int:
        return int(self.said[door].rpartition(":")[2])

    def memory(self) -> int:
        """What is resident of the broker, and of processes that it has started."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        started = [resident(int(child)) for child in children]
        return resident(own)[0] + sum(pages - of_files for pages, of_files in started)


async def serve(folder: Path, name: str, neighbour: str) -> Served:
    log = (folder / f"{name}.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "godwit", "serve", str(config(folder, name, neighbour))),
        env={**os.environ, "GODWIT_NUMBA": "1"},  # what Numba takes is no fault of an attacker
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
    )
    log.close()
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError((folder / f"{name}.log").read_text()[-2_000:])
    return Served(process, json.loads(line))


class Result(NamedTuple):
    """What an attack did."""

    what: str
    wait_ms: float
    work_ms: float  # of the broker meanwhile
    idle_ms: float
    memory: float  # beside the memory before
    seconds: float
    is_alive: bool

    @property
    def verdict(self) -> str:
        is_good = self.is_alive and self.wait_ms <= WAIT_MS_TARGET and self.memory <= MEMORY_TARGET
        return "reached" if is_good else "missed"


async def measured(what: str) -> Result:
    """One attack on fresh brokers."""
    with tempfile.TemporaryDirectory(prefix="godwit-hostile-") as temporary:
        folder = Path(temporary)
        first = await serve(folder, "b1", 'b2 = ""')
        second = await serve(folder, "b2", f'b1 = "127.0.0.1:{first.port("native")}"')
        wait, is_ready = Wait(first.process.pid), asyncio.Event()
        innocent = asyncio.create_task(ann(first.port("native"), wait, is_ready))
        try:
            async with asyncio.timeout(30):
                await is_ready.wait()
            wait.begin()
            await asyncio.sleep(QUIET_S)
            idle_ms, before = wait.longest_ms, first.memory()
            wait.begin()
            ports = Ports(first.port("native"), first.port("mqtt"), first.port("http"))
            began, most = perf_counter(), before
            with (folder / "attacker.log").open("wb") as log:
                attacker = await asyncio.create_subprocess_exec(
                    sys.executable, __file__, "--attack", what, "--ports", json.dumps(ports), stderr=log
                )
            ending = asyncio.create_task(attacker.wait())
            with suppress(TimeoutError):
                async with asyncio.timeout(ATTACK_S_MAX):
                    while not ending.done():
                        await asyncio.wait({ending}, timeout=0.02)
                        most = max(most, first.memory())
            if not ending.done():
                attacker.kill()
            elif await ending:
                raise RuntimeError(f"{what}: {(folder / 'attacker.log').read_text()[-2_000:]}")
            await ending
            await asyncio.sleep(QUIET_S)  # what it left behind
            is_alive = first.process.returncode is None and wait.count > 0
            seconds = perf_counter() - began - QUIET_S
            return Result(what, wait.longest_ms, wait.work_ms, idle_ms, most / before, seconds, is_alive)
        finally:
            innocent.cancel()
            await asyncio.gather(innocent, return_exceptions=True)
            for each in (first, second):
                with suppress(ProcessLookupError):
                    each.process.kill()
                await each.process.wait()


def main(
    only: Annotated[str, typer.Option(help="Only attacks whose name has this in it.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
    attack_name: Annotated[str, typer.Option("--attack", hidden=True)] = "",
    ports: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Attack a broker in every known way, and measure how long others wait."""
    if attack_name:
        os.nice(19)
        asyncio.run(ATTACKS[attack_name](Ports(*json.loads(ports))))  # type: ignore[arg-type]
        return
    table = Table(title="Attacks on a broker")
    for column in ("attack", "longest wait, ms", "work, ms", "idle, ms", "memory, times", "took, s", "target"):
        table.add_column(column)
    machine = this_machine()
    is_good = True
    for what in [name for name in ATTACKS if only in name]:
        with undisturbed():  # or Ann would wait for her own process to look for garbage, for up to 90 ms
            result = asyncio.run(measured(what))
        is_good = is_good and result.verdict == "reached"
        cells = [
            what,
            f"{result.wait_ms:.0f}",
            f"{result.work_ms:.0f}",
            f"{result.idle_ms:.0f}",
            f"{result.memory:.2f}",
            f"{result.seconds:.1f}",
        ]
        table.add_row(*cells, result.verdict)
        if as_json or not sys.stdout.isatty():
            print(json.dumps({**result._asdict(), "verdict": result.verdict, "machine": asdict(machine)}), flush=True)
    if not as_json and sys.stdout.isatty():
        Console().print(table)
    raise typer.Exit(0 if is_good else 1)


if __name__ == "__main__":
    typer.run(main)
