"""Positions of a bridge in the partitions of Kafka, so that each record is published once, even after SIGKILL.

*Theory.* Kafka keeps records and lets a reader begin anywhere. So the position in a partition is stored here, as a note
of the bridge's session, and not in Kafka. Before the records of one partition are published, a note lists their offsets
and the number of the first request. The broker numbers requests, and reports at each attachment how many it has
accepted. Both together tell how many of the records were published, wherever the process was killed:

```text
   note (offsets 7, 9, 10; first request 41; then 12)   request 41: record 7   request 42: record 9   ✗ killed
   accepted: 42  ──▶  two of the three are in  ──▶  read on at 10
```

*Rules.*
1. The note of a batch is the request directly before its first record.
2. A record that is not carried (another topic, a filter, a loop) has no request: it counts with the one before it.
3. A route that is new begins at the end of its partitions, or at their beginning, as configured. What appears later
   (a topic, a partition) was made since, and is read from its beginning.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from godwit.broker.messages import Note

__all__ = ["PARTITIONS_MAX", "Partition", "ReadBatch", "begun_note", "has_begun", "place_note", "places"]

PARTITIONS_MAX = 2_000  # that one bridge reads; a session has room for 4,096 notes
PLACE = "kafka/at/"
BEGUN = "kafka/begun/"


class Partition(NamedTuple):
    """A partition of a Kafka topic."""

    topic: str
    number: int


class ReadBatch(msgspec.Struct, frozen=True, array_like=True):
    """What a note stores: records that are published now, and where reading goes on behind them."""

    then: int
    first_request: int = 0
    offsets: tuple[int, ...] = ()

    def next_offset(self, accepted: int) -> int:
        """The first record that has not come in, when so many requests were accepted."""
        taken = max(accepted - self.first_request + 1, 0)
        return self.offsets[taken] if taken < len(self.offsets) else self.then


def place_note(partition: Partition, batch: ReadBatch) -> Note:
    """What stores a place."""
    return Note(f"{PLACE}{partition.number}/{partition.topic}", msgspec.msgpack.encode(batch))


def places(notes: Mapping[str, bytes], accepted: int) -> dict[Partition, int]:
    """Where to read on, by partition."""
    found = {}
    for key, value in notes.items():
        if key.startswith(PLACE):
            number, _, topic = key.removeprefix(PLACE).partition("/")
            batch = msgspec.msgpack.decode(value, type=ReadBatch)
            found[Partition(topic, int(number))] = batch.next_offset(accepted)
    return found


def begun_note(route: str) -> Note:
    """What stores that a route has begun. (rule 3)"""
    return Note(BEGUN + route, b"")


def has_begun(notes: Iterable[str], route: str) -> bool:
    """Whether a route has begun in this session."""
    return BEGUN + route in notes
