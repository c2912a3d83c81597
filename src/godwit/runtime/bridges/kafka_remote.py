"""The remote of a bridge: a Kafka cluster.

*Rules.*
1. Outgoing, a delivery is confirmed when all replicas in sync have the record (`acks=all`). The producer is
   idempotent: what the client library sends again is stored once. What was not confirmed when either side was killed is
   sent again by the next producer, and may be stored twice; `godwit-delivery` is then the same.
2. Incoming, the bridge reads partitions itself, without a consumer group, and stores its position together with the
   events (`kafka_offsets.py`). Records of transactions that were aborted are not read.
3. A record that Kafka will never take (size, rights, no such topic) is refused, and counted. After every other error
   the connection is given up, and the bridge connects again.
4. Every `LOOK_S`, or `retry_s_max` if that is shorter, the bridge asks for the topics. No answer means that the cluster
   is away; new topics and partitions are read from then on.
5. If Kafka has removed records before they were read, reading goes on at the oldest, and a warning says so.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka import errors as kafka_errors

from godwit.broker.messages import Delivery, Note
from godwit.errors import BadValue
from godwit.mqtt.client_end import Outgoing
from godwit.runtime.bridges.bridge import Bridge, RemoteGone
from godwit.runtime.bridges.crossing import brought_in, way_out
from godwit.runtime.bridges.kafka_offsets import (
    PARTITIONS_MAX,
    Partition,
    ReadBatch,
    begun_note,
    has_begun,
    place_note,
    places,
)
from godwit.runtime.bridges.kafka_records import message_of, reads, record_of
from godwit.runtime.bridges.local_side import Incoming, LocalSide
from godwit.runtime.bridges.mqtt_remote import client_tls
from godwit.runtime.bridges.routes import Route

__all__ = ["KafkaRemote", "options_of"]

BATCH_MAX = 256
LOOK_S = 5.0
REQUEST_MS = 10_000
UNKNOWN_MAX = 1_000  # topics that are remembered as missing
REFUSALS = (
    kafka_errors.InvalidTopicError,
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.UnknownTopicOrPartitionError,
)
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the bridge reports errors itself


def options_of(bridge: Bridge) -> dict[str, Any]:
    """The connection settings of the client library."""
    section = bridge.section
    protocol = ("SASL_" if section.user else "") + ("SSL" if section.tls else "PLAINTEXT")
    options: dict[str, Any] = {
        "bootstrap_servers": [each.strip() for each in section.address.split(",")],
        "client_id": section.client_id or f"godwit-{bridge.broker}-{section.name}",
        "request_timeout_ms": REQUEST_MS,
        "security_protocol": protocol,
    }
    if section.user:
        options["sasl_mechanism"] = section.sasl
        options["sasl_plain_username"] = section.user
        options["sasl_plain_password"] = Path(section.password).read_text().strip() if section.password else ""
    if section.tls:
        options["ssl_context"] = client_tls(section.authorities, section.certificate, section.key)
    return options


class KafkaRemote:
    """One producer and one consumer."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._look_s = min(LOOK_S, bridge.section.retry_s_max)
        self._producer: Any = None
        self._consumer: Any = None
        self._partitions: dict[Partition, tuple[Route, ...]] = {}  # that there are, and which routes read them
        self._found = asyncio.Event()
        self._topics: set[str] = set()
        self._unknown: set[str] = set()  # topics that do not exist and could not be created

    async def open(self) -> None:
        """Connect, and list the topics."""
        options, bytes_max = options_of(self._bridge), self._bridge.section.packet_bytes_max
        self._producer = AIOKafkaProducer(enable_idempotence=True, max_request_size=bytes_max, **options)
        try:
            await self._producer.start()
            if self._bridge.incoming:
                self._consumer = AIOKafkaConsumer(
                    enable_auto_commit=False,
                    auto_offset_reset="none",
                    isolation_level="read_committed",
                    max_partition_fetch_bytes=bytes_max,
                    **options,
                )
                await self._consumer.start()
            await self._look()
        except kafka_errors.KafkaError as error:
            raise RemoteGone(_text(error)) from None

    async def close(self) -> None:
        """Close the connections. Unsent events stay in the queue of the session."""
        ends = [asyncio.wait_for(each.stop(), LOOK_S) for each in (self._consumer, self._producer) if each is not None]
        await asyncio.gather(*ends, return_exceptions=True)  # the library raises CancelledError itself

    async def run(self, local: LocalSide) -> None:
        """Carry events in both directions until the cluster is unreachable."""
        work = [self._watch(), self._take_out(local)]
        if self._consumer is not None:
            work.append(self._take_in(local))
        tasks = [asyncio.create_task(each) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except kafka_errors.KafkaError as error:
            raise RemoteGone(_text(error)) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ what there is

    async def _watch(self) -> None:
        """(rule 4)"""
        while True:
            await asyncio.sleep(self._look_s)
            async with asyncio.timeout(REQUEST_MS / 1000):
                await self._look()

    async def _look(self) -> None:
        cluster = await self._producer.client.fetch_all_metadata()
        self._topics = set(cluster.topics())
        self._unknown -= self._topics
        found: dict[Partition, tuple[Route, ...]] = {}
        for topic in sorted(self._topics):
            if routes := tuple(each for each in self._bridge.incoming if reads(each, topic)):
                for number in sorted(cluster.partitions_for_topic(topic) or ()):
                    found[Partition(topic, number)] = routes
        if len(found) > PARTITIONS_MAX and len(self._partitions) < PARTITIONS_MAX:
            self._bridge.warn(f"{len(found)} partitions are to be read: only the first {PARTITIONS_MAX} are")
        self._partitions = dict(list(found.items())[:PARTITIONS_MAX])
        self._found.set()

    # ------------------------------------------------------------ in

    async def _take_in(self, local: LocalSide) -> None:
        at = places(local.notes, local.attached.accepted)
        begun = set(local.notes)
        while True:
            self._found.clear()
            if set(self._partitions) != {Partition(*each) for each in self._consumer.assignment()}:
                await self._assign(local, at, begun)
            if not self._partitions:
                await self._found.wait()
                continue
            try:
                came = await self._consumer.getmany(timeout_ms=int(self._look_s * 1000), max_records=BATCH_MAX)
            except kafka_errors.OffsetOutOfRangeError as error:
                await self._begin_again([Partition(*each) for each in error.args[0]], at)
                continue
            for each, records in came.items():
                partition = Partition(*each)
                if records and partition in self._partitions:
                    await self._bring(local, partition, records)
                    at[partition] = records[-1].offset + 1

    async def _assign(self, local: LocalSide, at: dict[Partition, int], begun: set[str]) -> None:
        """Read all partitions from their stored positions. (`kafka_offsets.py`, rule 3)"""
        wanted = dict(self._partitions)
        new = {partition: set(routes) for partition, routes in wanted.items() if partition not in at}
        fresh = {route for route in self._bridge.incoming if not has_begun(begun, route.name)}
        is_latest = self._bridge.section.start == "latest"
        at_end = [partition for partition, routes in new.items() if is_latest and routes <= fresh]
        at_start = [partition for partition in new if partition not in set(at_end)]
        ends = await self._consumer.end_offsets([TopicPartition(*each) for each in at_end]) if at_end else {}
        starts = (
            await self._consumer.beginning_offsets([TopicPartition(*each) for each in at_start]) if at_start else {}
        )
        at.update({Partition(*each): offset for each, offset in (ends | starts).items()})
        notes = [place_note(each, ReadBatch(at[each])) for each in at_end]
        notes += [begun_note(route.name) for route in fresh]
        await _keep(local, notes)
        begun.update(note.key for note in notes)
        self._consumer.assign([TopicPartition(*each) for each in wanted])
        for each in wanted:
            self._consumer.seek(TopicPartition(*each), at[each])

    async def _begin_again(self, partitions: list[Partition], at: dict[Partition, int]) -> None:
        """(rule 5)"""
        starts = await self._consumer.beginning_offsets([TopicPartition(*each) for each in partitions])
        for each, offset in starts.items():
            partition = Partition(*each)
            self._bridge.warn(
                f"partition {partition.number} of {partition.topic!r} has no record {at[partition]} any more: "
                f"reading goes on at {offset}"
            )
            at[partition] = offset
            self._consumer.seek(each, offset)

    async def _bring(self, local: LocalSide, partition: Partition, records: Sequence[ConsumerRecord]) -> None:
        routes = self._partitions[partition]
        items, offsets = list[Incoming](), list[int]()
        for record in records:
            item = brought_in(self._bridge, message_of(record, by_key=bool(routes[0].kafka_topic)), routes)
            if item is not None:
                items.append(item)
                offsets.append(record.offset)
        then = records[-1].offset + 1
        note = place_note(partition, ReadBatch(then, local.next_request + 1, tuple(offsets)))
        kept, *answers = await local.bring([note, *items])
        if kept is not None:
            raise RemoteGone(f"a note cannot be kept: {kept}")
        for reason in answers:
            if reason is None:
                self._bridge.tally.add("in", "carried")
            else:
                self._bridge.tally.refuse("in", reason)

    # ------------------------------------------------------------ out

    async def _take_out(self, local: LocalSide) -> None:
        while True:
            deliveries = [await local.next_delivery()]
            while len(deliveries) < BATCH_MAX and not local.deliveries.empty():
                deliveries.append(await local.next_delivery())
            sent = [(delivery.number, await self._send(local, delivery)) for delivery in deliveries]
            for number, stored in sent:
                if stored is not None:
                    await self._stored(stored)
                local.done([number])

    async def _send(self, local: LocalSide, delivery: Delivery) -> asyncio.Future[Any] | None:
        """Hand a record to the producer; None: it is not carried."""
        found = way_out(self._bridge, delivery)
        return None if found is None else await self._hand_over(*found, local.attached.session)

    async def _hand_over(self, route: Route, message: Outgoing, session: str) -> asyncio.Future[Any] | None:
        try:
            record = record_of(route, message, session)
            if record.topic in self._unknown:
                raise kafka_errors.UnknownTopicOrPartitionError(record.topic)
            future: asyncio.Future[Any] = await self._producer.send(
                record.topic, record.value, record.key, headers=record.headers
            )
        except (BadValue, *REFUSALS) as error:
            if isinstance(error, kafka_errors.UnknownTopicOrPartitionError) and len(self._unknown) < UNKNOWN_MAX:
                self._unknown.add(record.topic)
            self._bridge.tally.refuse("out", _text(error))
            return None
        future.add_done_callback(_looked_at)
        return future

    async def _stored(self, future: asyncio.Future[Any]) -> None:
        """Wait until Kafka has stored a record, or refused it. (rules 1 and 3)"""
        try:
            await future
        except REFUSALS as error:
            self._bridge.tally.refuse("out", _text(error))
        else:
            self._bridge.tally.add("out", "carried")


async def _keep(local: LocalSide, notes: list[Note]) -> None:
    for reason in await local.ask(notes):
        if reason is not None:
            raise RemoteGone(f"a note cannot be kept: {reason}")


def _looked_at(future: asyncio.Future[Any]) -> None:
    """Ignore the result of records after a failed one, so that the event loop does not log them."""
    if not future.cancelled():
        future.exception()


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
