"""`godwit team user …`: people, their profiles and devices."""

from pathlib import Path
from typing import Annotated, Any

from godwit.cli.signatures import Argument, Group, Option
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, answer_of, answers_of
from godwit.cli.team.team_display import HISTORY, show_answer, show_facts, show_rows
from godwit.cli.user_command import asked_password

__all__ = ["Fields", "RoleName", "app"]

app = Group(
    help="See and manage people, their profiles and devices.",
)

Name = Annotated[str, Argument(metavar="USER", help="User name.")]
RoleName = Annotated[str, Option("--role", metavar="ROLE", help="Role: reader, editor or owner.")]
Fields = Annotated[
    list[str] | None,
    Option(
        "--field",
        metavar="NAME=VALUE",
        help="Element of the profile, as in skill=optics; repeat it for a list; name= removes it, "
        "name:=JSON is a group.",
    ),
]
COLUMNS = {"user": "user", "name": "name", "role": "role", "state": "state", "here": "presence", "devices": "devices"}


@app.add("list")
def list_users(folder: Folder = DEFAULT_FOLDER) -> None:
    """List the users of the team: role, state, presence and devices.

    Example: godwit team user list
    """
    show_rows(answers_of(folder, "users"), COLUMNS, "The team has no users.")


@app.add()
def show(
    name: Annotated[str, Argument(metavar="USER", help="User name (default: yourself).", show_default=False)] = "",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Show the profile of a user.

    Example: godwit team user show bob
    """
    show_facts(answer_of(folder, "user", name=name))


@app.add()
def create(
    name: Name,
    role: RoleName = "editor",
    fields: Fields = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Create a user without a device, who uses a browser. For one with a device: godwit team invite.

    Example: godwit team user create dana --role reader --field "name=Dana Weber"
    """
    _show(answer_of(folder, "create user", name=name, role=role, fields=fields or []), "is a member now")


@app.add()
def history(name: Name, folder: Folder = DEFAULT_FOLDER) -> None:
    """List all changes of a profile and of its membership. Changes that lost a conflict are listed, too.

    Example: godwit team user history bob
    """
    show_rows(answers_of(folder, "user history", name=name), HISTORY, "No changes.")


@app.add()
def host(name: Name, folder: Folder = DEFAULT_FOLDER) -> None:
    """Host a user: run a device of the user within this peer. The user can then write in the peer's web pages.

    Example: godwit team user host dana
    """
    _show(answer_of(folder, "host user", name=name), "has a device at this peer")


@app.add()
def profile(
    name: Annotated[str, Argument(metavar="USER", help="User name (default: yourself).", show_default=False)] = "",
    fields: Fields = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Change your own profile, or as an owner another one. Without --field, show it.

    Example: godwit team user profile --field skill=optics --field skill=motors --field place=Zurich
    """
    if fields:
        show_facts(answer_of(folder, "change profile", name=name, fields=fields))
    else:
        show_facts(answer_of(folder, "user", name=name))


@app.add()
def suspend(name: Name, folder: Folder = DEFAULT_FOLDER) -> None:
    """Remove all rights of a user until `resume`. This applies to the team and to its communities.

    Example: godwit team user suspend bob
    """
    _show(answer_of(folder, "suspend user", name=name), "is suspended")


@app.add()
def resume(name: Name, folder: Folder = DEFAULT_FOLDER) -> None:
    """Restore the rights of a suspended user.

    Example: godwit team user resume bob
    """
    _show(answer_of(folder, "resume user", name=name), "is a member again")


@app.add("end-device")
def end_device(
    device: Annotated[str, Argument(metavar="DEVICE", help="Name of a device that was lost or given away.")],
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Stop accepting changes from a device. Earlier changes stay.

    Example: godwit team user end-device phone.3f9c21d0
    """
    show_answer(answer_of(folder, "end device", device=device), f"Nothing more is accepted from {device}.")


@app.add()
def password(
    name: Annotated[str, Argument(metavar="USER", help="User name (default: yourself).", show_default=False)] = "",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Set the password for the web pages of this peer. It is asked for, or read from standard input.

    Example: godwit team user password bob
    """
    from godwit.teamwork.web_accounts import WebAccounts, new_hash

    user = answer_of(folder, "user", name=name)["user"]
    hash = new_hash(asked_password(confirm=True))
    accounts = WebAccounts(Path(folder))
    try:
        accounts.set_hash(user, hash)
    finally:
        accounts.close()
    show_answer({"user": user, "password": True}, f"{user} can log in with the new password.")


def _show(answer: dict[str, Any], text: str) -> None:
    show_answer(answer, f"{answer['user']} {text}.")
