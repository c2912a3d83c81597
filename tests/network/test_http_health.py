"""Whether a broker is well, and what its metrics say, asked over real sockets."""

import asyncio
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from godwit.errors import PeerFault
from godwit.runtime import metrics
from godwit.runtime.authentication import Credentials, Principal
from godwit.runtime.connecting import connect
from godwit.runtime.metrics import METRICS
from tests.network.full_disk import FullDisk
from tests.network.http_broker import LIMIT_S, Running, broker, listening, start
from tests.network.waiting import run, until


async def figures(client: httpx.AsyncClient) -> dict[str, float]:
    """Each sample, by its name and its labels' values."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    families = text_string_to_metric_families(answer.text)
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_broker_that_is_well_says_so() -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            assert (await client.get("/healthz")).json()["ok"] is True
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})
            assert "/events" in (await client.get("/")).json()["paths"]
            answer = await client.get("/nowhere")
            assert (answer.status_code, "error" in answer.json()) == (404, True)
            assert (await client.delete("/events")).status_code == 405

    run(scene)


def test_a_broker_is_not_ready_while_a_neighbour_is_away() -> None:
    async def scene() -> None:
        async with broker("b1", {"b2": None}) as (b1, client):
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.json()["reasons"]) == (503, ["the link to b2 is down"])
            b2 = await start("b2", {"b1": b1.native})
            await b1.ready()
            assert (await client.get("/readyz")).status_code == 200
            await until(lambda: b2.server.http_of.get("b1") and b1.server.http_of.get("b2"))
            assert (b1.server.http_of["b2"], b2.server.http_of["b1"]) == (b2.url, b1.url)
            assert (await figures(client))["godwit_link_up b2"] == 1
            await b2.stop()
            await until(b1.http.reasons)
            assert (await client.get("/readyz")).status_code == 503

    run(scene)


def test_while_the_disk_fails_a_broker_is_not_ready_takes_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("godwit.runtime.node.RETRY_S", 0.01)

    async def scene() -> None:
        journal = FullDisk(tmp_path, "b1", "relaxed")
        async with broker(journal=journal) as (running, client), listening(client, filter="n > 0") as source:
            assert (await client.post("/events", json={"n": 1})).status_code == 202
            journal.is_full = True
            async with connect(running.native, name="p") as p:
                await until(running.http.reasons)
                answer = await client.get("/readyz")
                assert answer.status_code == 503
                assert answer.json()["reasons"] == ["the journal cannot be written: there is no room on the disk"]
                answer = await client.post("/events", json={"n": 2})
                assert (answer.status_code, answer.json()["error"]) == (503, "there is no room on the disk")
                seen = await figures(client)
                assert (seen["godwit_journal_failing"], seen["godwit_journal_lag_seconds"] > 0) == (1, True)
                journal.is_full = False
                await p.attached()
            await running.ready()
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.post("/events", json={"n": 3})).status_code == 202
            assert await source.take("n", 2) == [1, 3]
            assert (await figures(client))["godwit_journal_failing"] == 0

    run(scene)


async def use(running: Running, client: httpx.AsyncClient) -> None:
    async with connect(running.native, name="s") as s, listening(client, filter="n >= 0"):
        mine = await s.subscribe("n >= 0")
        lines = b"\n".join(b'{"n": %d}' % n for n in range(20))
        assert (await client.post("/events", content=lines)).status_code == 202
        for _ in range(20):
            await mine.next()
        running.http.metrics.sample_matching()
        running.http.metrics.sample_matching()  # of the same event: not again
        seen = await figures(client)
        assert seen["godwit_records_total published"] == 20
        assert seen["godwit_deliveries_total"] == 40
        assert seen["godwit_sessions attached"] == 3
        assert seen["godwit_subscriptions"] == 2
        assert seen["godwit_connections native"] == 1
        assert seen["godwit_connections http"] >= 1
        assert seen["godwit_match_seconds_count"] == 1
        assert seen["godwit_batch_inputs_sum"] == seen["godwit_inputs_total"] > 20
        assert seen["godwit_table_entries matcher"] == 2
    await until(lambda: sum(session.connection is not None for session in running.machine.sessions) <= 1)
    assert (await figures(client))["godwit_sessions attached"] == 1


def test_samples_are_taken_for_a_while_after_metrics_are_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            sampled = running.http.metrics
            was_sampling = [sampled.is_sampling]
            for subject in ("sessions", "samples"):
                await client.get(f"/everywhere/{subject}")
                was_sampling.append(sampled.is_sampling)
            assert was_sampling == [False, False, True]
            sampled.stop()
            monkeypatch.setattr(metrics, "LEASE_S", 0.0)
            monkeypatch.setattr(metrics, "SAMPLE_S", 0.001)
            await client.get("/metrics")
            await until(lambda: not sampled.is_sampling)
            assert sum(running.http.activity.lateness.counts) == 1

    run(scene)


def test_metrics_count_what_happened(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker(folder=tmp_path) as (running, client):
            await use(running, client)
            await running.node.quiet()  # nothing is on its way to the disk
            seen = await figures(client)
            assert seen["godwit_journal_write_seconds_count"] > 0
            assert seen["godwit_journal_written_bytes_total"] == seen["godwit_journal_bytes"] > 0

    run(scene)


def test_every_metric_is_explained_and_none_is_missing() -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            text = (await client.get("/metrics")).text
            shown = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
            assert {name for name in shown if not name.startswith("process_")} == METRICS.keys()

    run(scene)


ASKED = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nhost: loc",
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01" * 99,
        ASKED + b"\r\n" + ASKED,
        ASKED + b"content-length: 9\r\n\r\nx",
    ],
)
def test_a_connection_that_asks_for_nothing_is_closed(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            running.http._listener._config.timeout_keep_alive = int(10 * LIMIT_S)  # so that it is not this
            with monkeypatch.context() as patched:  # for this connection alone: the next one may take its time
                patched.setattr("godwit.runtime.http_protocols.HEAD_S", 0.05)
                reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
                writer.write(said)
                with suppress(ConnectionError):
                    await reader.read()
                writer.close()
            assert (await client.get("/healthz")).status_code == 200

    run(scene)


@pytest.mark.parametrize("said", [b"host: [", b"host: 127.0.0.1\r\norigin: http://["])
def test_headers_that_make_no_sense_are_refused_as_any_other(said: bytes) -> None:
    async def scene() -> None:
        async with broker() as (running, _):
            reader, writer = await asyncio.open_connection(running.web.host, running.web.port)
            writer.write(b"GET /sessions HTTP/1.1\r\n" + said + b"\r\n\r\n")
            assert (await reader.readline()).split()[1] in (b"401", b"403")
            writer.close()

    run(scene)


@pytest.mark.parametrize("limit", ["0" * 10 + "9" * 20, "0" * 11 + "9" * 5_000, "-1", "²", ""])
def test_a_limit_that_is_none_is_refused(limit: str) -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            assert (await client.get("/sessions", params={"limit": limit})).status_code == 400

    run(scene)


class Distant:
    """Lets everybody in, and knows one administrator."""

    async def admit(self, credentials: Credentials) -> Principal:
        if credentials.token == "-":
            raise PeerFault("come with a token")
        return Principal(credentials.token, is_admin=credentials.token == "boss")


def test_a_look_inside_is_for_administrators() -> None:
    async def scene() -> None:
        async with broker(authenticator=Distant()) as (_, client):
            for token, status in (("-", 401), ("ann", 403), ("boss", 200)):
                headers = {"authorization": f"Bearer {token}".strip(), "host": "broker.example"}
                assert (await client.get("/metrics", headers=headers)).status_code == status
                assert (await client.get("/healthz", headers=headers)).status_code == 200

    run(scene)
