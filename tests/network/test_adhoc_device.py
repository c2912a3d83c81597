"""Devices of an ad hoc network on real sockets: they find, elect, lose and merge their event brokers. [mobile §3.1]"""

from pathlib import Path
from typing import Any, cast

import pytest

from godwit.errors import FilterError, SecurityError
from godwit.filters.events import Event
from godwit.runtime import adhoc_device
from godwit.runtime.adhoc_device import AdHocDevice, DeviceSettings
from godwit.runtime.adhoc_keys import AllowedDevice, DeviceFolder
from tests.network.adhoc_devices import HERE, devices, quick
from tests.network.waiting import run, until


def numbers(came: list[tuple[str, int]], publisher: str) -> list[int]:
    return [number for name, number in came if name == publisher]


def knows_other(device: AdHocDevice) -> bool:
    """Whether an event broker has heard what its only neighbour wants."""
    broker = device.machine.broker
    return broker is not None and bool(broker.neighbours) and broker.table_sizes()["in_subs"] > len(broker.sessions)


def test_devices_in_a_row_elect_one_event_broker_and_all_get_all(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a")
            await found.start("b", ["a"])
            await found.start("c", ["b"], machine=quick(priority=1.0))
            found["a"].publish({"n": 0})  # kept until there is an event broker
            await found.one_island()
            for number in range(1, 200):
                found["a"].publish({"n": number})
                found["b"].publish({"n": number})
            await until(lambda: all(found.came[name].count(("b", 199)) for name in "abc"), "all have the last of b")
            await until(lambda: all(found.came[name].count(("a", 199)) for name in "abc"), "all have the last of a")
            assert numbers(found.came["a"], "a") == list(range(200))
            for name in "abc":
                assert [number for number in numbers(found.came[name], "a") if number] == list(range(1, 200))
                assert numbers(found.came[name], "b") == list(range(1, 200))
            assert list(found["c"].links.neighbours) == ["b"]

    run(scene)


def test_when_the_event_broker_is_gone_another_is_elected_and_what_waits_is_published_there(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a", machine=quick(priority=1.0, lost_s=1.0))
            await found.start("b", ["a"], machine=quick(lost_s=1.0))
            await found.start("c", ["a", "b"], machine=quick(lost_s=1.0))
            assert await found.one_island() == "a"
            await found.stop("a")
            found["b"].publish({"n": 1})
            assert await found.one_island() in ("b", "c")
            found["c"].publish({"n": 2})
            await until(lambda: ("c", 2) in found.came["b"] and ("c", 2) in found.came["c"], "both have it")
            await until(lambda: ("b", 1) in found.came["b"], "what waited has found an event broker")

    run(scene)


def test_an_event_broker_that_stops_lets_publishers_hear_first_that_it_has_their_events(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            made = DeviceSettings(
                name="anna", folder=tmp_path / "anna", listen=HERE, machine=quick(priority=1.0), parting_s=100.0
            )
            came: list[int] = []

            def on_event(event: Event, _: tuple[str, ...]) -> None:
                came.append(cast(int, event.attributes["n"]))
                anna.links.neighbours["carl"].close("cut")  # before the answer is sent

            anna = AdHocDevice(made, on_event)
            found.addresses["anna"] = await anna.start()
            anna.subscribe("s", "n > 0")
            carl = await found.start("carl", ["anna"], wants="")
            carl.publish({"n": 1})
            await until(lambda: came, "the event has come")
            assert carl.client.unanswered()
            await anna.close()
            assert not carl.client.unanswered()
            assert came == [1]

    run(scene)


def test_the_kernels_are_loaded_before_there_is_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        made = DeviceSettings(name="anna", folder=tmp_path / "anna", listen=HERE)
        device = AdHocDevice(made, lambda event, names: None)
        listened: list[bool] = []
        monkeypatch.setattr(adhoc_device, "COMPILED", True)
        monkeypatch.setattr(adhoc_device, "warm_up", lambda: listened.append(device.links.address is not None))
        await device.start()
        await device.close()
        assert listened == [False]

    run(scene)


@pytest.mark.slow  # a merge that a busy machine is late for is tried again after twenty seconds, and more than once
def test_two_islands_that_meet_become_one_and_what_waits_for_the_absent_follows(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a", machine=quick(priority=0.5))
            await found.start("b", ["a"])
            await found.start("x", ["a"])
            await found.one_island()
            await found.stop("x")
            leader = found["a"].machine if found["a"].machine.is_leading else found["b"].machine
            found["b"].publish({"n": 1})
            assert leader.broker is not None
            session = leader.broker.sessions.session("x")
            assert session is not None
            await until(session.queue.events, "it waits for x")
            del found.came["x"]
            await found.start("z", machine=quick(priority=1.0), wants="")
            await found.start("y", ["z"], wants="")
            await until(lambda: found["z"].machine.is_leading and found["y"].machine.leader == "z", "two islands")
            await found.start("bridge", ["a", "z"], wants="")
            await until(lambda: found.leaders() == ["z"], "they have merged")
            assert found["bridge"].machine.config.meeting == "merge"
            await found.start("x", ["y"])  # its key is the same; it was never here
            await until(lambda: found.came["x"] == [("b", 1)], "it has come")

    run(scene)


def test_event_brokers_that_coordinate_stay_two_and_serve_all(tmp_path: Path) -> None:
    both: dict[str, Any] = {"meeting": "coordinate"}

    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a", machine=quick(priority=0.8, **both))
            await found.start("b", ["a"], machine=quick(priority=0.1, **both))
            await until(lambda: found["b"].machine.leader == "a", "b follows a")
            await found.start("z", machine=quick(priority=0.9, **both))
            await found.start("y", ["z"], machine=quick(priority=0.1, **both))
            await until(lambda: found["y"].machine.leader == "z", "y follows z")
            await found.start("m", ["b", "y"], machine=quick(priority=0.1, **both))
            await until(lambda: all(knows_other(found[name]) for name in "az"), "each knows what the other wants")
            for number in range(50):
                found["b"].publish({"n": number})
                found["y"].publish({"n": number})
            await until(lambda: len(found.came["b"]) >= 100 and len(found.came["y"]) >= 100, "all have all")
            assert sorted(found.leaders()) == ["a", "z"]
            for name in "by":
                assert numbers(found.came[name], "b") == numbers(found.came[name], "y") == list(range(50))

    run(scene)


def test_a_session_follows_its_client_to_another_event_broker_while_both_coordinate(tmp_path: Path) -> None:
    low: dict[str, Any] = {"machine": quick(priority=0.1, meeting="coordinate")}
    high: dict[str, Any] = {"machine": quick(priority=0.9, meeting="coordinate")}

    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a", **high)
            await found.start("b", ["a"], **low)
            await found.start("x", ["a"], **low)
            await until(lambda: found["b"].machine.leader == found["x"].machine.leader == "a", "b and x follow a")
            await found.start("z", **high)
            await found.start("y", ["z"], **low)
            await until(lambda: found["y"].machine.leader == "z", "y follows z")
            await found.start("m", ["b", "y"], **low)
            await until(lambda: all(knows_other(found[name]) for name in "az"), "each knows what the other wants")
            found["b"].publish({"n": 0})
            await until(lambda: found.came["x"] == [("b", 0)], "x has its subscription at a")
            await found.stop("x")
            for number in range(1, 4):
                found["b"].publish({"n": number})
            old, new = found["a"].machine.broker, found["z"].machine.broker
            assert old is not None
            assert new is not None
            session = old.sessions.session("x")
            assert session is not None
            await until(lambda: len(session.queue.events()) == 3, "three events wait for x at a")
            await found.start("x", ["z"], **low)
            await until(lambda: found["x"].machine.leader == "z", "x follows z")
            await until(lambda: old.sessions.session("x") is None, "its session has left a")
            assert new is found["z"].machine.broker
            assert new.sessions.session("x") is not None
            await until(lambda: len(found.came["x"]) >= 4, "what waited has followed")
            found["b"].publish({"n": 4})
            found["y"].publish({"n": 0})
            await until(lambda: len(found.came["x"]) >= 6, "x goes on at z")
            assert numbers(found.came["x"], "b") == list(range(5))
            assert numbers(found.came["x"], "y") == [0]
            assert sorted(found.leaders()) == ["a", "z"]

    run(scene)


def test_what_is_on_its_way_to_another_event_broker_survives_the_end_of_the_device_that_sends_it(
    tmp_path: Path,
) -> None:
    low: dict[str, Any] = {"machine": quick(priority=0.1, meeting="coordinate")}
    high: dict[str, Any] = {"machine": quick(priority=0.9, meeting="coordinate")}

    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a", **high)
            await found.start("b", ["a"], **low)
            await until(lambda: found["b"].machine.leader == "a", "b follows a")
            await found.start("z", **high)
            await found.start("y", ["z"], **low)
            await until(lambda: found["y"].machine.leader == "z", "y follows z")
            await found.start("m", ["b", "y"], **low)
            await until(lambda: all(knows_other(found[name]) for name in "az"), "each knows what the other wants")
            await found.stop("m")
            for number in range(3):
                found["b"].publish({"n": number})
            broker = found["a"].machine.broker
            assert broker is not None
            await until(lambda: len(broker.kept_for_others()) == 3, "three events wait at a for z")
            await found.stop("a")
            await found.start("a", ["b"], **high)
            await found.start("m", ["b", "y"], **low)
            await until(lambda: len(found.came["y"]) >= 3, "they have come")
            assert numbers(found.came["y"], "b") == [0, 1, 2]

    run(scene)


def test_a_device_that_comes_back_has_a_new_life_and_its_old_name(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a", machine=quick(priority=1.0))
            await found.start("b", ["a"])
            await found.one_island()
            found["b"].publish({"n": 1})
            await until(lambda: found.came["a"] == [("b", 1)], "the first has come")
            key = found["b"].key.public
            await found.stop("b")
            await found.start("b", ["a"])
            assert found["b"].key.public == key
            found["b"].publish({"n": 2})
            await until(lambda: found.came["a"] == [("b", 1), ("b", 2)], "the second has come, as another event")

    run(scene)


def test_a_name_belongs_to_the_first_key_that_was_seen_for_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a")
            await found.start("b", ["a"])
            await until(lambda: ("b", "") in found.links["a"], "they are neighbours")
            await found.stop("b")
            await until(lambda: not found["a"].links.neighbours, "b is gone")
            await found.stop("a")
            await found.start("a")  # what it has seen is on its disk
            faults = found["a"].links.faults
            await found.start("b", ["a"], folder=tmp_path / "impostor")
            await until(lambda: found["a"].links.faults > faults, "the other b is refused")
            assert not found["a"].links.neighbours

    run(scene)


def test_with_a_list_only_allowed_devices_come_in_and_none_above_its_priority(tmp_path: Path) -> None:
    keys = {name: DeviceFolder(tmp_path / name).key().text for name in "abc"}
    allowed = {"a": AllowedDevice(keys["a"]), "b": AllowedDevice(keys["b"], priority_max=0.2)}

    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a", allowed=allowed, machine=quick(priority=0.5))
            await found.start("b", ["a"], allowed=allowed, machine=quick(priority=1.0))
            await found.start("c", ["a"])
            await until(lambda: found["a"].links.seals.dropped > 0, "b claims too high a priority")
            await until(lambda: found["a"].links.faults > 0, "c is refused")
            assert list(found["a"].links.neighbours) == ["b"]
            assert found["a"].machine.leader != "b"
            with pytest.raises(SecurityError, match="must have 'd', with the key"):
                await found.start("d", allowed=allowed)
            found.running.pop("d", None)

    run(scene)


def test_a_device_that_is_in_its_own_list_is_dialled_no_more(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            a = await found.start("a")
            a.links.dial_peers([found.addresses["a"]])
            await until(lambda: str(found.addresses["a"]) in a.links._own, "it knows its own address")
            assert not a.links.neighbours

    run(scene)


def test_a_request_that_is_refused_is_told_and_the_device_goes_on(tmp_path: Path) -> None:
    async def scene() -> None:
        told: list[str] = []
        made = DeviceSettings(name="anna", folder=tmp_path, listen=HERE, machine=quick())
        device = AdHocDevice(made, lambda event, names: None, on_trouble=told.append)
        await device.start()
        machine = device.machine
        with pytest.raises(FilterError):
            device.subscribe("s", "n >")
        device.publish({"sender.x": 1})
        device.unsubscribe("nothing")
        device.publish({"n": 1})
        await device.node.quiet()
        assert device.machine is machine
        assert device.left_out == 2
        assert [text.split(":")[0] for text in told] == ["a request was refused"] * 2
        assert "sender.x" in told[0]
        assert device.client.sequence == device.client.config.sequence_start + 1
        await device.close()

    run(scene)


def test_of_two_connections_between_two_devices_one_stays(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a")
            await found.start("b", ["a"])
            await until(lambda: "b" in found["a"].links.neighbours, "they are neighbours")
            found["a"].links.dial_announced("b", found.addresses["b"])  # there is a link: nothing happens
            found["a"].links.dial_peers([found.addresses["b"]])  # "a" comes first: its own connection stays
            await until(lambda: len(found.links["a"]) >= 3, "the newer one has taken its place")
            await found.one_island()
            assert list(found["a"].links.neighbours) == ["b"]
            assert list(found["b"].links.neighbours) == ["a"]

    run(scene)
