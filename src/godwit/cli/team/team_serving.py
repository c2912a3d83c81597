"""`godwit team serve`, `status`, `presence` and `audit`: the peer of a folder."""

import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.broker_connection import is_terminal
from godwit.cli.signatures import Argument, Option, echo
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, answer_of, answers_of, is_served, when_free
from godwit.cli.team.team_display import show_answer, show_facts, show_rows
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.teamwork.peer_settings import PeerSettings
    from godwit.teamwork.team_server import Served

__all__ = ["audit", "presence", "serve", "status"]

AUDIT = {"time": "time", "user": "user", "way": "way", "scope": "scope", "record": "record", "detail": "detail"}


def serve(
    folder: Annotated[str, Argument(metavar="FOLDER", help="Folder of the peer.")] = DEFAULT_FOLDER,
    brokers: Annotated[
        list[str] | None,
        Option("--broker", metavar="HOST:PORT", help="Broker (default: as in the folder). Repeatable."),
    ] = None,
    pages: Annotated[
        str | None,
        Option(metavar="HOST:PORT", help="Address of web pages and HTTP API (default: 127.0.0.1:7085); '' for none."),
    ] = None,
    files: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="Address from which other devices get documents (default: 127.0.0.1:0); '' for none.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="TOML file with further elements of profiles (default: as in peer.toml); '' for none.",
        ),
    ] = None,
) -> None:
    """Run the peer of a folder until it is stopped. It exchanges changes, answers searches and sends notifications.

    Without a broker it works offline, and sends its changes when a broker is reachable. SIGTERM and Ctrl-C stop it
    cleanly; a second Ctrl-C stops it at once. Further settings are in FOLDER/peer.toml.

    Example: godwit team serve ann-laptop --files 0.0.0.0:7086
    """
    import asyncio

    from godwit.teamwork.peer_opening import settings_of

    path, settings = Path(folder), settings_of(Path(folder), brokers, pages, files, schema)
    with asyncio.Runner(loop_factory=_new_loop()) as runner:
        when_free(lambda: runner.run(_serve(path, settings)), lambda: is_served(path))


def _new_loop() -> Any:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(folder: Path, settings: "PeerSettings") -> None:
    from godwit.cli.stop_signals import stop_on_signals
    from godwit.teamwork.team_server import serving

    stop = stop_on_signals()
    async with serving(folder, settings) as served:
        with suppress(OSError):  # the reader has closed the pipe
            _show(served)
        await stop.wait()


def _show(served: "Served") -> None:
    """Print the addresses of the peer: a table on a terminal, otherwise one line of JSON."""
    status = served.team.status()
    said = {
        "team": status.team,
        "user": status.user,
        "device": status.device,
        "pages": served.pages,
        "login": served.login,
        "files": list(served.files),
        "waiting": status.waiting,
    }
    if not is_terminal():
        print(json.dumps(said, ensure_ascii=False), flush=True)
        return
    echo(f"the peer of {status.user} is up; Ctrl-C stops it")
    show_facts(said)


def status(folder: Folder = DEFAULT_FOLDER) -> None:
    """Show the state of the peer. The fields are user, device, broker, unsent changes, bytes on disk, and devices
    seen.

    Example: godwit team status
    """
    show_facts(answer_of(folder, "status"))


def presence(
    availability: Annotated[str, Argument(metavar="AVAILABILITY", help="available, busy, 'do not disturb' or hidden.")],
    status: Annotated[str, Option("--status", metavar="TEXT", help='Status text, such as "on a train".')] = "",
    shown_to: Annotated[
        list[str] | None, Option("--shown-to", metavar="USER", help="Show it to this user only. Repeatable.")
    ] = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Set your availability, until the peer stops. With hidden, others cannot see that this device is online.

    Example: godwit team presence busy
    """
    show_answer(
        answer_of(folder, "presence", availability=availability, status=status, shown_to=shown_to or []),
        f"You are {availability}.",
    )


def audit(
    since: Annotated[str, Option(metavar="TIME", help="Only from this time on, as 2026-11-20T10:00.")] = "",
    user: Annotated[str, Option(metavar="USER", help="Only what was shown to this user.")] = "",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """List what this device has shown to whom. Entries are search results, documents, web pages and memberships.

    Example: godwit team audit
    """
    try:
        at = datetime.fromisoformat(since).timestamp() if since else 0.0
    except ValueError:
        raise GodwitError(f"--since {since}: write a time as 2026-11-20T10:00") from None
    show_rows(answers_of(folder, "audit", since=at, user=user), AUDIT, "Nothing was shown.")
