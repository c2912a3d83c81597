"""`connect`: a client with one session, or with a session at each of several brokers.

*Rules.*
1. `replicas` is the number of addresses, which must be those of different brokers: a client whose sessions are fewer
   than its author believes is worse than an error.
2. What a replicated client cannot do is an error that says so, not an option without effect.
"""

import ssl
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, overload

from msgspec.structs import replace as changed

from godwit.client.client_config import ClientConfig
from godwit.client.complete_merge import MergeBounds
from godwit.client.replicas import FilterName, ReplicaConfig
from godwit.errors import GodwitError
from godwit.runtime import network_client
from godwit.runtime.addresses import Address
from godwit.runtime.client_transport import Environment, address
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.pending_requests import OnState
from godwit.runtime.replicated_client import REPLICAS_MAX, ReplicatedNetworkClient
from godwit.runtime.wire import Intro

__all__ = ["connect"]

ONE_SESSION = ("mode", "confirm", "store")  # options of clients with one session


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
    filter: FilterName = "complete",
    publish: Literal["all", "one"] = "all",
    bounds: MergeBounds | None = None,
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
) -> ReplicatedNetworkClient: ...


def connect(*seeds: Any, replicas: int | None = None, **options: Any) -> Any:
    """A client of the network that these brokers belong to: `async with connect("127.0.0.1:7077") as client:`.

    With a `name` it can come back to its session, at any of the brokers; without one, its session ends with it.
    By a `token`, or a `user` and its `password`, a broker knows the user.
    `tls`: True, or a context that knows whom to trust. `quench`: do not send what nobody wants. `buffer`: so many
    events wait for a broker. `mode`: how it moves (docs/reference/modes.md). `confirm`: brokers keep an event until the
    client has received it, or until the application has read it. `on_state` is called when the state changes. `store`:
    a file with the subscriptions, for a client with a name; the next one of that name begins with them.
    `config`: all else there is to say of the client's machine. `surroundings`: for tests (`godwit.testing`).

    With `replicas` the client has a session at each broker of a list: `connect([…, …, …], replicas=3)`. `filter`
    decides what of their deliveries is displayed: "none", "unique", "ordered" or "complete". `publish`: through "all"
    replicas or through "one" at a time. `bounds`: how long "complete" waits for a replica. `mode`, `confirm` and
    `store` are for clients with one session. (docs/guides/replicas.md)
    """
    given = [each for seed in seeds for each in ([seed] if isinstance(seed, Address | str) else seed)]
    if replicas is not None:
        return _replicated(given, replicas, **options)
    if wrong := [name for name in ("filter", "publish", "bounds") if name in options]:
        raise GodwitError(f"{', '.join(wrong)} can be used only with replicas: connect([…], replicas={len(given)}, …)")
    return network_client.connect(*given, **options)


def _replicated(
    seeds: list[Address | str],
    replicas: int,
    *,
    filter: FilterName = "complete",
    publish: Literal["all", "one"] = "all",
    bounds: MergeBounds | None = None,
    name: str = "",
    token: str = "",
    user: str = "",
    password: str = "",
    tls: ssl.SSLContext | bool | None = None,
    quench: bool | None = None,
    buffer: int | None = None,
    on_state: OnState | None = None,
    config: ClientConfig | None = None,
    surroundings: Environment = Environment(),  # noqa: B008 (it is frozen)
    **more: Any,
) -> ReplicatedNetworkClient:
    for option in more:  # rule 2
        if option in ONE_SESSION:
            raise GodwitError(f"{option} cannot be used with replicas: it is for clients with one session")
        raise TypeError(f"connect() has no argument {option!r}")
    addresses = [address(seed) for seed in seeds]
    if replicas != len(addresses) or not 1 <= replicas <= REPLICAS_MAX:  # rule 1
        allowed = f"give the address of one broker for each replica, {REPLICAS_MAX} at most"
        raise GodwitError(f"replicas is {replicas}, and {len(addresses)} addresses are given: {allowed}")
    if twice := [each for at, each in enumerate(addresses) if each in addresses[:at]]:
        raise GodwitError(f"{twice[0]} is given twice: each replica needs another broker")
    if config is None:
        config = ClientConfig(sequence_start=int(surroundings.clock.time() * 1e6) if name else 0)
    if config.mode != "relocate":
        raise GodwitError(f"mode {config.mode!r} cannot be used with replicas: their sessions stay where they are")
    given = {"quench": quench, "buffer_events_max": buffer}
    config = changed(config, **{key: value for key, value in given.items() if value is not None})
    try:
        merged = ReplicaConfig(filter=filter, publish=publish, bounds=bounds or MergeBounds(), client=config)
    except ValueError as error:
        raise GodwitError(str(error)) from None
    return ReplicatedNetworkClient(
        addresses,
        name or f"{user}/client-{token_hex(6)}".removeprefix("/"),  # a user's clients bear its name
        merged,
        intro=Intro(token=token, user=user, password=password),
        tls=ssl.create_default_context() if tls is True else tls or None,
        on_state=on_state,
        stays=bool(name),
        surroundings=surroundings,
    )
