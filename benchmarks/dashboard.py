"""What the dashboard costs, and how quickly it answers: `python benchmarks/dashboard.py`. It needs Chromium.

Brokers are processes of `godwit serve` on loopback; the 100,000 sessions are made in the machine of a broker here.
*First paint* is what the browser says of a page that was never loaded before. *Frames* are counted on the map while
2,000 clients move, with ten answers a second that a script makes up; and once more with 2,000 clients of a real broker
(`fleet`). *Cost* is the time to publish 40,000 events as fast as one client can, with a page of the dashboard open
beside it and without, in turns.
"""

import asyncio
import gzip
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Annotated, Any, NamedTuple

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
ROUNDS = 4
PUBLISHED = 40_000  # several seconds: a page that begins to show samples has got every event until then
OPEN = ("metrics", "live", "map")  # pages that ask for much

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
        """Processor time that it has taken so far."""
        fields = Path(f"/proc/{self.process_id}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
window.fetch = async (address, options) => {
  if (!String(address).includes("/everywhere/map")) return ask(address, options);
  for (const place of places) { place[0] += 0.004 * (Math.random() - 0.5); place[1] += 0.003 * (Math.random() - 0.5); }
  const positions = places.map(([lon, lat], n) => [`c${n}`, lon, lat, true, null]);
  const told = { positions, hand_overs: [], events: { rows: [], is_cut: false }, took_ms: 1 };
  return new Response(JSON.stringify({ answers: { b1: told }, unanswered: [] }));
};
"""
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
        finally:
            drivers.kill()
            await drivers.wait()
    what = f"map with {count:,} clients at a broker, each moves once a second"
    return [
        Row("fleet", what, frames, "frames/s", Anchor(50), is_full=not quick),
        Row("fleet", f"{what}: answers shown", updates, "1/s", is_full=not quick),
    ]


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


class Taken(NamedTuple):
    """What it took to publish."""

    seconds: float
    cpu_s: float  # of the broker


@part("cost")
async def cost(quick: bool) -> list[Row]:
    """What an open dashboard takes of a broker's throughput, by the page that is open."""
    rounds, events = (1, PUBLISHED // 10) if quick else (ROUNDS, PUBLISHED)
    rows = list[Row]()
    async with network(1) as (broker,), connect(broker.native, name="van") as van, page() as shown:

        async def taken(address: str) -> Taken:
            await shown.goto(address)
            await asyncio.sleep(1)  # until the page has asked for all that it begins with
            began, cpu_s = perf_counter(), broker.cpu_s()
            for n in range(events):
                van.publish({"n": n, "zone": n % 7, "position": {"lon": 8.5 + n % 100 / 1_000, "lat": 47.4}})
                if n % 500 == 0:
                    await van.flushed(60)
            await van.flushed(60)
            return Taken(perf_counter() - began, broker.cpu_s() - cpu_s)

        await taken("about:blank")  # to warm up
        for name in OPEN:
            there = f"{broker.web}/dashboard/{name}"
            pairs = [(await taken(there), await taken("about:blank")) for _ in range(rounds)]
            with_page, without = (Taken(*map(median, zip(*column, strict=True))) for column in zip(*pairs, strict=True))
            ratio, share = with_page.seconds / without.seconds, (with_page.cpu_s - without.cpu_s) / with_page.seconds
            what = f"time to publish with the page {name} open, over that without"
            rows.append(Row("cost", what, ratio, "times", Anchor(1.03), at_most=True, is_full=not quick))
            what = f"processor time of the broker for the page {name}"
            rows.append(Row("cost", what, 100 * share, "%", Anchor(3), at_most=True, is_full=not quick))
    return rows


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
