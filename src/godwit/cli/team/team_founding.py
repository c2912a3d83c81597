"""`godwit team init`, `invite` and `join`: create a team, and add devices to it."""

import sys
from pathlib import Path
from typing import Annotated

from godwit.cli.broker_connection import DEFAULT_BROKER, is_terminal
from godwit.cli.signatures import Argument, Option, echo
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, answer_of
from godwit.cli.team.team_display import note, show_answer
from godwit.cli.team.team_users import Fields, RoleName
from godwit.errors import GodwitError

__all__ = ["init", "invite", "join"]

STANDARD_INPUT, BEGIN = "-", "godwit-team-"

NewFolder = Annotated[str, Argument(metavar="FOLDER", help="Folder for this device; created if it does not exist.")]
Brokers = Annotated[
    list[str] | None,
    Option(
        "--broker",
        metavar="HOST:PORT",
        envvar="GODWIT_BROKER",
        help=f"Broker that devices connect to (default: {DEFAULT_BROKER}); repeatable.",
    ),
]


def init(
    folder: NewFolder,
    user: Annotated[str, Option(metavar="NAME", help="User name of the founder.")],
    device: Annotated[str, Option(metavar="LABEL", help="Label of this device.")] = "laptop",
    brokers: Brokers = None,
    fields: Fields = None,
) -> None:
    """Found a team. Its founder is its first owner, and needs no broker for this.

    Example: godwit team init ann-laptop --user ann --field "name=Ann Miller" --broker broker.example.org:7077
    """
    from godwit.teamwork.team_folder import new_team

    said = new_team(folder, user, device=device, brokers=brokers or [DEFAULT_BROKER])
    if fields:
        answer_of(folder, "change profile", name=user, fields=fields)
    show_answer(
        {"team": said.team, "user": said.user, "folder": folder},
        f"{said.user} has founded a team in {folder}.\nStart its peer: godwit team serve {folder}",
    )


def invite(
    user: Annotated[str, Argument(metavar="USER", help="User name: a new one, or one who gets another device.")],
    role: RoleName = "editor",
    device: Annotated[str, Option(metavar="LABEL", help="Label of the new device.")] = "laptop",
    fields: Fields = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Invite a user's device: print a text with which it joins. Only owners of the team may.

    The text is a secret: anyone who has it acts as that user. Send it by a channel that others cannot read.

    Example: godwit team invite bob --field skill=optics > bob.txt
    """
    answer = answer_of(folder, "invite user", name=user, role=role, device=device, fields=fields or [])
    echo(answer["invitation"])
    if is_terminal():
        note(f"secret, for {user} only; to be used by: godwit team join FOLDER INVITATION")


def join(
    folder: NewFolder,
    invitation: Annotated[
        str,
        Argument(metavar="INVITATION", help="Text of the invitation, a file with it, or - for standard input."),
    ],
) -> None:
    """Join a team with an invitation.

    Example: godwit team join bob-phone bob.txt
    """
    from godwit.teamwork.team_folder import join_team

    said = join_team(folder, _text(invitation))
    show_answer(
        {"team": said.team, "user": said.user, "folder": folder},
        f"{folder} belongs to {said.user} now.\nStart its peer: godwit team serve {folder}",
    )


def _text(invitation: str) -> str:
    """The text of an invitation, from the argument, a file or standard input."""
    if invitation == STANDARD_INPUT:
        return sys.stdin.read()
    if invitation.lstrip().startswith(BEGIN):
        return invitation
    try:
        return Path(invitation).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise GodwitError(
            f"{invitation[:100]!r} is not an invitation, and cannot be read as a file: {reason}"
        ) from None
