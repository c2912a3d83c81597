"""`godwit adhoc` as users run it: real processes that elect, die and come back, and what it says of wrong words."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.network.adhoc_processes import DeviceProcess, device_processes, warm_device_processes
from tests.network.cli_broker import godwit
from tests.network.waiting import PATIENCE_S, run, until

QUICK = ("--no-multicast", "--beacon", "0.3", "--lease", "100", "--listen", "127.0.0.1:0")
AGAIN_S = 0.2


def leader(island: dict[str, DeviceProcess]) -> str:
    """The one that leads while all others follow it; "" if that is not so."""
    leading = [name for name, device in island.items() if device.state == "leading"]
    if len(leading) != 1:
        return ""
    others = (device for name, device in island.items() if name != leading[0])
    return leading[0] if all(device.state == f"following {leading[0]}" for device in others) else ""


async def publish_until_all_have_one(publisher: DeviceProcess, island: dict[str, DeviceProcess], begin: int) -> None:
    """Publish numbers from here on. Those before a device has told its event broker what it wants do not come to it."""

    def have_one() -> bool:
        return all(max(device.values("n"), default=0) >= begin for device in island.values())

    gives_up_at = asyncio.get_running_loop().time() + PATIENCE_S
    number = begin
    while not have_one():
        told = {name: device.told for name, device in island.items()}
        assert asyncio.get_running_loop().time() < gives_up_at, f"a device gets no events: {told}"
        publisher.publish(n=number)
        number += 1
        try:
            async with asyncio.timeout(AGAIN_S):
                await until(have_one, "all have one")
        except TimeoutError:
            continue  # it was published too early: another


def test_of_three_processes_one_is_elected_and_after_its_end_another_and_events_come_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with warm_device_processes(tmp_path) as start:
            anna = await start("anna", "n > 0", "--priority", "1", *QUICK)
            where = await anna.address()
            bert = await start("bert", "n > 0", "--peer", where, *QUICK)
            carl = await start("carl", "n > 0", "--peer", where, "--peer", await bert.address(), *QUICK)
            island = {"anna": anna, "bert": bert, "carl": carl}
            await until(lambda: leader(island), "one is elected, and the others follow it")
            await publish_until_all_have_one(carl, island, 1)
            killed = leader(island)
            device = island.pop(killed)
            assert await device.end(signal.SIGKILL) == -signal.SIGKILL
            await until(lambda: leader(island), "another one is elected, and the other follows it")
            publisher = next(device for name, device in island.items() if name != leader(island))
            await publish_until_all_have_one(publisher, island, 1_000)
            await publish_until_all_have_one(publisher, island, 2_000)  # behind all that could come twice
            for device in island.values():
                came = device.values("n")
                assert came == sorted(set(came))
                assert 2_000 in came  # all have told what they want by then

    run(scene)


@pytest.mark.slow
def test_processes_elect_an_event_broker_and_another_one_when_it_is_killed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with device_processes(tmp_path) as start:
            anna = await start("anna", "n > 0", "--priority", "1", *QUICK)
            where = await anna.address()
            bert = await start("bert", "n > 0", "--peer", where, *QUICK)
            other = await bert.address()
            carl = await start("carl", "n > 0", "--peer", where, "--peer", other, *QUICK)
            await asyncio.gather(bert.has_told("is following"), carl.has_told("is following"))
            carl.publish(n=1)
            carl.publish(n=0)
            carl.stdin.write(b"no event\n")
            assert "line 3 of standard input is skipped" in await carl.has_told("warning")
            for device in (anna, bert, carl):
                await device.until(lambda: device.values("n") == [1], "it has come")  # noqa: B023
            assert await anna.end(signal.SIGKILL) == -signal.SIGKILL
            bert.publish(n=2)
            await bert.until(lambda: 2 in bert.values("n"), "another event broker was elected")
            again = await start("anna", "n > 0", "--peer", other, *QUICK)
            await again.has_told("is following")
            again.publish(n=3)
            await bert.until(lambda: 3 in bert.values("n"), "what anna says in her second life has come")
            assert sorted(set(bert.values("n"))) == sorted(bert.values("n"))  # nothing twice
            assert await bert.end() == 0

    run(scene)


@pytest.mark.parametrize("priority", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_a_device_publishes_what_is_piped_into_it_and_ends(tmp_path: Path, priority: str) -> None:
    """Also when it leads: what it holds as event broker must not end with it."""

    async def scene() -> None:
        async with device_processes(tmp_path) as start:
            anna = await start("anna", "n > 0", "--count", "2", *QUICK)
            where = await anna.address()
            carl = await start("carl", "--peer", where, "--until-eof", "--priority", priority, *QUICK)
            carl.publish(n=1)
            carl.publish(n=2)
            carl.stdin.close()
            assert await carl.process.wait() == 0
            assert await anna.process.wait() == 0
            await anna.until(lambda: anna.values("n") == [1, 2], "both were printed")

    run(scene)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("a b",), "NAME 'a b': a device's name has"),
        (("a", "--meeting", "fight"), "--meeting fight: allowed are merge and coordinate"),
        (("a", "--count", "3"), "--count needs a FILTER"),
        (("a", "--no-multicast"), "--no-multicast needs --peer, or --listen"),
        (("a", "--peer", "there"), "--peer there: 'there' is not an address"),
        (("a", "--lease", "2"), "--lease 2: it must be 6 at least"),
        (("a", "n >"), "expected"),
        (("a", "--allow", "/nowhere.toml"), "cannot read /nowhere.toml"),
    ],
)
def test_wrong_words_are_explained(tmp_path: Path, words: tuple[str, ...], fault: str) -> None:
    done = godwit("adhoc", *words, "--state", str(tmp_path))
    assert done.exit_code == 2
    assert fault in " ".join(done.stderr.split())


def test_a_list_of_allowed_devices_is_what_show_key_prints(tmp_path: Path) -> None:
    shown = godwit("adhoc", "anna", "--show-key", "--state", str(tmp_path / "anna"))
    assert shown.exit_code == 0
    allowed = tmp_path / "allowed.toml"
    allowed.write_text(shown.stdout + 'colour = "red"\n')
    refused = godwit("adhoc", "anna", "--allow", str(allowed), "--state", str(tmp_path / "anna"))
    assert refused.exit_code == 2
    assert "colour" in refused.stderr
    allowed.write_text(shown.stdout)
    refused = godwit("adhoc", "bert", "--allow", str(allowed), "--state", str(tmp_path / "bert"))
    assert "the list of allowed devices must have 'bert', with the key" in " ".join(refused.stderr.split())
