"""The remote of a bridge: a NATS server. Topics are subjects, user properties are headers.

*Theory.* A subject has tokens between dots where a topic has levels between slashes. `+` is `*`, and `#` at the end is
`>`, which stands for at least one token.

*Rules.*
1. Outgoing, deliveries are confirmed when the server has answered a PING sent after them. Unconfirmed ones are sent
   again after a reconnection, so an event may arrive twice. Core NATS stores nothing: a subscriber that is not
   connected misses the event.
2. Incoming, an event is published when it arrives. Events published on the server while the bridge is away are lost.
3. A topic with a level that no subject can have (empty, with a dot, a space or a wildcard) is refused, and counted. So
   is a message that is larger, with its headers, than the server allows. What no header can have is left out.
4. The bridge reconnects itself; automatic reconnection of the client library is off.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats
import nats.errors
from nats.aio.msg import Msg

from godwit.errors import BadValue
from godwit.mqtt.client_end import Outgoing
from godwit.mqtt.packets import Publish
from godwit.runtime.bridges.bridge import Bridge, RemoteGone
from godwit.runtime.bridges.crossing import brought_in, taken_out, with_path
from godwit.runtime.bridges.local_side import Incoming, LocalSide
from godwit.runtime.bridges.mqtt_remote import client_tls
from godwit.runtime.bridges.routes import PATH

__all__ = ["NatsRemote", "headers_of", "subject_of", "topic_of"]

BATCH_MAX = 256
PENDING_MAX = 10_000  # received messages that are not in the journal yet; beyond that the library drops some
PATH_HEADER, TYPE_HEADER, QOS_HEADER = "Godwit-Path", "Content-Type", "Godwit-QoS"
PATH_SEPARATOR = " > "
EMPTY_HEADERS = b"NATS/1.0\r\n\r\n"
UNFIT = frozenset(" .*>\t\r\n")


def subject_of(topic: str, *, is_pattern: bool = False) -> str:
    """A topic, or a topic pattern, as a subject. BadValue if NATS does not allow it. (rule 3)"""
    tokens = topic.split("/")
    for place, token in enumerate(tokens):
        if is_pattern and token == "+":
            tokens[place] = "*"
        elif is_pattern and token == "#" and place == len(tokens) - 1:
            tokens[place] = ">"
        elif not token or UNFIT & set(token):
            raise BadValue(f"{topic!r} cannot be a subject of NATS: the level {token!r} is not a token")
    return ".".join(tokens)


def topic_of(subject: str) -> str:
    """A subject as a topic. BadValue if it is not a valid topic."""
    if any(sign in subject for sign in "/+#"):
        raise BadValue(f"{subject!r} cannot be a topic")
    return subject.replace(".", "/")


class NatsRemote:
    """One connection to a NATS server."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._client: Any = None
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._came: asyncio.Queue[Msg] = asyncio.Queue(PENDING_MAX)

    async def open(self) -> None:
        """Connect and authenticate."""
        section = self._bridge.section
        options: dict[str, Any] = {}
        if section.user:
            options["user"] = section.user
            options["password"] = Path(section.password).read_text().strip() if section.password else ""
        if section.tls:
            options["tls"] = client_tls(section.authorities, section.certificate, section.key)
        try:
            self._client = await nats.connect(
                f"nats://{section.address}",
                name=self._bridge.client,
                no_echo=True,
                allow_reconnect=False,
                error_cb=self._on_error,
                closed_cb=self._on_closed,
                **options,
            )
        except nats.errors.Error as error:
            raise RemoteGone(str(error) or type(error).__name__) from None

    async def _on_error(self, error: Exception) -> None:
        self._end(str(error) or type(error).__name__)

    async def _on_closed(self) -> None:
        self._end("the server has closed the connection")

    def _end(self, reason: str) -> None:
        if not self._gone.done():
            self._gone.set_result(reason)

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            with suppress(nats.errors.Error, OSError):
                await self._client.close()

    async def run(self, local: LocalSide) -> None:
        """Carry events in both directions until the connection ends."""
        for route in self._bridge.incoming:
            subject = subject_of(route.remote_filter, is_pattern=True)
            await self._client.subscribe(subject, cb=self._came.put, pending_msgs_limit=PENDING_MAX)
        tasks: set[asyncio.Future[Any]] = {
            asyncio.create_task(self._take_in(local)),
            asyncio.create_task(self._take_out(local)),
        }
        try:
            await asyncio.wait({*tasks, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if self._gone.done():
                raise RemoteGone(self._gone.result())
            for task in tasks:
                if task.done():
                    task.result()
        except nats.errors.Error as error:
            raise RemoteGone(str(error) or type(error).__name__) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ in

    async def _take_in(self, local: LocalSide) -> None:
        while True:
            messages = [await self._came.get()]
            while len(messages) < BATCH_MAX and not self._came.empty():
                messages.append(self._came.get_nowait())
            items = [item for message in messages if (item := self._incoming(message)) is not None]
            for reason in await local.bring(items):
                if reason is None:
                    self._bridge.tally.add("in", "carried")
                else:
                    self._bridge.tally.refuse("in", reason)

    def _incoming(self, message: Msg) -> Incoming | None:
        headers = dict(message.headers or {})
        try:
            topic = topic_of(message.subject)
        except BadValue as error:
            self._bridge.tally.refuse("in", str(error))
            return None
        path = tuple(filter(None, headers.pop(PATH_HEADER, "").split(PATH_SEPARATOR)))
        said = headers.pop(QOS_HEADER, "")
        qos = int(said) if said in ("0", "1", "2") else 2
        properties: dict[str, Any] = {}
        if content_type := headers.pop(TYPE_HEADER, ""):
            properties["content_type"] = content_type
        properties["user_property"] = tuple(headers.items())
        return brought_in(self._bridge, Publish(topic, message.data, qos, properties=with_path(properties, path)))

    # ------------------------------------------------------------ out

    async def _take_out(self, local: LocalSide) -> None:
        while True:
            deliveries = [await local.next_delivery()]
            while len(deliveries) < BATCH_MAX and not local.deliveries.empty():
                deliveries.append(await local.next_delivery())
            carried = 0
            for delivery in deliveries:
                outgoing = taken_out(self._bridge, delivery)
                if outgoing is not None:
                    carried += await self._publish(outgoing)
            if carried:
                await self._client.flush()  # rule 1
                self._bridge.tally.add("out", "carried", carried)
            local.done([delivery.number for delivery in deliveries])

    async def _publish(self, message: Outgoing) -> bool:
        """Send a message; returns whether its topic was allowed. (rule 3)"""
        try:
            headers = headers_of(message, self._client.max_payload)
            await self._client.publish(subject_of(message.topic), message.payload, headers=headers)
        except (BadValue, nats.errors.MaxPayloadError, nats.errors.BadSubjectError) as error:
            self._bridge.tally.refuse("out", str(error))
            return False
        return True


def headers_of(message: Outgoing, bytes_max: int) -> dict[str, str]:
    """The headers of a message. BadValue if they and its payload have more bytes than that. (rule 3)"""
    pairs = message.properties.get("user_property", ())
    path = [value for name, value in pairs if name == PATH and value.isprintable()]
    headers = {name: value for name, value in pairs if name != PATH and _is_header(name, value)}
    headers |= {PATH_HEADER: PATH_SEPARATOR.join(path), QOS_HEADER: str(message.qos)}
    content_type = message.properties.get("content_type", "")
    if content_type and content_type.isprintable():
        headers[TYPE_HEADER] = content_type
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    size = len(message.payload) + len(EMPTY_HEADERS) + len("".join(lines).encode())
    if size > bytes_max:
        raise BadValue(f"a message of {size} bytes: the server takes {bytes_max}")
    return headers


def _is_header(name: str, value: str) -> bool:
    """Whether a user property can be a header."""
    return name.isascii() and name.isprintable() and not set(" :") & set(name) and value.isprintable()
