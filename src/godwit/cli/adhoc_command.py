"""`godwit adhoc`: a device of an ad hoc network, without any fixed broker."""

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.broker_connection import CaFile, Password, Tls, Token, User, is_terminal, run, trusting
from godwit.cli.signatures import Argument, BadParameter, Exit, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.terminal import Console
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from godwit.filters.events import Event
    from godwit.runtime.adhoc_device import AdHocDevice, DeviceSettings
    from godwit.trace import Record

__all__ = ["adhoc"]

NAME = re.compile(r"[\w.-]{1,64}")
SUBSCRIPTION = "adhoc"
ANYWHERE = "0.0.0.0:0"
READ_BYTES, LINE_BYTES_MAX = 2**16, 2**20
LINES_AT_ONCE = 1_000  # published before event brokers have the ones before
BEACON_MIN_S, BEACON_MAX_S = 0.05, 60.0
TOLD = {
    "merged": "took over the sessions of {peer}",
    "coordinated": "coordinates with {peer}",
    "lost": "lost event {publisher}:{sequence} for {peer}: {detail}",
    "fault": "fault of {peer}: {detail}",
}  # records that are printed


def adhoc(
    name: Annotated[str, Argument(metavar="NAME", help="Device name: letters, digits, dot, dash, underscore.")],
    filter: Annotated[
        str, Argument(metavar="FILTER", help="Events to print, such as \"kind = 'alarm'\" (default: none).")
    ] = "",
    listen: Annotated[
        str, Option(metavar="HOST:PORT", help="Address at which other devices connect; port 0: any free port.")
    ] = ANYWHERE,
    peers: Annotated[
        list[str] | None,
        Option("--peer", metavar="HOST:PORT", help="Device to connect to; repeatable. Works without multicast."),
    ] = None,
    multicast: Annotated[
        bool, Option("--multicast/--no-multicast", help="Find other devices by UDP multicast.")
    ] = True,
    group: Annotated[
        str, Option(metavar="HOST:PORT", help="Multicast group for announcements.")
    ] = "239.255.71.87:7187",
    interface: Annotated[
        str, Option(metavar="ADDRESS", help="IPv4 address of the interface for multicast; 0.0.0.0: any.")
    ] = "0.0.0.0",
    network: Annotated[
        str, Option(metavar="NAME", help="Network name: devices of other networks are ignored.")
    ] = "godwit",
    priority: Annotated[
        float, Option(metavar="FITNESS", min=0, max=1, help="Fitness to host the event broker, from 0 to 1.")
    ] = 0.5,
    meeting: Annotated[
        str, Option(metavar="WHAT", help="Behaviour of event brokers when islands meet: merge or coordinate.")
    ] = "merge",
    lease: Annotated[
        float, Option(metavar="SECONDS", min=1, help="Time after which an absent device is forgotten.")
    ] = 30.0,
    beacon: Annotated[
        float,
        Option(
            metavar="SECONDS",
            min=BEACON_MIN_S,
            max=BEACON_MAX_S,
            help="Time between two beacons of an event broker; all other times follow from it.",
        ),
    ] = 1.0,
    folder: Annotated[
        str,
        Option(
            "--state",
            metavar="DIR",
            help="Folder for the device's key and journal (default: ~/.local/state/godwit/adhoc/NAME).",
        ),
    ] = "",
    durability: Annotated[
        str,
        Option(
            metavar="WHAT",
            help="Durability of the events and sessions that the device holds: full, relaxed (a power failure loses "
            "the last seconds) or memory (no journal).",
        ),
    ] = "relaxed",
    allow: Annotated[
        str,
        Option(metavar="FILE", help="TOML list of allowed devices and keys (default: first key seen is kept)."),
    ] = "",
    skew: Annotated[
        float,
        Option(
            metavar="SECONDS", min=0, help="Time by which clocks of devices may differ; 0: clocks are not compared."
        ),
    ] = 300.0,
    brokers: Annotated[
        list[str] | None,
        Option(
            "--broker",
            metavar="HOST:PORT",
            help="Fixed broker, where the events of the island are published when it is reachable; repeatable.",
        ),
    ] = None,
    down: Annotated[
        str,
        Option(
            metavar="FILTER",
            help="Events of the fixed broker to publish in the island; it queues them while the device is away.",
        ),
    ] = "",
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls: Tls = False,
    ca: CaFile = "",
    show_key: Annotated[bool, Option("--show-key", help="Print the line for --allow lists, and exit.")] = False,
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
    until_eof: Annotated[
        bool, Option("--until-eof", help="Stop when standard input is closed and other devices have its events.")
    ] = False,
) -> None:
    """Run a device of an ad hoc network, without a fixed broker.

    Devices find each other by multicast, or by a list of --peer. Devices that reach each other, directly or over
    others, form an island. One of them is elected to host its event broker; if it fails, another one is elected. When
    two islands meet, their event brokers become one (or, with --meeting coordinate, work together), and take over all
    queued events.

    Events are read from standard input, one JSON object a line, and kept until an event broker has them. Events that
    match FILTER are printed, as `godwit sub` does. The state of the device is printed on standard error.

    A device keeps a journal of what it holds for others (--durability), and continues with it after a crash.

    A device with a fixed --broker stores the events of the island, and publishes each once at that broker when it is
    reachable. The publishers are then called NETWORK/NAME. With --down, events of that broker go the other way.

    Each device has a key, made at the first start. Nobody else can use its name: other devices keep the first key that
    they see for it, or know it from a list. For such a list, collect the lines that --show-key prints.

    Example: godwit adhoc anna "kind = 'alarm'"

    In another terminal: echo '{"kind": "alarm", "floor": 3}' | godwit adhoc carl --until-eof
    """
    if not NAME.fullmatch(name):
        raise BadParameter(f"NAME {name!r}: a device's name has 1 to 64 letters, digits, dots, dashes, underscores")
    if meeting not in ("merge", "coordinate"):
        raise BadParameter(f"--meeting {meeting}: allowed are merge and coordinate")
    if durability not in ("full", "relaxed", "memory"):
        raise BadParameter(f"--durability {durability}: allowed are full, relaxed and memory")
    if down and not brokers:
        raise BadParameter("--down needs --broker")
    if count is not None and not filter:
        raise BadParameter("--count needs a FILTER")
    if not multicast and not peers and listen == ANYWHERE:
        raise BadParameter("--no-multicast needs --peer, or --listen with the port that others dial")
    where = _folder(folder, name)
    if show_key:
        _show_key(name, where)
        return
    from godwit.filters.language import parse

    for text in (filter, down):
        if text:
            parse(text)  # an invalid filter is reported before any network is used
    settings = _settings(
        name,
        where,
        listen=listen,
        peers=peers or [],
        group=group if multicast else "",
        interface=interface,
        network=network,
        priority=priority,
        meeting=meeting,
        lease=lease,
        beacon=beacon,
        allow=allow,
        skew=skew,
        brokers=brokers or [],
        down=down,
        durability=durability,
        credentials={"token": token, "user": user, "password": password, "tls": trusting(ca) if ca else tls or None},
    )
    run(_run(settings, filter, count, wait, until_eof))


def _folder(said: str, name: str) -> "Path":
    from pathlib import Path

    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(said) if said else Path(home) / "godwit" / "adhoc" / name


def _show_key(name: str, where: "Path") -> None:
    from godwit.runtime.adhoc_keys import DeviceFolder

    echo(f'[devices."{name}"]\nkey = "{DeviceFolder(where).key().text}"')


def _settings(name: str, where: "Path", **said: Any) -> "DeviceSettings":
    from pathlib import Path

    from godwit.adhoc.device import AdHocConfig
    from godwit.runtime.adhoc_device import DeviceSettings
    from godwit.runtime.adhoc_discovery import MulticastSettings
    from godwit.runtime.adhoc_keys import read_allowed
    from godwit.runtime.adhoc_links import LinkLimits
    from godwit.runtime.configuration import address_of

    def address(option: str, text: str) -> Any:
        try:
            return address_of(text)
        except ValueError as error:
            raise BadParameter(f"{option} {text}: {error}") from None

    beacon = said["beacon"]
    base = AdHocConfig()
    times = {
        field: getattr(base, field) * beacon
        for field in ("beacon_s", "lost_s", "search_s", "spread_s", "gather_s", "poll_s", "merge_s", "fetch_s")
    }
    if said["lease"] < 3 * times["poll_s"]:
        raise BadParameter(
            f"--lease {said['lease']:g}: it must be {3 * times['poll_s']:g} at least, with this --beacon"
        )
    machine = AdHocConfig(priority=said["priority"], meeting=said["meeting"], lease_s=said["lease"], **times)
    skew_s = said["skew"]
    return DeviceSettings(
        name=name,
        folder=where,
        network=said["network"],
        listen=address("--listen", said["listen"]),
        peers=tuple(address("--peer", peer) for peer in said["peers"]),
        multicast=MulticastSettings(
            group=address("--group", said["group"]),
            interface=said["interface"],
            announce_s=2 * beacon,
            skew_s=skew_s,
        )
        if said["group"]
        else None,
        allowed=read_allowed(Path(said["allow"])) if said["allow"] else None,
        machine=machine,
        brokers=tuple(str(address("--broker", broker)) for broker in said["brokers"]),
        credentials=said["credentials"],
        down=said["down"],
        durability=said["durability"],
        limits=LinkLimits(beat_s=beacon, silence_s=5 * beacon, skew_s=skew_s),
    )


async def _run(settings: "DeviceSettings", filter: str, count: int | None, wait: float | None, until_eof: bool) -> None:
    import asyncio

    from godwit.cli.stop_signals import stop_on_signals
    from godwit.runtime.adhoc_device import AdHocDevice

    stop = stop_on_signals()
    show, printed = _printer(), 0

    def on_event(event: "Event", names: tuple[str, ...]) -> None:
        nonlocal printed
        if count is None or printed < count:
            show(event)
            printed += 1
        if printed == count:
            stop.set()

    device = AdHocDevice(settings, on_event, _on_record, _on_link, lambda state: _tell(f"is {state}"), _tell)
    address = await device.start()
    try:
        _tell(f"{settings.name} listens on {address}; key {device.key.text}")
        if device.without_multicast:
            _tell(f"warning: {device.without_multicast}; only --peer is used")
        if filter:
            device.subscribe(SUBSCRIPTION, filter)
        publishing = asyncio.create_task(_publish(device, until_eof, stop))
        try:
            async with asyncio.timeout(wait):
                await stop.wait()
        except TimeoutError:
            pass
        publishing.cancel()
    finally:
        await device.close()
    if count is not None and printed < count:
        raise Exit(STATUS_NO)


def _printer() -> "Callable[[Event], None]":
    if not is_terminal():
        import json

        from godwit.filters.json_lines import line_of

        return lambda event: print(json.dumps(line_of(event), ensure_ascii=False), flush=True)

    from godwit.cli.event_display import text_of

    console = Console()

    def show(event: "Event") -> None:
        with suppress(OSError):  # the terminal has closed, and SIGHUP is on its way
            console.print(text_of(event), soft_wrap=True)

    return show


def _tell(text: str) -> None:
    """Print the records of the device for people."""
    from godwit.cli.event_display import safe

    with suppress(OSError):  # the terminal has closed, and SIGHUP is on its way
        echo(safe(text), err=True)


def _on_record(record: "Record") -> None:
    if record.kind in TOLD:
        fields = {field: getattr(record, field) for field in ("peer", "publisher", "sequence", "detail")}
        _tell(TOLD[record.kind].format(**fields))


def _on_link(peer: str, reason: str) -> None:
    _tell(f"lost {peer}: {reason}" if reason else f"reached {peer}")


async def _publish(device: "AdHocDevice", until_eof: bool, stop: Any) -> None:
    """Publish the lines of standard input as fast as event brokers accept them."""
    import json
    from time import time

    from godwit.filters.json_lines import event_of

    if sys.stdin is None or (sys.stdin.isatty() and not until_eof):
        return
    number = 0
    async for line in _lines():
        number += 1
        if not line.strip():
            continue
        try:
            device.publish(event_of(json.loads(line), time()))
        except (GodwitError, ValueError, RecursionError) as error:
            _tell(f"warning: line {number} of standard input is skipped: {error}")
        if number % LINES_AT_ONCE == 0:
            await device.taken()
    if until_eof:
        await device.gone_over()
        stop.set()


async def _lines() -> "AsyncIterator[bytes]":
    """The lines of standard input; the last one need not be ended."""
    rest = b""
    while data := await _read_input():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > LINE_BYTES_MAX:
            raise GodwitError(f"a line of standard input has more than {LINE_BYTES_MAX:,} bytes")
    if rest:
        yield rest


async def _read_input() -> bytes:
    """Some bytes of standard input, when there are any; none at its end."""
    import asyncio

    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(0, readable.set)
    except OSError:  # a file: it is always readable
        return os.read(0, READ_BYTES)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(0)
    return os.read(0, READ_BYTES)
