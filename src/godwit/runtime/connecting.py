"""`connect`: a client with one session, or with a session at each of several brokers.

*Rules.*
1. `replicas` is the number of addresses, which must be those of different brokers. A mismatch is an error, because the
   client would have fewer sessions than its author expects.
2. An option that a replicated client cannot use is an error, never ignored.
3. A client with a given name may have existed before. Unless `config` says otherwise, its events are numbered by the
   clock, so no number is used twice.
"""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal, overload

from msgspec.structs import replace as changed

from godwit.client.client_config import ClientConfig
from godwit.errors import GodwitError, StoreError
from godwit.runtime.addresses import Address
from godwit.runtime.client_transport import PORT, Environment, address
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.pending_requests import OnState
from godwit.runtime.wire import Intro

if TYPE_CHECKING:  # loaded for a client with replicas alone
    from godwit.client.complete_merge import MergeBounds
    from godwit.client.replicas import FilterName
    from godwit.runtime.replicated_client import ReplicatedNetworkClient

__all__ = ["connect"]

ONE_SESSION = ("mode", "confirm", "store")  # options of clients with one session
NEVER = 10**9
REPLICATED = ("filter", "publish", "bounds")  # options of clients with several


@overload
def connect(
    *seeds: Address | str,
    name: str = "",
    token: str = "",
    user: str = "",
    password: str = "",
    tls: ssl.SSLContext | bool | None = None,
    quench: bool | None = None,
    buffer: int | None = None,
    mode: str | None = None,
    confirm: Literal["received", "read"] = "received",
    on_state: OnState | None = None,
    store: Path | str | None = None,
    config: ClientConfig | None = None,
    surroundings: Environment = ...,
) -> NetworkClient: ...


@overload
def connect(
    seeds: Iterable[Address | str],
    /,
    *,
    replicas: int,
    filter: "FilterName" = "complete",
    publish: Literal["all", "one"] = "all",
    bounds: "MergeBounds | None" = None,
    name: str = "",
    token: str = "",
    user: str = "",
    password: str = "",
    tls: ssl.SSLContext | bool | None = None,
    quench: bool | None = None,
    buffer: int | None = None,
    on_state: OnState | None = None,
    config: ClientConfig | None = None,
    surroundings: Environment = ...,
) -> "ReplicatedNetworkClient": ...


def connect(*seeds: Any, replicas: int | None = None, **options: Any) -> Any:
    """A client of a network of brokers: `async with connect("127.0.0.1:7077") as client:`.

    `seeds`: addresses of brokers, tried in this order (default: 127.0.0.1:7077).
    `name`: client name. A client with a name resumes its session at any broker; without one, its session ends with it.
    `token`, or `user` and `password`: login.
    `tls`: True, or an SSL context with the trusted certificates.
    `quench`: do not send events that no subscription matches.
    `buffer`: number of events that may wait for a broker.
    `mode`: how the session moves between brokers (docs/reference/modes.md).
    `confirm`: brokers keep an event until the client has "received" it, or until the application has "read" it.
    `on_state`: called with each new connection state.
    `store`: file of subscriptions, for a client with a name; the next client of that name restores them.
    `config`: all other settings of the client. `surroundings`: for tests (`godwit.testing`).

    With `replicas` the client has a session at each broker of a list: `connect([…, …, …], replicas=3)`
    (docs/guides/replicas.md). Its options:
    `filter`: which deliveries are displayed: "none", "unique", "ordered" or "complete".
    `publish`: through "all" replicas or "one" at a time.
    `bounds`: how long "complete" waits for a replica.
    `mode`, `confirm` and `store` are for clients with one session.
    """
    addresses = [address(each) for seed in seeds for each in ([seed] if isinstance(seed, Address | str) else seed)]
    for option in options:
        if option not in _Options.__dataclass_fields__:
            raise TypeError(f"connect() has no argument {option!r}")
        if replicas is not None and option in ONE_SESSION:  # rule 2
            raise GodwitError(f"{option} cannot be used with replicas: it is for clients with one session")
        if replicas is None and option in REPLICATED:
            count = len(addresses)
            raise GodwitError(f"{option} can be used only with replicas: connect([…], replicas={count}, …)")
    given = _Options(**options)
    return _single(addresses, given) if replicas is None else _replicated(addresses, replicas, given)


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `connect`, which explains each."""

    name: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    tls: ssl.SSLContext | bool | None = None
    quench: bool | None = None
    buffer: int | None = None
    on_state: OnState | None = None
    config: ClientConfig | None = None
    surroundings: Environment = field(default_factory=Environment)
    mode: str | None = None
    confirm: Literal["received", "read"] = "received"
    store: Path | str | None = None
    filter: "FilterName" = "complete"
    publish: Literal["all", "one"] = "all"
    bounds: "MergeBounds | None" = None

    @property
    def client(self) -> str:
        """Client name. A generated one begins with the user name, by which brokers find its rights."""
        return self.name or f"{self.user}/client-{token_hex(6)}".removeprefix("/")

    @property
    def machine(self) -> ClientConfig:
        """The configuration of the client's machine. (rule 3)"""
        start = int(self.surroundings.clock.time() * 1e6) if self.name else 0
        given: dict[str, Any] = {"quench": self.quench, "buffer_events_max": self.buffer, "mode": self.mode}
        if self.confirm == "read":
            given |= {"confirm_every": NEVER, "confirm_after_s": float(NEVER)}
        config = self.config or ClientConfig(sequence_start=start)
        return changed(config, **{key: value for key, value in given.items() if value is not None})

    @property
    def connection(self) -> dict[str, Any]:
        """Options of both kinds of clients."""
        return {
            "intro": Intro(token=self.token, user=self.user, password=self.password),
            "tls": ssl.create_default_context() if self.tls is True else self.tls or None,
            "on_state": self.on_state,
            "stays": bool(self.name),
            "surroundings": self.surroundings,
        }


def _single(addresses: list[Address], given: _Options) -> NetworkClient:
    if given.store is not None and not given.name:
        raise StoreError(f"a store needs the name of its client: connect(…, name=…, store={str(given.store)!r})")
    return NetworkClient(
        addresses or [Address("127.0.0.1", PORT)],
        given.client,
        given.machine,
        confirms_read=given.confirm == "read",
        store=None if given.store is None else Path(given.store),
        **given.connection,
    )


def _replicated(addresses: list[Address], replicas: int, given: _Options) -> "ReplicatedNetworkClient":
    from godwit.client.complete_merge import MergeBounds
    from godwit.client.replicas import ReplicaConfig
    from godwit.runtime.replicated_client import REPLICAS_MAX, ReplicatedNetworkClient

    if replicas != len(addresses) or not 1 <= replicas <= REPLICAS_MAX:  # rule 1
        allowed = f"give the address of one broker for each replica, {REPLICAS_MAX} at most"
        raise GodwitError(f"replicas is {replicas}, and {len(addresses)} addresses are given: {allowed}")
    if twice := [each for at, each in enumerate(addresses) if each in addresses[:at]]:
        raise GodwitError(f"{twice[0]} is given twice: each replica needs another broker")
    config = given.machine
    if config.mode != "relocate":
        raise GodwitError(f"mode {config.mode!r} cannot be used with replicas: their sessions stay where they are")
    bounds = given.bounds or MergeBounds()
    try:
        merged = ReplicaConfig(filter=given.filter, publish=given.publish, bounds=bounds, client=config)
    except ValueError as error:
        raise GodwitError(str(error)) from None
    return ReplicatedNetworkClient(addresses, given.client, merged, **given.connection)
