"""Notices on the desktop, with a program that writes down what it is given."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from godwit.teamwork.desktop_notices import DesktopNotices
from godwit.teamwork.machine.notification_rules import Channel, Notification, UserSubscription
from godwit.teamwork.notification_queue import Batch
from tests.network.waiting import run, until

PLANS = UserSubscription("1", "plans", ("artefact",), (Channel("desktop"),))


class Listened:
    """A notifier that has something due."""

    def __init__(self) -> None:
        self.shown_by: list[Callable[[Batch], None]] = []

    def listen(self, show: Callable[[Batch], None]) -> Callable[[], None]:
        self.shown_by.append(show)
        return lambda: self.shown_by.remove(show)


def due(title: str) -> Batch:
    notification = Notification("1", "community/ann.1", "artefact/1", title, 0.0)
    return Batch("b.1", PLANS, Channel("desktop"), (1,), (notification,), 0, 0.0)


def program(folder: Path, text: str) -> str:
    path = folder / "notify"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def test_a_notice_is_text_whatever_its_title_is(tmp_path: Path) -> None:
    async def scene() -> None:
        notifier: Any = Listened()
        faults: deque[str] = deque()
        written = tmp_path / "written"
        shows = program(tmp_path, f'printf "%s\\n" "$@" > {written}.new; mv {written}.new {written}; exit 3')
        async with DesktopNotices(notifier, faults.append, shows):
            notifier.shown_by[0](due("--help <b>plan</b> $(reboot)"))
            await until(lambda: faults, "the notice was shown")
        assert written.read_text().splitlines() == [
            *("--app-name=godwit", "--", "plans: --help <b>plan</b> $(reboot)"),
            "--help &lt;b&gt;plan&lt;/b&gt; $(reboot)",
            "To end it: godwit team subscribe --end 1",
        ]
        assert "ended with 3" in faults[0]
        assert notifier.shown_by == []

    run(scene())


def test_without_the_program_nobody_is_shown_anything(tmp_path: Path) -> None:
    async def scene() -> None:
        notifier: Any = Listened()
        async with DesktopNotices(notifier, print, str(tmp_path / "nothing")):
            assert notifier.shown_by == []

    run(scene())
