"""`godwit team community …`: groups of people who share documents, messages and meetings."""

from typing import Annotated

from godwit.cli.signatures import Argument, BadParameter, Group, Option
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, answer_of, answers_of
from godwit.cli.team.team_display import HISTORY, show_answer, show_facts, show_rows
from godwit.cli.team.team_users import RoleName
from godwit.teamwork.query_languages import DEFAULT, LANGUAGE_HELP

__all__ = ["app"]

app = Group(
    help="See, found, join and manage communities.",
)

Community = Annotated[str, Argument(metavar="COMMUNITY", help="Name or identifier of a community.")]
User = Annotated[str, Argument(metavar="USER", help="User name.")]
Description = Annotated[str | None, Option(metavar="TEXT", help="Purpose of the community.")]
Join = Annotated[str | None, Option(metavar="WAY", help="How users join: open, approval or rule.")]
Rule = Annotated[
    str | None,
    Option(metavar="QUERY", help="With --join rule: query over profiles; users that match are members."),
]
Language = Annotated[str | None, Option(metavar="NAME", help=LANGUAGE_HELP)]
COLUMNS = {
    "name": "name",
    "joined": "is_member",
    "join": "join",
    "members": "members",
    "description": "description",
    "identifier": "id",
}


@app.add("list")
def list_communities(folder: Folder = DEFAULT_FOLDER) -> None:
    """List your communities, and those of the team that you can join.

    Example: godwit team community list
    """
    show_rows(answers_of(folder, "communities"), COLUMNS, "The team has no communities that you may know of.")


@app.add()
def show(community: Community, folder: Folder = DEFAULT_FOLDER) -> None:
    """Show a community and its members.

    Example: godwit team community show optics
    """
    show_facts(answer_of(folder, "community", community=community))


@app.add()
def create(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the community.")],
    description: Description = "",
    join: Join = "approval",
    rule: Rule = "",
    language: Language = DEFAULT,
    plain: Annotated[
        bool, Option("--plain", help="Do not encrypt: brokers can read documents' profiles and messages.")
    ] = False,
    unlisted: Annotated[
        bool, Option("--unlisted", help="Do not list it for the team: it is joined by invitation alone.")
    ] = False,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Create a community; you are its owner. It is encrypted end to end, except with --plain.

    Example: godwit team community create Optics --join rule --rule "//skill = 'optics'"
    """
    answer = answer_of(
        folder,
        "create community",
        name=name,
        description=description,
        join=join,
        rule=rule,
        language=language,
        sealed=not plain,
        listed=not unlisted,
    )
    show_answer(answer, f"Created {name}: {answer['id']}")


@app.add()
def change(
    community: Community,
    name: Annotated[str | None, Option(metavar="NAME", help="New name.")] = None,
    description: Description = None,
    join: Join = None,
    rule: Rule = None,
    language: Language = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Change the settings of a community. Only its owners may.

    Example: godwit team community change Optics --join open
    """
    said = {"name": name, "description": description, "join": join, "rule": rule, "language": language}
    fields = {key: value for key, value in said.items() if value is not None}
    if not fields:
        raise BadParameter("name what is to be changed, as in --join open")
    show_facts(answer_of(folder, "change community", community=community, fields=fields))


@app.add()
def history(community: Community, folder: Folder = DEFAULT_FOLDER) -> None:
    """List all changes of a community and its members. Changes that lost a conflict are listed, too.

    Example: godwit team community history optics
    """
    show_rows(answers_of(folder, "community history", community=community), HISTORY, "No changes.")


@app.add()
def archive(
    community: Community,
    reopen: Annotated[bool, Option("--reopen", help="Open an archived community again.")] = False,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Archive a community: it can be read but not changed.

    Example: godwit team community archive optics
    """
    answer = answer_of(folder, "change community", community=community, fields={"archived": not reopen})
    show_answer(answer, f"{answer['name']} is {'open again' if reopen else 'archived'}.")


@app.add()
def invite(community: Community, user: User, role: RoleName = "reader", folder: Folder = DEFAULT_FOLDER) -> None:
    """Invite a user, who can then join.

    Example: godwit team community invite Optics bob --role editor
    """
    answer = answer_of(folder, "invite member", community=community, user=user, role=role)
    show_answer(answer, f"{user} is invited to {answer['name']} as {role}.")


@app.add()
def add(community: Community, user: User, role: RoleName = "reader", folder: Folder = DEFAULT_FOLDER) -> None:
    """Make a user a member, or change a member's role.

    Example: godwit team community add optics bob
    """
    answer = answer_of(folder, "add member", community=community, user=user, role=role)
    show_answer(answer, f"{user} is a member of {answer['name']} as {role}.")


@app.add()
def remove(community: Community, user: User, folder: Folder = DEFAULT_FOLDER) -> None:
    """Remove a member. Later changes are encrypted with a key that the member does not get.

    Example: godwit team community remove optics bob
    """
    answer = answer_of(folder, "remove member", community=community, user=user)
    show_answer(answer, f"{user} is no longer a member of {answer['name']}.")


@app.add()
def join(community: Community, folder: Folder = DEFAULT_FOLDER) -> None:
    """Join a community that is open, or that has invited you.

    Example: godwit team community join optics
    """
    show_answer(answer_of(folder, "join community", community=community), f"You have joined {community}.")


@app.add()
def ask(community: Community, folder: Folder = DEFAULT_FOLDER) -> None:
    """Ask the owners of a community for membership.

    Example: godwit team community ask optics
    """
    show_answer(answer_of(folder, "ask community", community=community), f"The owners of {community} have been asked.")


@app.add()
def leave(community: Community, folder: Folder = DEFAULT_FOLDER) -> None:
    """Leave a community. Documents and messages up to now stay on this disk.

    Example: godwit team community leave optics
    """
    show_answer(answer_of(folder, "leave community", community=community), f"You have left {community}.")
