"""`godwit pub`, `sub`, `adv`, `ctx` and `bench` against a broker on a real socket."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from godwit.cli import declare_command, event_display, pub_command
from godwit.filters.events import event
from godwit.filters.json_lines import event_of, line_of
from tests.network.cli_broker import Apart, broker_apart, godwit, in_background, lines
from tests.network.test_native import Running

Place = tuple[Apart, Running]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with broker_apart() as found:
        yield found


def at(place: Place) -> list[str]:
    return ["--broker", str(place[1].address)]


def sessions(place: Place) -> Any:
    return place[1].node.machine.sessions  # type: ignore[attr-defined]


def listening(place: Place, client: str) -> None:
    """Until a client's subscription is there."""

    def is_there() -> bool:
        session = sessions(place).session(client)
        return session is not None and session.connection is not None and "sub" in session.subscriptions

    place[0].until(is_there)


def test_what_is_published_on_the_command_line_comes_to_who_listens_there(place: Place) -> None:
    came = in_background(
        "sub", "cost < 3", "--name", "ann", "--sender", "battery > 20", "-C", "2", "-W", "60", *at(place)
    )
    listening(place, "ann")
    godwit("pub", "cost=2", *at(place))  # nobody vouches for its battery
    sent = godwit(
        *("pub", "kind=parking", "cost=2", "free=true", 'where:={"lon": 8.5, "lat": 47.3}', "--payload", "hello"),
        *("--context", "battery=80", "--name", "van 7", *at(place)),
    )
    assert (sent.exit_code, sent.stderr) == (0, "")
    godwit("pub", "--json", '{"cost": 1, "tags": ["a", "b"]}', "--context", "battery=21", *at(place))
    status, printed, _ = came()
    assert status == 0
    first, second = lines(printed)
    assert first["attributes"] == {"kind": "parking", "cost": 2, "free": True, "where": {"lon": 8.5, "lat": 47.3}}
    assert (first["publisher"], first["sender"], first["payload"]) == ("van 7", {"battery": 80}, "hello")
    assert lines(sent.stdout) == [{"event": f"van 7:{first['sequence']}"}]
    assert second["attributes"] == {"cost": 1, "tags": ["a", "b"]}


def test_what_sub_prints_pub_reads(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    came = in_background("sub", "n >= 0", "--name", "writer", "-C", "2", "-W", "60", *at(place))
    listening(place, "writer")
    sent = godwit("pub", *at(place), input='{"n": 1}\nbad\n{"attributes": {"n": 2}, "payload": {"x": 1}}\n[]\n')
    assert sent.exit_code == 1
    assert "stdin:2: " in sent.stderr
    assert "stdin:4: an event is a JSON object" in sent.stderr
    assert "skipped 2 bad lines" in sent.stderr
    file.write_text(came()[1])
    came = in_background("sub", "n >= 0", "--name", "reader", "-C", "2", "-W", "60", *at(place))
    listening(place, "reader")
    assert godwit("pub", "-f", str(file), *at(place)).exit_code == 0
    assert [(line["attributes"]["n"], line.get("payload")) for line in lines(came()[1])] == [(1, None), (2, '{"x":1}')]


def test_what_comes_while_nobody_reads_waits_for_the_name_and_what_was_not_shown_comes_next(place: Place) -> None:
    assert godwit("sub", "k = 'later'", "--name", "bob", "-W", "0", *at(place)).exit_code == 0
    for n in range(5):
        godwit("pub", "k=later", f"n={n}", *at(place))
    for expected in ([0, 1], [2], [3, 4]):
        ran = godwit("sub", "k = 'later'", "--name", "bob", "-C", str(len(expected)), "-W", "60", *at(place))
        assert [line["attributes"]["n"] for line in lines(ran.stdout)] == expected


def test_too_few_events_in_the_time_there_was_is_status_1(place: Place) -> None:
    assert godwit("sub", "never = 1", "-C", "1", "-W", "0", *at(place)).exit_code == 1
    assert godwit("sub", "never = 1", "-W", "0", *at(place)).exit_code == 0


def test_an_advertisement_and_a_context_stay_with_a_name(place: Place) -> None:
    ran = godwit("adv", "n > 1", "--name", "cab", *at(place))
    assert lines(ran.stdout) == [{"client": "cab", "broker": "b1", "advertisement": "all", "filter": "n > 1"}]
    refused = godwit("pub", "n=1", "--name", "cab", *at(place))
    assert refused.exit_code == 2
    assert refused.stderr == "error: the event matches none of your advertisements\n"
    assert godwit("pub", "n=2", "--name", "cab", *at(place)).exit_code == 0
    ran = godwit("ctx", "floor=2", "--place", "hall", "--name", "cab", *at(place))
    assert lines(ran.stdout)[0]["context"]["floor"] == 2
    assert sessions(place).session("cab").context.values["floor"] == 2
    assert lines(godwit("ctx", "--clear", "--name", "cab", *at(place)).stdout)[0]["context"] == {}
    assert godwit("adv", "--remove", "--name", "cab", *at(place)).exit_code == 0
    assert sessions(place).session("cab").advertisements == {}
    assert godwit("adv", "n > 1", "-W", "0", *at(place)).exit_code == 0  # as long as it runs


def test_bench_measures_and_says_what(place: Place) -> None:
    ran = godwit("bench", "-n", "50", "--receivers", "2", "--subscriptions", "20", "--seconds", "0.1", *at(place))
    assert ran.exit_code == 0, ran.output
    [figures] = lines(ran.stdout)
    assert (figures["broker"], figures["events"], figures["receivers"]) == ("b1", 50, 2)
    assert figures["published_per_second"] > 0
    assert 0 <= figures["delay_ms_median"] <= figures["delay_ms_p99"] <= figures["delay_ms_max"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["pub", "n=1", "--broker", "127.0.0.1:1"],
            "127.0.0.1:1: connection refused\nIs a broker running? Start one with `godwit serve`",
        ),
        (["sub", "--broker", "127.0.0.1:1"], "connection refused"),
        (["sub", "--broker", "nowhere:x"], "'nowhere:x' is not an address of a broker: it must be host:port"),
        (["pub", "n"], "'n' is not an attribute: write name=value, or name:=JSON"),
        (["pub", "n:={"], "the text after := must be JSON"),
        (["pub", "--json", "{"], "--json: not valid JSON"),
        (["pub", "--json", '{"attributes": {}, "x": 1}'], "'x' is not a field of events"),
        (["pub", "n=1", "--json", "{}"], "use only one of"),
        (["pub", "n=1", "--clear"], "--clear needs --retain KEY"),
        (["pub", "n=1", "--payload", "@/nowhere/at-all"], "cannot read /nowhere/at-all"),
        (["pub", "n=1", "--ca", "/nowhere/at-all"], "cannot read certificates from /nowhere/at-all"),
        (["adv"], "give either FILTER or --remove"),
        (["ctx", "n=1"], "--name is missing"),
        (["ctx", "--name", "x"], "give NAME=VALUE or --place"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: list[str], said: str) -> None:
    ran = godwit(*words)
    assert ran.exit_code == 2
    assert said in ran.stderr


@pytest.mark.parametrize(
    ("words", "answer", "said"),
    [
        (
            ("sub", "--broker"),
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "not Godwit's native protocol (is this the HTTP or MQTT port? native default: 7077)",
        ),
        (("sessions", "--http"), b"", "If the broker uses TLS, add --ca FILE or use --http https://HOST:PORT."),
        (("sub", "--broker"), b"", "Is this the broker's native port (default: 7077), and not that of MQTT or HTTP?"),
    ],
)
def test_a_port_of_another_protocol_is_pointed_out(
    place: Place, words: tuple[str, ...], answer: bytes, said: str
) -> None:
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(answer_once, "127.0.0.1", 0)

    async def close(server: asyncio.Server) -> None:
        server.close()
        await server.wait_closed()

    server = place[0].do(listen())
    try:
        host, port = server.sockets[0].getsockname()
        ran = godwit(*words, f"{host}:{port}")
    finally:
        place[0].do(close(server))
    assert ran.exit_code == 2
    assert said in ran.stderr


def test_tls_at_a_port_without_it_is_pointed_out(place: Place) -> None:
    ran = godwit("sub", "--tls", *at(place))
    assert ran.exit_code == 2
    assert "connection reset (does this port use TLS?)" in ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", "ann", "--password", "x"], "warning: the user 'ann' was not checked: this broker has no users\n"),
        (["--token", "x"], "warning: the token was not checked: this broker has no users\n"),
        ([], ""),
    ],
)
def test_credentials_that_nobody_checks_are_pointed_out_once(place: Place, words: list[str], said: str) -> None:
    one = godwit("pub", "cost=2", *words, *at(place))
    assert (one.exit_code, one.stderr) == (0, said)
    both = godwit(
        "pub", "cost=2", "--replicas", *words, *at(place), *at(place)[:1], f"localhost:{place[1].address.port}"
    )
    assert (both.exit_code, both.stderr) == (0, said)


def test_an_empty_pipe_publishes_nothing_and_says_so(place: Place) -> None:
    ran = godwit("pub", *at(place), input="")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert "nothing was published" in ran.stderr


def test_a_filter_that_is_none_is_shown_with_the_place_of_the_fault(place: Place) -> None:
    ran = godwit("sub", "n <<", *at(place))
    assert ran.exit_code == 2
    assert "n <<\n     ^" in ran.stderr


def test_on_a_terminal_events_are_lines_for_people(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pub_command, declare_command):
        monkeypatch.setattr(module, "is_terminal", lambda: True)
    came = in_background("sub", "n >= 0", "--name", "eve", "-C", "1", "-W", "60", *at(place), on_terminal=True)
    listening(place, "eve")
    sent = godwit("pub", "n=1", "free=true", "--name", "van 7", "--context", "battery=80", *at(place))
    assert sent.stdout.startswith("published van 7:")
    assert sent.stdout.endswith(" at b1\n")
    assert came()[1].partition("  ")[2] == "van 7  n=1 free=true  from battery=80\n"
    assert godwit("ctx", "floor=2", "--name", "eve", *at(place)).stdout == "✓ b1: the context of eve is floor=2\n"


def test_what_others_publish_cannot_command_the_terminal() -> None:
    evil = event(
        {"te\x1bxt": "\x1b]0;owned\x07\u202e", "tags": ["a\rb", "c d"]}, publisher="p\x1b[2J", payload=b"\x1b[31mred"
    )
    shown = event_display.text_of(evil).plain
    assert all(char.isprintable() for char in shown)
    assert "\\u001b]0;owned" in shown


def test_every_event_is_the_same_after_it_was_shown_and_read() -> None:
    said = event(
        {"n": 1, "tags": ["a", "b"], "at": {"$time": "2026-11-15T06:00:00+00:00"}, "x": {"lon": 1.0, "lat": 2.0}}
    )
    line = json.loads(json.dumps(line_of(said)))
    assert event_of(line, 0.0).attributes == said.attributes
    bytes_ = event({"n": 1}, payload=b"\xff\x00")
    assert event_of(line_of(bytes_), 0.0).payload == b"\xff\x00"


ADULT = "//user[name = 'Anna' $and$ age > 17]"
TWO_PEOPLE = "<r><user><name>Anna</name><age>7</age></user><user><name>Bob</name><age>18</age></user></r>"
SAME_PERSON = "<r><user><name>Anna</name><age>18</age></user></r>"


def test_a_query_in_another_language_gets_the_documents_that_it_wants(place: Place, tmp_path: Path) -> None:
    for name, document in (("two.xml", TWO_PEOPLE), ("same.xml", SAME_PERSON)):
        (tmp_path / name).write_text(document)
    came = in_background("sub", ADULT, "--language", "xql", "--name", "xql", "-C", "2", "-W", "60", *at(place))
    listening(place, "xql")
    sent = godwit("pub", "--xml", str(tmp_path / "two.xml"), "--xml", str(tmp_path / "same.xml"), *at(place))
    assert (sent.exit_code, sent.stderr, len(lines(sent.stdout))) == (0, "", 2)
    piped = godwit(
        *("pub", "--xml", "-", "place=Zurich", "--content-type", "application/atom+xml", *at(place)), input=SAME_PERSON
    )
    assert (piped.exit_code, piped.stderr) == (0, "")
    status, printed, _ = came()
    assert status == 0
    first, second = lines(printed)
    assert [first["payload"], second["payload"]] == [SAME_PERSON] * 2
    assert (first["content_type"], second["content_type"]) == ("application/xml", "application/atom+xml")
    assert (first["attributes"]["r/user/age"], second["attributes"]["place"]) == (18, "Zurich")


def test_cloud_events_are_published_one_by_one_or_as_a_batch(place: Place, tmp_path: Path) -> None:
    one = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"n": 3}}
    (tmp_path / "one.json").write_text(json.dumps(one))
    (tmp_path / "batch.json").write_text(json.dumps([{**one, "id": "2"}, {**one, "id": "3", "type": "other"}]))
    came = in_background(
        *("sub", "type = 't' AND id <> '9'", "--language", "cesql", "--name", "ce", "-C", "2", "-W", "60", *at(place))
    )
    listening(place, "ce")
    files = ("--cloudevent", str(tmp_path / "one.json"), "--cloudevent", str(tmp_path / "batch.json"))
    sent = godwit("pub", *files, *at(place))
    assert (sent.exit_code, sent.stderr, len(lines(sent.stdout))) == (0, "", 3)
    status, printed, _ = came()
    assert status == 0
    assert [(each["attributes"]["id"], each["payload"]) for each in lines(printed)] == [
        ("1", '{"n": 3}'),
        ("2", '{"n": 3}'),
    ]


def test_a_bad_document_is_named_before_anything_is_published(tmp_path: Path) -> None:
    (tmp_path / "good.xml").write_text("<r/>")
    (tmp_path / "bad.xml").write_text("<r>")
    (tmp_path / "bad.json").write_text('{"specversion": "1.0"}')
    nobody = ("--broker", "127.0.0.1:9")
    good, bad, event = str(tmp_path / "good.xml"), str(tmp_path / "bad.xml"), str(tmp_path / "bad.json")
    for words, says in (
        (("--xml", good, "--xml", bad), f"{bad}: line 1, column 4: not well-formed XML"),
        (("--cloudevent", event), f"{event}: a CloudEvent needs the attribute 'id'"),
        (("--xml", str(tmp_path / "none.xml")), "cannot read"),
        (("--xml", good, "--content-type", "text/plain"), "--content-type text/plain"),
        (("--xml", good, "--cloudevent", event), "use only one of"),
        (("--xml", "-", "--xml", "-"), "standard input can be read once"),
    ):
        ran = godwit("pub", *words, *nobody)
        assert ran.exit_code == 2
        assert says in " ".join(ran.stderr.replace("│", " ").split())
    ran = godwit("sub", "--language", "xql", *nobody)
    assert "--language xql needs a FILTER in that language" in " ".join(ran.stderr.replace("│", " ").split())


def test_people_see_a_document_and_not_its_attributes_once_more() -> None:
    from godwit.languages.cloud_events import event_from_structured
    from godwit.languages.xml_documents import xml_event

    shown = event_display.text_of(xml_event(SAME_PERSON.encode(), {"place": "Zurich"})).plain
    assert "place=Zurich" in shown
    assert "<name>Anna</name>" in shown
    assert "r/user/name=" not in shown
    body = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"n": 3}}'
    shown = event_display.text_of(event_from_structured(body)).plain
    assert "type=t" in shown
    assert "data/n" not in shown


def test_a_filter_that_no_event_can_match_is_pointed_out(place: Place) -> None:
    ran = godwit("sub", "cost > 5 AND NOT cost > 5", "-W", "0", *at(place))
    assert (ran.exit_code, ran.stderr) == (0, "warning: no event can match this filter\n")


def test_a_text_without_quotes_is_pointed_out(place: Place) -> None:
    ran = godwit("sub", "cost < 3 AND kind=parking", "-W", "0", *at(place))
    said = "warning: kind = parking compares two attributes; for a text, write \"kind = 'parking'\"\n"
    assert (ran.exit_code, ran.stderr) == (0, said)
    assert godwit("sub", "departure < arrival AND kind = 'parking'", "-W", "0", *at(place)).stderr == ""
