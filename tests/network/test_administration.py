"""A running broker is administered over HTTP and by the command line, and its journal is copied and restored."""

import json
from pathlib import Path
from typing import Any

import httpx

from godwit.runtime import connect
from tests.network.serving import Served, running, serving
from tests.network.waiting import run

PORTS = ("--native", "127.0.0.1:0", "--mqtt", "", "--http", "127.0.0.1:0")


async def ask(broker: Served, *words: str) -> tuple[int, Any]:
    """A command about a broker: its exit status, and what it prints."""
    async with running(*words, folder=broker.folder, environment={"GODWIT_HTTP": broker.said["http"]}) as process:
        printed, errors = await process.communicate()
        assert process.returncode is not None
        if process.returncode == 2:
            return 2, errors.decode()
        return process.returncode, [json.loads(line) for line in printed.splitlines()]


def test_clients_queues_and_retained_events_are_administered(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(*PORTS, folder=tmp_path) as broker:
            async with connect(broker.native, name="ann") as ann:
                await ann.subscribe("n >= 0")
                status, [done] = await ask(broker, "admin", "disconnect", "ann", "--reason", "a test")
                assert (status, done) == (0, {"client": "ann", "disconnected": True})
                said = await broker.log("administration")
                assert {"action": "disconnect", "client": "ann", "host": "127.0.0.1"}.items() <= said.items()
            url = f"http://{broker.said['http']}"
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:

                async def is_away() -> bool:
                    return not (await client.get("/sessions/ann")).json()["attached"]

                while not await is_away():  # each question is a request
                    pass
                assert (await client.post("/events", json={"n": 1})).status_code == 202
                assert (await client.post("/events?retain=k/1", json={"n": 2, "topic": "k/1"})).status_code == 202
                bad = await client.post("/administration/disconnect", json={"who": "ann"})
                assert (bad.status_code, bad.json()["error"]) == (
                    400,
                    "disconnect takes no 'who': it takes client, reason",
                )
                assert (await client.post("/administration/fly", json={})).status_code == 404
                assert (await client.post("/administration/end-session", json={"client": "x"})).status_code == 404
            _, rows = await ask(broker, "admin", "queue", "ann")
            assert [row["attributes"]["n"] for row in rows] == [1, 2]
            said = await broker.log("administration")
            assert {"action": "queue", "client": "ann"}.items() <= said.items()
            _, [row] = await ask(broker, "admin", "retained", "--filter", "topic = 'k/1'")
            assert row["key"] == "k/1"
            said = await broker.log("administration")
            assert {"action": "retained", "filter": "topic = 'k/1'"}.items() <= said.items()
            assert (await ask(broker, "admin", "clear-retained", "k/1"))[1] == [{"key": "k/1", "cleared": True}]
            assert (await ask(broker, "admin", "retained"))[1] == []
            assert (await ask(broker, "admin", "drop-queue", "ann"))[1][0]["dropped"] == 2
            assert (await ask(broker, "explain", rows[0]["event"], "ann"))[1][0]["verdict"] == (
                "an administrator dropped it from the client's queue"
            )
            assert (await ask(broker, "admin", "end-session", "ann"))[1][0]["ended"] is True
            assert (await ask(broker, "sessions", "ann"))[0] == 2
            await ask(broker, "admin", "log-level", "debug")
            assert (await broker.log("administration", action="log-level"))["new_level"] == "debug"
            status, error = await ask(broker, "admin", "log-level", "loud")
            assert (status, "allowed are debug, info, warning, error" in error) == (2, True)
            assert (await ask(broker, "reload"))[1] == [{"in_force": [], "after_restart": []}]
            await broker.log("administration", action="reload")

    run(scene())


def test_a_backup_of_a_running_broker_is_verified_and_restored(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving("--name", "b1", *PORTS, folder=tmp_path) as broker:
            async with connect(broker.native, name="ann") as ann:
                await ann.subscribe("n >= 0", name="all")
            async with connect(broker.native, name="van") as van:
                van.publish({"n": 1})
                await van.drain()
                status, [done] = await ask(broker, "backup", "b1.backup")
                assert (status, done["broker"]) == (0, "b1")
                van.publish({"n": 2})
                await van.drain()
            assert (await ask(broker, "backup", "b1.backup"))[0] == 2  # it is not overwritten
            for journal in ("b1.backup", "godwit-data/b1"):
                assert (await ask(broker, "journal", "verify", journal))[1][0]["valid"] is True
            _, [inside] = await ask(broker, "journal", "inspect", "b1.backup")
            assert (inside["broker"], inside["losses"]) == ("b1", [])
            assert sum(inside["inputs"].values()) > 0
            status, error = await ask(broker, "restore", "b1.backup", "--replace")
            assert (status, "in use by another broker" in error) == (2, True)
            await broker.stop()
        status, error = await ask(broker, "restore", "b1.backup")
        assert (status, "has a journal already" in error) == (2, True)
        assert (await ask(broker, "restore", "b1.backup", "--replace"))[0] == 0
        assert (await ask(broker, "journal", "verify", "godwit-data/b1"))[1][0]["valid"] is True
        async with serving("--name", "b1", *PORTS, folder=tmp_path) as broker:
            async with connect(broker.native, name="ann") as ann:
                mine = await ann.subscribe("n >= 0", name="all")
                assert (await mine.next()).attributes["n"] == 1
            assert not list((tmp_path / "godwit-data" / "b1").glob("copy-*"))

    run(scene())


def test_a_damaged_backup_is_found_and_not_restored(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving("--name", "b1", *PORTS, folder=tmp_path) as broker:
            async with connect(broker.native, name="van") as van:
                van.publish({"text": "a text that is somewhere in the file"})
                await van.drain()
            await ask(broker, "backup", "b1.backup")
            data = (tmp_path / "b1.backup").read_bytes()
            assert b"somewhere in the file" in data
            (tmp_path / "b1.backup").write_bytes(data.replace(b"somewhere in the file", b"anywhere in that file"))
            status, [told] = await ask(broker, "journal", "verify", "b1.backup")
            assert (status, told["valid"]) == (1, False)
            assert "is not as it was written" in told["damage"]
            status, error = await ask(broker, "restore", "b1.backup", "--folder", "other")
            assert (status, "cannot be restored" in error) == (2, True)
            assert not (tmp_path / "other").exists()

    run(scene())
