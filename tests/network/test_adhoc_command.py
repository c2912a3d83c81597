"""`godwit adhoc` as users run it: real processes that elect, die and come back, and what it says of wrong words."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.network.adhoc_processes import device_processes
from tests.network.cli_broker import godwit
from tests.network.waiting import run

QUICK = ("--no-multicast", "--beacon", "0.3", "--lease", "100", "--listen", "127.0.0.1:0")


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
            carl.process.stdin.write(b"no event\n")
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
            carl.process.stdin.close()
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
