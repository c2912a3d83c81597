"""`godwit team demo`: a team at two sites and on trains, over three brokers, with checks at the end."""

from typing import TYPE_CHECKING, Annotated

from godwit.cli.broker_connection import is_terminal
from godwit.cli.signatures import Exit, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.team.team_display import write_line
from godwit.cli.terminal import Console, Table, Text

if TYPE_CHECKING:
    from godwit.cli.team.demo.books import Account
    from godwit.cli.team.demo.story import Step

__all__ = ["demo"]

TITLE_CHARS, SECONDS_CHARS = 12, 6


def demo(
    folder: Annotated[
        str, Option(metavar="DIR", help="Keep the folders of brokers and peers here (default: a temporary one).")
    ] = "",
) -> None:
    """Run a demonstration: a team at two sites and on trains. It runs over three brokers of this machine and takes
    about a minute.

    A document is stored offline, found from another site, changed offline on both sides and announced by mail; a member
    who has left cannot read its next version. The last lines count what was found, delivered, refused and lost. Exit
    status 1 if something was lost or leaked.

    Example: godwit team demo
    """
    import asyncio
    import signal
    import tempfile
    from pathlib import Path

    from godwit.cli.team.demo.story import tell

    async def play(place: Path) -> "Account":
        task = asyncio.current_task()
        assert task is not None
        for each in (signal.SIGTERM, signal.SIGHUP):  # brokers are stopped first: they do not get the signal themselves
            asyncio.get_running_loop().add_signal_handler(each, task.cancel)
        return await tell(place, _show)

    if is_terminal():
        echo("three brokers start; the first time, their matcher is compiled")
    try:
        if folder:
            Path(folder).mkdir(mode=0o700, parents=True)
            account = asyncio.run(play(Path(folder)))
        else:
            with tempfile.TemporaryDirectory(prefix="godwit-team-demo-", ignore_cleanup_errors=True) as place:
                account = asyncio.run(play(Path(place)))
    except asyncio.CancelledError:  # by SIGTERM
        raise KeyboardInterrupt from None
    _show_account(account)
    raise Exit(0 if account.is_clean else STATUS_NO)


def _show(step: "Step") -> None:
    if not is_terminal():
        write_line({"step": step.title, "text": step.text, "seconds": round(step.seconds, 2)})
        return

    row = Table.grid(gap=2)
    row.add_column(width=TITLE_CHARS, style="bold cyan")
    row.add_column(width=SECONDS_CHARS, style="dim", justify="right")
    row.add_column()
    row.add_row(step.title, f"{step.seconds:.1f} s", Text(step.text))
    Console().print(row)


def _show_account(account: "Account") -> None:
    said = {name: getattr(account, name) for name in ("found", "delivered", "refused", "lost", "leaked")}
    if is_terminal():
        echo("\n" + ", ".join(f"{name} {count}" for name, count in said.items()))
    else:
        write_line(said)
    for fault in account.faults:
        echo(fault, err=True)
