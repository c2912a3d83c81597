"""Nobody replaces or clears a retained event that it may not publish, over whatever transport."""

from pathlib import Path
from typing import Any

import pytest

from godwit.broker.messages import Attach, Refused, Request, Retain
from godwit.errors import Refused as RefusedError
from godwit.filters.events import event
from tests.network.rights_broker import Secured, secured, user
from tests.network.waiting import run
from tests.seeds import diagonal

PARKING, ALARM = "kind = 'parking'", "kind = 'alarm'"
MATCHING = "replace or clear"


def users() -> list[str]:
    return [
        user("ann", [PARKING], ["*"]),
        user("fire", [ALARM], ["*"]),
        user("all", ["*"], ["*"]),
    ]


def held(broker: Secured, key: str) -> Any:
    found = broker.machine.components["retained"].event(key)
    return None if found is None else found.attributes.get("kind")


async def alarm(broker: Secured, key: str = "hall") -> None:
    async with broker.client("fire") as fire:
        await fire.publish({"kind": "alarm"}, retain=key)


@pytest.mark.parametrize("clear", [False, True])
def test_a_native_client_keeps_its_hands_off(tmp_path: Path, clear: bool) -> None:
    async def scene() -> None:
        async with secured(tmp_path, *users()) as broker, broker.client("ann") as ann:
            await ann.publish({"kind": "parking"}, retain="hall")  # nothing is there
            await ann.publish({"kind": "parking", "n": 2}, retain="hall")  # its own
            async with broker.client("all") as every:
                await every.publish({"kind": "alarm"}, retain="hall")
            with pytest.raises(RefusedError, match=MATCHING):
                await ann.publish({"kind": "parking"}, retain="hall", clear=clear)
            assert held(broker, "hall") == "alarm"
            async with broker.client("all") as every:
                await every.publish({"kind": "parking"}, retain="hall", clear=True)
            assert held(broker, "hall") is None
            await ann.publish({"kind": "parking"}, retain="hall")

    run(scene)


@pytest.mark.parametrize("clear", [False, True])
def test_a_web_socket_keeps_its_hands_off(tmp_path: Path, clear: bool) -> None:
    async def scene() -> None:
        async with secured(tmp_path, *users()) as broker, broker.socket("ann") as ann:
            await alarm(broker)
            await ann.say(Attach("ann"))
            said = event({"kind": "parking"}, publisher="ann", sequence=1)
            await ann.say(Request(1, Retain(said, "hall", clear)))
            assert MATCHING in (await ann.hears(Refused)).reason
            assert held(broker, "hall") == "alarm"

    run(scene)


@pytest.mark.parametrize("clear", ["", "&clear"])
def test_a_post_keeps_its_hands_off(tmp_path: Path, clear: str) -> None:
    async def scene() -> None:
        async with secured(tmp_path, *users()) as broker, broker.web_client("ann") as ann:
            await alarm(broker)
            answer = await ann.post(f"/events?retain=hall{clear}", json={"kind": "parking"})
            assert answer.status_code == 403
            assert MATCHING in answer.json()["error"]
            assert held(broker, "hall") == "alarm"

    run(scene)


@pytest.mark.parametrize(("level", "payload"), diagonal([4, 5], [b"free", b""]))
def test_an_mqtt_device_keeps_its_hands_off(tmp_path: Path, level: int, payload: bytes) -> None:
    async def scene() -> None:
        grants = ["topic LIKE 'hall%'"]  # which the alarm, without a topic, does not match
        entries = [user("ann", grants, ["*"]), user("fire", [ALARM], ["*"])]
        async with secured(tmp_path, *entries) as broker, broker.device("ann", level) as ann:
            await alarm(broker, "hall/1")
            code = await ann.publish("hall/1", payload, qos=1, retain=True)
            if level == 5:
                assert code.value == 0x87
            assert held(broker, "hall/1") == "alarm"
            await ann.publish("hall/2", b"free", qos=1, retain=True)
            assert broker.machine.components["retained"].event("hall/2") is not None

    run(scene)
