"""`godwit serve` and `godwit check-config`: run a broker from a file, environment variables and flags, or check
them."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from godwit import __version__
from godwit.cli.signatures import Argument, BadParameter, Exit, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.terminal import Console, Table, Text
from godwit.errors import ConfigurationError, GodwitError

if TYPE_CHECKING:
    from godwit.runtime.broker_server import BrokerServer
    from godwit.runtime.configuration import Configuration, Override

__all__ = ["check_config", "serve"]

SET = "--set"
OWN_FILES = 200  # files that a broker has open besides connections, at most
SWITCH_S = 0.000_5  # a busy event loop yields to the journal's thread after this time: deliveries wait for the journal

File = Annotated[str | None, Argument(metavar="FILE", help="Configuration file in TOML.")]
Changes = Annotated[
    list[str] | None,
    Option(SET, metavar="KEY=VALUE", help="Set a configuration key, as in limits.window=16; repeatable."),
]


def serve(
    file: File = None,
    name: Annotated[str | None, Option(metavar="NAME", help="Broker name (default: b1).")] = None,
    native: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="Address for brokers and native clients; '' for none (default: 127.0.0.1:7077).",
        ),
    ] = None,
    mqtt: Annotated[
        str | None,
        Option(metavar="HOST:PORT", help="Address for MQTT clients; '' for none (default: 127.0.0.1:1883)."),
    ] = None,
    http: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="Address for HTTP and WebSocket clients; '' for none (default: 127.0.0.1:7080).",
        ),
    ] = None,
    neighbours: Annotated[
        list[str] | None,
        Option(
            "--neighbour",
            metavar="NAME[=HOST:PORT]",
            help="Neighbour broker; without an address it connects to this one. Repeatable.",
        ),
    ] = None,
    folder: Annotated[
        str | None, Option(metavar="DIR", help="Folder of the journal (default: godwit-data/NAME).")
    ] = None,
    durability: Annotated[
        str | None,
        Option(metavar="memory|relaxed|full", help="Durability of the journal (default: relaxed)."),
    ] = None,
    accept_loss: Annotated[
        bool,
        Option("--accept-loss", help="Start even though the journal has lost data; neighbours and clients are told."),
    ] = False,
    log_level: Annotated[
        str | None,
        Option(metavar="LEVEL", help="Least severe level to log: debug, info, warning or error (default: info)."),
    ] = None,
    log_format: Annotated[
        str | None, Option(metavar="FORMAT", help="Log format: auto, text or json (default: auto).")
    ] = None,
    changes: Changes = None,
) -> None:
    """Run a broker until it is stopped.

    Without a file it listens on this machine only. Flags override environment variables (GODWIT_SECTION__KEY), which
    override the file. SIGTERM and Ctrl-C stop it cleanly; a second Ctrl-C stops it at once. SIGHUP reads the
    configuration, users, certificates and keys again, and logs the changed values and those that need a restart.
    SIGUSR1 logs the state of the broker.

    Example: godwit serve broker.toml --name b7
    """
    from godwit.matching import kernel_cache

    kernel_cache.postpone()  # before anything imports the kernels

    from godwit.runtime.configuration import load

    flags = _flags(
        {
            "--name": (("broker", "name"), name),
            "--native": (("listen", "native"), native),
            "--mqtt": (("listen", "mqtt"), mqtt),
            "--http": (("listen", "http"), http),
            "--folder": (("journal", "folder"), folder),
            "--durability": (("journal", "durability"), durability),
            "--log-level": (("log", "level"), log_level),
            "--log-format": (("log", "format"), log_format),
        },
        neighbours or [],
        changes or [],
    )
    _run(partial(load, file, os.environ, flags), accept_loss=accept_loss)


def check_config(
    file: Annotated[str, Argument(metavar="FILE", help="Configuration file in TOML.")],
    printed: Annotated[
        bool, Option("--print", help="Print the resulting configuration with its defaults, as TOML.")
    ] = False,
    changes: Changes = None,
) -> None:
    """Check a broker's configuration without starting it. Variables of the environment count, too.

    Exit status 0 if a broker can be started with it, as far as can be checked without starting, else 1.

    Example: godwit check-config broker.toml --print
    """
    from godwit.runtime.broker_server import check_parts
    from godwit.runtime.configuration import load

    try:
        configuration = load(file, os.environ, _flags({}, [], changes or []))
        check_parts(configuration)
    except GodwitError as error:
        faults = list(error.faults) if isinstance(error, ConfigurationError) else [str(error)]
        _answer({"file": file, "valid": False, "faults": faults}, "\n".join(faults))
        raise Exit(STATUS_NO) from None
    if printed:
        echo(configuration.to_toml(), nl=False)
    else:
        _answer({"file": file, "valid": True, "faults": []}, f"{file}: the broker {configuration.name} can be started")


def _answer(data: dict[str, Any], text: str) -> None:
    echo(text if sys.stdout.isatty() else json.dumps(data, ensure_ascii=False))


def _flags(
    named: "dict[str, tuple[tuple[str, ...], str | None]]", neighbours: list[str], changes: list[str]
) -> "list[Override]":
    from godwit.runtime.configuration import Override, key_path

    found = [Override(flag, path, text) for flag, (path, text) in named.items() if text is not None]
    for said in neighbours:
        peer, equals, address = said.partition("=")
        if not equals and ":" in peer:
            raise BadParameter(f"--neighbour {said}: give its name before its address, as in b2={said}")
        found.append(Override(f"--neighbour {said}", ("neighbours", peer), address))
    for said in changes:
        key, equals, text = said.partition("=")
        if not equals or not all(key.split(".")):
            raise BadParameter(f"{SET} {said}: it must be KEY=VALUE, as in limits.window=16")
        found.append(Override(f"{SET} {key}", key_path(key), text))
    return found


# ---------------------------------------------------------------- running


def _run(read: "Callable[[], Configuration]", *, accept_loss: bool) -> None:
    """Run the broker until a signal arrives. `read` returns the present configuration."""
    import asyncio

    from godwit.runtime.broker_server import BrokerServer
    from godwit.runtime.gc_tuning import tune_garbage_collector

    configuration = read()
    _have_streams()
    _have_room(configuration)
    on_loaded = tune_garbage_collector()
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner(loop_factory=_new_loop()) as runner:
        runner.run(_serve(BrokerServer(configuration, accept_loss=accept_loss), read, on_loaded))


def _have_streams() -> None:
    """Open standard streams that the parent process has closed, so that no socket gets their descriptor numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest number that is free, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _have_room(configuration: "Configuration") -> None:
    """Raise the limit of open files to the number that the allowed connections need, if the system permits it.

    Many systems begin with 1,024: beyond that a broker could neither accept connections nor open files of its journal.
    """
    try:
        import resource
    except ImportError:  # not on every system
        return
    limits = configuration.settled.limits
    wanted = 2 * limits.connections_max + configuration.settled.http.connections_max + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        with suppress(OSError, ValueError, OverflowError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def _new_loop() -> Any:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(
    broker_server: "BrokerServer", read: "Callable[[], Configuration]", on_loaded: Callable[[], None]
) -> None:
    import asyncio
    import signal

    from godwit.cli.stop_signals import stop_on_signals
    from godwit.runtime.reloading import Reloading
    from godwit.runtime.state_dump import state_of

    loop, stop = asyncio.get_running_loop(), stop_on_signals()
    on_reload = getattr(signal, "SIGHUP", None)  # not on every system
    on_dump = getattr(signal, "SIGUSR1", None)
    if on_reload is not None:
        loop.add_signal_handler(on_reload, lambda: None)  # it is starting, and reads the configuration anyway
    await broker_server.start()
    on_loaded()
    reading = Reloading(broker_server, read)
    broker_server.on_reload = reading.now
    if on_reload is not None:
        loop.add_signal_handler(on_reload, reading.begin)
    if on_dump is not None:
        loop.add_signal_handler(on_dump, lambda: broker_server.log.info("state", **state_of(broker_server)))
    try:
        with suppress(OSError):  # the reader has closed the pipe
            _show(broker_server)
        await stop.wait()
    finally:
        await broker_server.stop()


def _show(broker_server: "BrokerServer") -> None:
    """Print the addresses and example commands: a table on a terminal, otherwise one line of JSON."""
    from godwit.runtime.broker_server import folder_of

    configuration = broker_server.configuration
    folder = folder_of(configuration)
    if not sys.stdout.isatty():
        data = {
            "broker": configuration.name,
            "version": __version__,
            **{listener: str(address) for listener, address in broker_server.listening.items()},
            "durability": configuration.settled.journal.durability,
            "journal": None if folder is None else str(folder),
            "missing": broker_server.missing,
        }
        print(json.dumps(data, ensure_ascii=False), flush=True)
        return

    table = Table.grid(gap=2)
    for listener, (what, example) in HOW.items():
        address = broker_server.listening.get(listener)
        if address is not None:
            shown = example.format(host=address.host, port=address.port, address=address)
            table.add_row(Text(what, style="bold cyan"), Text(str(address)), Text(shown, style="dim"))
        elif listener in broker_server.missing:
            table.add_row(Text(what, style="bold cyan"), Text("–"), Text(broker_server.missing[listener], style="dim"))
    durability = configuration.settled.journal.durability
    where = "in memory only: nothing survives the end of this process" if folder is None else str(folder)
    table.add_row(Text("journal", style="bold cyan"), Text(durability), Text(where, style="dim"))
    for peer in configuration.settled.neighbours:
        table.add_row(Text("neighbour", style="bold cyan"), Text(peer), Text(""))
    console = Console()
    console.print(Text.assemble("broker ", (configuration.name, "bold"), " is up; Ctrl-C stops it"))
    console.print(table)


HOW = {
    "native": ("native", 'godwit sub "price < 10" --broker {address}'),
    "mqtt": ("MQTT", "mosquitto_sub -h {host} -p {port} -t '#'"),
    "http": ("HTTP", "curl http://{address}/healthz"),
}
