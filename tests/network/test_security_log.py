"""A running broker logs and counts what it refuses, on every listener."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

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
mqtt = "127.0.0.1:0"
http = "127.0.0.1:0"
[journal]
durability = "memory"
[security]
users = "users.toml"
anonymous = "never"
"""


def quick_hash(password: str) -> str:
    return hashed(password, rounds=1, memory_kib=8, lanes=1)


def prepared(folder: Path, **users: User) -> None:
    (folder / "broker.toml").write_text(FILE)
    text = ""
    for name, user in users.items():
        text = with_user(text, name, user, "users.toml")
    (folder / "users.toml").write_text(text)


def mqtt_refused(address: str) -> None:
    """Connect with a wrong password, until the broker has said no."""
    host, _, port = address.rpartition(":")
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="phone")
    client.username_pw_set("ann", "wrong-by-mqtt")
    client.connect(host, int(port))
    while client.loop() == paho.MQTT_ERR_SUCCESS:
        pass


def mqtt_requests_refused(address: str) -> None:
    """Subscribe and publish what is not granted, until the broker has answered both."""
    host, _, port = address.rpartition(":")
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="phone", protocol=paho.MQTTv5)
    client.username_pw_set("ann", "a")
    answered: list[str] = []
    client.on_subscribe = lambda *said: answered.append("subscribe")
    client.on_publish = lambda *said: answered.append("publish")

    def connected(*said: Any) -> None:
        client.subscribe("secret/+/door", qos=1)
        client.publish("secret/key", b"1234", qos=1)

    client.on_connect = connected
    client.connect(host, int(port))
    while len(answered) < 2:
        assert client.loop() == paho.MQTT_ERR_SUCCESS
    client.disconnect()


def test_each_listener_logs_and_counts_refused_logins_and_requests(tmp_path: Path) -> None:
    ann = User(password=quick_hash("a"), publish=("n > 0",), subscribe=("n > 0",))
    prepared(tmp_path, ann=ann, boss=User(password=quick_hash("b"), admin=True))

    async def native(broker: Served) -> None:
        async with connect(broker.native, name="ann", user="ann", password="wrong-by-native"):
            said = await broker.log("refused login", listener="native")
        assert {"host": "127.0.0.1", "user": "ann", "cause": "password"}.items() <= said.items()
        async with connect(broker.native, name="ann", user="ann", password="a") as client:
            with pytest.raises(Refused):
                await client.subscribe("TRUE")
        said = await broker.log("refused request", listener="native")
        assert {"host": "127.0.0.1", "user": "ann", "cause": "rights"}.items() <= said.items()
        assert said["what"] == "subscribe to TRUE"

    async def mqtt(broker: Served) -> None:
        await asyncio.to_thread(mqtt_refused, broker.said["mqtt"])
        said = await broker.log("refused login", listener="mqtt")
        assert {"user": "ann", "client": "phone", "cause": "password"}.items() <= said.items()
        await asyncio.to_thread(mqtt_requests_refused, broker.said["mqtt"])
        whats = []
        for _ in range(2):
            said = await broker.log("refused request", listener="mqtt")
            assert {"user": "ann", "client": "phone", "cause": "rights"}.items() <= said.items()
            whats.append(said["what"])
        assert whats == ["subscribe to topic LIKE TOPIC 'secret/+/door'", "publish topic 'secret/key'"]
        assert "1234" not in str(broker.logged)
        host, _, port = broker.said["mqtt"].rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await broker.log("refused connection", listener="mqtt"))["cause"] == "protocol"
        writer.close()

    async def http(broker: Served, client: httpx.AsyncClient) -> dict[str, Any]:
        assert (await client.get("/events", auth=("ann", "wrong-by-http"))).status_code == 401
        assert (await broker.log("refused login", listener="http"))["cause"] == "password"
        assert (await client.get("/sessions", auth=("ann", "a"))).status_code == 403
        said = await broker.log("refused request", listener="http")
        assert {"user": "ann", "cause": "admin", "what": "GET /sessions"}.items() <= said.items()
        assert (await client.post("/events", json={"n": 0}, auth=("ann", "a"))).status_code == 403
        assert (await broker.log("refused request", listener="http"))["cause"] == "rights"
        metrics = (await client.get("/metrics", auth=("boss", "b"))).text
        return {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in metrics.splitlines() if line[0] != "#"
        }

    async def scene() -> None:
        async with serving("broker.toml", folder=tmp_path) as broker:
            await native(broker)
            await mqtt(broker)
            async with httpx.AsyncClient(base_url=f"http://{broker.said['http']}", trust_env=False) as client:
                seen = await http(broker, client)
            for listener in ("native", "mqtt", "http"):
                assert seen[f'godwit_refused_logins_total{{cause="password",listener="{listener}"}}'] >= 1
                assert seen[f'godwit_accepted_connections_total{{listener="{listener}"}}'] >= 1
            assert seen['godwit_refused_requests_total{cause="admin",listener="http"}'] == 1
            assert seen['godwit_refused_requests_total{cause="rights",listener="http"}'] == 1
            assert seen['godwit_refused_requests_total{cause="rights",listener="native"}'] == 1
            assert seen['godwit_refused_connections_total{cause="protocol",listener="mqtt"}'] == 1
            assert seen['godwit_refused_connections_total{cause="login",listener="mqtt"}'] == 1
            assert seen['godwit_refused_connections_total{cause="login",listener="native"}'] >= 1
            await broker.stop()
            assert "wrong-by" not in str(broker.logged)

    run(scene())
