"""`godwit bench`: throughput of a running broker in events per second, and the delay of deliveries.

The load comes from this one process, through the client library: the figures are those of broker and client together.
(`benchmarks/network.py` measures the broker alone.)
"""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from godwit.cli.broker_connection import (
    BrokerAddresses,
    CaFile,
    ClientOptions,
    Password,
    Tls,
    Token,
    User,
    is_terminal,
    run,
    wait_until_attached,
)
from godwit.cli.signatures import Option, echo
from godwit.cli.terminal import Console, Table

if TYPE_CHECKING:
    import asyncio
    from contextlib import AsyncExitStack

    from godwit.runtime.network_client import NetworkClient, Subscription

__all__ = ["bench"]

SUBSCRIPTIONS_EACH = 500  # of a client with subscriptions that match nothing
AT_ONCE = 100
SHOWN = ("publishers", "receivers", "subscriptions", "size", "events")
PATIENCE_S = 60.0  # without any event


class Load(NamedTuple):
    """The parameters of a measurement."""

    events: int
    publishers: int
    receivers: int
    subscriptions: int
    size: int
    rate: float
    seconds: float


def bench(
    events: Annotated[
        int, Option("--events", "-n", metavar="COUNT", help="Events to publish at full speed.", min=1)
    ] = 10_000,
    publishers: Annotated[int, Option(metavar="COUNT", help="Number of publishing clients.", min=1)] = 1,
    receivers: Annotated[int, Option(metavar="COUNT", help="Number of clients that receive every event.", min=1)] = 5,
    subscriptions: Annotated[
        int, Option(metavar="COUNT", help="Number of further subscriptions, which match no event.", min=0)
    ] = 0,
    size: Annotated[int, Option(metavar="BYTES", help="Payload size of each event.", min=0)] = 120,
    rate: Annotated[
        float, Option(metavar="EVENTS", help="Events per second while delays are measured.", min=1)
    ] = 500.0,
    seconds: Annotated[float, Option(metavar="SECONDS", help="Duration of the measurement of delays.", min=0.1)] = 3.0,
    brokers: BrokerAddresses = None,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls: Tls = False,
    ca: CaFile = "",
) -> None:
    """Measure the throughput and the latency of a running broker. First it counts events a second at full
    speed, then it measures the delay of events at a steady rate.

    Publishers and receivers are clients in this process, spread over the brokers of --broker. The figures are those of
    broker and client together.

    Example: godwit bench --events 20000 --receivers 10
    """
    visitor = ClientOptions(brokers, token, user, password, tls, ca)
    run(_bench(visitor, Load(events, publishers, receivers, subscriptions, size, rate, seconds)))


async def _bench(visitor: ClientOptions, load: Load) -> None:
    from contextlib import AsyncExitStack
    from secrets import token_hex

    from godwit.cli.match_command import progress

    mark = token_hex(4)
    async with AsyncExitStack() as stack:
        with progress() as bar:
            receivers = [await _client(stack, visitor, number) for number in range(load.receivers)]
            publishers = [await _client(stack, visitor, number) for number in range(load.publishers)]
            listening = [await each.subscribe(f"bench = '{mark}'") for each in receivers]
            figures: dict[str, Any] = {
                "broker": " ".join(dict.fromkeys(each.state.broker for each in receivers)),
                **{
                    name: getattr(load, name) for name in ("publishers", "receivers", "subscriptions", "size", "events")
                },
            }
            if load.subscriptions:
                task = bar.add_task("subscribing", total=load.subscriptions)
                figures["subscriptions_per_second"] = await _subscribe(stack, visitor, load.subscriptions, bar, task)
            figures |= await _throughput(load, publishers, listening, mark, bar)
            figures |= await _delays(load, publishers[0], listening, mark, bar)
        _show(figures)


async def _client(stack: "AsyncExitStack", visitor: ClientOptions, number: int) -> "NetworkClient":
    seeds = visitor.seeds[number % len(visitor.seeds) :] + visitor.seeds[: number % len(visitor.seeds)]
    client = await stack.enter_async_context(visitor._replace(brokers=seeds).client(buffer=AT_ONCE * 10))
    await wait_until_attached(client, visitor)
    return client


async def _subscribe(stack: "AsyncExitStack", visitor: ClientOptions, count: int, bar: Any, task: Any) -> float:
    """Make this number of subscriptions that match nothing; returns how many a second were accepted."""
    import asyncio
    from time import perf_counter

    clients = [await _client(stack, visitor, number) for number in range(-(-count // SUBSCRIPTIONS_EACH))]
    started = perf_counter()
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        await asyncio.gather(
            *[clients[n // SUBSCRIPTIONS_EACH].subscribe(f"bench_none = {n} AND n > {n % 97}") for n in numbers]
        )
        bar.advance(task, len(numbers))
    return round(count / (perf_counter() - started), 1)


async def _throughput(
    load: Load, publishers: list["NetworkClient"], listening: list["Subscription"], mark: str, bar: Any
) -> dict[str, Any]:
    """Events at full speed, until each receiver has them all."""
    import asyncio
    from time import perf_counter

    from godwit.filters.events import event

    task = bar.add_task("full speed", total=load.events)
    payload = b"x" * load.size

    async def publish(client: "NetworkClient", numbers: range) -> None:
        for n in numbers:
            await client.room()
            client.publish(event({"bench": mark, "n": n}, payload=payload))
            bar.advance(task, 1)
        await client.drain()

    async def receive(subscription: "Subscription") -> None:
        for _ in range(load.events):
            await subscription.next(PATIENCE_S)

    started = perf_counter()
    receiving = [asyncio.create_task(receive(each)) for each in listening]
    shares = [range(number, load.events, load.publishers) for number in range(load.publishers)]
    try:
        await asyncio.gather(*[publish(client, share) for client, share in zip(publishers, shares, strict=True)])
        published_s = perf_counter() - started
        await asyncio.gather(*receiving)
    finally:
        _end(receiving)
    seconds = perf_counter() - started
    return {
        "published_per_second": round(load.events / published_s, 1),
        "delivered_per_second": round(load.events * load.receivers / seconds, 1),
    }


async def _delays(
    load: Load, publisher: "NetworkClient", listening: list["Subscription"], mark: str, bar: Any
) -> dict[str, Any]:
    """The time from `publish` until an event can be read, at a steady rate."""
    import asyncio
    from time import perf_counter

    count = max(1, round(load.rate * load.seconds))
    task = bar.add_task("steady rate", total=count)
    delays_ms: list[float] = []

    async def receive(subscription: "Subscription") -> None:
        for _ in range(count):
            event = await subscription.next(PATIENCE_S)
            delays_ms.append(1_000 * (perf_counter() - float(event.attributes["at"])))  # type: ignore[arg-type]

    receiving = [asyncio.create_task(receive(each)) for each in listening]
    started = perf_counter()
    try:
        for n in range(count):
            await asyncio.sleep(max(0.0, started + n / load.rate - perf_counter()))
            publisher.publish({"bench": mark, "n": n, "at": perf_counter()})
            bar.advance(task, 1)
        await asyncio.gather(*receiving)
    finally:
        _end(receiving)
    delays_ms.sort()
    return {
        "rate": load.rate,
        "delay_ms_median": round(delays_ms[len(delays_ms) // 2], 3),
        "delay_ms_p99": round(delays_ms[min(len(delays_ms) - 1, len(delays_ms) * 99 // 100)], 3),
        "delay_ms_max": round(delays_ms[-1], 3),
    }


def _end(tasks: "list[asyncio.Task[None]]") -> None:
    """Close the clients without waiting: the user has pressed Ctrl-C."""
    for task in tasks:
        task.cancel()


def _show(figures: dict[str, Any]) -> None:
    if not is_terminal():
        import json

        echo(json.dumps(figures))
        return

    table = Table(show_header=False, title=f"godwit bench · {figures.pop('broker')}")
    table.add_column(style="cyan")
    table.add_column(justify="right", style="bold")
    units = {"size": "bytes", "rate": "events/s", "ms": "ms"}
    for label, figure in figures.items():
        unit = units.get(label, "ms" if "_ms" in label else "")
        shown = f"{figure:,.3f}" if "_ms" in label else f"{figure:,.0f}"
        if label in ("published_per_second", "delay_ms_median"):
            table.add_section()
        table.add_row(label.replace("_ms", "").replace("_", " "), f"{shown} {unit}".strip())
    Console().print(table)
