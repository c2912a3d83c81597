"""Notifications on the user's desktop, by the program `notify-send` of freedesktop.org, where it is installed.

Browsers show them, too, if a page of the peer is open. A desktop that does not take a notice is reported, and hinders
nobody: the notice is in the list of notifications anyway.
"""

import asyncio
import shutil
from collections.abc import Callable
from html import escape
from types import TracebackType
from typing import Self

from godwit.teamwork.machine.notification_rules import how_to_end
from godwit.teamwork.notification_channels import summary
from godwit.teamwork.notification_queue import Batch
from godwit.teamwork.notifier import Notifier

__all__ = ["PROGRAM", "DesktopNotices"]

PROGRAM = "notify-send"
NOTICE_S = 10.0
SHOWN_MAX = 5


class DesktopNotices:
    """Shows what is due by the channel `desktop`, from `async with` until its end."""

    def __init__(self, notifier: Notifier, report: Callable[[str], None], program: str = PROGRAM) -> None:
        self._notifier, self._report, self._program = notifier, report, shutil.which(program)
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        if self._program is not None:
            self._end = self._notifier.listen(self._on_due)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_due(self, batch: Batch) -> None:
        task = asyncio.create_task(self._show(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _show(self, batch: Batch) -> None:
        titles = [escape(each.title) for each in batch.notifications[:SHOWN_MAX]]  # it may have markup
        lines = [*titles, f"To end it: {escape(how_to_end(batch.subscription.id))}"]
        assert self._program is not None
        try:
            shown = await asyncio.create_subprocess_exec(
                *(self._program, "--app-name=godwit", "--", summary(batch), "\n".join(lines)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            self._report(f"cannot show a notice on the desktop: {error}")
            return
        try:
            async with asyncio.timeout(NOTICE_S):
                status = await shown.wait()
        except TimeoutError:
            shown.kill()
            await shown.wait()
            status = -1
        if status:
            self._report(f"the desktop did not take a notice: {self._program} ended with {status}")
