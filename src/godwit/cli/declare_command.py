"""`godwit adv` and `godwit ctx`: set the advertisement and the context of a client."""

import json as json_form
from typing import Annotated, Any

from godwit.cli.broker_connection import (
    BrokerAddresses,
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
from godwit.cli.signatures import Argument, BadParameter, Option, echo
from godwit.cli.terminal import Console, Text

__all__ = ["adv", "ctx"]


def adv(
    filter: Annotated[
        str | None, Argument(metavar="FILTER", help="Filter that all events of the client will match.")
    ] = None,
    label: Annotated[
        str, Option("--as", metavar="LABEL", help="Name of the advertisement; the same name replaces it.")
    ] = "all",
    remove: Annotated[bool, Option("--remove", help="Remove the advertisement.")] = False,
    name: Annotated[str, Option(metavar="NAME", help="Name of the publishing client.")] = "",
    wait: Annotated[
        float | None,
        Option(
            "--wait",
            "-W",
            metavar="SECONDS",
            help="Without --name: duration of the advertisement (default: until Ctrl-C).",
            min=0,
        ),
    ] = None,
    brokers: BrokerAddresses = None,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls: Tls = False,
    ca: CaFile = "",
) -> None:
    """Advertise the events that a client is going to publish. They match FILTER.

    With a --name the advertisement stays until it is removed or the session ends. Without one it ends with this
    command.

    Example: godwit adv "kind = 'parking'" --name van-7
    """
    if (filter is None) is not remove:
        raise BadParameter("give either FILTER or --remove")
    if remove and not name:
        raise BadParameter("--remove needs the --name of the client that has advertised")
    visitor = ClientOptions(brokers, token, user, password, tls, ca)
    run(_advertise(visitor, name, filter, label, wait))


async def _advertise(visitor: ClientOptions, name: str, filter: str | None, label: str, wait: float | None) -> None:
    import asyncio

    async with visitor.client(name) as client:
        await wait_until_attached(client, visitor)
        if filter is None:
            await client.advertise("FALSE", name=label)  # this process does not know earlier advertisements
            await client.unadvertise(label)
        else:
            await client.advertise(filter, name=label)
        told = {"client": client.name, "broker": client.state.broker, "advertisement": label, "filter": filter}
        _tell(told, f"{client.name} {'advertises nothing more' if filter is None else 'advertises ' + filter}")
        if not name:
            if is_terminal():
                echo("· while this runs; Ctrl-C ends it", err=True)
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=wait)


def ctx(
    words: Annotated[
        list[str] | None,
        Argument(metavar="NAME=VALUE", help="Context of the client; NAME:=JSON for any kind of value."),
    ] = None,
    name: Annotated[str, Option(metavar="NAME", help="Client name.")] = "",
    place: Annotated[str, Option(metavar="PLACE", help="Client's place: the value of myloc.")] = "",
    clear: Annotated[bool, Option("--clear", help="Remove the context.")] = False,
    brokers: BrokerAddresses = None,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls: Tls = False,
    ca: CaFile = "",
) -> None:
    """Replace the context of a client.

    The context belongs to the client's session. Its own filters refer to it as my.x, filters of others as sender.x.

    Example: godwit ctx role=medic floor=2 --name ann
    """
    if not name:
        raise BadParameter("--name is missing: the name of the client")
    if bool(words or place) is clear:
        raise BadParameter("give NAME=VALUE or --place, or --clear alone")
    visitor = ClientOptions(brokers, token, user, password, tls, ca)
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
        echo(json_form.dumps(told, ensure_ascii=False))
        return

    from godwit.cli.event_display import safe

    text = Text.assemble(("✓", "green"), " ", (safe(told["broker"]), "bold"), ": ", safe(said))
    Console().print(text, soft_wrap=True)
