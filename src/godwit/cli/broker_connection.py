"""Options and errors that all commands with a connection to a broker share: address, credentials, no connection.

Only small modules are imported here: the client library is loaded when a command runs.
"""

import os
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from godwit.cli.signatures import BadParameter, Exit, Option, echo
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from asyncio import Timeout
    from ssl import SSLContext

    from godwit.client.merge_receipt import MergeReceipt
    from godwit.runtime.network_client import NetworkClient
    from godwit.runtime.replicated_client import ReplicatedNetworkClient

__all__ = [
    "BrokerAddresses",
    "CaFile",
    "ClientOptions",
    "Password",
    "Replicas",
    "Tls",
    "Token",
    "User",
    "assigned",
    "check_mode",
    "end_with_input",
    "is_terminal",
    "report_missing",
    "run",
    "trusting",
    "wait_until_attached",
]

DEFAULT_BROKER = "127.0.0.1:7077"
LET_IN_S = 10.0
READ_BYTES = 65_536
NAMED_MAX = 20  # events that a report names

BrokerAddresses = Annotated[
    list[str] | None,
    Option(
        "--broker",
        metavar="HOST:PORT",
        envvar="GODWIT_BROKER",
        help=f"Broker to connect to (default: {DEFAULT_BROKER}); repeatable.",
    ),
]
Token = Annotated[str, Option(metavar="TOKEN", envvar="GODWIT_TOKEN", help="Access token.")]
User = Annotated[str, Option(metavar="NAME", envvar="GODWIT_USER", help="User name, with --password.")]
Password = Annotated[
    str,
    Option(metavar="TEXT", envvar="GODWIT_PASSWORD", help="Password; safer in the variable GODWIT_PASSWORD."),
]
Replicas = Annotated[bool, Option("--replicas", help="Keep a session at every --broker, instead of at one of them.")]
Tls = Annotated[
    bool, Option("--tls", help="Connect over TLS and check the certificate against the system's authorities.")
]
CaFile = Annotated[
    str,
    Option(
        "--ca",
        metavar="FILE",
        help="Connect over TLS and check the certificate against the authorities in this PEM file.",
    ),
]


def check_mode(mode: str, who: Literal["subscribers", "publishers"]) -> None:
    """Check that this is a mode for them; "": the default."""
    from godwit.mobility.modes import MODES

    suitable = [name for name, known in MODES.items() if known.suits(who)]
    if mode and mode not in suitable:
        raise BadParameter(f"--mode {mode}: allowed are {', '.join(suitable)}")


class ClientOptions(NamedTuple):
    """The brokers to connect to, and the credentials."""

    brokers: list[str] | None
    token: str = ""
    user: str = ""
    password: str = ""
    tls: bool = False
    ca: str = ""
    replicas: dict[str, Any] | None = None  # options of a replicated client; None: it has one session
    mode: str = ""  # mode of moving; "": the default for a client without memory

    @property
    def seeds(self) -> list[str]:
        """Where brokers are."""
        return self.brokers or [DEFAULT_BROKER]

    def client(self, name: str = "", **more: Any) -> "NetworkClient":
        """A client for these brokers. With a name it does not remember earlier runs under that name."""
        from godwit.mobility.modes import MODES
        from godwit.runtime.connecting import connect

        mode = self.mode or ("named" if name and "named" in MODES else None)
        made: NetworkClient = connect(*self.seeds, name=name, **{"mode": mode, **self._credentials(), **more})
        return made

    def replicated(self, name: str = "", **more: Any) -> "ReplicatedNetworkClient":
        """A client with a session at each of them."""
        from godwit.runtime.connecting import connect

        return connect(
            self.seeds, replicas=len(self.seeds), name=name, **self._credentials(), **(self.replicas or {}), **more
        )

    def client_of_any_kind(self, name: str = "") -> "NetworkClient | ReplicatedNetworkClient":
        """A client with one session or, with --replicas, with several."""
        return self.client(name) if self.replicas is None else self.replicated(name)

    def _credentials(self) -> dict[str, Any]:
        return {"token": self.token, "user": self.user, "password": self.password, "tls": self._tls()}

    def _tls(self) -> Any:
        return trusting(self.ca) if self.ca else self.tls or None


def trusting(ca: str) -> "SSLContext":
    """TLS that trusts the authorities in a file."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise GodwitError(f"cannot read certificates from {ca}: {error.strerror or error}") from None


async def wait_until_attached(client: "NetworkClient | ReplicatedNetworkClient", visitor: ClientOptions) -> None:
    """Wait for the connection to a broker. An error if none of them accepts it."""
    import asyncio

    failed: list[str] = []
    try:
        async with asyncio.timeout(LET_IN_S):
            async for state in client.states():
                if state.kind == "attached":
                    if client.is_unchecked:
                        shown = f"the user {visitor.user!r}" if visitor.user else "the token"
                        echo(f"warning: {shown} was not checked: this broker has no users", err=True)
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
    if visitor.replicas is not None:
        failed = failed[-1:]  # each names all replicas that have failed
    reasons = "; ".join(dict.fromkeys(failed))
    hint = ""
    if "connection refused" in reasons:
        hint = "\nIs a broker running? Start one with `godwit serve`, or name another with --broker HOST:PORT."
    elif "the connection was lost" in reasons and not (visitor.tls or visitor.ca):
        hint = (
            "\nIs this the broker's native port (default: 7077), and not that of MQTT or HTTP? "
            "If the port uses TLS, add --tls or --ca FILE."
        )
    elif "this broker has no users" in reasons:
        hint = "\nTo accept clients from other machines, give it a user file (`godwit user add`, security.users)."
    raise GodwitError(f"{reasons}{hint}")


def report_missing(receipt: "MergeReceipt") -> None:
    """Report on standard error the events that a replicated client has not displayed, and the replicas that failed."""
    for given_up in receipt.given_up[-NAMED_MAX:]:
        who = f"without {given_up.replica}" if given_up.replica else "without waiting"
        echo(f"went on {who}: {given_up.reason}", err=True)
    for missing in receipt.missing[-NAMED_MAX:]:
        why = "no replica delivered it" if missing.reason == "gap" else "it came after a later one"
        echo(f"missing: {missing.publisher}:{missing.sequence}, of {missing.replica}: {why}", err=True)
    more = receipt.missing_more + max(0, len(receipt.missing) - NAMED_MAX)
    if more:
        echo(f"missing: {more:,} events more, before these", err=True)


def end_with_input(limit: "Timeout") -> None:
    """Cancel the scope when standard input ends."""
    import asyncio

    loop = asyncio.get_running_loop()

    def on_input() -> None:
        if not os.read(0, READ_BYTES):
            loop.remove_reader(0)
            limit.reschedule(loop.time())

    try:
        loop.add_reader(0, on_input)
    except OSError:  # a file, or closed: it has ended already
        limit.reschedule(loop.time())


def run(scene: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on an event loop. Ctrl-C ends a command that has no end."""
    import asyncio

    try:
        asyncio.run(scene)
    except KeyboardInterrupt:
        raise Exit from None


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def assigned(words: list[str]) -> dict[str, Any]:
    """Attributes from `name=value` (numbers, true and false are recognised) and `name:=JSON`."""
    from godwit.filters.csv_cells import cell

    found: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name.removesuffix(":"):
            raise GodwitError(f"{word!r} is not an attribute: write name=value, or name:=JSON")
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
        raise GodwitError(f"{word!r}: the text after := must be JSON: {error}") from None
