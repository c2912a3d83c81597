"""`godwit team subscribe` and `notifications`: notify about changes by mail, webhook, message or on the desktop."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from godwit.cli.signatures import Argument, Option
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, answer_of, answers_of
from godwit.cli.team.team_display import show_answer, show_rows
from godwit.errors import GodwitError
from godwit.teamwork.query_languages import DEFAULT, LANGUAGE_HELP

__all__ = ["notifications", "subscribe"]

MINUTE_S, DAY_S = 60.0, 86_400.0
KINDS = {"document": "artefact", "message": "message", "user": "user", "community": "listing"}
KINDS |= {"meeting": "meeting", "reminder": "reminder", "presence": "presence", "lost": "lost"}
QUIET = re.compile(r"(\d\d?):(\d\d)-(\d\d?):(\d\d)")
COLUMNS = {
    "name": "name",
    "of": "kinds",
    "query": "query",
    "by": "channels",
    "expires": "expires",
    "identifier": "id",
}
TOLD = {"time": "time", "title": "title", "read": "read", "because of": "subscription_name", "to end": "subscription"}


def subscribe(
    query: Annotated[
        str, Argument(metavar="QUERY", help="Query over profiles, as in //keyword[. = 'lens'] (default: all).")
    ] = "",
    language: Annotated[str, Option(metavar="NAME", help=LANGUAGE_HELP)] = DEFAULT,
    kinds: Annotated[
        list[str] | None,
        Option(
            "--kind",
            metavar="KIND",
            help="Kind of change: document, message, user, community, meeting, reminder of one, presence, or lost: "
            "your changes that others replaced (default: document). Repeatable.",
        ),
    ] = None,
    name: Annotated[str, Option(metavar="NAME", help="Name of the subscription (default: its query).")] = "",
    mail: Annotated[list[str] | None, Option(metavar="ADDRESS", help="Notify by e-mail. Repeatable.")] = None,
    webhook: Annotated[
        list[str] | None, Option(metavar="URL", help="Notify by a signed HTTP POST. Repeatable.")
    ] = None,
    announce: Annotated[
        list[str] | None,
        Option(metavar="COMMUNITY", help="Notify by a message to this community. Repeatable."),
    ] = None,
    message: Annotated[bool, Option("--message", help="Notify by a message to yourself.")] = False,
    desktop: Annotated[bool, Option("--desktop", help="Notify on the desktop or in the browser.")] = False,
    days: Annotated[
        float | None, Option(metavar="DAYS", min=0.001, help="End the subscription after this number of days.")
    ] = None,
    digest: Annotated[
        float, Option(metavar="MINUTES", min=0, help="Time for which notifications are collected, in minutes.")
    ] = 0.0,
    quiet: Annotated[
        str, Option(metavar="HH:MM-HH:MM", help="Hours of the day in which nothing is sent, as 22:00-07:00.")
    ] = "",
    ends: Annotated[str, Option("--end", metavar="ID", help="End the subscription with this identifier.")] = "",
    lists: Annotated[bool, Option("--list", help="List your subscriptions.")] = False,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Subscribe to changes, list subscriptions, or end one.

    The peer must run (`godwit team serve`) to notify you.

    Example: godwit team subscribe "//keyword[. = 'lens']" --mail ann@example.org --quiet 22:00-07:00
    """
    if lists:
        show_rows(answers_of(folder, "subscriptions"), COLUMNS, "No subscriptions.", _in_short)
        return
    if ends:
        show_answer(answer_of(folder, "end subscription", subscription=ends), f"Subscription {ends} has ended.")
        return
    unknown = [kind for kind in kinds or () if kind not in KINDS]
    if unknown:
        raise GodwitError(f"--kind {unknown[0]}: a kind is one of {', '.join(KINDS)}")
    channels = [
        *({"kind": "mail", "target": address} for address in mail or ()),
        *({"kind": "webhook", "target": url} for url in webhook or ()),
        *({"kind": "message", "target": community} for community in announce or ()),
        *([{"kind": "message"}] if message else []),
        *([{"kind": "desktop"}] if desktop else []),
    ]
    answer = answer_of(
        folder,
        "subscribe",
        name=name or query or "everything",
        kinds=[KINDS[kind] for kind in kinds or ["document"]],
        channels=channels or [{"kind": "desktop"}],
        query=query,
        language=language,
        expires_s=None if days is None else days * DAY_S,
        digest_s=digest * MINUTE_S,
        quiet=_minutes(quiet) if quiet else None,
        utc_offset_s=_utc_offset_s(),
    )
    text = f"You are subscribed. To end it: godwit team subscribe --end {answer['id']}"
    if "webhook_secret" in answer:
        text += f"\nSecret that signs webhooks of this peer (hexadecimal): {answer['webhook_secret']}"
    show_answer(answer, text)


def notifications(
    unread: Annotated[bool, Option("--unread", help="Only those that you have not read.")] = False,
    mark: Annotated[bool, Option("--mark-read", help="Mark the listed ones as read.")] = False,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """List your notifications, the latest last; at most 100.

    Example: godwit team notifications
    """
    show_rows(answers_of(folder, "notifications", only_unread=unread, marks=mark), TOLD, "No notifications.")


def _in_short(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A subscription as a row."""
    words = {kind: word for word, kind in KINDS.items()}
    return {
        **row,
        "kinds": [words.get(kind, kind) for kind in row["kinds"]],
        "channels": [f"{each['kind']} {each.get('target', '')}".strip() for each in row["channels"]],
    }


def _minutes(quiet: str) -> list[int]:
    found = QUIET.fullmatch(quiet.replace(" ", ""))
    if found is None:
        raise GodwitError(f"--quiet {quiet}: write two times of the day, as 22:00-07:00")
    numbers = list(map(int, found.groups()))
    return [60 * numbers[0] + numbers[1], 60 * numbers[2] + numbers[3]]


def _utc_offset_s() -> float:
    offset: Any = datetime.now().astimezone().utcoffset()
    return float(offset.total_seconds())
