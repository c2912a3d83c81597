"""`godwit sub`: print the events that a filter matches, as they come."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from godwit.cli.network import (
    LET_IN_S,
    At,
    CaFile,
    Password,
    Tls,
    Token,
    User,
    Visitor,
    assigned,
    is_terminal,
    let_in,
    run,
)
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.filters.events import Event
    from godwit.runtime.client import State

__all__ = ["sub"]

STATUS_NO = 1
SUBSCRIPTION = "sub"  # its name in a session that is come back to


def sub(
    filter: Annotated[
        str, typer.Argument(metavar="FILTER", help="What is wanted, such as \"kind = 'parking' AND cost < 3\".")
    ] = "TRUE",
    count: Annotated[
        int | None, typer.Option("--count", "-C", metavar="COUNT", help="Leave after so many events.", min=1)
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait", "-W", metavar="SECONDS", help="Leave after so many seconds; status 1 if -C were not there.", min=0
        ),
    ] = None,
    sender: Annotated[str, typer.Option(metavar="FILTER", help="From publishers whose context it matches.")] = "",
    context: Annotated[
        list[str] | None,
        typer.Option("--context", metavar="NAME=VALUE", help="Of ours: what my.x stands for, and others' --to."),
    ] = None,
    place: Annotated[str, typer.Option(metavar="PLACE", help="Where we are: what myloc stands for.")] = "",
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Ours, as a client: what comes while we are away waits for who has it."),
    ] = "",
    retained: Annotated[bool, typer.Option("--retained", help="Begin with the events that are kept.")] = False,
    share: Annotated[
        str, typer.Option(metavar="GROUP", help="Of a group with the same filter, one gets each event.")
    ] = "",
    at: At = None,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls: Tls = False,
    ca: CaFile = "",
) -> None:
    """Print the events that FILTER matches, as they come, until Ctrl-C.

    On a pipe each is a line of JSON that `godwit pub` reads again. With a --name the session stays when we leave: the
    next `godwit sub` with it gets what has come since, at any broker of the network.
    """
    from godwit.client.contexts import asked

    asked(filter, sender or None)  # what is no filter needs no broker to be told so
    wanted = {"sender": sender or None, "retained": retained, "share": share}
    ours = assigned(context or [])
    visitor = Visitor(at, token, user, password, tls, ca)
    came = Came(count)
    run(_listen(visitor, name, filter, wanted, ours, place, wait, came))
    if count is not None and came.events < count:
        raise typer.Exit(STATUS_NO)


class Came:
    """How many events have come, and of how many."""

    def __init__(self, wanted: int | None) -> None:
        self.events = 0
        self.wanted = wanted

    def one(self) -> bool:
        """One has come: whether it was the last."""
        self.events += 1
        return self.events == self.wanted


async def _listen(
    visitor: Visitor,
    name: str,
    filter: str,
    wanted: dict[str, Any],
    context: dict[str, Any],
    place: str,
    wait: float | None,
    came: Came,
) -> None:
    import asyncio

    show = _shower()
    async with visitor.client(name, confirm="read", on_state=_on_state) as client:
        said = None
        if context:
            said = client.set_context(context)
        if place:
            said = client.set_place(place)
        asking = asyncio.create_task(client.subscribe(filter, name=SUBSCRIPTION, **wanted))  # before anything comes
        await let_in(client, visitor)
        try:
            async with asyncio.timeout(LET_IN_S):
                subscription = await asking
        except TimeoutError:  # a broker that cannot make out what is asked lets us go each time
            raise GodwitError(f"the subscription was not accepted: {client.state.reason or 'no answer'}") from None
        if said is not None:
            await said
        _note(f"listening as {client.name}; Ctrl-C ends it")
        try:
            async with asyncio.timeout(wait):
                async for event in subscription:
                    show(event)
                    if came.one():
                        break
        except TimeoutError:
            pass


def _shower() -> Any:
    """How an event is shown."""
    if not is_terminal():
        from json import dumps

        from godwit.cli.showing import line_of

        def print_line(event: "Event") -> None:
            sys.stdout.write(dumps(line_of(event), ensure_ascii=False) + "\n")
            sys.stdout.flush()

        return print_line
    from rich.console import Console

    from godwit.cli.showing import text_of

    console = Console(highlight=False)
    return lambda event: console.print(text_of(event), soft_wrap=True)


def _on_state(state: "State") -> None:
    if state.kind != "closed":
        _note(str(state))


def _note(text: str) -> None:
    """A word beside the events, for whoever looks."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.text import Text

        from godwit.cli.showing import safe

        Console(stderr=True, highlight=False).print(Text(f"· {safe(text)}", style="dim"), soft_wrap=True)
