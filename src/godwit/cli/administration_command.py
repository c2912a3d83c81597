"""`godwit admin` and `godwit reload`: disconnect clients, drop queues, clear retained events and more."""

import json as json_form
from typing import Annotated, Any

from godwit.cli.admin_client import HTTP, Http, office
from godwit.cli.broker_connection import CaFile, Password, Token, User, is_terminal
from godwit.cli.inspect_command import list_rows
from godwit.cli.signatures import Argument, Group, Option, echo

__all__ = ["app", "reload"]

app = Group(help="Administer a running broker.")

Client = Annotated[str, Argument(metavar="CLIENT", help="Name of the client.")]
Reason = Annotated[str, Option(metavar="TEXT", help="Reason that is sent to the client.")]
Limit = Annotated[int, Option(metavar="COUNT", help="Largest number of events to show.", min=0, max=100_000)]


@app.add()
def disconnect(
    client: Client,
    reason: Reason = "",
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """Close the connection of a client. Its session stays, and the client may connect again.

    Example: godwit admin disconnect van-7 --reason "firmware update"
    """
    desk = office(http, token, user, password, ca)
    done = desk.post("/administration/disconnect", client=client, reason=reason)
    _tell(done, f"{client} is disconnected." if done["disconnected"] else f"{client} was not connected.")


@app.add("end-session")
def end_session(
    client: Client,
    reason: Reason = "",
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """End a client's session, its subscriptions and its queue.

    Example: godwit admin end-session van-7
    """
    done = office(http, token, user, password, ca).post("/administration/end-session", client=client, reason=reason)
    _tell(done, f"The session of {client} has ended; {done['dropped']:,} events were dropped.")


@app.add()
def queue(
    client: Client,
    limit: Limit = 1_000,
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """List the queued events of a client, the next first.

    Example: godwit admin queue van-7 --limit 20
    """
    list_rows("queued events", office(http, token, user, password, ca).ask("/queue", client=client, limit=limit))


@app.add("drop-queue")
def drop_queue(
    client: Client,
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """Drop the queued events of a client. Events that were sent but not confirmed stay.

    Example: godwit admin drop-queue van-7
    """
    done = office(http, token, user, password, ca).post("/administration/drop-queue", client=client)
    _tell(done, f"{done['dropped']:,} events were dropped, {done['left']:,} are left.")


@app.add()
def retained(
    filter: Annotated[
        str, Option("--filter", metavar="FILTER", help="Show only events that this filter matches.")
    ] = "",
    limit: Limit = 1_000,
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """List retained events and their keys.

    Example: godwit admin retained --filter "topic LIKE 'lights/%'"
    """
    list_rows("retained events", office(http, token, user, password, ca).ask("/retained", filter=filter, limit=limit))


@app.add("clear-retained")
def clear_retained(
    keys: Annotated[list[str], Argument(metavar="KEY", help="Key of the event (MQTT: its topic).")],
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """Clear retained events, at every broker of the network.

    Example: godwit admin clear-retained lights/3 lights/4
    """
    desk = office(http, token, user, password, ca)
    for key in keys:
        _tell(desk.post("/administration/clear-retained", key=key), f"{key} is cleared.")


@app.add("log-level")
def log_level(
    level: Annotated[str, Argument(metavar="LEVEL", help="Least severe level: debug, info, warning or error.")],
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """Set the level of a broker's log. It lasts until the configuration is read again.

    Example: godwit admin log-level debug
    """
    done = office(http, token, user, password, ca).post("/administration/log-level", level=level)
    _tell(done, f"The level of the log is {level}.")


def reload(
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """Make a broker read its configuration again, as SIGHUP does. Users, keys and certificates are read again, too.

    Example: godwit reload --http 127.0.0.1:7080
    """
    done = office(http, token, user, password, ca).post("/administration/reload")
    lines = [
        f"in force: {', '.join(done['in_force']) or 'no other values'}",
        *([f"after a restart: {', '.join(done['after_restart'])}"] if done["after_restart"] else []),
    ]
    _tell(done, "\n".join(lines))


def _tell(done: dict[str, Any], text: str) -> None:
    echo(text if is_terminal() else json_form.dumps(done, ensure_ascii=False))
