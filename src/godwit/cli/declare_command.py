"""`godwit adv` and `godwit ctx`: say what a client is going to publish, and what its context is."""

import json as json_form
from typing import Annotated, Any

import typer

from godwit.cli.broker_connection import (
    At,
    CaFile,
    ClientOptions,
    Password,
    Tls,
    Token,
    User,
    assigned,
    is_terminal,
    run,
    wait_until_attached,
)

__all__ = ["adv", "ctx"]


def adv(
    filter: Annotated[
        str | None, typer.Argument(metavar="FILTER", help="What all events to be published match.")
    ] = None,
    label: Annotated[
        str, typer.Option("--as", metavar="LABEL", help="One advertisement of several; the same again replaces it.")
    ] = "all",
    remove: Annotated[bool, typer.Option("--remove", help="Take it back.")] = False,
    name: Annotated[str, typer.Option(metavar="NAME", help="Of the client that is going to publish.")] = "",
    wait: Annotated[
        float | None, typer.Option("--wait", "-W", metavar="SECONDS", help="Without a name: for so long.", min=0)
    ] = None,
    at: At = None,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls: Tls = False,
    ca: CaFile = "",
) -> None:
    """Say that a client is going to publish what FILTER matches.

    With a --name it stands until it is taken back or the session ends. Without one it stands while this command runs.
    """
    if (filter is None) is not remove:
        raise typer.BadParameter("say a FILTER, or --remove and none")
    if remove and not name:
        raise typer.BadParameter("--remove needs the --name of the client that has advertised")
    visitor = ClientOptions(at, token, user, password, tls, ca)
    run(_advertise(visitor, name, filter, label, wait))


async def _advertise(visitor: ClientOptions, name: str, filter: str | None, label: str, wait: float | None) -> None:
    import asyncio

    async with visitor.client(name) as client:
        await wait_until_attached(client, visitor)
        if filter is None:
            await client.advertise("FALSE", name=label)  # this process does not know what was said before
            await client.unadvertise(label)
        else:
            await client.advertise(filter, name=label)
        told = {"client": client.name, "broker": client.state.broker, "advertisement": label, "filter": filter}
        _tell(told, f"{client.name} {'advertises nothing more' if filter is None else 'advertises ' + filter}")
        if not name:
            if is_terminal():
                typer.echo("· while this runs; Ctrl-C ends it", err=True)
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=wait)


def ctx(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="The context; name:=JSON for any value.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Whose context it is.")] = "",
    place: Annotated[str, typer.Option(metavar="PLACE", help="Where it is: what myloc stands for.")] = "",
    clear: Annotated[bool, typer.Option("--clear", help="It has none any more.")] = False,
    at: At = None,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls: Tls = False,
    ca: CaFile = "",
) -> None:
    """Say what the context of a client is from now on: all of it.

    It stays with the client's session: filters of its own see it as my.x, those of others as sender.x of its events.
    """
    if not name:
        raise typer.BadParameter("--name: whose context is it?")
    if bool(words or place) is clear:
        raise typer.BadParameter("say NAME=VALUE or --place, or --clear and none of them")
    visitor = ClientOptions(at, token, user, password, tls, ca)
    run(_set_context(visitor, name, assigned(words or []), place))


async def _set_context(visitor: ClientOptions, name: str, values: dict[str, Any], place: str) -> None:
    from godwit.filters.json_lines import plain

    async with visitor.client(name) as client:
        await wait_until_attached(client, visitor)
        if place:
            await client.set_place(place)
        if values or not place:
            await client.set_context(values)
        context = {each: plain(value) for each, value in client.machine.context.items()}
        told = {"client": client.name, "broker": client.state.broker, "context": context}
        said = " ".join(f"{each}={json_form.dumps(value, ensure_ascii=False)}" for each, value in context.items())
        _tell(told, f"the context of {client.name} is {said or 'empty'}")


def _tell(told: dict[str, Any], said: str) -> None:
    if not is_terminal():
        typer.echo(json_form.dumps(told, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.text import Text

    from godwit.cli.event_display import safe

    text = Text.assemble(("✓", "green"), " ", (safe(told["broker"]), "bold"), ": ", safe(said))
    Console(highlight=False).print(text, soft_wrap=True)
