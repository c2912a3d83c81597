"""What the dashboard costs, and how quickly it answers: `python benchmarks/dashboard.py`. It needs Chromium.

Brokers are processes of `godwit serve` on loopback; the 100,000 sessions are made in the machine of a broker here.
*First paint* is what the browser says of a page that was never loaded before. *Frames* are counted on the map while
2,000 clients move, with ten answers a second that a script makes up; and once more with 2,000 clients of a real broker
(`fleet`). *Cost* is the processor time of a broker for an event while one client publishes as fast as it can, with a
page of the dashboard open and without, in turns.
"""

import asyncio
import gzip
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from statistics import mean, median
from time import perf_counter
from typing import Annotated, Any

import httpx
import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import this_machine
from benchmarks.reporting import Anchor, Row, json_line, print_tables
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, Heard, Opened
from godwit.broker.limits import Limits
from godwit.broker.messages import Attach
from godwit.filters.values import Point
from godwit.mobility import mobile_broker
from godwit.runtime import connect
from godwit.runtime.authentication import LocalAuthenticator
from godwit.runtime.dashboard_files import WEB, served
from godwit.runtime.http import HttpServer
from godwit.runtime.node import Node
from godwit.runtime.static_files import CLIENT, static_file
from godwit.runtime.tcp import NativeServer

SESSIONS = 100_000
BROKERS = 6
MOVING = 2_000
EVENTS = 10_000
ROUNDS = 3
STEADY_PER_S = 8_000
BATCH = 100
WATCHED_S = 5.0  # with a page, and without: the slowest pages ask every five seconds
SETTLE_S = 1.0
OPEN = {
    "why": "why",
    "network": "network?broker=b1",
    "map": "map",
    "live": "live",
    "live, a tenth matches": "live?filter=n+%25+10+%3D+0",
    "workbench": "workbench?filter=zone+%3D+3",
    "here": "here",
    "sessions": "sessions?client=van",
    "metrics": "metrics",
}
"""Pages that ask again and again, and their addresses."""

Part = Callable[[bool], Coroutine[Any, Any, list[Row]]]
PARTS: dict[str, Part] = {}


def part(name: str) -> Callable[[Part], Part]:
    """Name a part, for `--only`."""

    def named(function: Part) -> Part:
        PARTS[name] = function
        return function

    return named


# ---------------------------------------------------------------- brokers and browsers


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Served:
    """A broker in a process of its own."""

    def __init__(self, name: str) -> None:
        self.name, self.native, self.http = name, f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.process_id = 0

    @property
    def web(self) -> str:
        return f"http://{self.http}"

    def cpu_s(self) -> float:
        """Processor time that it has taken so far, in all threads."""
        threads = Path(f"/proc/{self.process_id}/task").glob("*/schedstat")
        return sum(int(each.read_text(encoding="ascii").split()[0]) for each in threads) / 1e9


@asynccontextmanager
async def network(count: int, *more: str) -> AsyncIterator[list[Served]]:
    """Brokers in a chain. `more`: further words for each."""
    brokers = [Served(f"b{number}") for number in range(1, count + 1)]
    with tempfile.TemporaryDirectory(prefix="godwit-dashboard-") as folder:
        processes = []
        try:
            for at, broker in enumerate(brokers):
                words = ["--name", broker.name, "--native", broker.native, "--http", broker.http, "--mqtt", ""]
                for near in (at - 1, at + 1):
                    if 0 <= near < count:
                        words += ["--neighbour", f"{brokers[near].name}={brokers[near].native}"]
                words += ["--set", f"journal.folder={folder}/{broker.name}", *more]
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "godwit", "serve", *words),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                )
                processes.append(process)
                broker.process_id = process.pid
            for process in processes:
                assert process.stdout is not None
                await process.stdout.readline()
            yield brokers
        finally:
            for process in processes:
                if process.returncode is None:
                    process.kill()
                await process.wait()


@asynccontextmanager
async def page() -> AsyncIterator[Any]:
    """A page in Chromium."""
    from playwright.async_api import async_playwright

    async with async_playwright() as running:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        browser = await running.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield await browser.new_page(viewport={"width": 1200, "height": 900})
        finally:
            await browser.close()


async def answer_ms(client: httpx.AsyncClient, path: str, repeat: int = 9) -> float:
    """The median time of an answer."""
    took = []
    for _ in range(repeat):
        began = perf_counter()
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        took.append((perf_counter() - began) * 1e3)
    return median(took)


# ---------------------------------------------------------------- parts


@part("size")
async def size(quick: bool) -> list[Row]:
    """All that pages may load, and the first paint."""
    paths = [f"{WEB}/{path}" for path in served()] + [f"{WEB}/index.html", CLIENT]
    bytes_all = sum(len(gzip.compress(static_file(path).content)) for path in paths)
    async with network(1) as (broker,), page() as shown:
        paints = []
        for _ in range(1 if quick else 5):
            context = await shown.context.browser.new_context()
            fresh = await context.new_page()
            await fresh.goto(f"{broker.web}/dashboard/why")
            await fresh.wait_for_selector("main h1")
            script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()"
            paints.append(await fresh.evaluate(script))
            await context.close()
    return [
        Row("size", "all files with gzip", bytes_all / 1e3, "kB", Anchor(500), at_most=True),
        Row("size", "first paint", median(paints), "ms", Anchor(1_000), at_most=True),
    ]


@part("sessions")
async def sessions(quick: bool) -> list[Row]:
    """One page of a hundred thousand sessions."""
    count = SESSIONS // 20 if quick else SESSIONS
    limits = Limits(sessions_max=2 * SESSIONS)
    machine = mobile_broker("b1", {}, BrokerConfig(limits=limits))
    for number in range(count):
        machine.handle(Opened(f"c{number}"), 0.0)
        machine.handle(Heard(f"c{number}", Attach(f"client-{number:06}")), 0.0)
        machine.handle(Closed(f"c{number}"), 0.0)
    node = Node(lambda: machine, None)
    server = NativeServer("b1", node, {})
    http = HttpServer(node, server, LocalAuthenticator())
    address = await http.listen("127.0.0.1", 0)
    try:
        async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=60) as client:
            first = await answer_ms(client, "/everywhere/sessions?limit=100")
            last = await answer_ms(client, f"/everywhere/sessions?limit=100&first={count - 100}")
            found = await answer_ms(client, f"/everywhere/sessions?limit=100&search={count - 1}")
    finally:
        await http.close()
        await node.close()
    what = f"{count:,} sessions"
    anchor, is_full = Anchor(200), not quick
    return [
        Row("sessions", f"{what}: the first page", first, "ms", anchor, at_most=True, is_full=is_full),
        Row("sessions", f"{what}: the last page", last, "ms", anchor, at_most=True, is_full=is_full),
        Row("sessions", f"{what}: a search", found, "ms", anchor, at_most=True, is_full=is_full),
    ]


@part("why")
async def why(quick: bool) -> list[Row]:
    """Why, over a path of six brokers that remember as much as they can."""
    async with network(BROKERS) as brokers, AsyncExitStack() as stack:
        van = await stack.enter_async_context(connect(brokers[0].native, name="van"))
        screen = await stack.enter_async_context(connect(brokers[-1].native, name="screen"))
        await screen.subscribe("n >= 0")
        for n in range(EVENTS // 10 if quick else EVENTS):
            van.publish({"n": n, "zone": n % 7})
            if n % 500 == 0:
                await van.flushed(60)
        await van.flushed(60)
        event = f"van:{van.machine.sequence}"
        async with httpx.AsyncClient(base_url=brokers[0].web, trust_env=False, timeout=60) as client:
            took = await answer_ms(client, f"/why?event={event}&client=screen")
            verdict = (await client.get(f"/why?event={event}&client=screen")).json()
    assert verdict["delivered"], verdict["verdict"]
    what = f"why, over {BROKERS} brokers"
    return [Row("why", what, took, "ms", Anchor(100), at_most=True, is_full=not quick)]


@part("map")
async def moving_map(quick: bool) -> list[Row]:
    """Frames a second on the map, while clients move, ten answers a second."""
    count = MOVING // 10 if quick else MOVING
    async with network(1) as (broker,), page() as shown:
        await shown.add_init_script(MADE_UP.replace("COUNT", str(count)))
        frames, updates = await watched_map(shown, broker, count)
    what = f"map with {count:,} clients that move"
    return [
        Row("map", what, frames, "frames/s", Anchor(50), is_full=not quick),
        Row("map", f"{what}: answers shown", updates, "1/s", Anchor(9), is_full=not quick),
    ]


MADE_UP = """
const ask = window.fetch;
const places = Array.from({ length: COUNT }, () => [8.5 + Math.random() - 0.5, 47.4 + 0.6 * (Math.random() - 0.5)]);
const numbers = places.map((_, n) => n);
window.fetch = async (address, options) => {
  if (!String(address).includes("/everywhere/map")) return ask(address, options);
  for (const place of places) { place[0] += 0.004 * (Math.random() - 0.5); place[1] += 0.003 * (Math.random() - 0.5); }
  const isFirst = !new URL(address).searchParams.get("since");
  const named = isFirst ? numbers : [];
  const told = {
    mark: "a.1", is_whole: isFirst, names: { numbers: named, names: named.map((n) => `c${n}`) },
    moved: { numbers, lon: places.map(([lon]) => lon), lat: places.map(([, lat]) => lat), attached: numbers.map(() => true), at: numbers.map(() => null) },
    gone: [], hand_overs: [], events: { lon: [], lat: [], is_cut: false }, took_ms: 1,
  };
  return new Response(JSON.stringify({ answers: { b1: told }, unanswered: [] }));
};
"""  # noqa: E501
"""Answers in which everybody has moved: with real clients a broker would be measured, and not the map."""


@part("fleet")
async def fleet(quick: bool) -> list[Row]:
    """The same with clients that are there: each tells its place once a second to one broker."""
    count = MOVING // 10 if quick else MOVING
    places = ["--set", "limits.connections_per_host_max=10000", "--set", "limits.connections_max=10000"]
    async with network(1, *places) as (broker,), page() as shown:
        words = (sys.executable, __file__, "--drive", str(count), "--broker", broker.native)
        drivers = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        try:
            assert drivers.stdout is not None
            await drivers.stdout.readline()
            frames, updates = await watched_map(shown, broker, count)
            await shown.goto("about:blank")
            answer = await map_answer_ms(broker)
        finally:
            drivers.kill()
            await drivers.wait()
    what = f"map with {count:,} clients at a broker, each moves once a second"
    return [
        Row("fleet", what, frames, "frames/s", Anchor(50), is_full=not quick),
        Row("fleet", f"{what}: answers shown", updates, "1/s", Anchor(9), is_full=not quick),
        Row("fleet", f"{what}: processor time of the broker for an answer", answer, "ms", is_full=not quick),
    ]


async def map_answer_ms(broker: Served) -> float:
    """What an answer takes on average, without its request, as the broker says: ten a second, for three seconds."""
    took: list[float] = []
    marks = ""
    async with httpx.AsyncClient(base_url=broker.web, trust_env=False, timeout=60) as client:
        for _ in range(31):
            told = (await client.get("/everywhere/map", params={"since": marks})).json()["answers"][broker.name]
            took.append(told["took_ms"])
            marks = json.dumps({broker.name: told["mark"]})
            await asyncio.sleep(0.1)
    return mean(took[1:])  # the first tells of all clients


async def watched_map(shown: Any, broker: Served, count: int) -> tuple[float, float]:
    """Frames, and answers that the page has shown, a second."""
    await shown.goto(f"{broker.web}/dashboard/map")
    await shown.wait_for_selector(".map .points")
    await shown.wait_for_function(f"() => document.body.textContent.includes('{count:,} clients')")
    frames = await shown.evaluate(
        """() => new Promise((resolve) => {
            let frames = 0; const began = performance.now();
            const step = () => { frames += 1; const ms = performance.now() - began;
                ms < 5000 ? requestAnimationFrame(step) : resolve(1000 * frames / ms); };
            requestAnimationFrame(step); })"""
    )
    said = await shown.evaluate("document.body.textContent.match(/([0-9.]+) updates a second/)[1]")
    return float(frames), float(said)


async def drive(count: int, broker: str) -> None:
    """Clients that move about, until the process ends."""
    drawn = Random(1)
    gate = asyncio.Semaphore(50)
    came = asyncio.Barrier(count + 1)

    async def car(number: int) -> None:
        lon, lat = 8.5 + drawn.gauss(0, 0.5), 47.4 + drawn.gauss(0, 0.3)
        async with AsyncExitStack() as stack:
            async with gate:
                client = await stack.enter_async_context(connect(broker, name=f"c{number}"))
                await client.attached(60)
                client.set_place(Point(lon, lat))
                await client.flushed(60)
            await came.wait()
            await asyncio.sleep(drawn.random())
            while True:
                lon, lat = lon + drawn.gauss(0, 0.002), lat + drawn.gauss(0, 0.001)
                client.set_place(Point(lon, lat))
                await asyncio.sleep(1)

    async with asyncio.TaskGroup() as cars:
        for number in range(count):
            cars.create_task(car(number))
        await came.wait()
        print("all are there", flush=True)


@part("cost")
async def cost(quick: bool) -> list[Row]:
    """What an open page takes of a broker's throughput: the share of a processor that the broker works more with it.

    A broker whose processor is busy handles so many events less. A client publishes at a steady rate, so that turns and
    writes of the broker are alike with a page and without; when it published as fast as it could, its processor time
    for an event was 0.79 to 1.08 times that without a page. Times with and without a page take turns, and each is
    compared with those on both sides: so it matters little that the machine is slower at times. The processor time is
    that of the broker alone, not of the browser beside it.
    """
    rounds, seconds = (1, 1.0) if quick else (ROUNDS, WATCHED_S)
    shares: dict[str, list[float]] = {name: [] for name in OPEN}
    published = 0
    async with network(1) as (broker,), connect(broker.native, name="van") as van, page() as shown:

        async def publish() -> None:
            nonlocal published
            loop = asyncio.get_running_loop()
            due = loop.time()
            while True:
                for n in range(BATCH):
                    van.publish({"n": n, "zone": n % 7, "position": {"lon": 8.5 + n % 100 / 1_000, "lat": 47.4}})
                await van.flushed(60)
                published += BATCH
                due = max(due + BATCH / STEADY_PER_S, loop.time() - 1.0)
                await asyncio.sleep(due - loop.time())

        async def cpu_of_an_event(address: str) -> float:
            await shown.goto(address)
            await asyncio.sleep(SETTLE_S)  # until the page has asked for all that it begins with
            before, cpu_s = published, broker.cpu_s()
            await asyncio.sleep(seconds)
            return (broker.cpu_s() - cpu_s) / (published - before)

        publishing = asyncio.create_task(publish())
        try:
            await cpu_of_an_event("about:blank")  # to warm up
            before = await cpu_of_an_event("about:blank")
            for _ in range(rounds):
                for name, path in OPEN.items():
                    with_page = await cpu_of_an_event(f"{broker.web}/dashboard/{path}")
                    after = await cpu_of_an_event("about:blank")
                    shares[name].append((with_page - (before + after) / 2) * STEADY_PER_S)
                    before = after
        finally:
            publishing.cancel()
    print(f"{1e6 * before:.1f} us of the broker for an event without a page", file=sys.stderr)
    return [
        Row(
            *("cost", f"share of a processor that an open page {name} takes of the broker", median(found)),
            *("", Anchor(0.03)),
            at_most=True,
            is_full=not quick,
        )
        for name, found in shares.items()
    ]


def main(
    only: Annotated[list[str] | None, typer.Option(help=f"Only these parts: {', '.join(PARTS)}.")] = None,
    quick: Annotated[bool, typer.Option(help="Small sizes; figures are rough.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
    drivers: Annotated[int, typer.Option("--drive", hidden=True, help="Be so many clients, for `fleet`.")] = 0,
    broker: Annotated[str, typer.Option(hidden=True, help="Where they connect.")] = "",
) -> None:
    """Measure the dashboard beside its targets."""
    if drivers:
        asyncio.run(drive(drivers, broker))
    machine = this_machine()
    rows: list[Row] = []
    for name, measure in PARTS.items():
        if only and name not in only:
            continue
        print(f"{name} …", file=sys.stderr, flush=True)
        found = asyncio.run(measure(quick))
        rows += found
        if as_json or not sys.stdout.isatty():
            for row in found:
                print(json_line(row, machine), flush=True)
    if not as_json and sys.stdout.isatty():
        print_tables(rows, machine)


if __name__ == "__main__":
    typer.run(main)
