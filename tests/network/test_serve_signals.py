"""`godwit serve` and its signals: SIGHUP reads everything again, SIGUSR1 says what there is, and neither ends it."""

import asyncio
import signal
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from godwit.errors import Refused
from godwit.runtime import connect
from godwit.runtime.users import User, hashed, with_user
from tests.network.serving import Served, serving
from tests.network.waiting import run

FILE = """
[broker]
name = "b1"
[listen]
native = "127.0.0.1:0"
mqtt = ""
http = ""
"""


async def reloaded(broker: Served) -> dict[str, Any]:
    """Send SIGHUP; what the log says of it."""
    broker.process.send_signal(signal.SIGHUP)
    return await broker.log("reloaded")


def test_hup_puts_in_force_what_can_change_and_names_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(FILE)

    async def scene() -> None:
        async with serving("broker.toml", folder=tmp_path) as broker, connect(broker.native, name="ann") as ann:
            await ann.subscribe("n = 1")
            changes = "[limits]\nsubscriptions_max = 2\nconnections_max = 7\n[log]\nlevel = 'debug'\n"
            file.write_text(FILE.replace("native = ", "# native = ") + changes)
            said = await reloaded(broker)
            assert said["in_force"] == ["limits.subscriptions_max", "log.level"]
            assert said["after_restart"] == ["limits.connections_max", "listen.native"]
            await ann.subscribe("n = 2")
            with pytest.raises(Refused, match="at most 2 subscriptions"):
                await ann.subscribe("n = 3")

    run(scene())


def test_what_was_reloaded_counts_after_a_restart_and_can_be_taken_back(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(FILE)

    async def most(broker: Served) -> int:
        taken = 0
        async with connect(broker.native, name="ann") as ann:
            with suppress(Refused):
                for number in range(4):
                    await ann.subscribe(f"n = {number}")
                    taken = number + 1
        return taken

    async def scene() -> None:
        async with serving("broker.toml", folder=tmp_path) as broker:
            file.write_text(FILE + "[limits]\nsubscriptions_max = 2\n")
            await reloaded(broker)
            broker.process.kill()
            await broker.process.communicate()
        async with serving("broker.toml", folder=tmp_path) as broker:
            assert await most(broker) == 2
            await broker.stop()
        file.write_text(FILE)
        async with serving("broker.toml", folder=tmp_path) as broker:
            assert await most(broker) == 4

    run(scene())


def test_a_wrong_file_changes_nothing_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(FILE)

    async def scene() -> None:
        async with serving("broker.toml", folder=tmp_path) as broker:
            file.write_text(FILE + "[limits]\nwindow = -1\n")
            broker.process.send_signal(signal.SIGHUP)
            said = await broker.log("not reloaded")
            assert "window" in said["reason"]
            async with connect(broker.native, name="ann") as ann:
                await ann.subscribe("n = 1")
            broker.process.send_signal(signal.SIGUSR1)
            state = await broker.log("state")
            assert (state["subscriptions"], state["trouble"]) == (1, "")
            assert await broker.stop() == 0

    run(scene())


def test_users_are_read_again_at_once(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users.write_text(with_user("", "ann", User(password=hashed("a", rounds=1, memory_kib=8, lanes=1)), str(users)))
    (tmp_path / "broker.toml").write_text(FILE + "[security]\nusers = 'users.toml'\nanonymous = 'never'\n")

    async def scene() -> None:
        async with serving("broker.toml", folder=tmp_path) as broker:
            added = User(password=hashed("b", rounds=1, memory_kib=8, lanes=1))
            users.write_text(with_user(users.read_text(), "ben", added, str(users)))
            assert (await reloaded(broker))["in_force"] == []
            async with connect(broker.native, name="ben", user="ben", password="b") as ben:
                await ben.attached()

    run(scene())


def test_a_neighbour_more_is_dialled(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    for folder in (first, second):
        folder.mkdir()
    (first / "broker.toml").write_text(FILE)
    (second / "broker.toml").write_text(FILE.replace("b1", "b2") + '[neighbours]\nb1 = ""\n')

    async def scene() -> None:
        async with (
            serving("broker.toml", folder=first) as b1,
            serving("broker.toml", folder=second) as b2,
            connect(b1.native, name="ann") as ann,
            connect(b2.native, name="van") as van,
        ):
            wanted = await ann.subscribe("n >= 0")
            (first / "broker.toml").write_text(FILE + f'[neighbours]\nb2 = "{b2.native}"\n')
            assert (await reloaded(b1))["in_force"] == ["neighbours.b2"]
            await b2.log("link up")
            while not wanted.changed.is_set():  # b2 may not have heard of it yet
                van.publish({"n": 1})
                await van.drain()
            assert (await wanted.next()).attributes["n"] == 1

    run(scene())


def test_a_new_certificate_is_shown_to_who_comes(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    (tmp_path / "broker.toml").write_text(FILE + "[tls]\ncertificate = 'cert.pem'\nkey = 'key.pem'\n")

    def issue() -> str:
        issued = authority.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(str(certificate))
        issued.private_key_pem.write_to_path(str(key))
        return certificate.read_text()

    async def shown(broker: Served) -> bytes:
        host, port = broker.native.host, broker.native.port
        return ssl.PEM_cert_to_DER_cert(await asyncio.to_thread(ssl.get_server_certificate, (host, port)))

    async def scene() -> None:
        first = issue()
        async with serving("broker.toml", folder=tmp_path) as broker:
            assert await shown(broker) == ssl.PEM_cert_to_DER_cert(first)
            second = issue()
            await reloaded(broker)
            assert await shown(broker) == ssl.PEM_cert_to_DER_cert(second)

    run(scene())
