"""A broker that is killed while MQTT clients of QoS 2 are at work: nothing is lost, and nothing comes twice."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from godwit.runtime import Address
from tests.network.mortal import Mortal, Nursery, nursery
from tests.network.mqtt_devices import Device

LIMIT_S = 240.0
PATIENCE_S = 30.0
EVENTS = 40  # in a round


class MqttMortal(Mortal):
    """A broker with a gateway, in another process."""

    def __init__(self, place: Nursery, folder: Path, durability: str) -> None:
        super().__init__(place, folder, durability)
        self.mqtt = 0

    async def start(self) -> Address:
        self.options = ["--mqtt", str(self.mqtt)]
        address = await super().start()
        self.mqtt = int(await self.line("its MQTT port"))
        return address


def device(name: str, level: int) -> Device:
    made = Device(name, level, clean=False, expiry_s=1_000)
    made.paho.reconnect_delay_set(0.02, 0.1)  # type: ignore[arg-type]
    return made


async def scene(
    folder: Path, durability: str, level: int, rounds: int, seed: int, patience_s: float = PATIENCE_S
) -> None:
    rng = Random(seed)
    async with nursery() as place:
        broker = MqttMortal(place, folder, durability)
        await broker.start()
        ann, bob = device("ann", level), device("bob", level)
        await ann.connect(broker.mqtt)
        await bob.connect(broker.mqtt)
        await ann.subscribe("t", 2)
        sent = 0
        answers = []
        for _ in range(rounds):
            dies_after = rng.randrange(EVENTS)
            for k in range(EVENTS):
                answers.append(asyncio.create_task(bob.publish("t", b"%d" % sent, 2)))
                sent += 1
                if k == dies_after:
                    await broker.kill()
                    await broker.start()
                elif rng.random() < 0.2:
                    await answers[-1]
        try:
            async with asyncio.timeout(patience_s):
                await asyncio.gather(*answers)
                await bob.publish("t", b"end", 2)
                came = []
                while (message := await ann.next()).payload != b"end":
                    came.append(int(message.payload))
        except TimeoutError:
            raise AssertionError("the last event never came") from None
        finally:
            await ann.disconnect()
            await bob.disconnect()
        assert sorted(came) == list(range(sent))
        await broker.kill()


@pytest.mark.parametrize("level", [4, 5])
def test_qos_2_is_exactly_once_over_every_kill(tmp_path: Path, level: int) -> None:
    asyncio.run(asyncio.wait_for(scene(tmp_path, "relaxed", level, rounds=3, seed=level), LIMIT_S))


@pytest.mark.slow
def test_a_broker_that_forgets_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        asyncio.run(asyncio.wait_for(scene(tmp_path, "lazy", 5, rounds=3, seed=1, patience_s=5.0), LIMIT_S))


@pytest.mark.slow
def test_twenty_rounds(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(scene(tmp_path, "full", 5, rounds=20, seed=1), LIMIT_S))
