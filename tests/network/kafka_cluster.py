"""A Kafka cluster for tests: the one inside librdkafka, which speaks the protocol on real sockets, and clients of it.

It is what the makers of librdkafka test their own client with: brokers that listen on loopback, topics with partitions,
idempotent producers, consumers, brokers that go down and come up again, and answers with an error of choice. It keeps
everything in memory. Python's `confluent-kafka` has the library inside and does not offer these functions, so they are
called by their names of `rdkafka_mock.h`.
"""

import ctypes
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["NOT_ENOUGH_REPLICAS", "PRODUCE", "KafkaCluster", "kafka_cluster", "reading", "sending"]

PRODUCE = 0  # the number of the request
NOT_ENOUGH_REPLICAS = 19  # an error that passes
BROKER = 1
TEXT_BYTES = 512


class KafkaCluster:
    """One broker, until `close`."""

    def __init__(self) -> None:
        confluent_kafka = pytest.importorskip("confluent_kafka")
        [file] = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka-*")
        self._library = ctypes.CDLL(str(file))
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        reason = ctypes.create_string_buffer(TEXT_BYTES)
        settings = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        self._library.rd_kafka_conf_set(settings, b"log_level", b"0", reason, TEXT_BYTES)
        handle = self._library.rd_kafka_new(0, settings, reason, TEXT_BYTES)
        assert handle, reason.value
        self._handle = ctypes.c_void_p(handle)
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_mock_cluster_new(self._handle, BROKER))
        self.address: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def make_topic(self, name: str, partitions: int = 1) -> None:
        assert self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1) == 0

    def go_down(self) -> None:
        """All connections are closed, and new ones are refused."""
        assert self._library.rd_kafka_mock_broker_set_down(self._cluster, BROKER) == 0

    def come_up(self) -> None:
        assert self._library.rd_kafka_mock_broker_set_up(self._cluster, BROKER) == 0

    def answer_errors(self, request: int, *errors: int) -> None:
        """Answer the next requests of a kind with these errors."""
        held = (ctypes.c_int * len(errors))(*errors)
        push = self._library.rd_kafka_mock_push_request_errors_array
        push(self._cluster, ctypes.c_int16(request), ctypes.c_size_t(len(errors)), held)

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)


@contextmanager
def kafka_cluster(**topics: int) -> Iterator[KafkaCluster]:
    """A cluster with these topics (an underscore is a dot), by their number of partitions."""
    made = KafkaCluster()
    for name, partitions in topics.items():
        made.make_topic(name.replace("_", "."), partitions)
    try:
        yield made
    finally:
        made.close()


@asynccontextmanager
async def sending(cluster: KafkaCluster) -> AsyncIterator[Any]:
    """A producer of the library's own."""
    aiokafka = pytest.importorskip("aiokafka")
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.address, acks="all")
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def reading(cluster: KafkaCluster, *topics: str) -> AsyncIterator[Any]:
    """A consumer that reads topics from their beginning."""
    aiokafka = pytest.importorskip("aiokafka")
    consumer = aiokafka.AIOKafkaConsumer(*topics, bootstrap_servers=cluster.address, auto_offset_reset="earliest")
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()
