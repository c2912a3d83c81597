"""`godwit serve` with all it has: MQTT, HTTP, users, and a network of three with certificates on every link."""

import shutil
import ssl
import subprocess
from pathlib import Path

import aiomqtt
import httpx
import pytest
import trustme

from godwit.runtime import connect
from godwit.runtime.tcp import Address
from tests.conventions.repository import ROOT
from tests.network.serving import PROGRAM, Served, fails, serving
from tests.network.waiting import run

LIMIT_S = 300.0
LOOPBACK = ("--native", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0")


def at(broker: Served, listener: str) -> Address:
    host, _, port = broker.said[listener].rpartition(":")
    return Address(host, int(port))


def test_one_broker_serves_native_mqtt_and_http_clients(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(*LOOPBACK, folder=tmp_path) as broker:
            assert broker.said["missing"] == {}
            mqtt = at(broker, "mqtt")
            async with (
                connect(broker.native, name="ann") as ann,
                aiomqtt.Client(mqtt.host, mqtt.port, identifier="van") as van,
                httpx.AsyncClient(base_url=f"http://{broker.said['http']}", trust_env=False) as web,
            ):
                wanted = await ann.subscribe("topic = 'a/b'")
                await van.publish("a/b", "x", qos=1)
                assert (await wanted.next()).attributes["topic"] == "a/b"
                assert (await web.get("/healthz")).status_code == 200
                assert (await web.get("/readyz")).status_code == 200
                assert "godwit" in (await web.get("/metrics")).text
            assert await broker.stop() == 0

    run(scene())


def test_users_come_in_by_their_passwords_and_nobody_else_does(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("correct horse\n")
    with (tmp_path / "word").open() as word:
        subprocess.run(
            [*PROGRAM, "user", "add", "ann", "--file", "users.toml", "--publish", "*", "--subscribe", "*"],
            cwd=tmp_path,
            stdin=word,
            check=True,
        )
    (tmp_path / "godwit.toml").write_text("[security]\nusers = 'users.toml'\nanonymous = 'never'\n")

    async def scene() -> None:
        async with serving("godwit.toml", *LOOPBACK, folder=tmp_path) as broker:
            mqtt = at(broker, "mqtt")
            async with aiomqtt.Client(
                mqtt.host, mqtt.port, identifier="ann", username="ann", password="correct horse"
            ) as ann:
                await ann.subscribe("a", qos=1)
                await ann.publish("a", "x", qos=1)
                async for message in ann.messages:
                    assert message.payload == b"x"
                    break
            with pytest.raises(aiomqtt.MqttError):
                async with aiomqtt.Client(mqtt.host, mqtt.port, identifier="ann", username="ann", password="guess"):
                    pass
            assert await broker.stop() == 0
        assert "correct horse" not in str(broker.logged)
        assert "guess" not in str(broker.logged)

    run(scene())


def test_the_three_brokers_of_the_examples_form_a_network_with_certificates(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "three", tmp_path, dirs_exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name in ("b1", "b2", "b3"):
        certificate = authority.issue_cert(name, "localhost", "127.0.0.1")
        certificate.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        for place, part in enumerate(certificate.cert_chain_pems):
            part.write_to_path(str(tmp_path / f"{name}.pem"), append=place > 0)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

    async def scene() -> None:
        for name in ("b1", "b2", "b3"):
            status, errors = await fails("check-config", f"{name}.toml", folder=tmp_path)
            assert (status, errors) == (0, "")
        async with serving("b2.toml", *LOOPBACK, folder=tmp_path) as b2:
            again = ("--neighbour", f"b2={b2.native}")
            async with (
                serving("b1.toml", *LOOPBACK, *again, folder=tmp_path) as b1,
                serving("b3.toml", *LOOPBACK, *again, folder=tmp_path) as b3,
            ):
                await b1.log("link up", peer="b2")
                await b3.log("link up", peer="b2")
                async with (
                    connect(b1.native, name="ann", tls=trusting) as ann,
                    connect(b3.native, name="van", tls=trusting) as van,
                ):
                    wanted = await ann.subscribe("n >= 0")
                    while not wanted.changed.is_set():  # brokers may still be telling each other who wants what
                        van.publish({"n": 1})
                        await van.drain()
                    await ann.move(b3.native)
                    van.publish({"n": 2})
                    async for event in wanted:
                        if event.attributes["n"] == 2:
                            break

    run(scene())


def test_a_broker_whose_certificate_names_another_is_turned_away(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name, shown in (("b1", "b1"), ("b2", "b9")):
        authority.issue_cert(shown, "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
            str(tmp_path / f"{name}.pem")
        )
        (tmp_path / f"{name}.toml").write_text(
            f"[broker]\nname = '{name}'\n[listen]\nnative = '127.0.0.1:0'\nmqtt = ''\nhttp = ''\n"
            f"[tls]\ncertificate = '{name}.pem'\nauthorities = 'ca.pem'\n[links]\ntls = true\n"
        )

    async def scene() -> None:
        async with (
            serving("b1.toml", "--neighbour", "b2", folder=tmp_path) as b1,
            serving("b2.toml", "--neighbour", f"b1={b1.native}", folder=tmp_path),
        ):
            said = await b1.log("connection closed")
            assert said["reason"].startswith("the certificate of b2 names b9")
            assert said["reason"].endswith("it must name b2")

    run(scene())
