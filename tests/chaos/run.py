"""One run of chaos: a drawn network, drawn clients, rounds of drawn faults, and the judgement at the end.

A run is drawn from a seed: brokers, family, durability, TLS, clients, faults and when they happen, counted in events.
What the operating system does in between is not drawn: the same seed is the same plan and not the same history.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from godwit.runtime import client_transport, reconnecting
from tests.chaos.broker_processes import Network, NetworkPlan
from tests.chaos.chaos_clients import ChaosClient, MqttClient, NativeClient
from tests.chaos.check_history import Judgement, judge
from tests.chaos.faults import FAULTS, LOSES_DATA
from tests.chaos.history import History
from tests.network.waiting import pause, until

__all__ = ["draw_plan", "hasten", "run_chaos"]

TOPICS = ("a", "b", "c")
EVENTS = 60  # of each publisher in a round
PATIENCE_S = 90.0
PROBE_S = 0.5

CHAIN = (("b2", "b1"), ("b3", "b2"))
SHAPES: dict[str, tuple[tuple[tuple[str, str], ...], ...]] = {
    "tree": (CHAIN, (*CHAIN, ("b4", "b2")), (*CHAIN, ("b4", "b2"), ("b5", "b4"))),
    "graph": (
        (*CHAIN, ("b3", "b1")),
        (*CHAIN, ("b4", "b3"), ("b4", "b1")),
        (*CHAIN, ("b4", "b3"), ("b5", "b4"), ("b5", "b1"), ("b4", "b2")),
    ),
}


def hasten() -> None:
    """Our clients notice silence and dial as soon as the brokers of a run do."""
    client_transport.BEAT_S, client_transport.SILENCE_S = 0.5, 4.0
    reconnecting.RETRY_MAX_S = 0.5


def draw_plan(rng: Random) -> NetworkPlan:
    family = rng.choice(("tree", "graph"))
    return NetworkPlan(rng.choice(SHAPES[family]), family, rng.choice(("relaxed", "full")), tls=rng.random() < 0.25)


class Run:
    """A network under chaos and its clients."""

    def __init__(self, folder: Path, plan: NetworkPlan, rng: Random, history: History) -> None:
        self.folder, self.rng, self.history = folder, rng, history
        self.network = Network(folder, plan)
        self.subscribers: list[ChaosClient] = []
        self.publishers: list[ChaosClient] = []

    def _native(self, name: str) -> NativeClient:
        return NativeClient(name, self.network, self.history)

    def _mqtt(self, name: str, level: int, qos: int) -> MqttClient:
        return MqttClient(name, self.network, self.history, self.folder, level=level, qos=qos)

    async def start(self) -> None:
        await self.network.start()
        self.subscribers = [self._native("s1"), self._native("s2"), self._mqtt("m1", 4, 1), self._mqtt("m2", 5, 2)]
        self.publishers = [self._native("p1"), self._native("p2"), self._mqtt("q1", 5, 1), self._mqtt("q2", 4, 2)]
        for client in (*self.subscribers, *self.publishers):
            await client.start(self._somewhere())
        for client in self.subscribers:
            topics = (*self.rng.sample(TOPICS, self.rng.randint(1, len(TOPICS))), "probe")
            self.history.write("subscribe", who=client.name, topics=topics, promise=client.promise)
            await client.subscribe(topics)
        await self.probed()
        for client in self.subscribers:
            self.history.write("stands", who=client.name)

    def _somewhere(self) -> str:
        return self.rng.choice(self.network.plan.names)

    async def probed(self) -> None:
        """Until an event of each publisher comes to each subscriber: subscriptions stand everywhere."""
        missing = {(p.name, s.name) for p in self.publishers for s in self.subscribers}
        probes: dict[str, list[str]] = {p.name: [] for p in self.publishers}

        def has_come() -> bool:
            for p, s in list(missing):
                if self.history.got.get(s, set()).intersection(probes[p]):
                    missing.discard((p, s))
            return not missing

        async with asyncio.timeout(PATIENCE_S):
            while missing:
                for publisher in self.publishers:
                    if any(p == publisher.name for p, _ in missing):
                        probes[publisher.name].append(publisher.publish("probe"))
                try:
                    await until(has_come, "probes have come", PROBE_S)
                except AssertionError:
                    continue

    async def quiet(self) -> None:
        """Until all that was published is acknowledged and has come."""
        last = [publisher.publish("probe") for publisher in self.publishers]
        await until(lambda: self._have_come(last), "all that was published has come", PATIENCE_S)
        self.history.quiet_at = self.history.now()

    def _have_come(self, last: Sequence[str]) -> bool:
        """Whether these events have come to all, and with them whatever was published before."""
        got = self.history.got
        return not self.history.unacknowledged and all(
            got.get(s.name, set()).issuperset(last) for s in self.subscribers
        )

    async def round(self, kinds: Sequence[str]) -> None:
        """Publish and roam, while these faults begin and end."""
        rng = self.rng
        faults = [FAULTS[kind](self.network, rng, self.history) for kind in kinds]
        begins = dict(zip(rng.sample(range(EVENTS), len(faults)), faults, strict=True))
        ends: dict[int, list[object]] = {}
        running: list[asyncio.Task[None]] = []
        for k in range(EVENTS):
            for publisher in self.publishers:
                publisher.publish(rng.choice(TOPICS))
            if rng.random() < 0.1:
                client = rng.choice((*self.subscribers, *self.publishers))
                running.append(asyncio.create_task(self._roam(client, self._somewhere())))
            if k in begins:
                await anext(begins[k])
                ends.setdefault(rng.randrange(k + 1, EVENTS + 1), []).append(begins[k])
            for fault in ends.pop(k, ()):
                await anext(fault, None)  # type: ignore[call-overload]
            await pause(rng.uniform(0.0, 0.03))
        for rest in ends.values():
            for fault in rest:
                await anext(fault, None)  # type: ignore[call-overload]
        await asyncio.gather(*running)

    async def _roam(self, client: ChaosClient, to: str) -> None:
        if client.at != to:
            await client.roam(to)

    async def finish(self, patience_s: float) -> None:
        """Heal everything, and wait until a last event of each publisher has come everywhere."""
        await self.network.heal()
        last = [publisher.publish("probe") for publisher in self.publishers]

        with suppress(AssertionError):  # the checker says what is missing
            await until(lambda: self._have_come(last), "the last events have come", patience_s)
        for client in (*self.subscribers, *self.publishers):
            if isinstance(client, NativeClient):  # who stays connected hears of losses with its next greeting
                await client.greet_again()
            elif isinstance(client, MqttClient) and client in self.subscribers:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_S):
                        await client.ask_of_losses()
        self.history.write("end")

    async def close(self) -> None:
        for client in (*self.subscribers, *self.publishers):
            await client.close()
        await self.network.close()


async def run_chaos(
    folder: Path,
    seed: int,
    rounds: int,
    *,
    plan: NetworkPlan | None = None,
    kinds: Sequence[str] = tuple(FAULTS),
    patience_s: float = PATIENCE_S,
    on_round: Callable[[int, Sequence[str]], None] = lambda number, kinds: None,
) -> Judgement:
    """Run so many rounds on one network, and judge its history, which stays in the folder."""
    rng = Random(seed)
    plan = plan or draw_plan(rng)
    path = folder / "history.jsonl"
    loop = asyncio.get_running_loop()
    with path.open("w", encoding="utf-8") as file:
        history = History(file, loop.time)
        run = Run(folder, plan, rng, history)
        try:
            await run.start()
            for number in range(rounds):
                drawn = rng.sample(list(kinds), min(len(kinds), rng.choice((1, 1, 2))))
                if lossy := [kind for kind in drawn if kind in LOSES_DATA]:
                    drawn = lossy[:1]
                    await run.quiet()
                on_round(number, drawn)
                await run.round(drawn)
                await run.network.heal()
                if history.has_lost:
                    await run.probed()
                    history.write("settled")
            await run.finish(patience_s)
        finally:
            await run.close()
    with path.open(encoding="utf-8") as lines:
        return judge(lines)
