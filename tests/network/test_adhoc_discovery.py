"""Devices that find each other by multicast on the loopback interface, where that works."""

import socket
from pathlib import Path

import pytest

from godwit.errors import ConfigurationError
from godwit.runtime import adhoc_discovery
from godwit.runtime.addresses import Address
from godwit.runtime.adhoc_discovery import Discovery, MulticastSettings, multicast_socket
from godwit.runtime.adhoc_keys import DeviceKey, KnownKeys
from godwit.runtime.adhoc_wire import announced
from tests.network.adhoc_devices import devices, quick
from tests.network.waiting import run, until

GROUP = "239.255.71.88"


def free_group() -> MulticastSettings:
    """A group at a port that nobody uses; skips the test where multicast does not work on the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("", 0))
        port = found.getsockname()[1]
    settings = MulticastSettings(group=Address(GROUP, port), interface="127.0.0.1", announce_s=0.2)
    try:
        with multicast_socket(settings) as near:
            near.setblocking(True)
            near.settimeout(5.0)
            near.sendto(b"probe", (GROUP, port))
            near.recv(16)
    except (ConfigurationError, OSError) as error:
        pytest.skip(f"no multicast on the loopback interface here: {error}")
    return settings


def test_devices_find_each_other_by_multicast_and_need_no_list(tmp_path: Path) -> None:
    group = free_group()

    async def scene() -> None:
        async with devices(tmp_path) as found:
            for name in "abc":
                await found.start(name, multicast=group, machine=quick(priority=0.5))
            await found.start("stranger", multicast=group, network="another")
            other = found.running.pop("stranger")
            await found.one_island()
            found["a"].publish({"n": 1})
            await until(lambda: all(found.came[name] == [("a", 1)] for name in "abc"), "all have it")
            assert sorted(found["a"].discovery.heard) == ["b", "c"]  # type: ignore[union-attr]
            assert not other.links.neighbours
            await other.close()

    run(scene)


def test_without_multicast_a_list_of_peers_does_and_without_both_there_is_an_error(tmp_path: Path) -> None:
    nowhere = MulticastSettings(group=Address(GROUP, 0), interface="192.0.2.1")

    async def scene() -> None:
        async with devices(tmp_path) as found:
            with pytest.raises(
                ConfigurationError, match=r"no multicast to 239\.255\.71\.88:0 at the interface 192\.0\.2\.1"
            ):
                await found.start("a", multicast=nowhere)
            found.running.clear()
            await found.start("b")
            await found.start("c", ["b"], multicast=nowhere)
            assert "no multicast" in found["c"].without_multicast
            await found.one_island()

    run(scene)


class Clocked:
    """A discovery that hears what it is given, at a time that the test sets."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.dialled: list[str] = []
        self.key = DeviceKey.made()
        self.discovery = Discovery(
            *("m", "net", DeviceKey.made(), KnownKeys(), MulticastSettings()),
            lambda name, address: self.dialled.append(f"{name} {address}"),
            lambda: self.at,
        )

    def hear(self, name: str, *, network: str = "net", sent_at: float | None = None, host: str = "10.0.0.1") -> None:
        data = announced(self.key, network, name, 7, self.at if sent_at is None else sent_at)
        self.discovery.datagram_received(data, (host, 99))


def test_the_device_whose_name_comes_first_dials_and_the_other_one_when_that_does_not_help() -> None:
    clocked = Clocked()
    clocked.hear("z")
    assert clocked.dialled == ["z 10.0.0.1:7"]
    for _ in range(4):
        clocked.at += 1
        clocked.hear("a")
    assert clocked.dialled == ["z 10.0.0.1:7", "a 10.0.0.1:7"]


def test_old_repeated_forged_and_foreign_announcements_are_ignored() -> None:
    clocked = Clocked()
    clocked.hear("z")
    clocked.hear("z")  # the same again
    clocked.hear("y", sent_at=clocked.at - 1_000)
    clocked.hear("x", network="other")
    clocked.hear("m")  # ourselves
    clocked.key = DeviceKey.made()
    clocked.at += 1
    clocked.hear("z")  # another key
    data = announced(clocked.key, "net", "w", 7, clocked.at)
    clocked.discovery.datagram_received(data[:-1] + bytes([data[-1] ^ 1]), ("10.0.0.1", 99))
    clocked.discovery.datagram_received(bytes(2_000), ("10.0.0.1", 99))
    clocked.discovery.datagram_received(b"", ("10.0.0.1", 99))
    assert clocked.dialled == ["z 10.0.0.1:7"]
    assert clocked.discovery.refused == 6


def test_announcements_are_looked_at_at_a_bounded_rate_and_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bytes] = []
    monkeypatch.setattr(adhoc_discovery, "check_announcement", lambda data, network: looked.append(data))
    clocked = Clocked()
    for number in range(100):
        clocked.discovery.datagram_received(b"x", ("10.0.0.1", number))
    assert len(looked) == adhoc_discovery.HOST_BURST
    for number in range(5_000):
        clocked.discovery.datagram_received(b"x", (f"10.1.{number // 250}.{number % 250}", 1))
    assert len(looked) == adhoc_discovery.ALL_BURST
    assert len(clocked.discovery._hosts) <= adhoc_discovery.HOSTS_MAX
