"""How long an innocent client waits, and how much memory a broker takes, while somebody attacks it. `make hostile`.

Two brokers of `godwit serve` with users. Ann publishes two hundred events a second and subscribes to them, at one of
the brokers; the longest time from publishing to delivery is her wait. Mallory has a single grant and a process of its
own with the lowest priority (it would be on another machine: its own work must delay nobody), and does one of the
attacks below. Memory is what is resident of the broker and of the processes that it starts, beside what was before the
attack. Of the latter files that they have mapped do not count: these are libraries, which the broker has mapped, too.

An attack says how many of its requests must be accepted and how many refused. With other answers it ends with an error:
an attack that does not bite measures nothing.

*Work* is the processor time that the broker has taken while an event of Ann was on its way, at most: what others work
on the same machine is not in it. A wait that is much longer than the work is theirs, or that of the disk.
"""

import asyncio
import json
import os
import random
import resource
import signal
import sys
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from time import clock_gettime, perf_counter
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import aiomqtt
import httpx
import msgspec
import typer
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import this_machine, undisturbed
from godwit.broker.messages import Attach, Attached, Context, Note, QueueRules, Refused, Request, Subscribe
from godwit.errors import Refused as RefusedError
from godwit.filters import parse
from godwit.runtime import connect
from godwit.runtime.network_client import NetworkClient, Subscription
from godwit.runtime.users import hashed
from godwit.runtime.wire import Frames, Intro

WAIT_MS_TARGET = 50.0
MEMORY_TARGET = 1.3
EVENTS_PER_S = 200
ATTACK_S_MAX = 120.0
QUIET_S = 3.0
GRANT = "kind = 'parking'"
BASIC = f"Basic {b64encode(b'mallory:secret').decode()}"
BASIC_WRITER = f"Basic {b64encode(b'moses:secret').decode()}"  # who may publish documents
BASIC_ADMIN = f"Basic {b64encode(b'admin:secret').decode()}"


class Ports(NamedTuple):
    """Where the attacked broker listens, and its neighbour."""

    native: int
    mqtt: int
    http: int
    neighbour: int  # native
    neighbour_process: int


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


class Answers:
    """What a broker has answered to the requests of an attack."""

    def __init__(self) -> None:
        self.accepted = 0
        self.reasons: Counter[str] = Counter()

    async def ask(self, request: Awaitable[Any]) -> None:
        """Wait for the answer to a request."""
        try:
            async with asyncio.timeout(ATTACK_S_MAX):
                await request
        except RefusedError as error:
            self.reasons[str(error)[:200]] += 1
        else:
            self.accepted += 1

    async def subscribe(self, client: NetworkClient, filter: str, name: str = "") -> None:
        await self.ask(client.subscribe(filter, name=name))

    def expect(self, accepted: int | range, refused: int | range = 0, because: str = "") -> None:
        """Fail unless so many requests were accepted and refused, the latter for this reason."""
        of_reason = sum(count for reason, count in self.reasons.items() if because in reason)
        told = f"{self.accepted} accepted, {of_reason} refused because of {because!r}; all reasons: {self.reasons}"
        for count, wanted in ((self.accepted, accepted), (of_reason, refused)):
            if count not in (wanted if isinstance(wanted, range) else (wanted,)):
                raise AssertionError(f"the attack does not bite: {told}")
        if of_reason != self.reasons.total():
            raise AssertionError(f"refused for another reason: {told}")


class Raw:
    """A native connection of Mallory that sends what no client library does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer, self._frames = reader, writer, Frames()
        self.asked = 0

    @classmethod
    async def open(cls, ports: Ports, name: str) -> "Raw":
        raw = cls(*await asyncio.open_connection("127.0.0.1", ports.native))
        raw._writer.write(Frames.packed([Intro(user="mallory", password="secret"), Attach(name)]))
        while not any(type(message) is Attached for message in await raw._heard()):
            pass
        return raw

    async def _heard(self) -> list[Any]:
        async with asyncio.timeout(ATTACK_S_MAX):
            data = await self._reader.read(65_536)
        if not data:
            raise ConnectionError("the broker has closed the connection")
        return [message for message, _ in self._frames.feed(data)]

    async def ask(self, answers: Answers, wishes: list[Any]) -> None:
        """Make requests, and count the answers to all of them."""
        first = self.asked + 1
        self._writer.write(Frames.packed([Request(first + place, wish) for place, wish in enumerate(wishes)]))
        self.asked += len(wishes)
        await self._writer.drain()
        refused, last = 0, 0
        while last < self.asked:
            for message in await self._heard():
                last = max(last, getattr(message, "number", 0))
                if type(message) is Refused:
                    refused += 1
                    answers.reasons[message.reason[:200]] += 1
        answers.accepted += self.asked - first + 1 - refused

    async def refused(self, data: bytes) -> None:
        """Send these bytes, and wait until the broker closes the connection."""
        with suppress(OSError):
            self._writer.write(data)
            async with asyncio.timeout(ATTACK_S_MAX):
                while await self._reader.read(65_536):
                    pass
        self.close()

    def close(self) -> None:
        self._writer.transport.abort()


def any_of(count: int, form: str, salt: int = 0) -> str:
    return " OR ".join(form.format(i=i, j=i + salt) for i in range(count))


@attack("20 subscriptions of 900 literals that are refused")
async def refused_subscriptions(ports: Ports) -> None:
    answers = Answers()
    async with mallory(ports) as client:
        for salt in range(20):
            filter = f"kind != 'parking' AND ({any_of(450, '(a{i} > {j} AND b{i} < {j})', salt)})"
            await answers.subscribe(client, filter)
    answers.expect(0, 20)


@attack("14 subscriptions of 900 literals, told to a neighbour")
async def large_subscriptions(ports: Ports) -> None:
    answers = Answers()
    async with mallory(ports) as client:
        for salt in range(14):
            await answers.subscribe(client, f"{GRANT} AND ({any_of(449, '(a{i} > {j} AND b{i} < {j})', salt)})")
    answers.expect(14)


@attack("300 subscriptions of 900 literals in one session")
async def many_large_filters(ports: Ports) -> None:
    answers = Answers()
    async with mallory(ports) as client:
        for salt in range(300):
            await answers.subscribe(client, f"{GRANT} AND ({any_of(449, '(a{i} > {j} AND b{i} < {j})', salt)})")
    answers.expect(range(40, 80), range(220, 261), "limits.user_filter_bytes_max")


@attack("40 sessions of 1,000 subscriptions")
async def many_small_filters(ports: Ports) -> None:
    answers = Answers()
    clients = [await Raw.open(ports, f"mallory/{n}") for n in range(40)]
    for n, client in enumerate(clients):
        wishes = [Subscribe((f"mallory/{n}", f"s{i}"), parse(f"{GRANT} AND n = {i}")) for i in range(1_000)]
        await client.ask(answers, wishes)
    answers.expect(range(15_000, 25_000), range(15_000, 25_001), "limits.user_filter_bytes_max")
    for client in clients:
        client.close()


@attack("conjunction of 300 disjunctions")
async def product(ports: Ports) -> None:
    answers = Answers()
    async with mallory(ports) as client:
        for salt in range(5):
            both = " AND ".join(f"(a{i} = {i + salt} OR b{i} = {i} OR c{i} = {i})" for i in range(300))
            await answers.subscribe(client, f"{GRANT} AND {both}")
    answers.expect(5)


@attack("1,000 subscriptions a LIKE '%x1_y%'")
async def likes(ports: Ports) -> None:
    answers = Answers()
    async with mallory(ports) as client, asyncio.TaskGroup() as group:
        for i in range(1_000):
            group.create_task(answers.subscribe(client, f"{GRANT} AND a LIKE '%x{i}_y%'"))
    answers.expect(1_000)


async def contexts_changed(ports: Ports, others: int) -> None:
    """Subscriptions of 120 literals on the own context, as many as are allowed, and two events after each change.

    `others`: so many other literals has each of them.
    """
    answers = Answers()
    async with mallory(ports) as client, mallory(ports, "mallory/2") as publisher:
        for salt in range(100):
            more = "".join(f" OR b{i} = {i + salt}" for i in range(others))
            await answers.subscribe(client, f"{GRANT} AND (n = {salt} OR {any_of(120, 'a{i} = my.p', salt)}{more})")
        answers.expect(33, 67, "are allowed in one session")
        changes, events = Answers(), Answers()
        for value in range(20):
            await changes.ask(client.set_context({"p": value}))
            for attributes in ({"a0": -1}, {f"a{i}": -1 for i in range(120)}):
                await events.ask(publisher.publish({"kind": "parking", **attributes}))
        changes.expect(20)
        events.expect(40)


@attack("20 context changes under subscriptions of 120 literals my.p")
async def context_changes(ports: Ports) -> None:
    await contexts_changed(ports, 0)


@attack("20 context changes under subscriptions of 820 literals, 120 of them my.p")
async def context_changes_among_others(ports: Ports) -> None:
    await contexts_changed(ports, 700)


@attack("one event of 300 KB in five texts under 100 subscriptions LIKE '%q1_z%'")
async def long_text(ports: Ports) -> None:
    answers = Answers()
    async with mallory(ports) as client:
        for i in range(100):
            await answers.subscribe(client, f"{GRANT} AND a{i % 5} LIKE '%q{i}_z%'")
        await answers.ask(client.publish({"kind": "parking", **{f"a{part}": "q1" * 30_000 for part in range(5)}}))
    answers.expect(101)


@attack("10 filters of 60 KB as text")
async def long_filter(ports: Ports) -> None:
    codes: Counter[int] = Counter()
    async with thin(ports) as client:
        for salt in range(10):
            text = f"{GRANT} AND ({any_of(3_200, 'a = {j:010d}', salt)})"
            query = said(PacketTypes.SUBSCRIBE, ("$where", text))
            for code in await client.subscribe(f"t/{salt}", qos=1, properties=query):
                codes[code if isinstance(code, int) else code.value] += 1
    assert codes.total() == 10, codes
    assert all(code >= 0x80 for code in codes), codes


@attack("100 sessions with 1 MiB of notes each")
async def notes(ports: Ports) -> None:
    answers = Answers()
    clients = [await Raw.open(ports, f"mallory/{n}") for n in range(100)]
    for client in clients:
        await client.ask(answers, [Note(f"n{i}", bytes(4_000)) for i in range(300)])
    answers.expect(26_100, 3_900, "limits.notes_bytes_max")
    for client in clients:
        client.close()


@attack("50 questions whether two filters of 200 literals merge")
async def merging(ports: Ports) -> None:
    pair = {key: any_of(100, "(a{i} > {j} AND b{i} < {j})", salt) for salt, key in enumerate(("filter", "other"))}
    head = {"authorization": BASIC_ADMIN}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports.http}", timeout=60, trust_env=False) as client:
        for _ in range(50):
            answer = await client.get("/workbench", params=pair, headers=head)
            assert answer.status_code == 200, answer.text
            assert answer.json()["relation"] is not None, answer.text


@attack("9,000 sessions of one user")
async def many_sessions(ports: Ports) -> None:
    answers = Answers()
    for first in range(0, 9_000, 100):
        async with AsyncExitStack() as stack:
            for i in range(first, first + 100):
                client = await stack.enter_async_context(mallory(ports, f"mallory/{i}"))
                await answers.ask(client.attached(60))
    answers.expect(9_000)


@attack("20,000 retained events of one user")
async def many_retained(ports: Ports) -> None:
    answers = Answers()
    async with mallory(ports) as client:
        for first in range(0, 20_000, 500):
            asked = [
                client.publish({"kind": "parking", "n": i}, retain=f"parking/{i}") for i in range(first, first + 500)
            ]
            for each in asked:
                await answers.ask(each)
    answers.expect(5_000, 15_000, "limits.user_share")


@attack("64 half frames of 16 MB")
async def half_frames(ports: Ports) -> None:
    writers, sent = [], 0
    for _ in range(64):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", ports.native)
            writers.append(writer)
            writer.write((16 * 2**20 - 1).to_bytes(4, "big") + bytes(15 * 2**20))
    for writer in writers:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(2):
                await writer.drain()
                sent += 1
    assert len(writers) == 64, f"only {len(writers)} connections were opened"
    assert sent < 64, "every half frame was taken whole"
    for writer in writers:
        writer.transport.abort()


@attack("a publisher that never waits: 30,000 events of 1 KB")
async def flood(ports: Ports) -> None:
    answers = Answers()
    async with mallory(ports) as client:
        await flooded(client, answers)
    answers.expect(30_000)


async def flooded(client: NetworkClient, answers: Answers) -> None:
    """Publish 30,000 events of 1 KB, as many at a time as a client keeps."""
    for first in range(0, 30_000, 500):
        asked = [client.publish({"kind": "parking", "n": first + i, "text": "x" * 1_000}) for i in range(500)]
        for each in asked:
            await answers.ask(each)


# ---------------------------------------------------------------- what one message multiplies


@attack("50 shared subscriptions of 900 literals, and 50 connections after each other")
async def shared_subscriptions(ports: Ports) -> None:
    answers = Answers()
    client = await Raw.open(ports, "mallory/1")
    filters = [parse(f"{GRANT} AND ({any_of(449, '(a{i} > {j} AND b{i} < {j})', salt)})") for salt in range(50)]
    for salt, filter in enumerate(filters):
        await client.ask(answers, [Subscribe(("mallory/1", f"s{salt}"), filter, share="g")])
    answers.expect(range(40, 51), range(11), "limits.user_filter_bytes_max")
    for _ in range(50):
        client.close()
        client = await Raw.open(ports, "mallory/1")
    client.close()


@attack("300 subscriptions with queue rules that match 1,000 events, and 20 connections")
async def many_queue_rules(ports: Ports) -> None:
    answers = Answers()
    rules = QueueRules(importance="n", newest_per="k", high_water="n", age_s_max=1_000.0)
    client = await Raw.open(ports, "mallory/1")
    wishes = [Subscribe(("mallory/1", f"s{i}"), parse(f"{GRANT} AND n > {-i - 1}"), queue=rules) for i in range(300)]
    await client.ask(answers, wishes)
    client.close()
    async with mallory(ports, "mallory/2") as publisher:
        for n in range(1_000):
            await answers.ask(publisher.publish({"kind": "parking", "n": n, "k": n}))
    answers.expect(1_300)
    for _ in range(20):
        (await Raw.open(ports, "mallory/1")).close()


@attack("100 patterns LIKE over 5,000 retained events of 2 KB")
async def patterns_over_retained(ports: Ports) -> None:
    answers = Answers()
    async with mallory(ports) as client:
        for first in range(0, 5_000, 500):
            asked = [
                client.publish({"kind": "parking", "text": "ab" * 1_000, "n": i}, retain=f"parking/{i}")
                for i in range(first, first + 500)
            ]
            for each in asked:
                await answers.ask(each)
        pattern = any_of(100, "text LIKE '%" + "a%b_" * 20 + "z{i}%'")
        await answers.ask(client.subscribe(f"{GRANT} AND ({pattern})", retained=True))
        await asyncio.sleep(10)
    answers.expect(5_001)


@attack("2,000 sessions with contexts of their own, and 50 events with a `to` of 64 literals")
async def contexts_of_receivers(ports: Ports) -> None:
    answers = Answers()
    clients = [await Raw.open(ports, f"mallory/{n}") for n in range(2_000)]
    for n, client in enumerate(clients):
        wishes = [Subscribe((f"mallory/{n}", "s"), parse(GRANT)), Context({f"x{i}": n for i in range(8)})]
        await client.ask(answers, wishes)
    to = parse(any_of(64, "x{i} < {j}", -1_000))
    async with mallory(ports, "mallory/p") as publisher:
        for _ in range(50):
            await answers.ask(publisher.publish({"kind": "parking"}, to=to))
    answers.expect(4_050)
    for client in clients:
        client.close()


@attack("10 messages of 14 MB with 1.2 million values, over HTTP and native")
async def many_values(ports: Ports) -> None:
    head = {"authorization": BASIC, "content-type": "application/json"}
    body = b"{" + b",".join(b'"a%d":1' % i for i in range(1_200_000)) + b"}"
    frame = b"\xdf" + (1_200_000).to_bytes(4, "big") + b"".join(b"\xa7%07d\x01" % i for i in range(1_200_000))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports.http}", timeout=60, trust_env=False) as client:
        for n in range(5):
            answer = await client.post("/events", content=body, headers=head)
            assert answer.status_code in (400, 429), answer.text
            raw = await Raw.open(ports, f"mallory/{n}")
            await raw.refused(len(frame).to_bytes(4, "big") + frame)


# ---------------------------------------------------------------- the neighbour


async def subscribed_at_both(ports: Ports, stack: AsyncExitStack) -> tuple[NetworkClient, NetworkClient]:
    """Mallory at the attacked broker and at its neighbour. Each subscribes to what the other publishes."""
    here = await stack.enter_async_context(mallory(ports))
    there = await stack.enter_async_context(mallory(ports._replace(native=ports.neighbour), "mallory/2"))
    for client in (here, there):
        reading = asyncio.create_task(_read(await client.subscribe(GRANT)))
        stack.callback(reading.cancel)
    return here, there


async def _read(subscription: Subscription) -> None:
    async for _ in subscription:  # unread events would stop the answers, too
        pass


@attack("a neighbour that sends 30,000 events of 1 KB")
async def flooding_neighbour(ports: Ports) -> None:
    answers = Answers()
    async with AsyncExitStack() as stack:
        _, there = await subscribed_at_both(ports, stack)
        await flooded(there, answers)
    answers.expect(30_000)


@attack("2,000 connections in the name of the neighbour")
async def redialling_neighbour(ports: Ports) -> None:
    closed = 0
    for _ in range(2_000):
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.native)
        writer.write(Frames.packed([Intro(broker="b2", token="guessed")]))
        async with asyncio.timeout(ATTACK_S_MAX):
            while await reader.read(65_536):
                pass
        closed += 1
        writer.close()
    assert closed == 2_000


@attack("a neighbour whose disk is full, and 30,000 events for it")
async def full_disk(ports: Ports) -> None:
    answers = Answers()
    async with AsyncExitStack() as stack:
        here, _ = await subscribed_at_both(ports, stack)
        resource.prlimit(ports.neighbour_process, resource.RLIMIT_FSIZE, (2**16, resource.RLIM_INFINITY))
        await flooded(here, answers)
    answers.expect(30_000)


@attack("a neighbour that stands still for 10 s, and 30,000 events for it")
async def slow_neighbour(ports: Ports) -> None:
    answers = Answers()
    async with AsyncExitStack() as stack:
        here, _ = await subscribed_at_both(ports, stack)
        os.kill(ports.neighbour_process, signal.SIGSTOP)  # as one does that waits for its disk
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(flooded(here, answers))
                await asyncio.sleep(10)
        finally:
            os.kill(ports.neighbour_process, signal.SIGCONT)
    answers.expect(30_000)


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
    drawn, opened = random.Random(1), 0
    for port in (ports.native, ports.mqtt, ports.http):
        for _ in range(100):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(2):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    opened += 1
                    writer.write(drawn.randbytes(4_000))
                    await writer.drain()
                    writer.close()
    assert opened == 300, f"only {opened} connections were opened"


# ---------------------------------------------------------------- queries and documents of thin clients


def thin(ports: Ports, identifier: str = "thin", **options: Any) -> aiomqtt.Client:
    """Mallory over MQTT, whose border broker runs its queries."""
    level = aiomqtt.ProtocolVersion.V5
    more = {"username": "mallory", "password": "secret", "identifier": identifier, "protocol": level, **options}
    return aiomqtt.Client("127.0.0.1", ports.mqtt, **more)


def said(packet: int, *pairs: tuple[str, str], content_type: str = "") -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for pair in pairs:
        properties.UserProperty = pair
    if content_type:
        properties.ContentType = content_type
    return properties


async def tested(
    ports: Ports, language: str, texts: list[str], payloads: list[bytes], content_type: str, granted: int
) -> None:
    """Subscribe by these queries, and publish what all of them must be asked about. So many must be granted."""
    codes: Counter[int] = Counter()
    async with thin(ports) as client:
        for number, text in enumerate(texts):
            query = said(PacketTypes.SUBSCRIBE, ("$where", text), ("$language", language))
            for code in await client.subscribe(f"t/0?{GRANT}{' ' * number}", qos=1, properties=query):
                codes[code if isinstance(code, int) else code.value] += 1
        if codes[1] != granted or codes.total() != len(texts):
            raise AssertionError(f"the attack does not bite: answers by reason code: {codes}")
        for payload in payloads:
            about = said(PacketTypes.PUBLISH, ("kind", "parking"), ("a", "a" * 5_000), content_type=content_type)
            with suppress(aiomqtt.MqttError):
                await client.publish("t/0", payload, qos=1, properties=about)
        await asyncio.sleep(5)  # while the tests run


def document(elements: int) -> bytes:
    return b"<a>" + b"<b><c><d>1</d></c></b>" * elements + b"</a>"


@attack("20 queries //*//*//* over 200 documents of 31 KB")
async def deep_paths(ports: Ports) -> None:
    await tested(ports, "xpath", ["//*//*//*[//*]"] * 20, [document(1_400)] * 200, "application/xml", 20)


@attack("100 queries of 300 predicates over 500 documents")
async def many_predicates(ports: Ports) -> None:
    texts = [" or ".join(f"//d={i}{j}" for i in range(300)) for j in range(100)]
    await tested(ports, "xpath", texts, [document(20)] * 500, "application/xml", 100)


@attack("50 queries of 5,000 predicates")
async def too_many_predicates(ports: Ports) -> None:
    text = " or ".join(f"//d{i}" for i in range(5_000))  # more do not fit into a user property
    await tested(ports, "xpath", [text] * 50, [document(1)], "application/xml", 0)


@attack("100 catastrophic patterns over 200 texts of 5,000 letters")
async def patterns(ports: Ports) -> None:
    texts = [f"a LIKE '{'%a' * 40}%b{i}'" for i in range(100)]
    await tested(ports, "cesql", texts, [b"x"] * 200, "text/plain", 100)


@attack("150 XML documents of 1 MB over HTTP, every third one broken")
async def large_documents(ports: Ports) -> None:
    head = {"authorization": BASIC_WRITER, "content-type": "application/xml"}
    answers: Counter[int] = Counter()
    bodies = [document(2_800) + b" " * 900_000, document(2_800) * 15 + b"</a>", b"<a>" * 300_000]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports.http}", timeout=60, trust_env=False) as client:
        for _ in range(50):
            for body in bodies:
                answers[(await client.post("/events", content=body, headers=head)).status_code] += 1
    assert answers == {202: 50, 400: 100}, answers  # 400: broken, or nested too deeply


# ---------------------------------------------------------------- many small pieces in few bytes


async def answered_http(ports: Ports, head: bytes, body: bytes) -> bytes:
    """Send this, and read until the broker has answered or closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", ports.http)
    said = b""
    with suppress(OSError):
        writer.write(head + body)
        async with asyncio.timeout(ATTACK_S_MAX):
            while b"\r\n\r\n" not in said and (data := await reader.read(65_536)):
                said += data
    writer.transport.abort()
    return said


@attack("10 HTTP bodies of 1 MB in chunks of one byte")
async def one_byte_chunks(ports: Ports) -> None:
    head = f"POST /events HTTP/1.1\r\nHost: b1\r\nAuthorization: {BASIC}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    for _ in range(10):
        said = await answered_http(ports, head, b"1\r\na\r\n" * 170_000 + b"0\r\n\r\n")
        assert b" 400 " in said or b" 429 " in said, said


async def opened_socket(
    ports: Ports, path: str, protocol: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has become a WebSocket."""
    reader, writer = await asyncio.open_connection("127.0.0.1", ports.http)
    lines = [f"GET {path} HTTP/1.1", "Host: b1", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]
    lines += [f"Sec-WebSocket-Protocol: {protocol}"] if protocol else []
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head, head
    return reader, writer


def text_frame(text: str, mask: bytes = bytes(4)) -> bytes:
    data = text.encode()
    length = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return b"\x81" + length + mask + data


@attack("20,000 messages over a WebSocket at once")
async def many_messages(ports: Ports) -> None:
    _, writer = await opened_socket(ports, "/ws")
    intro = json.dumps({"type": "Intro", "user": "mallory", "password": "secret"})
    attach = json.dumps({"type": "Attach", "client": "mallory/1"})
    writer.write(text_frame(intro) + text_frame(attach))
    await asyncio.sleep(1)
    received = text_frame(json.dumps({"type": "Received", "number": 0}))
    writer.write(received * 20_000)
    await writer.drain()
    await asyncio.sleep(5)
    writer.transport.abort()


@attack("200,000 pings over a WebSocket before it is authenticated")
async def pings(ports: Ports) -> None:
    reader, writer = await opened_socket(ports, "/ws")
    writer.write(b"\x89\x80\0\0\0\0" * 200_000)
    with suppress(OSError):
        async with asyncio.timeout(10):
            while await reader.read(65_536):
                pass
    writer.transport.abort()


@attack("SUBSCRIBE with 1,000 topic filters and 10,000 user properties")
async def subscribe_with_properties(ports: Ports) -> None:
    async with thin(ports) as client:
        for n in range(3):
            properties = said(PacketTypes.SUBSCRIBE, *([("$queue.count_max", "10")] * 10_000))
            codes = await client.subscribe([(f"t/{n}/{i}", 1) for i in range(1_000)], properties=properties, timeout=60)
            assert len(codes) == 1_000, codes


@attack("20 queries of 30 KB in the filter language")
async def long_native_queries(ports: Ports) -> None:
    codes: Counter[int] = Counter()
    async with thin(ports) as client:
        for n in range(20):
            text = " OR ".join(f"round(a{i} + b{i}, {n % 10}) < {i}" for i in range(900))
            query = said(PacketTypes.SUBSCRIBE, ("$where", text))
            for code in await client.subscribe(f"t/{n}?{GRANT}", qos=1, properties=query, timeout=60):
                codes[code if isinstance(code, int) else code.value] += 1
    assert codes.total() == 20, codes


@attack("10 connections to sessions with 250 queries")
async def sessions_with_queries(ports: Ports) -> None:
    names = ("mallory/1", "mallory/2")
    for salt, name in enumerate(names):
        raw = await Raw.open(ports, name)
        answers = Answers()
        wishes = []
        for i in range(250):
            text = " AND ".join(f"(a{j} = {i} XOR b{j} = 'x{salt}')" for j in range(110))
            wishes.append(Note(f"query/s{i}", msgspec.msgpack.encode((("cesql", text),))))
        await raw.ask(answers, wishes)
        answers.expect(250)
        raw.close()
    for n in range(10):
        async with thin(ports, names[n % 2].partition("/")[2], clean_start=False, timeout=60) as client:
            await client.publish("t", b"x", qos=1)


@attack("1,000 XML documents of 8 KB over MQTT at once")
async def small_documents(ports: Ports) -> None:
    async with thin(ports) as client:
        about = said(PacketTypes.PUBLISH, ("kind", "parking"), content_type="application/xml")
        async with asyncio.TaskGroup() as group:
            for _ in range(1_000):
                group.create_task(
                    client.publish("t/0", b"<a>" + b"<b/>" * 2_000 + b"</a>", qos=1, properties=about, timeout=60)
                )


@attack("2,000 XML documents of 8 KB over 50 connections of HTTP")
async def small_documents_over_http(ports: Ports) -> None:
    head = {"authorization": BASIC_WRITER, "content-type": "application/xml"}
    body = b"<a>" + b"<b/>" * 2_000 + b"</a>"
    answers: Counter[int] = Counter()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports.http}", timeout=60, trust_env=False) as client:

        async def send() -> None:
            for _ in range(40):
                answers[(await client.post("/events", content=body, headers=head)).status_code] += 1

        await asyncio.gather(*(send() for _ in range(50)))
    assert answers == {202: 2_000}, answers


@attack("300 connections of MQTT that send 1,000 packets each at once")
async def packets_at_once(ports: Ports) -> None:
    writers = []
    for n in range(300):
        _, writer = await asyncio.open_connection("127.0.0.1", ports.mqtt)
        named = b"".join(len(text).to_bytes(2, "big") + text for text in (b"c%d" % n, b"mallory", b"secret"))
        body = b"\0\x04MQTT\x05\xc2\0\x3c\0" + named
        writer.write(b"\x10" + bytes([len(body)]) + body)
        writers.append(writer)
    await asyncio.sleep(5)  # until all are authenticated
    for _ in range(3):
        for writer in writers:
            writer.write(b"\x30\x04\0\1t\0" * 1_000)  # PUBLISH of QoS 0, which is refused
        await asyncio.sleep(3)
    for writer in writers:
        assert not writer.transport.is_closing()
        writer.transport.abort()


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
        f"[users.moses]\npassword = '{secret}'\npublish = ['*']\n\n"
        f"[users.admin]\npassword = '{secret}'\nadmin = true\n\n"
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
            here = (first.port("native"), first.port("mqtt"), first.port("http"))
            ports = Ports(*here, second.port("native"), second.process.pid)
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
