"""`godwit team message …`: messages to people and communities."""

import sys
from typing import Annotated, Any

from godwit.cli.broker_connection import is_terminal
from godwit.cli.event_display import safe
from godwit.cli.signatures import Argument, BadParameter, Group, Option, echo
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, answer_of, answers_of
from godwit.cli.team.team_display import show_answer, show_rows, shown
from godwit.cli.terminal import Console, Text

__all__ = ["app"]

app = Group(
    help="Send and read messages.",
)

To = Annotated[
    list[str] | None,
    Option("--to", metavar="NAME", help="User, or community; several users for a conversation of all. Repeatable."),
]
Id = Annotated[str, Argument(metavar="MESSAGE", help="Identifier of a message, or its first characters.")]


@app.add()
def send(
    text: Annotated[str, Argument(metavar="TEXT", help="Text of the message; - reads standard input.")],
    to: To = None,
    reply_to: Annotated[
        str, Option(metavar="MESSAGE", help="Message that this one answers; it then goes to the same readers.")
    ] = "",
    attach: Annotated[
        list[str] | None, Option(metavar="DOCUMENT", help="Document of the same community to attach. Repeatable.")
    ] = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Send a message. Offline devices receive it when they are online again.

    Example: godwit team message send "Lunch at noon?" --to bob
    """
    if not to and not reply_to:
        raise BadParameter("name readers with --to, or a message with --reply-to")
    text = sys.stdin.read() if text == "-" else text
    answer = answer_of(folder, "send message", to=to or [], text=text, reply_to=reply_to, attachments=attach or [])
    show_answer(answer, f"The message is stored, and is sent when a broker is reachable: {answer['id']}")


@app.add("list")
def list_messages(
    conversation: Annotated[
        list[str] | None, Option("--with", metavar="NAME", help="Only with this user or community. Repeatable.")
    ] = None,
    unread: Annotated[bool, Option("--unread", help="Only messages that you have not read.")] = False,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """List messages, the oldest first, with receipts of their readers.

    Example: godwit team message list
    """
    rows = answers_of(folder, "messages", conversation=conversation or [], unread=unread)
    if not is_terminal():
        show_rows(rows, {}, "")
        return
    if not rows:
        echo("No unread messages." if unread else "No messages.")
    for row in rows:
        _show(row)


@app.add()
def read(message: Id, folder: Folder = DEFAULT_FOLDER) -> None:
    """Show a message, and mark it as read: its author gets a receipt.

    Example: godwit team message read 3f2a
    """
    row = answer_of(folder, "mark message", message=message, what="read")
    if is_terminal():
        _show(row)
    else:
        show_rows([row], {}, "")


def _show(row: dict[str, Any]) -> None:
    read = [each["user"] for each in row["receipts"] if each["read"]]
    delivered = [each["user"] for each in row["receipts"] if not each["read"]]
    head = Text.assemble(
        (shown("time", row["time"]), "dim"), "  ", (safe(row["author"]), "bold cyan"), "  ", (row["id"], "dim")
    )
    if row["reply_to"]:
        head.append(f"  answers {row['reply_to']}", style="dim")
    if delivered:
        head.append(f"  delivered to {', '.join(map(safe, delivered))}", style="dim")
    if read:
        head.append(f"  read by {', '.join(map(safe, read))}", style="dim")
    console = Console()
    console.print(head, soft_wrap=True)
    for line in row["text"].splitlines():
        console.print(Text(f"  {safe(line)}"), soft_wrap=True)
    for id, name in zip(row["attachments"], row["attachment_names"], strict=True):
        what = f"{safe(name)} ({safe(id)})" if name is not None else f"{safe(id)} (deleted or moved)"
        console.print(Text(f"  attached: {what}", style="dim"), soft_wrap=True)
