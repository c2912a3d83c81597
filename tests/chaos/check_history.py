"""Judge a history: what was lost, doubled, out of order, unwanted or stuck. README.md has the format and the laws.

This file imports nothing of Godwit, so that a fault there cannot hide itself here.
"""

import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LAWS = ("lost", "doubled", "out of order", "unwanted", "stuck", "untold")
SHOWN = 20


@dataclass(slots=True)
class Publication:
    """An event, from its publisher's side."""

    by: str
    topic: str
    promise: str
    at: float
    place: int  # among the publisher's events
    is_acknowledged: bool = False


@dataclass(slots=True)
class Subscriber:
    """What one client is owed and got."""

    topics: frozenset[str]
    promise: str
    since: float = math.inf  # what is published from here on is owed
    got: Counter[str] = field(default_factory=Counter)
    first: dict[str, float] = field(default_factory=dict)  # when each came for the first time, in that order


@dataclass(slots=True)
class DataLoss:
    """A fault of a disk that may cost data."""

    since: float  # events that were published from then on may be lost
    at: float  # when the fault was
    until: float = math.inf  # when all worked again


@dataclass(slots=True)
class Judgement:
    """What was found."""

    published: int = 0
    acknowledged: int = 0
    owed: int = 0
    delivered: int = 0
    repeated: int = 0  # allowed by the promise of MQTT QoS 1
    excused: int = 0  # lost or doubled where a disk had lost data, and said so
    faults: Counter[str] = field(default_factory=Counter)
    broken: dict[str, list[str]] = field(default_factory=lambda: {law: [] for law in LAWS})
    is_ended: bool = False

    @property
    def is_good(self) -> bool:
        return self.is_ended and not any(self.broken.values())


class History:
    """A history as it is read, line by line."""

    def __init__(self) -> None:
        self.publications: dict[str, Publication] = {}
        self.subscribers: dict[str, Subscriber] = {}
        self.losses: list[DataLoss] = []
        self.told: dict[str, float] = {}  # by client, when it was last told that something may be missing
        self.judgement = Judgement()
        self._count: Counter[str] = Counter()
        self._read = {
            "subscribe": self._subscribe,
            "stands": self._stands,
            "publish": self._publish,
            "acknowledge": self._acknowledge,
            "deliver": self._deliver,
            "receipt": self._receipt,
            "fault": self._fault,
            "settled": self._settled,
            "end": self._end,
        }

    def read(self, line: dict[str, Any]) -> None:
        self._read[line["what"]](line)

    def _subscribe(self, line: dict[str, Any]) -> None:
        self.subscribers[line["who"]] = Subscriber(frozenset(line["topics"]), line["promise"])

    def _stands(self, line: dict[str, Any]) -> None:
        self.subscribers[line["who"]].since = line["at"]

    def _publish(self, line: dict[str, Any]) -> None:
        by = line["by"]
        self._count[by] += 1
        self.publications[line["id"]] = Publication(
            by, line["topic"], line["promise"], line["at"], place=self._count[by]
        )

    def _acknowledge(self, line: dict[str, Any]) -> None:
        self.publications[line["id"]].is_acknowledged = True

    def _deliver(self, line: dict[str, Any]) -> None:
        subscriber, id = self.subscribers[line["to"]], line["id"]
        self.judgement.delivered += 1
        subscriber.got[id] += 1
        if subscriber.got[id] == 1:
            subscriber.first[id] = line["at"]

    def _receipt(self, line: dict[str, Any]) -> None:
        self.told[line["to"]] = line["at"]

    def _fault(self, line: dict[str, Any]) -> None:
        self.judgement.faults[line["kind"]] += 1
        if (since := line.get("loss_from")) is not None:
            self.losses.append(DataLoss(since, line["at"]))

    def _settled(self, line: dict[str, Any]) -> None:
        for loss in self.losses:
            loss.until = min(loss.until, line["at"])

    def _end(self, line: dict[str, Any]) -> None:
        self._settled(line)
        self.judgement.is_ended = True

    # ------------------------------------------------------------ the laws

    def _is_excused(self, publication: Publication, came_at: float = math.nan) -> bool:
        """Whether it was published, or came for the first time, while a disk lost what was written."""
        return any(loss.since <= at <= loss.until for loss in self.losses for at in (publication.at, came_at))

    def _is_told(self, name: str, publication: Publication) -> bool:
        """Whether a client that misses an event was told at or after a fault that may have cost it."""
        faults = [loss.at for loss in self.losses if loss.since <= publication.at <= loss.until]
        return self.told.get(name, -math.inf) >= min(faults)

    def judged(self) -> Judgement:
        found = self.judgement
        found.published = len(self.publications)
        found.acknowledged = sum(each.is_acknowledged for each in self.publications.values())
        found.broken["stuck"] = [
            f"{id} was published at {each.at:.3f} and never acknowledged"
            for id, each in self.publications.items()
            if not each.is_acknowledged and not self._is_excused(each)
        ]
        by_topic: dict[str, list[str]] = defaultdict(list)
        for id, publication in self.publications.items():
            by_topic[publication.topic].append(id)
        for name, subscriber in self.subscribers.items():
            self._judge_owed(name, subscriber, by_topic)
            self._judge_got(name, subscriber)
            self._judge_order(name, subscriber)
        return found

    def _judge_owed(self, name: str, subscriber: Subscriber, by_topic: dict[str, list[str]]) -> None:
        missing_excused = untold = 0
        for topic in subscriber.topics:
            for id in by_topic.get(topic, ()):
                publication = self.publications[id]
                if publication.at < subscriber.since or not publication.is_acknowledged:
                    continue
                self.judgement.owed += 1
                if subscriber.got[id]:
                    continue
                if self._is_excused(publication):
                    missing_excused += 1
                    untold += not self._is_told(name, publication)
                else:
                    self.judgement.broken["lost"].append(f"{id} of {publication.at:.3f} never came to {name}")
        self.judgement.excused += missing_excused
        if untold:
            self.judgement.broken["untold"].append(f"{untold} events are missing at {name}, which was not told")

    def _judge_got(self, name: str, subscriber: Subscriber) -> None:
        for id, times in subscriber.got.items():
            publication = self.publications.get(id)
            if publication is None or publication.topic not in subscriber.topics:
                self.judgement.broken["unwanted"].append(f"{id} came to {name}, which is not owed it")
            elif times > 1 and "repeated" in (subscriber.promise, publication.promise):
                self.judgement.repeated += times - 1
            elif times > 1 and self._is_excused(publication, subscriber.first[id]):
                self.judgement.excused += times - 1
            elif times > 1:
                self.judgement.broken["doubled"].append(f"{id} came {times} times to {name}")

    def _judge_order(self, name: str, subscriber: Subscriber) -> None:
        last: dict[str, tuple[int, str]] = {}
        for id in subscriber.first:
            publication = self.publications.get(id)
            if publication is None:
                continue
            place, before = last.get(publication.by, (0, ""))
            if publication.place < place and not self._is_excused(publication):
                self.judgement.broken["out of order"].append(f"{id} came to {name} after {before}")
            last[publication.by] = max((publication.place, id), (place, before))


def judge(lines: Iterable[str]) -> Judgement:
    """The judgement on a history."""
    history = History()
    for line in lines:
        if line.strip():
            history.read(json.loads(line))
    return history.judged()


def main(files: list[str]) -> int:
    is_good = True
    for name in files:
        with Path(name).open(encoding="utf-8") as file:
            found = judge(file)
        counts = ", ".join(f"{law} {len(found.broken[law])}" for law in LAWS)
        print(f"{name}: published {found.published}, owed {found.owed}, delivered {found.delivered}, {counts}")
        if not found.is_ended:
            print("  the history has no end: events may have been on their way")
        for law in LAWS:
            for text in found.broken[law][:SHOWN]:
                print(f"  {law}: {text}")
        is_good = is_good and found.is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
