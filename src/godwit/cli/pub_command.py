"""`godwit pub`: publish events, from the command line or from a pipe."""

import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.broker_connection import (
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
    run,
    wait_until_attached,
)
from godwit.cli.signatures import Argument, BadParameter, Exit, Option, echo
from godwit.cli.terminal import Console, Text
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.event_log import PublishProgress
    from godwit.filters.events import Event
    from godwit.runtime.network_client import NetworkClient
    from godwit.runtime.replicated_client import ReplicatedNetworkClient

__all__ = ["pub"]

PIPE = "-"
HAND_OVER_S = 30.0  # after the last event, until brokers have accepted all


def pub(
    words: Annotated[
        list[str] | None,
        Argument(metavar="NAME=VALUE", help="Attributes of the event; NAME:=JSON for any kind of value."),
    ] = None,
    json: Annotated[str, Option("--json", metavar="JSON", help="Event as a JSON object.")] = "",
    file: Annotated[
        str, Option("--file", "-f", metavar="FILE", help="Events as JSON lines; - is standard input.")
    ] = "",
    xml: Annotated[
        list[str] | None,
        Option("--xml", metavar="FILE", help="XML document to publish; - is standard input. Repeatable."),
    ] = None,
    cloudevent: Annotated[
        list[str] | None,
        Option(
            "--cloudevent",
            metavar="FILE",
            help="CloudEvent in JSON, or a batch of them; - is standard input. Repeatable.",
        ),
    ] = None,
    payload: Annotated[str, Option(metavar="TEXT", help="Payload of the event; @FILE for the content of a file.")] = "",
    content_type: Annotated[str, Option(metavar="TYPE", help="Media type of the payload, such as text/plain.")] = "",
    to: Annotated[str, Option(metavar="FILTER", help="Filter on the receivers' contexts.")] = "",
    context: Annotated[
        list[str] | None,
        Option(
            "--context", metavar="NAME=VALUE", help="Publisher's context, visible to filters as sender.x; repeatable."
        ),
    ] = None,
    expires: Annotated[
        float | None, Option(metavar="SECONDS", help="Event lifetime in seconds (default: unlimited).", min=0)
    ] = None,
    retain: Annotated[str, Option(metavar="KEY", help="Retain the event under this key for later subscribers.")] = "",
    clear: Annotated[bool, Option("--clear", help="With --retain: remove the retained event of this key.")] = False,
    name: Annotated[str, Option(metavar="NAME", help="Client name (default: generated).")] = "",
    strict: Annotated[bool, Option("--strict", help="Stop at the first bad line.")] = False,
    log: Annotated[str, Option("--log", metavar="DIR", help="Publish the events of an event log, each once.")] = "",
    skip_removed: Annotated[
        bool,
        Option(
            "--skip-removed",
            help="With --log: continue if events were removed before they were published.",
        ),
    ] = False,
    until_eof: Annotated[
        bool,
        Option("--until-eof", help="With --log: stop when standard input is closed."),
    ] = False,
    mode: Annotated[
        str,
        Option(
            metavar="MODE",
            help="Mode of moving: relocate, junction, named, presubscribe, standard, delayed, prefetching, proxy or "
            "prefetching+delayed (default: named with --name, else relocate).",
        ),
    ] = "",
    replicas: Replicas = False,
    through: Annotated[
        str,
        Option(metavar="NAME", help="With --replicas: publish through all (default) or one at a time."),
    ] = "",
    brokers: BrokerAddresses = None,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls: Tls = False,
    ca: CaFile = "",
) -> None:
    """Publish events, and return when a broker has accepted them.

    Give one event as NAME=VALUE or with --json, or many as JSON lines in a file or on a pipe, as `godwit sub` prints
    them: {"kind": "parking", "cost": 2}, or {"attributes": {…}, "payload": …, "to": …, "expires_in": …}. Documents are
    all read before the first is published; NAME=VALUE are further attributes of XML documents.

    Example: godwit pub kind=parking cost=2 --name van-7
    """
    documents = bool(xml or cloudevent)
    if not words and not json and not file and not clear and not log and not documents:
        if sys.stdin.isatty():
            raise BadParameter("no event given: use NAME=VALUE, --json, --file, --xml or --cloudevent")
        file = PIPE
    if (bool(words) and not xml) + bool(json) + bool(file) + bool(log) + bool(xml) + bool(cloudevent) > 1:
        raise BadParameter("use only one of NAME=VALUE, --json, --file, --xml, --cloudevent and --log")
    if clear and not retain:
        raise BadParameter("--clear needs --retain KEY")
    if (file or log or documents) and payload:
        raise BadParameter("--payload is for one event: in a file each event has its own payload")
    if cloudevent and content_type:
        raise BadParameter("--content-type cannot be used with --cloudevent: the event has its own")
    if log and (retain or expires is not None):
        raise BadParameter("--retain and --expires cannot be used with --log: events are published as logged")
    if until_eof and not log:
        raise BadParameter("--until-eof needs --log: otherwise standard input may contain the events")
    if skip_removed and not log:
        raise BadParameter("--skip-removed needs --log")
    if through and not replicas:
        raise BadParameter("--through needs --replicas")
    if replicas and (log or retain or mode):
        raise BadParameter("--log, --retain and --mode cannot be used with --replicas")
    check_mode(mode, "publishers")
    visitor = ClientOptions(
        *(brokers, token, user, password, tls, ca),
        replicas={"publish": through or "all"} if replicas else None,
        mode=mode,
    )
    ours = assigned(context or [])
    said: dict[str, Any] = {"to": to or None, "retain": retain or None, "clear": clear}
    if log:
        from godwit.cli.event_logs import publishing

        with publishing(log, name, user, skip_removed) as state:
            run(_log(visitor, ours, state, said, strict, until_eof))
        return
    if documents:
        events = _xml_events(xml, assigned(words or []), content_type) if xml else _cloud_events(cloudevent or [])
        run(_publish_each(visitor, name, ours, events, expires, said))
        return
    if file:
        run(_many(visitor, name, ours, file, expires, said, strict))
        return
    event = _one(assigned(words or []) if not json else None, json, payload, content_type)
    run(_publish_each(visitor, name, ours, [event], expires, said))


def _one(attributes: dict[str, Any] | None, text: str, payload: str, content_type: str) -> "Event":
    import json
    from dataclasses import replace
    from time import time

    from godwit.filters.json_lines import event_of

    if attributes is None:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise GodwitError(f"--json: not valid JSON: {error}") from None
    else:
        data = {"attributes": attributes}
    event = event_of(data, time())
    if payload:
        event = replace(event, payload=_payload(payload))
    return replace(event, content_type=content_type) if content_type else event


def _payload(said: str) -> bytes:
    from pathlib import Path

    if not said.startswith("@"):
        return said.encode()
    try:
        return Path(said[1:]).read_bytes()
    except OSError as error:
        raise GodwitError(f"cannot read {said[1:]}: {error.strerror}") from None


def _documents(files: list[str], bytes_max: int) -> Iterator[tuple[str, bytes]]:
    """The content of each file, up to the largest size of an event."""
    from godwit.cli.match_command import opened

    if files.count(PIPE) > 1:
        raise BadParameter("standard input can be read once")
    for file in files:
        with opened(file) as (stream, name, _):
            yield name, stream.read(bytes_max + 1)


def _xml_events(files: list[str], attributes: dict[str, Any], content_type: str) -> "list[Event]":
    from godwit.filters.events import event, flattened
    from godwit.languages.xml_documents import CONTENT_TYPE, DOCUMENT_BYTES_MAX, is_xml, xml_event

    kind = content_type or CONTENT_TYPE
    if not is_xml(kind):
        raise BadParameter(f"--content-type {kind}: XML has {CONTENT_TYPE}, or a type that ends in +xml")
    event(attributes)
    found = []
    for name, data in _documents(files, DOCUMENT_BYTES_MAX):
        try:
            found.append(xml_event(data, flattened(attributes), content_type=kind))
        except GodwitError as error:
            raise GodwitError(f"{name}: {error}") from None
    return found


def _cloud_events(files: list[str]) -> "list[Event]":
    from godwit.cli.input_files import LINE_BYTES_MAX
    from godwit.languages.cloud_events import event_from_structured, events_from_batch

    found: list[Event] = []
    for name, data in _documents(files, LINE_BYTES_MAX):
        if len(data) > LINE_BYTES_MAX:
            raise GodwitError(f"{name}: longer than {LINE_BYTES_MAX:,} bytes")
        try:
            found += events_from_batch(data) if data.lstrip().startswith(b"[") else [event_from_structured(data)]
        except GodwitError as error:
            raise GodwitError(f"{name}: {error}") from None
    return found


async def _publish_each(
    visitor: ClientOptions,
    name: str,
    context: dict[str, Any],
    events: "list[Event]",
    expires: float | None,
    said: dict[str, Any],
) -> None:
    from dataclasses import replace
    from time import time

    async with visitor.client_of_any_kind(name) as client:
        await wait_until_attached(client, visitor)
        if context:
            await client.set_context(context)
        for event in events:
            event = event if expires is None else replace(event, expires_at=time() + expires)
            asked = client.publish(event, **said)
            await asked
            assert asked.event is not None
            _tell(client, asked.event)


async def _many(
    visitor: ClientOptions,
    name: str,
    context: dict[str, Any],
    file: str,
    expires: float | None,
    said: dict[str, Any],
    strict: bool,
) -> None:
    """Publish the events of a file or a pipe, as they arrive."""
    import asyncio
    from time import perf_counter

    from godwit.cli import input_files
    from godwit.cli.match_command import opened, progress, report

    loop = asyncio.get_running_loop()
    async with visitor.client_of_any_kind(name) as client:
        await wait_until_attached(client, visitor)
        if context:
            await client.set_context(context)
        started, count = perf_counter(), 0
        with opened(file) as (stream, source, size), progress() as bar:
            task = bar.add_task("publishing", total=size)
            faults = input_files.BadLines(partial(report, bar), strict)
            batches = _batches(input_files.Lines(stream, source), faults, expires)
            while (batch := await loop.run_in_executor(None, next, batches, None)) is not None:
                for event, length in batch:
                    await client.room()
                    bar.advance(task, length)
                    asked = client.publish(event, **said)
                    count += 1
                    if not is_terminal() and asked.event is not None:
                        _print(asked.event)
                sys.stdout.flush()
            await client.drain(HAND_OVER_S)
        seconds, refusals = perf_counter() - started, list(client.machine.refusals)
        if is_terminal():
            rate = f"{count / seconds:,.0f} a second" if seconds else ""
            echo(f"published {count:,} events to {client.state.broker} in {seconds:.1f} s, {rate}")
        for refusal in refusals[:5]:
            echo(f"refused: {refusal.reason}", err=True)
        if not count:
            echo(f"nothing was published: {source} has no events", err=True)
        if faults.skipped:
            echo(f"skipped {faults.skipped} bad {'line' if faults.skipped == 1 else 'lines'}", err=True)
        if refusals or faults.skipped:
            raise Exit(1)


async def _log(
    visitor: ClientOptions,
    context: dict[str, Any],
    state: "PublishProgress",
    said: dict[str, Any],
    strict: bool,
    until_eof: bool,
) -> None:
    """Publish the events of an event log after the position that the last run reached."""
    import asyncio

    from godwit.cli.event_logs import publish_log

    on_event = (lambda event: None) if is_terminal() else _print
    async with visitor.client(state.publisher) as client:
        await wait_until_attached(client, visitor)
        try:
            async with asyncio.timeout(None) as limit:
                if until_eof:
                    end_with_input(limit)
                if context:
                    await client.set_context(context)
                count, refused = await publish_log(client, state, said, strict, on_event)
        except TimeoutError:
            raise GodwitError("standard input has ended, and not all events are published") from None
        if is_terminal():
            echo(f"published {count:,} events to {client.state.broker} as {state.publisher}")
    if refused:
        echo(f"{refused} of {count} events were refused", err=True)
        raise Exit(1)


def _batches(lines: Any, faults: Any, expires: float | None) -> Iterator[list[tuple["Event", int]]]:
    """Events in lists, as many as have arrived, each with the length of its line."""
    from dataclasses import replace
    from time import time

    import msgspec

    from godwit.cli.input_files import BAD, BATCH_EVENTS_MAX, TOO_LONG, why_bad
    from godwit.filters.json_lines import event_of

    batch: list[tuple[Event, int]] = []
    for line in lines:
        if line is None:
            faults.found(lines, TOO_LONG)
        elif line and not line.isspace():
            try:
                event = event_of(msgspec.json.decode(line), time())
                event = event if expires is None else replace(event, expires_at=time() + expires)
                batch.append((event, len(line) + 1))
            except BAD as error:
                faults.found(lines, why_bad(error))
        if batch and (lines.is_drained or len(batch) == BATCH_EVENTS_MAX):
            yield batch
            batch = []
    if batch:
        yield batch


def _tell(client: "NetworkClient | ReplicatedNetworkClient", event: "Event") -> None:
    """Report that a broker has accepted an event."""
    if not is_terminal():
        _print(event)
        return

    from godwit.cli.event_display import safe

    id, broker = f"{safe(event.publisher)}:{event.sequence}", safe(client.state.broker)
    Console().print(Text.assemble("published ", (id, "bold cyan"), " at ", (broker, "bold")))


def _print(event: "Event") -> None:
    import json

    sys.stdout.write(json.dumps({"event": f"{event.publisher}:{event.sequence}"}) + "\n")
