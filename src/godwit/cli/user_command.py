"""`godwit user …`: who may come in by a password, and what each may do.

Passwords come from a prompt or, on a pipe, from the first line of standard input; never from the command line, which
other users of the machine can read. Nothing here shows a password or its hash.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from godwit.runtime.users import User

__all__ = ["app", "asked_password"]

STATUS_NO = 1

app = typer.Typer(help="Manage users and their rights.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="User name.")]
File = Annotated[
    Path, typer.Option("--file", metavar="FILE", envvar="GODWIT_SECURITY__USERS", help="User file in TOML.")
]
DEFAULT_FILE = Path("users.toml")


@app.command()
def add(
    name: Name,
    file: File = DEFAULT_FILE,
    publish: Annotated[
        list[str] | None,
        typer.Option(metavar="FILTER", help="Filter on events the user may publish; * is everything. Repeatable."),
    ] = None,
    subscribe: Annotated[
        list[str] | None,
        typer.Option(metavar="FILTER", help="Filter the user may subscribe within; * is everything. Repeatable."),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Further client name, besides those that begin with the user's name. Repeatable."
        ),
    ] = None,
    context: Annotated[
        str, typer.Option(metavar="JSON", help='What the server asserts of its context, as {"role": "medic"}.')
    ] = "{}",
    admin: Annotated[bool, typer.Option("--admin", help="Allow administration requests over HTTP.")] = False,
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Accept a trusted certificate with this name instead of a password.")
    ] = False,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="No password: the user authenticates by token or certificate.")
    ] = False,
) -> None:
    """Add a user, or replace one. The password is asked for, or read from standard input.

    Example: godwit user add ann --subscribe "kind = 'parking'"
    """
    from godwit.errors import GodwitError, SecurityError
    from godwit.runtime.users import User, hashed, principal_of, with_user, write_private

    try:
        said = json.loads(context)
        if not isinstance(said, dict):
            raise ValueError
    except ValueError:
        raise SecurityError('--context must be a JSON object, as {"role": "medic"}') from None
    rights = User(
        publish=tuple(publish or ()),
        subscribe=tuple(subscribe or ()),
        clients=tuple(client or ()),
        context=said,
        admin=admin,
        certificate=certificate,
    )
    try:
        principal_of(name, rights, tuple(said))
    except GodwitError as error:
        raise SecurityError(f"user {name}: {error}") from None
    text = _text(file) if file.exists() else ""
    changed = with_user(text, name, rights, str(file))  # before anybody is asked for a password
    if not no_password:
        from msgspec import structs

        changed = with_user(
            text, name, structs.replace(rights, password=hashed(asked_password(confirm=True))), str(file)
        )
    write_private(file, changed)
    _answer({"user": name, "file": str(file), **_shown(rights)}, f"{name} may come in, as {file} says.")


@app.command()
def remove(name: Name, file: File = DEFAULT_FILE) -> None:
    """Remove a user. Exit status 1 if there is no such user.

    Example: godwit user remove ann
    """
    from godwit.runtime.users import with_user, write_private

    users = _users(file)
    if name in users:
        write_private(file, with_user(_text(file), name, None, str(file)))
    _answer({"user": name, "removed": name in users}, f"{name} is removed." if name in users else f"No user {name}.")
    if name not in users:
        raise typer.Exit(STATUS_NO)


@app.command("list")
def list_users(file: File = DEFAULT_FILE) -> None:
    """Show the users and what each may do.

    Example: godwit user list
    """
    users = _users(file)
    if not sys.stdout.isatty():
        for name, user in users.items():
            typer.echo(json.dumps({"user": name, **_shown(user)}, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("user", "publish", "subscribe", "clients", "context", "comes by")
    for name, user in users.items():
        ways = [way for way, is_open in (("password", user.password), ("certificate", user.certificate)) if is_open]
        cells = ["\n".join(user.publish), "\n".join(user.subscribe), "\n".join(user.clients)]
        context = "\n".join(f"{key} = {value}" for key, value in user.context.items())
        title = f"{name} (admin)" if user.admin else name
        table.add_row(*map(Text, (title, *cells, context, ", ".join(ways) or "token")))  # filters have brackets, too
    Console().print(table)


@app.command()
def check(name: Name, file: File = DEFAULT_FILE) -> None:
    """Check a password. Exit status 1 if it is wrong.

    Example: godwit user check ann
    """
    from godwit.runtime.users import is_right

    user = _users(file).get(name)
    password = asked_password(confirm=False)
    right = user is not None and bool(user.password) and is_right(user.password, password)
    _answer({"user": name, "valid": right}, "right" if right else "wrong user or password")
    if not right:
        raise typer.Exit(STATUS_NO)


def _users(file: Path) -> "dict[str, User]":
    from godwit.runtime.users import read_users

    return read_users(_text(file), str(file))


def _text(file: Path) -> str:
    from godwit.errors import SecurityError

    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SecurityError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def asked_password(*, confirm: bool) -> str:
    """A password from a prompt, or on a pipe the first line of standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=confirm))
    return sys.stdin.readline().rstrip("\r\n")


def _shown(user: "User") -> dict[str, Any]:
    """What may be shown of a user: not the hash."""
    return {
        "publish": list(user.publish),
        "subscribe": list(user.subscribe),
        "clients": list(user.clients),
        "context": user.context,
        "admin": user.admin,
        "certificate": user.certificate,
    }


def _answer(answer: dict[str, Any], text: str) -> None:
    typer.echo(text if sys.stdout.isatty() else json.dumps(answer, ensure_ascii=False))
