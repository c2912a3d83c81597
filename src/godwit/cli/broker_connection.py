"""What the commands that talk to a broker share: its address, who connects, and what is said when nobody answers.

Only light things are imported here: the client is loaded when a command runs.
"""

import os
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from godwit.errors import GodwitError

if TYPE_CHECKING:
    from asyncio import Timeout
    from ssl import SSLContext

    from godwit.runtime.network_client import NetworkClient

__all__ = [
    "BrokerAddresses",
    "CaFile",
    "ClientOptions",
    "Password",
    "Tls",
    "Token",
    "User",
    "assigned",
    "end_with_input",
    "is_terminal",
    "run",
    "trusting",
    "wait_until_attached",
]

DEFAULT_BROKER = "127.0.0.1:7077"
LET_IN_S = 10.0
READ_BYTES = 65_536

BrokerAddresses = Annotated[
    list[str] | None,
    typer.Option(
        "--broker",
        metavar="HOST:PORT",
        envvar="GODWIT_BROKER",
        help=f"Broker to connect to (default: {DEFAULT_BROKER}); repeatable.",
    ),
]
Token = Annotated[str, typer.Option(metavar="TOKEN", envvar="GODWIT_TOKEN", help="Access token.")]
User = Annotated[str, typer.Option(metavar="NAME", envvar="GODWIT_USER", help="User name, with --password.")]
Password = Annotated[
    str,
    typer.Option(metavar="TEXT", envvar="GODWIT_PASSWORD", help="Password; safer in the variable GODWIT_PASSWORD."),
]
Tls = Annotated[
    bool, typer.Option("--tls", help="Connect over TLS and check the certificate against the system's authorities.")
]
CaFile = Annotated[
    str,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="Connect over TLS and check the certificate against the authorities in this PEM file.",
    ),
]


class ClientOptions(NamedTuple):
    """The brokers to connect to, and the credentials."""

    brokers: list[str] | None
    token: str = ""
    user: str = ""
    password: str = ""
    tls: bool = False
    ca: str = ""

    @property
    def seeds(self) -> list[str]:
        """Where brokers are."""
        return self.brokers or [DEFAULT_BROKER]

    def client(self, name: str = "", **more: Any) -> "NetworkClient":
        """A client for them. With a name it has no memory of what it did under it before."""
        from godwit.mobility.modes import MODES
        from godwit.runtime.network_client import connect

        mode = "named" if name and "named" in MODES else None
        return connect(
            *self.seeds,
            name=name,
            token=self.token,
            user=self.user,
            password=self.password,
            tls=self._tls(),
            mode=mode,
            **more,
        )

    def _tls(self) -> Any:
        return trusting(self.ca) if self.ca else self.tls or None


def trusting(ca: str) -> "SSLContext":
    """TLS that trusts the authorities in a file."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise GodwitError(f"cannot read certificates from {ca}: {error.strerror or error}") from None


async def wait_until_attached(client: "NetworkClient", visitor: ClientOptions) -> None:
    """Until a broker has let us in. An error when each of them has been tried in vain."""
    import asyncio

    failed: list[str] = []
    try:
        async with asyncio.timeout(LET_IN_S):
            async for state in client.states():
                if state.kind == "attached":
                    return
                if state.reason:
                    failed.append(state.reason)
                if len(failed) >= len(visitor.seeds):
                    break
    except TimeoutError:
        failed.append(
            f"no broker answered in {LET_IN_S:g} s; "
            "if this client already has a session, the broker that holds it may be unreachable"
        )
    reasons = "; ".join(dict.fromkeys(failed))
    hint = ""
    if "connection refused" in reasons:
        hint = "\nIs a broker running? Start one with `godwit serve`, or name another with --broker HOST:PORT."
    elif "the connection was lost" in reasons and not (visitor.tls or visitor.ca):
        hint = "\nIf the broker uses TLS, add --tls or --ca FILE."
    raise GodwitError(f"{reasons}{hint}")


def end_with_input(limit: "Timeout") -> None:
    """End the time there is when standard input ends."""
    import asyncio

    loop = asyncio.get_running_loop()

    def on_input() -> None:
        if not os.read(0, READ_BYTES):
            loop.remove_reader(0)
            limit.reschedule(loop.time())

    try:
        loop.add_reader(0, on_input)
    except OSError:  # a file, or nothing at all: it has ended already
        limit.reschedule(loop.time())


def run(scene: Coroutine[Any, Any, None]) -> None:
    """Do it on a loop. Ctrl-C is the way to end what has no end."""
    import asyncio

    try:
        asyncio.run(scene)
    except KeyboardInterrupt:
        raise typer.Exit from None


def is_terminal() -> bool:
    """Whether somebody looks at what is printed."""
    return sys.stdout.isatty()


def assigned(words: list[str]) -> dict[str, Any]:
    """`name=value` as attributes; a number, true and false are such, `name:=JSON` is what the JSON is."""
    from godwit.filters.csv_cells import cell

    found: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name.removesuffix(":"):
            raise GodwitError(f"{word!r} is no attribute: write name=value, or name:=JSON")
        if name.endswith(":"):
            found[name[:-1]] = _json(word, text)
        else:
            found[name] = text if not text else cell(text)
    return found


def _json(word: str, text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GodwitError(f"{word!r}: what stands after := must be JSON: {error}") from None
