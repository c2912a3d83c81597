"""`godwit team right …`: who may read documents of others, and what members may search for and subscribe to."""

from typing import Annotated, Any

from godwit.cli.signatures import Argument, Group, Option
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, answers_of
from godwit.cli.team.team_display import show_rows
from godwit.errors import GodwitError
from godwit.teamwork.query_languages import DEFAULT, LANGUAGE_HELP

__all__ = ["app"]

app = Group(
    help="List, grant and revoke rights to read and to search.",
)

Right = Annotated[str, Argument(metavar="RIGHT", help="read, search or subscribe.")]
Document = Annotated[str, Option("--document", metavar="DOCUMENT", help="For read: one document.")]
Of = Annotated[
    str, Option("--of", metavar="COMMUNITY", help="For read: all documents of a community; team for the team's.")
]
COLUMNS = {
    "right": "right",
    "of": "of",
    "number": "number",
    "user": "user",
    "community": "community",
    "role": "role",
    "query": "query",
    "what": "what",
    "language": "language",
}


@app.add("list")
def list_rights(folder: Folder = DEFAULT_FOLDER) -> None:
    """List grants of the team, its communities and documents.

    Example: godwit team right list
    """
    nothing = "No grants: only members read documents; they search and subscribe freely."
    show_rows(answers_of(folder, "rights"), COLUMNS, nothing)


@app.add()
def grant(
    right: Right,
    document: Document = "",
    of: Of = "",
    user: Annotated[str, Option("--user", metavar="USER", help="Who: one user.")] = "",
    community: Annotated[str, Option("--community", metavar="COMMUNITY", help="Who: members of a community.")] = "",
    role: Annotated[
        str,
        Option("--role", metavar="ROLE", help="Who: this role or a higher one: reader, editor, owner."),
    ] = "reader",
    query: Annotated[str, Option("--query", metavar="QUERY", help="Who: users whose profile matches.")] = "",
    what: Annotated[
        str,
        Option("--what", metavar="QUERY", help="Only documents that match; for search and subscribe, a filter."),
    ] = "",
    language: Annotated[
        str | None,
        Option("--language", metavar="NAME", help=f"{LANGUAGE_HELP} Default for read: {DEFAULT}; else filter."),
    ] = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Grant a right. All options that describe who has it must hold.

    The first grant of search or subscribe limits the whole team: members can ask only for what a grant covers.

    Example: godwit team right grant read --of optics --community mechanics --role editor
    """
    said = {
        "user": user,
        "community": community,
        "role": role,
        "query": query,
        "what": what,
        "language": language or (DEFAULT if right == "read" else "filter"),
    }
    _show(answers_of(folder, "grant right", right=right, document=document, of=of, grant=said))


@app.add()
def revoke(
    right: Right,
    number: Annotated[
        int | None, Argument(metavar="NUMBER", help="Number of the grant in `godwit team right list`.")
    ] = None,
    document: Document = "",
    of: Of = "",
    all: Annotated[bool, Option("--all", help="Revoke every grant. Of search and subscribe: end the limit.")] = False,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Revoke a grant, or with --all every grant of a right.

    Example: godwit team right revoke read 1 --document plan.pdf
    """
    if (number is None) is not all:
        raise GodwitError("give either the number of a grant or --all")
    _show(answers_of(folder, "revoke right", right=right, document=document, of=of, number=number))


def _show(rows: list[dict[str, Any]]) -> None:
    show_rows(rows, COLUMNS, "No grants of this right are left.")
