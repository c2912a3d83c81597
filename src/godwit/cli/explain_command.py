"""`godwit explain`: why a client did or did not receive an event, hop by hop.

Every broker of the network is asked for its verdict (`/explain`), beginning with the named one; each reports its
neighbours and their HTTP addresses (`/network`).
"""

import json as json_form
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from time import time
from typing import Annotated, Any

from godwit.cli.admin_client import HTTP, AdminClient, Http, office
from godwit.cli.broker_connection import CaFile, Password, Token, User, is_terminal
from godwit.cli.signatures import Argument, BadParameter, Exit, Option, echo
from godwit.cli.statuses import STATUS_NO, STATUS_UNKNOWN
from godwit.cli.terminal import Console, Text, Tree
from godwit.errors import GodwitError

__all__ = ["explain"]

BROKERS_MAX = 1_000
YES, NO = "yes", "no"
BECAUSE_SHOWN = 3
EVENTS_SHOWN = 20  # of a topic
UNITS = {"s": 1, "m": 60, "h": 3_600}


def explain(
    event: Annotated[
        str | None, Argument(metavar="PUBLISHER:NUMBER", help="Event id, as printed by `godwit pub`.")
    ] = None,
    client: Annotated[str | None, Argument(metavar="CLIENT", help="Name of the receiving client.")] = None,
    topic: Annotated[
        str, Option(metavar="TOPIC", help="Explain the last events of this topic instead of one event.")
    ] = "",
    receiver: Annotated[str, Option("--client", metavar="NAME", help="Receiving client, instead of CLIENT.")] = "",
    last: Annotated[str, Option(metavar="TIME", help="With --topic: how far back, as 30s, 5m or 1h.")] = "5m",
    subscription: Annotated[str, Option(metavar="NAME", help="Explain only this subscription of the client.")] = "",
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """Explain why CLIENT did or did not receive an event. Every broker of the network is asked.

    Exit status 0 if it did, 1 if it did not, 3 if that is not recorded. With --topic, explain the last 20
    events of a topic; exit status 0 if all of them were received.

    Example: godwit explain --topic fleet/a --client screen --last 5m
    """
    from godwit.runtime.explanations import with_reasons

    first = office(http, token, user, password, ca)
    if topic:
        client = receiver or client or event  # one argument alone is the client
        events = _published(first, topic, _seconds(last))
        if not events:
            echo(f"no event of {topic!r} in the last {last} is recorded at any broker that answered", err=True)
            raise Exit(STATUS_UNKNOWN)
        if len(events) > EVENTS_SHOWN:
            older = "older ones are left out; ask for one by PUBLISHER:NUMBER, or for less time with --last"
            echo(f"only the last {EVENTS_SHOWN} events of {topic!r} are explained: {older}", err=True)
            events = events[-EVENTS_SHOWN:]
    else:
        client, events = receiver or client, [event or ""]
    if not client:
        raise BadParameter("no client given: add CLIENT, or --client NAME")
    answers = set()
    for each in events:
        publisher, _, number = each.rpartition(":")
        if not publisher or not number.isdecimal():
            raise GodwitError(f"{each!r} is not an event: it must be PUBLISHER:NUMBER, as `godwit pub` prints it")
        hops = with_reasons(_walk(first, each, client, subscription))
        answer, basis = _answer(hops)
        answers.add(answer)
        if is_terminal():
            _draw(each, client, hops, answer, basis)
        else:
            for hop in hops:
                echo(json_form.dumps(hop, ensure_ascii=False))
    if answers != {YES}:
        raise Exit(STATUS_NO if NO in answers else STATUS_UNKNOWN)


def _answer(hops: list[dict[str, Any]]) -> tuple[str, str]:
    """Whether the client got the event, and what the answer is based on."""
    from godwit.runtime.explanations import is_delivered, verdict_of

    basis = verdict_of(hops, [str(hop["broker"]) for hop in hops if "error" in hop]).basis
    return YES if any(map(is_delivered, hops)) else "unknown" if basis == "unknown" else NO, basis


def _seconds(said: str) -> float:
    """A time such as 30s, 5m or 1h."""
    number, unit = said[:-1], UNITS.get(said[-1:])
    if unit is None or not number.isdecimal():
        raise BadParameter(f"--last {said}: it must be a number with s, m or h, as 5m")
    return int(number) * unit


def _published(first: AdminClient, topic: str, last_s: float) -> list[str]:
    """The recent events of a topic, published at any broker, the earliest first: the last `EVENTS_SHOWN`, and more if
    there are more."""
    quoted = topic.replace("'", "''")
    found = first.ask("/everywhere/events", filter=f"topic = '{quoted}'", limit=EVENTS_SHOWN + 1)
    since = time() - last_s
    rows = [row for rows in found["answers"].values() if isinstance(rows, list) for row in rows if row["at"] >= since]
    return [str(row["event"]) for row in sorted(rows, key=lambda row: row["at"])]


def _walk(first: AdminClient, event: str, client: str, subscription: str) -> list[dict[str, Any]]:
    """The verdict of each broker, beginning with the named one. A broker that cannot be reached is a hop with an
    `error`."""
    waiting: deque[tuple[str, AdminClient]] = deque([("", first)])
    seen: set[str] = set()
    hops: list[dict[str, Any]] = []
    while waiting and len(hops) < BROKERS_MAX:
        name, desk = waiting.popleft()
        if name in seen:
            continue
        try:
            network = desk.ask("/network")
            verdict = desk.ask("/explain", event=event, client=client, subscription=subscription)
        except GodwitError as error:
            if not hops:
                raise
            seen.add(name)
            hops.append({"broker": name, "error": str(error)})
            continue
        name = str(network.get("broker", name))
        seen.add(name)
        hops.append({**verdict, "broker": name})
        for peer, http in neighbours_in(network):
            if peer not in seen:
                if http:
                    waiting.append((peer, desk.elsewhere(http)))
                else:
                    seen.add(peer)
                    hops.append({"broker": peer, "error": "its HTTP address is not known"})
    return hops


def neighbours_in(network: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The neighbours of a broker, and the HTTP address of each."""
    return [(str(each["peer"]), str(each.get("http") or "")) for each in network.get("neighbours", [])]


# ---------------------------------------------------------------- for people


HEADS = {
    YES: ("✓ ", "bold green", " for "),
    NO: ("✗ ", "bold red", " did not reach "),
    "unknown": ("? ", "bold yellow", " is not recorded for "),
}
"""How the answer begins: sign, style, and what stands between event and client."""


def _draw(event: str, client: str, hops: list[dict[str, Any]], answer: str, basis: str) -> None:
    from godwit.cli.event_display import safe
    from godwit.runtime.explanations import is_delivered

    sign, style, joint = HEADS[answer]
    head = Text.assemble(
        (sign, style), (safe(event), "bold cyan"), joint, (safe(client), "bold cyan"), (_marked(basis), "dim")
    )
    tree = Tree(head, guide_style="dim")
    for hop in hops:
        verdict = str(hop.get("error") or hop.get("verdict") or "")
        style = "red" if "error" in hop else "green" if is_delivered(hop) else "yellow"
        mark = (_marked(str(hop.get("basis", ""))), "dim")
        branch = tree.add(Text.assemble((safe(str(hop["broker"])), "bold"), "  ", (safe(verdict), style), mark))
        for line in _lines(hop):
            branch.add(line)
    Console().print(tree)


def _marked(basis: str) -> str:
    """That an answer is not what was recorded when the event came."""
    return "  (recomputed from the present tables)" if basis == "tables" else ""


def _lines(hop: Mapping[str, Any]) -> Iterator["Text"]:
    """The findings of a broker, one line each."""

    from godwit.cli.event_display import safe

    for came in hop.get("arrivals", []):
        yield Text.assemble(
            ("came ", "dim"), _clock(came.get("at")), (" from ", "dim"), safe(str(came.get("from", "")))
        )
    if hop.get("attributes") and hop.get("arrivals"):
        held = "  ".join(
            f"{name}={json_form.dumps(value, ensure_ascii=False)}" for name, value in hop["attributes"].items()
        )
        yield Text.assemble(("attributes ", "dim"), safe(held))
    for part in hop.get("to_fails") or []:
        yield Text.assemble(("to: ", "dim"), (f"{safe(part)} does not hold", "yellow"))
    for each in hop.get("matched") or []:
        wanted = f"{safe(str(each.get('name', '')))}  {safe(str(each.get('filter', '')))}"
        yield Text.assemble(("matched ", "dim"), wanted, (_marked(str(each.get("basis", ""))), "dim"))
    for each in hop.get("subscriptions") or []:
        text = Text.assemble(("subscription ", "dim"), safe(str(each.get("name", ""))), ("  ", ""))
        text.append(safe(str(each.get("now") or each.get("filter", ""))))
        if "matches" in each:
            text.append("  matches" if each["matches"] else "  fails", style="green" if each["matches"] else "yellow")
        for part in each.get("fails") or []:
            text.append(f"  because of {safe(part)}", style="yellow")
        yield text
    for each in hop.get("deliveries") or []:
        names = ", ".join(map(str, each.get("for", [])))
        yield Text.assemble(
            ("delivery ", "dim"),
            str(each.get("number", "")),
            (" for ", "dim"),
            safe(names),
            "  ",
            _clock(each.get("at")),
        )
    for each in hop.get("sent_on") or []:
        how = "was forwarded to " if each.get("basis") == "record" else "by the present tables is forwarded to "
        text = Text.assemble((how, "dim"), safe(str(each.get("peer", ""))))
        for because in each.get("because_of", [])[:BECAUSE_SHOWN]:
            text.append("  for ", style="dim").append(safe(because))
        if each.get("basis") == "record":
            text.append(_marked(str(each.get("because_basis", ""))), style="dim")
        yield text
    for each in hop.get("records") or []:
        detail = f"  {each['detail']}" if each.get("detail") else ""
        yield Text.assemble((f"{each.get('kind', '')} ", "dim"), _clock(each.get("at")), safe(detail))


def _clock(at: Any) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M:%S.%f")[:-3] if isinstance(at, int | float) else ""
