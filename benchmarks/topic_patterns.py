"""How fast the index matches topic patterns, beside one LIKE pattern for each, by which they were routed before.

    python benchmarks/topic_patterns.py --patterns 10000 --patterns 100000

The patterns are those of a fleet: one vehicle with all its readings (`fleet/17/#`), one reading of one vehicle in any
trip (`fleet/17/+/speed`), one reading of all (`fleet/+/+/speed`, `+/17/#`). Every tenth event belongs to no fleet. One
core; topics are new each time, so that nothing is remembered, and then again, as sensors publish them.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import one_core, this_machine, undisturbed
from godwit.filters import Event, Filter, like, some, topic_pattern
from godwit.filters.topic_patterns import matches
from godwit.matching import IndexMatcher

READINGS = ("speed", "fuel", "position", "doors", "load")
EVENTS = 4_000
CHECKED = 20


def patterns_of(count: int, dice: random.Random) -> list[str]:
    """So many topic patterns, most of them on one vehicle each."""
    found = {f"fleet/+/+/{reading}" for reading in READINGS} | {"fleet/+", "depot/#"}
    vehicles = max(1, count // 4)
    while len(found) < count:
        vehicle = dice.randrange(vehicles)
        shape = dice.randrange(4)
        reading = dice.choice(READINGS)
        found.add(
            (f"fleet/{vehicle}/#", f"fleet/{vehicle}/+/{reading}", f"+/{vehicle}/+/{reading}", f"+/{vehicle}/#")[shape]
        )
    return sorted(found)


def topics_of(count: int, vehicles: int, dice: random.Random) -> Iterator[str]:
    """So many topics, each another one."""
    for trip in range(count):
        start = "depot" if trip % 10 == 0 else "fleet"
        yield f"{start}/{dice.randrange(vehicles)}/trip{trip}/{dice.choice(READINGS)}"


def as_before(pattern: str) -> Filter:
    """The weaker filter by which a pattern was routed: a run of any characters for each wildcard."""
    return some("topic", like(pattern.replace("%", r"\%").replace("+", "%").replace("/#", "%").replace("#", "%")))


def measured(filters: list[Filter], events: list[Event]) -> dict[str, float]:
    """Seconds to add the filters, and microseconds for each event: of new topics, and of the same again."""
    matcher = IndexMatcher()
    started = time.perf_counter()
    matcher.add_many(enumerate(filters))
    matcher.match(events[0])
    added = time.perf_counter() - started
    for event in events[: EVENTS // 4]:
        matcher.match(event)
    timings = []
    for _ in range(2):
        started = time.perf_counter()
        matches_found = sum(len(matcher.match(event)) for event in events[EVENTS // 4 :])
        timings.append((time.perf_counter() - started) / (len(events) - EVENTS // 4) * 1e6)
    return {"add_s": added, "new_us": timings[0], "again_us": timings[1], "matches": matches_found / (EVENTS * 3 // 4)}


def main(
    patterns: Annotated[list[int] | None, typer.Option(help="Number of patterns; may be given several times.")] = None,
    before: Annotated[bool, typer.Option(help="Measure LIKE patterns, too.")] = True,
) -> None:
    """Print one JSON line for each number of patterns."""
    machine = this_machine()
    typer.echo(json.dumps({"cpu": machine.cpu, "commit": machine.commit}))
    for count in patterns or [10_000, 100_000]:
        dice = random.Random(7)
        wanted = patterns_of(count, dice)
        topics = list(topics_of(EVENTS, count // 4, dice))
        events = [Event({"topic": topic}) for topic in topics]
        exact: list[Filter] = [some("topic", topic_pattern(pattern)) for pattern in wanted]
        check = IndexMatcher()
        check.add_many(enumerate(exact))
        for topic, event in list(zip(topics, events, strict=True))[:CHECKED]:
            assert set(check.match(event)) == {n for n, pattern in enumerate(wanted) if matches(pattern, topic)}
        with one_core(), undisturbed():
            typer.echo(json.dumps({"patterns": count, "form": "topic", **measured(exact, events)}))
            if before:
                typer.echo(
                    json.dumps({"patterns": count, "form": "like", **measured([*map(as_before, wanted)], events)})
                )


if __name__ == "__main__":
    typer.run(main)
