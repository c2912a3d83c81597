"""Where a stream's subscriptions come from: versions change when they do, and what is wrong is one sentence."""

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.errors import PipelineError
from godwit.filters.language import parse
from godwit.languages import parse_query
from godwit.pipeline import subscription_sources, tables
from godwit.pipeline.subscription_index import Wanted
from godwit.pipeline.subscription_sources import (
    BrokerSubscriptions,
    FileSubscriptions,
    FixedSubscriptions,
    RestrictedSubscriptions,
    named,
    source_of,
)
from godwit.pipeline.subscriptions import read_subscriptions


def write(path: Path, **filters: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(json.dumps({"id": id, "filter": text}) + "\n" for id, text in filters.items()))
    fresh.replace(path)


def test_a_file_has_another_version_when_another_is_renamed_over_it(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.jsonl"
    write(path, a="x > 1")
    source = source_of(str(path))
    before = source.version()
    assert source.version() == before
    assert source.read() == {"a": parse("x > 1")}
    write(path, a="x > 2")
    assert source.version() != before
    assert source.read() == {"a": parse("x > 2")}


def test_a_missing_file_and_a_bad_line_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.jsonl"
    with pytest.raises(PipelineError, match=r"subscriptions\.jsonl: no such file or folder"):
        FileSubscriptions(path).version()
    write(path, a="x > 1", b="x >")
    with pytest.raises(PipelineError, match=r"subscriptions\.jsonl:2: "):
        FileSubscriptions(path).read()


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "subscriptions.jsonl"
    write(path, a="x > 1")
    changes = ["x > 2"]

    def read(path: Path) -> dict[str, Wanted]:
        found = read_subscriptions(path)
        if changes:
            write(path, a=changes.pop(0))
        return found

    monkeypatch.setattr(subscription_sources, "read_subscriptions", read)
    assert FileSubscriptions(path).read() == {"a": parse("x > 2")}
    changes.extend(["x > 3"] * 10)
    with pytest.raises(PipelineError, match="changes while it is read"):
        FileSubscriptions(path).read()


def table(folder: Path, mode: tables.Mode, **filters: str) -> None:
    with tables.changing(folder, "subscriptions", mode) as change:
        rows = {"subscription": pa.array(list(filters)), "filter": pa.array(list(filters.values()))}
        tables.save(pa.table(rows), change.place())
        change.commit()


def test_a_table_has_another_version_when_its_files_are_others(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    table(folder, "new", a="x > 1")
    source = FileSubscriptions(folder)
    before = source.version()
    (folder / "_lock").touch()
    (folder / "_writing" / "new").mkdir(parents=True)
    assert source.version() == before  # somebody writes, and nothing is decided
    table(folder, "overwrite", a="x > 2")
    assert source.version() != before
    assert source.read() == {"a": parse("x > 2")}


def test_a_change_whose_writer_was_killed_is_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "table"
    table(folder, "new", a="x > 1")
    with monkeypatch.context() as killed:
        killed.setattr(tables, "_carry_out", lambda root: None)
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)
        table(folder, "overwrite", b="x > 2")
    assert FileSubscriptions(folder).read() == {"b": parse("x > 2")}


def test_a_table_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    table(tmp_path / "table", "new", a="x > 1")
    [file] = tables.files(tmp_path / "table")
    pq.write_table(pa.table({"subscription": ["a"]}), file)
    with pytest.raises(PipelineError, match=r"cannot read subscriptions from .*parquet: .*filter"):
        FileSubscriptions(tmp_path / "table").read()
    file.write_bytes(b"PAR1 it is not PAR1")
    with pytest.raises(PipelineError, match=r"cannot read subscriptions from .*parquet: "):
        FileSubscriptions(tmp_path / "table").read()


def test_fixed_ones_stay() -> None:
    source = FixedSubscriptions({"a": parse("x = 1")})
    assert source.version() == source.version()
    assert list(source.read()) == ["a"]


def test_filters_on_what_a_stream_does_not_read_are_refused() -> None:
    source = FixedSubscriptions({"a": parse("x = 1"), "b": parse("y = 1 OR NOT z LIKE 'a%'")})
    assert named(source.read().values()) == {"x", "y", "z"}
    assert RestrictedSubscriptions(source, ["x", "y", "z"]).read() == source.read()
    with pytest.raises(PipelineError, match="subscription b names y, which the stream does not read: start it again"):
        RestrictedSubscriptions(source, ["x"]).read()


def test_a_query_with_an_exact_test_needs_a_stream_that_reads_whole_events() -> None:
    source = FixedSubscriptions({"a": parse("x > 1"), "b": parse_query("x > y", "cql2-text")})
    assert RestrictedSubscriptions(source, ["x", "y"], has_tests=True).read() == source.read()
    with pytest.raises(PipelineError, match="subscription b has an exact test, and the stream does not read whole"):
        RestrictedSubscriptions(source, ["x", "y"]).read()


# ---------------------------------------------------------------- a broker


class Answers(BaseHTTPRequestHandler):
    """Answers as a broker does, with what a test says."""

    sessions: dict[str, list[dict[str, Any]]] = {}  # noqa: RUF012 - a test fills it
    asked: list[tuple[str, str | None]] = []  # noqa: RUF012
    plain: bytes | None = None
    elsewhere: str | None = None

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        if self.elsewhere is not None:
            self.send_response(302)
            self.send_header("Location", self.elsewhere)
            self.end_headers()
            return None
        if self.plain is not None:
            return self._say(200, self.plain)
        if self.path.startswith("/sessions?"):
            rows = [{"client": client, "subscriptions": len(held)} for client, held in self.sessions.items()]
            return self._say(200, json.dumps({"sessions": rows, "more": 0}).encode())
        client = self.path.removeprefix("/sessions/").replace("%2F", "/")
        if client == "gone":
            return self._say(404, b"no such session")
        if client == "locked":
            return self._say(403, b"administrators only")
        return self._say(200, json.dumps({"subscribed": self.sessions[client]}).encode())

    def _say(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def broker() -> Iterator[tuple[type[Answers], str]]:
    class Own(Answers):
        sessions, asked, plain, elsewhere = {}, [], None, None

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield Own, f"127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def subscribed(name: str, filter: str, **more: str) -> dict[str, str]:
    return {"name": name, "filter": filter, **more}


def test_a_brokers_subscriptions_are_those_of_its_clients(broker: tuple[type[Answers], str]) -> None:
    answers, address = broker
    answers.sessions = {
        "van/1": [subscribed("a", "x > 1"), subscribed("b", "x > my.limit", now="x > 7")],
        "gone": [subscribed("a", "x > 1")],
        "idle": [],
    }
    source = source_of(f"http://ada:s%65cret@{address}/")
    assert source.read() == {"van/1/a": parse("x > 1"), "van/1/b": parse("x > 7")}
    assert {authorization for _, authorization in answers.asked} == {"Basic YWRhOnNlY3JldA=="}


def test_a_broker_is_asked_now_and_then(broker: tuple[type[Answers], str]) -> None:
    answers, address = broker
    now = [0.0]
    source = BrokerSubscriptions(f"http://{address}", every_s=5.0, clock=lambda: now[0])
    answers.sessions = {"c": [subscribed("a", "x > 1")]}
    first = source.version()
    answers.sessions = {"c": [subscribed("a", "x > 2")]}
    now[0] = 4.9
    assert source.version() == first
    assert len(answers.asked) == 2
    now[0] = 5.0
    assert source.version() != first
    assert source.read() == {"c/a": parse("x > 2")}


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"locked": [subscribed("a", "x > 1")]}, "answers 403: administrators only"),
        ({"c": [subscribed("a", "x > my.limit")]}, "depends on its client's context"),
        ({"c": [subscribed("a", "x IN ('aaa…")]}, "has a filter that cannot be read"),
    ],
)
def test_what_a_broker_says_wrongly_is_one_sentence(
    broker: tuple[type[Answers], str], held: dict[str, Any], said: str
) -> None:
    answers, address = broker
    answers.sessions = held
    with pytest.raises(PipelineError, match=said):
        BrokerSubscriptions(f"http://{address}").read()


@pytest.mark.parametrize(
    "said",
    [b"[1]", b"{}", b'{"sessions": [1]}', b'{"sessions": [{"client": "c", "subscriptions": 1}], "subscribed": 3}'],
)
def test_other_json_is_one_sentence(broker: tuple[type[Answers], str], said: bytes) -> None:
    answers, address = broker
    answers.plain = said
    with pytest.raises(PipelineError, match="does not answer as a broker does"):
        BrokerSubscriptions(f"http://{address}").version()


def test_who_asks_is_told_to_nobody_else(broker: tuple[type[Answers], str]) -> None:
    answers, address = broker
    answers.elsewhere = f"http://{address}/elsewhere"
    with pytest.raises(PipelineError, match="answers 302"):
        BrokerSubscriptions(f"http://ada:secret@{address}").version()
    assert [path for path, _ in answers.asked] == ["/sessions?limit=100000"]


class Gibberish(BaseRequestHandler):
    """A server that does not speak HTTP."""

    def handle(self) -> None:
        self.request.recv(1_000)
        self.request.sendall(b"\x00\x00\x00\x07godwit\r\n")


def test_a_port_that_is_not_of_http_is_one_sentence() -> None:
    with ThreadingTCPServer(("127.0.0.1", 0), Gibberish) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        with pytest.raises(PipelineError, match="does not answer: "):
            BrokerSubscriptions(f"http://127.0.0.1:{server.server_address[1]}").version()
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "http://127.0.0.1:1:2", "http://[::1", "http://"])
def test_an_address_that_is_none_is_one_sentence(url: str) -> None:
    with pytest.raises(PipelineError):
        source_of(url).version()


def test_another_server_and_none_are_one_sentence(broker: tuple[type[Answers], str]) -> None:
    answers, address = broker
    answers.plain = b"<html>"
    with pytest.raises(PipelineError, match="does not answer with JSON: is it a broker's HTTP port"):
        BrokerSubscriptions(f"http://{address}").version()
    with pytest.raises(PipelineError, match="does not answer: "):
        BrokerSubscriptions("http://127.0.0.1:9").version()
