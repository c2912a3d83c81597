"""`godwit user …`: users, their passwords and rights.

Passwords come from a prompt or, on a pipe, from the first line of standard input; never from the command line, which
other users of the machine can read. Nothing here shows a password or its hash.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.signatures import Argument, BadParameter, Exit, Group, Option, echo, prompt
from godwit.cli.statuses import STATUS_NO
from godwit.cli.terminal import Console, Table, Text

if TYPE_CHECKING:
    from godwit.runtime.users import User

__all__ = ["app", "asked_password"]


app = Group(
    help="Manage users and their rights.",
)

Name = Annotated[str, Argument(metavar="NAME", help="User name.")]
File = Annotated[Path, Option("--file", metavar="FILE", envvar="GODWIT_SECURITY__USERS", help="User file in TOML.")]
DEFAULT_FILE = Path("users.toml")


Publish = Annotated[
    list[str] | None,
    Option(metavar="FILTER", help="Filter on events the user may publish; * is everything. Repeatable."),
]
Subscribe = Annotated[
    list[str] | None,
    Option(metavar="FILTER", help="Filter the user may subscribe within; * is everything. Repeatable."),
]
Clients = Annotated[
    list[str] | None,
    Option(
        metavar="NAME", help="Further client name, in addition to those that begin with the user's name. Repeatable."
    ),
]
Context = Annotated[
    list[str] | None,
    Option(metavar="NAME=VALUE", help="Asserted context, such as role=medic; needs --config. Repeatable."),
]
Config = Annotated[
    str, Option("--config", metavar="FILE", help="Broker configuration: its security.asserted names contexts.")
]


@app.add()
def add(
    name: Name,
    file: File = DEFAULT_FILE,
    publish: Publish = None,
    subscribe: Subscribe = None,
    client: Clients = None,
    context: Context = None,
    config: Config = "",
    admin: Annotated[bool, Option("--admin", help="Allow administration requests over HTTP.")] = False,
    certificate: Annotated[
        bool, Option("--certificate", help="Accept a trusted certificate with this name instead of a password.")
    ] = False,
    no_password: Annotated[
        bool, Option("--no-password", help="No password: the user authenticates by token or certificate.")
    ] = False,
    replace: Annotated[bool, Option("--replace", help="Replace a user of this name, grants included.")] = False,
) -> None:
    """Add a user. The password is asked for, or read from standard input. A user that exists is not changed.

    Example: godwit user add ann --publish "kind = 'parking'" --subscribe "*"
    """
    from godwit.errors import SecurityError
    from godwit.runtime.users import User, read_users

    text = _text(file) if file.exists() else ""
    if name in read_users(text, str(file)) and not replace:
        raise SecurityError(
            f"user {name!r} exists already in {file}: change it with `godwit user set`, `grant`, `revoke` or `passwd`, "
            "or replace it with --replace"
        )
    user = User(
        publish=tuple(publish or ()),
        subscribe=tuple(subscribe or ()),
        clients=tuple(client or ()),
        context=_context(context, config),
        admin=admin,
        certificate=certificate,
    )
    _write(name, user, file, text)  # errors are reported before the password is asked for
    if not no_password:
        user = _with_password(user, name)
    _write(name, user, file, text, for_good=True)


@app.add()
def passwd(name: Name, file: File = DEFAULT_FILE) -> None:
    """Change the password of a user. Its rights stay; its connections are closed.

    Example: godwit user passwd ann
    """
    text, user = _found(name, file)
    _write(name, _with_password(user, name), file, text, for_good=True)


@app.add("set")
def set_user(
    name: Name,
    file: File = DEFAULT_FILE,
    client: Clients = None,
    context: Context = None,
    config: Config = "",
    admin: Annotated[
        bool | None, Option("--admin/--no-admin", help="Allow administration requests over HTTP, or not.")
    ] = None,
    certificate: Annotated[
        bool | None,
        Option("--certificate/--no-certificate", help="Accept a trusted certificate with this name, or not."),
    ] = None,
) -> None:
    """Change some settings of a user; those that are not named stay. `grant` and `revoke` change its grants.

    Example: godwit user set ann --admin --client van-7
    """
    from msgspec import structs

    text, user = _found(name, file)
    changes: dict[str, Any] = {}
    if client is not None:
        changes["clients"] = tuple(client)
    if context is not None:
        changes["context"] = _context(context, config)
    if admin is not None:
        changes["admin"] = admin
    if certificate is not None:
        changes["certificate"] = certificate
    if not changes:
        raise BadParameter("nothing to set: add --client, --context, --admin or --certificate")
    _write(name, structs.replace(user, **changes), file, text, for_good=True)


@app.add()
def grant(name: Name, file: File = DEFAULT_FILE, publish: Publish = None, subscribe: Subscribe = None) -> None:
    """Add rights to those of a user.

    Example: godwit user grant ann --subscribe "kind = 'news'"
    """
    from msgspec import structs

    text, user = _found(name, file)
    more = {"publish": tuple(publish or ()), "subscribe": tuple(subscribe or ())}
    if not any(more.values()):
        raise BadParameter("nothing to grant: add --publish FILTER, --subscribe FILTER")
    changes: dict[str, Any] = {
        kind: tuple(dict.fromkeys((*getattr(user, kind), *filters))) for kind, filters in more.items()
    }
    _write(name, structs.replace(user, **changes), file, text, for_good=True)


@app.add()
def revoke(
    name: Name,
    file: File = DEFAULT_FILE,
    publish: Publish = None,
    subscribe: Subscribe = None,
    everything: Annotated[bool, Option("--all", help="Revoke all grants.")] = False,
) -> None:
    """Revoke grants of a user. A grant must be written as it was granted; `godwit user list` shows them.

    Example: godwit user revoke ann --subscribe "kind = 'news'"
    """
    from msgspec import structs

    from godwit.errors import SecurityError

    text, user = _found(name, file)
    less = {"publish": publish or [], "subscribe": subscribe or []}
    if not everything and not any(less.values()):
        raise BadParameter("nothing to revoke: add --publish FILTER, --subscribe FILTER, or --all")
    for kind, filters in less.items():
        for each in filters:
            if each not in getattr(user, kind):
                held = "; ".join(getattr(user, kind)) or "nothing"
                raise SecurityError(f"user {name!r} was not granted to {kind} {each!r}: it was granted {held}")
    changes: dict[str, Any] = {
        kind: () if everything else tuple(each for each in getattr(user, kind) if each not in filters)
        for kind, filters in less.items()
    }
    _write(name, structs.replace(user, **changes), file, text, for_good=True)


@app.add()
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
        raise Exit(STATUS_NO)


@app.add("list")
def list_users(file: File = DEFAULT_FILE) -> None:
    """Show the users and what each may do.

    Example: godwit user list
    """
    users = _users(file)
    if not sys.stdout.isatty():
        for name, user in users.items():
            echo(json.dumps({"user": name, **_shown(user)}, ensure_ascii=False))
        return

    table = Table("user", "publish", "subscribe", "clients", "context", "comes by")
    for name, user in users.items():
        ways = [way for way, is_open in (("password", user.password), ("certificate", user.certificate)) if is_open]
        cells = ["\n".join(user.publish), "\n".join(user.subscribe), "\n".join(user.clients)]
        context = "\n".join(f"{key} = {value}" for key, value in user.context.items())
        title = f"{name} (admin)" if user.admin else name
        table.add_row(*map(Text, (title, *cells, context, ", ".join(ways) or "token")))  # filters have brackets, too
    Console().print(table)


@app.add()
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
        raise Exit(STATUS_NO)


def _context(words: list[str] | None, config: str) -> dict[str, Any]:
    """The context that a server asserts. A name that no broker asserts would make the user file unusable."""
    from godwit.cli.broker_connection import assigned
    from godwit.errors import SecurityError

    context = assigned(words or [])
    if not context:
        return context
    if not config:
        raise SecurityError("--context needs --config FILE: the names must be among security.asserted of the broker")
    asserted = _asserted_in(Path(config))
    strange = [name for name in context if name not in asserted]
    if strange:
        allowed = ", ".join(asserted) or "none"
        raise SecurityError(f"--context {', '.join(strange)}: security.asserted of {config} has {allowed}")
    return context


def _asserted_in(config: Path) -> list[str]:
    """The value of security.asserted in a configuration. The rest is not checked: its user file may not exist yet."""
    import tomllib

    from godwit.errors import SecurityError

    try:
        asserted = tomllib.loads(_text(config)).get("security", {}).get("asserted", [])
    except (tomllib.TOMLDecodeError, AttributeError) as error:
        raise SecurityError(f"{config}: {error}") from None
    if not isinstance(asserted, list) or not all(isinstance(name, str) for name in asserted):
        raise SecurityError(f"{config}: security.asserted must be a list of names")
    return asserted


def _found(name: str, file: Path) -> "tuple[str, User]":
    """The text of the file, and a user in it."""
    from godwit.errors import SecurityError
    from godwit.runtime.users import read_users

    text = _text(file)
    user = read_users(text, str(file)).get(name)
    if user is None:
        raise SecurityError(f"{file} has no user {name!r}: add it with `godwit user add {name}`")
    return text, user


def _with_password(user: "User", name: str) -> "User":
    """The user with a password from the prompt. A weak one causes a warning."""
    from msgspec import structs

    from godwit.runtime.users import hashed, why_weak

    password = asked_password(confirm=True)
    changed = structs.replace(user, password=hashed(password))  # a refused password is not called weak as well
    if weakness := why_weak(password, name):
        echo(f"warning: this password is weak: {weakness}", err=True)
    return changed


def _write(name: str, user: "User", file: Path, text: str, *, for_good: bool = False) -> None:
    """Check an entry; with `for_good` write it and report it."""
    from godwit.errors import GodwitError, SecurityError
    from godwit.runtime.users import principal_of, with_user, write_private

    try:
        principal_of(name, user, tuple(user.context))
    except GodwitError as error:
        raise SecurityError(f"user {name}: {error}") from None
    changed = with_user(text, name, user, str(file))
    if not for_good:
        return
    write_private(file, changed)
    if not user.publish and not user.subscribe:
        echo(
            f"warning: {name} may neither publish nor subscribe: grant it something with `godwit user grant {name}`",
            err=True,
        )
    _answer({"user": name, "file": str(file), **_shown(user)}, f"{name} may log in, as {file} says.")


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
        return str(prompt("Password", hide_input=True, confirmation_prompt=confirm))
    return sys.stdin.readline().rstrip("\r\n")


def _shown(user: "User") -> dict[str, Any]:
    """The fields of a user that may be shown: not the hash."""
    return {
        "publish": list(user.publish),
        "subscribe": list(user.subscribe),
        "clients": list(user.clients),
        "context": user.context,
        "admin": user.admin,
        "certificate": user.certificate,
    }


def _answer(answer: dict[str, Any], text: str) -> None:
    echo(text if sys.stdout.isatty() else json.dumps(answer, ensure_ascii=False))
