"""One set of subscriptions in every language: whoever is asked, the answers are those of the queries themselves.

`tests/spark/test_languages.py` holds Spark's tables, DataFrames, streams and dry runs to the same queries and events.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from godwit.cli import main
from godwit.filters.events import Event
from godwit.filters.json_lines import line_of
from godwit.languages import LANGUAGES
from godwit.runtime.connecting import connect as connect_native
from tests.network.http_broker import broker
from tests.network.test_edge_queries import at, attached, heard, say, subscribe
from tests.network.waiting import run
from tests.unit.pipeline.mixed_languages import QUERIES, events, queries

Answers = dict[int, list[str]]
ALL = {"filter", "xql", "xpath", "cesql", "cql2-text", "cql2-json"}
END = -1  # the row of the event behind all others


def numbered() -> list[Event]:
    """The events, with the number of their row as an attribute: who publishes them numbers them otherwise."""
    return [replace(each, attributes={**each.attributes, "row": each.sequence}) for each in events()]


def expected() -> Answers:
    wanted = queries()
    found = {row: [id for id, query in wanted.items() if query.matches(each)] for row, each in enumerate(numbered())}
    return {row: sorted(ids) for row, ids in found.items() if ids}


def publish_all(publisher: Any) -> None:
    for each in [*numbered(), Event({"row": END})]:
        publisher.publish(each)


def test_every_language_is_among_them_with_a_filter_alone_and_with_an_exact_test() -> None:
    asked = queries().values()
    assert {query.language for query in asked if query.test is not None} == ALL
    assert set(LANGUAGES.names()) >= ALL
    assert {query.language for query in asked if query.test is None} >= {"filter", "cesql", "cql2-text"}


def test_a_native_client_gets_what_the_queries_want() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect_native(running.native, name="p") as publisher,
            connect_native(running.native, name="ann") as ann,
        ):
            streams = {
                id: await ann.subscribe(text, language=language, name=id) for id, (language, text) in QUERIES.items()
            }
            end = await ann.subscribe(f"row = {END}", name="the end")
            publish_all(publisher)
            await end.next()
            found: Answers = {}
            for id, stream in streams.items():
                for _ in range(len(stream)):
                    found.setdefault((await stream.next()).attributes["row"], []).append(id)  # type: ignore[arg-type]
            found.pop(END, None)
            assert {row: sorted(ids) for row, ids in found.items()} == expected()

    run(scene)


def test_the_border_broker_gives_a_thin_client_what_the_queries_want() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, _),
            connect_native(running.native, name="p") as publisher,
            at(running) as socket,
        ):
            await attached(socket, "page")
            asked = [*QUERIES.items(), ("the end", ("filter", f"row = {END}"))]
            for number, (id, (language, text)) in enumerate(asked, start=1):
                await say(socket, **subscribe(number, text, language, id))
                assert await heard(socket) == {"type": "Accepted", "number": number}
            publish_all(publisher)
            found: Answers = {}
            while True:
                delivery = await heard(socket)
                if "the end" in delivery["subscriptions"]:
                    break
                found[delivery["event"]["attributes"]["row"]] = sorted(delivery["subscriptions"])
            assert found == expected()

    run(scene)


@pytest.mark.parametrize("matcher", ["index", "bdd", "naive"])
def test_match_finds_what_the_queries_want(tmp_path: Path, matcher: str) -> None:
    asked = [{"id": id, "filter": text, "language": language} for id, (language, text) in QUERIES.items()]
    (tmp_path / "subscriptions").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
    (tmp_path / "events").write_bytes(b"\n".join(msgspec.json.encode(line_of(each)) for each in numbered()))
    inputs = ("--subscriptions", str(tmp_path / "subscriptions"), "--events", str(tmp_path / "events"))
    ran = CliRunner().invoke(main.app, ["match", *inputs, "--matcher", matcher])
    assert ran.stderr == ""
    found = [sorted(msgspec.json.decode(line)["subscriptions"]) for line in ran.stdout.splitlines()]
    assert {row: ids for row, ids in enumerate(found) if ids} == expected()
