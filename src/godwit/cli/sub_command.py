"""`godwit sub`: print the events that a filter matches, as they arrive."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.broker_connection import (
    LET_IN_S,
    BrokerAddresses,
    CaFile,
    ClientOptions,
    Password,
    Replicas,
    Tls,
    Token,
    User,
    assigned,
    check_mode,
    end_with_input,
    is_terminal,
    report_missing,
    run,
    wait_until_attached,
)
from godwit.cli.query_options import (
    NATIVE,
    LanguageName,
    OperatorModules,
    equated_attributes,
    load_operators,
    read_query,
)
from godwit.cli.signatures import Argument, BadParameter, Exit, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.terminal import Console, Text
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.cli.event_logs import LogCapture
    from godwit.filters.events import Event
    from godwit.languages import Query
    from godwit.runtime.network_client import State

__all__ = ["sub"]

DAY_S = 86_400.0
KEEP_DAYS_MIN, KEEP_DAYS_MAX = 0.01, 36_500.0
EVERYTHING = "TRUE"
SUBSCRIPTION = "sub"  # the subscription's name in a session that is resumed


def sub(
    filter: Annotated[
        str, Argument(metavar="FILTER", help="Filter, such as \"kind = 'parking' AND cost < 3\" (default: all events).")
    ] = "",
    language: LanguageName = NATIVE,
    operators: OperatorModules = None,
    count: Annotated[
        int | None, Option("--count", "-C", metavar="COUNT", help="Stop after this number of events.", min=1)
    ] = None,
    wait: Annotated[
        float | None,
        Option(
            "--wait",
            "-W",
            metavar="SECONDS",
            help="Stop after this time; exit status 1 if fewer than --count events arrived.",
            min=0,
        ),
    ] = None,
    sender: Annotated[str, Option(metavar="FILTER", help="Filter on the publishers' contexts.")] = "",
    context: Annotated[
        list[str] | None,
        Option(
            "--context",
            metavar="NAME=VALUE",
            help="Client's context: the values of my.x, and what --to of publishers is matched with; repeatable.",
        ),
    ] = None,
    place: Annotated[str, Option(metavar="PLACE", help="Client's place: the value of myloc.")] = "",
    name: Annotated[
        str,
        Option(metavar="NAME", help="Client name. A named session collects events while no client is connected."),
    ] = "",
    retained: Annotated[bool, Option("--retained", help="Begin with the retained events that match.")] = False,
    share: Annotated[
        str,
        Option(metavar="GROUP", help="Share the subscription with this group: each event goes to one member."),
    ] = "",
    log: Annotated[
        str,
        Option("--log", metavar="DIR", help="Write the events to an event log, each once, instead of printing them."),
    ] = "",
    keep_bytes: Annotated[
        int | None,
        Option(
            metavar="BYTES", min=2**20, help="With --log: remove the oldest events when the log is larger than this."
        ),
    ] = None,
    keep_days: Annotated[
        float | None, Option(metavar="DAYS", help="With --log: remove events that were written longer ago.")
    ] = None,
    until_eof: Annotated[bool, Option("--until-eof", help="Stop when standard input is closed.")] = False,
    queue: Annotated[
        list[str] | None,
        Option(
            "--queue",
            metavar="RULE=VALUE",
            help="Rule for dropping events while no client is connected: age_s_max, newest_per, high_water, "
            "count_max, bytes_max or importance; repeatable.",
        ),
    ] = None,
    expires: Annotated[
        str, Option(metavar="SECONDS", help="Subscription lifetime in seconds (default: unlimited).")
    ] = "",
    receipt: Annotated[
        bool,
        Option(
            "--receipt", help="Print on standard error, as JSON, what happened to events while no client was connected."
        ),
    ] = False,
    mode: Annotated[
        str,
        Option(
            metavar="MODE",
            help="Mode of moving: relocate, ask, junction, named, carry, explicit or presubscribe "
            "(default: named with --name, else relocate).",
        ),
    ] = "",
    replicas: Replicas = False,
    replica_filter: Annotated[
        str,
        Option(
            metavar="NAME",
            help="With --replicas: filter of their deliveries: none, unique, ordered or complete (default).",
        ),
    ] = "",
    brokers: BrokerAddresses = None,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls: Tls = False,
    ca: CaFile = "",
) -> None:
    """Print the events that match FILTER as they arrive. Ctrl-C ends it.

    On a pipe each event is a line of JSON that `godwit pub` can read. A session with a --name continues after the
    command ends: the next `godwit sub` with this name receives the events since then, at any broker of the network. A
    --log stores the client name and confirms an event to the broker only when it is on disk.

    Of a query in another --language, brokers route by a wider filter; this command tests the exact query.

    With --replicas the client has a session at every --broker, and an event is printed once: it arrives as long as one
    of them works. Events that are missing are named on standard error at the end.

    Example: godwit sub "kind = 'parking' AND cost < 3" --name ann
    """
    from godwit.client.own_context import asked

    if not filter and language != NATIVE:
        raise BadParameter(f"--language {language} needs a FILTER in that language")
    load_operators(operators)
    query = read_query(filter or EVERYTHING, language)
    asked(query.routable, sender or None)  # an invalid filter is reported before a broker is contacted
    if query.is_impossible:
        echo("warning: no event can match this filter", err=True)
    if equated := equated_attributes(query):
        first, second = equated
        echo(
            f"warning: {first} = {second} compares two attributes; for a text, write \"{first} = '{second}'\"", err=True
        )
    wanted: dict[str, Any] = {"sender": sender or None, "retained": retained, "share": share}
    wanted |= _queue_options(queue or [], expires)
    ours = assigned(context or [])
    if replica_filter and not replicas:
        raise BadParameter("--replica-filter needs --replicas")
    if replicas and (log or retained or share or receipt or mode):
        raise BadParameter("--log, --retained, --share, --receipt and --mode cannot be used with --replicas")
    check_mode(mode, "subscribers")
    merging = {"filter": replica_filter or "complete"} if replicas else None
    visitor = ClientOptions(brokers, token, user, password, tls, ca, merging, mode)
    came = EventCount(count)
    if not log and (keep_bytes is not None or keep_days is not None):
        raise BadParameter("--keep-bytes and --keep-days need --log")
    if keep_days is not None and not KEEP_DAYS_MIN <= keep_days <= KEEP_DAYS_MAX:
        raise BadParameter(f"--keep-days is {keep_days:g}: it must be {KEEP_DAYS_MIN:g} to {KEEP_DAYS_MAX:g}")
    if log:
        if retained:
            raise BadParameter("--retained cannot be used with --log: retained events would be written at every start")
        from godwit.cli.event_logs import capturing
        from godwit.event_log import Retention

        keep = Retention(keep_bytes, None if keep_days is None else keep_days * DAY_S)
        with capturing(log, name, user, keep) as capture:
            run(_listen(visitor, capture.name, query, wanted, ours, place, wait, came, until_eof, capture, receipt))
    else:
        run(_listen(visitor, name, query, wanted, ours, place, wait, came, until_eof, None, receipt))
    if count is not None and came.events < count:
        raise Exit(STATUS_NO)


def _queue_options(rules: list[str], expires: str) -> dict[str, Any]:
    """The options --queue and --expires in the form of the client library."""
    from time import time

    from godwit.broker.queue_rule_texts import lifetime_of, queue_rules_of

    pairs = [(name, text) for name, _, text in (rule.partition("=") for rule in rules)]
    until = time() + lifetime_of(expires, "--expires") if expires else None
    return {"queue": queue_rules_of(pairs, "--queue "), "expires": until}


class EventCount:
    """Counts events up to a limit."""

    def __init__(self, wanted: int | None) -> None:
        self.events = 0
        self.wanted = wanted

    def one(self) -> bool:
        """Count one event; returns whether it was the last."""
        self.events += 1
        return self.events == self.wanted


async def _listen(
    visitor: ClientOptions,
    name: str,
    query: "Query",
    wanted: dict[str, Any],
    context: dict[str, Any],
    place: str,
    wait: float | None,
    came: EventCount,
    until_eof: bool,
    capture: "LogCapture | None",
    shows_receipt: bool,
) -> None:
    import asyncio

    client: Any

    def on_state(state: "State") -> None:
        _on_state(state)
        if state.kind == "attached" and capture is not None:
            capture.attached(client)

    if visitor.replicas is None:
        client = visitor.client(name, confirm="read", on_state=on_state)
    else:
        client = visitor.replicated(name, on_state=on_state)
    async with client:
        said = None
        if context:
            said = client.set_context(context)
        if place:
            said = client.set_place(place)
        asking = asyncio.create_task(client.subscribe(query, name=SUBSCRIPTION, **wanted))  # before any event arrives
        await wait_until_attached(client, visitor)
        try:
            async with asyncio.timeout(LET_IN_S):
                subscription = await asking
        except TimeoutError:  # a broker that cannot parse the subscription closes the connection each time
            raise GodwitError(f"the subscription was not accepted: {client.state.reason or 'no answer'}") from None
        if said is not None:
            await said
        if shows_receipt and client.receipt is not None:
            from msgspec.json import encode

            echo(encode(client.receipt).decode(), err=True)
        _note(f"listening as {client.name}; Ctrl-C ends it")
        try:
            async with asyncio.timeout(wait) as limit:
                if until_eof:
                    end_with_input(limit)
                if capture is not None:
                    came.events = await capture.take_all(client, subscription, came.wanted)
                    return
                show = _shower()
                async for event in subscription:
                    show(event)
                    if came.one():
                        break
        except TimeoutError:
            pass
        finally:
            if visitor.replicas is not None:
                report_missing(client.receipt)


def _shower() -> Any:
    """Print an event."""
    if not is_terminal():
        from json import dumps

        from godwit.filters.json_lines import line_of

        def print_line(event: "Event") -> None:
            sys.stdout.write(dumps(line_of(event), ensure_ascii=False) + "\n")
            sys.stdout.flush()

        return print_line

    from godwit.cli.event_display import text_of

    console = Console()
    return lambda event: console.print(text_of(event), soft_wrap=True)


def _on_state(state: "State") -> None:
    if state.kind != "closed":
        _note(str(state))


def _note(text: str) -> None:
    """Print a remark on standard error if it is a terminal."""
    if sys.stderr.isatty():
        from godwit.cli.event_display import safe

        Console(stderr=True).print(Text(f"· {safe(text)}", style="dim"), soft_wrap=True)
