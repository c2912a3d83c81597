"""Devices in network namespaces of their own, on one segment, with links that come and go."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.adhoc_processes import DeviceProcess, device_processes
from tests.network.waiting import run

QUICK = ("--beacon", "0.3", "--lease", "100", "--skew", "0")
NAMES = ("anna", "bert", "carl")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)


class Segment:
    """A switch, and a namespace for each device that is plugged into it."""

    def __init__(self) -> None:
        self.mark = f"g{os.getpid() % 100_000}"
        self._made: list[tuple[str, ...]] = []

    def make(self) -> None:
        self._add(("link", "del", self._switch), "link", "add", self._switch, "type", "bridge", "mcast_snooping", "0")
        ip("link", "set", self._switch, "up")
        for number, name in enumerate(NAMES, 1):
            space, outside = self.space(name), self._plug(name)
            self._add(("netns", "del", space), "netns", "add", space)
            undo = ("link", "del", outside)  # its namespace may live until the last process in it is reaped
            self._add(undo, "link", "add", outside, "type", "veth", "peer", "name", "radio", "netns", space)
            ip("link", "set", outside, "master", self._switch, "up")
            ip("-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", "radio")
            for device in ("lo", "radio"):
                ip("-n", space, "link", "set", device, "up")
            ip("-n", space, "route", "add", "224.0.0.0/4", "dev", "radio")

    def _add(self, undo: tuple[str, ...], *words: str) -> None:
        ip(*words)
        self._made.append(undo)

    def remove(self) -> None:
        for words in reversed(self._made):
            subprocess.run(["ip", *words], check=False, capture_output=True, timeout=60)

    @property
    def _switch(self) -> str:
        return f"{self.mark}s"

    def _plug(self, name: str) -> str:
        return f"{self.mark}{name}"[:15]

    def space(self, name: str) -> str:
        return f"{self.mark}-{name}"

    def inside(self, name: str) -> tuple[str, ...]:
        """What a command begins with that runs in the namespace of a device."""
        return ("ip", "netns", "exec", self.space(name))

    def out_of_range(self, name: str) -> None:
        """Pull the plug of a device: nobody is told."""
        ip("link", "set", self._plug(name), "nomaster")

    def in_range(self, name: str) -> None:
        ip("link", "set", self._plug(name), "master", self._switch)


@pytest.fixture
def segment() -> Iterator[Segment]:
    if shutil.which("ip") is None:
        pytest.skip("the command ip (iproute2) is not installed")
    found = Segment()
    try:
        found.make()
    except (subprocess.SubprocessError, OSError) as error:
        found.remove()
        reason = getattr(error, "stderr", b"") or str(error).encode()
        pytest.skip(f"network namespaces are not allowed here: {reason.decode().strip()}")
    try:
        yield found
    finally:
        found.remove()


async def has(device: DeviceProcess, number: int) -> None:
    await device.until(lambda: number in device.values("n"), f"event {number} has come")


@pytest.mark.slow
def test_devices_find_lose_and_find_each_other_on_a_segment_without_any_list(segment: Segment, tmp_path: Path) -> None:
    async def scene() -> None:
        async with device_processes(tmp_path) as start:
            anna, bert, carl = [
                await start(name, "n > 0", *QUICK, "--interface", f"10.77.0.{number}", before=segment.inside(name))
                for number, name in enumerate(NAMES, 1)
            ]
            every = (anna, bert, carl)
            for device in every:
                await device.until(
                    lambda: sum(line.startswith("reached") for line in device.told) >= 2,  # noqa: B023
                    "it has reached both others",
                )
            anna.publish(n=1)
            await asyncio.gather(*(has(device, 1) for device in every))
            segment.out_of_range("carl")
            await asyncio.gather(anna.has_told("lost carl: silent"), carl.has_told("lost anna: silent"))
            anna.publish(n=2)
            bert.publish(n=3)
            await asyncio.gather(*(has(device, number) for device in (anna, bert) for number in (2, 3)))
            carl.publish(n=4)  # it is alone, and keeps it
            segment.in_range("carl")
            await asyncio.gather(*(has(device, 4) for device in every))
            anna.publish(n=5)
            await asyncio.gather(*(has(device, 5) for device in every))
            for device in every:
                came = device.values("n")
                assert sorted(set(came)) == sorted(came)  # nothing twice

    run(scene)
