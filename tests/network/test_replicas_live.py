"""A client with a session at several brokers, on real sockets: replicas are killed, cut off, and lose their disks.

Every run is judged by the checkers that judge the simulated ones: ordered, consistent, complete. [mobile §5]
"""

from pathlib import Path
from typing import Any

import pytest

from godwit.broker.messages import QueueRules
from godwit.client import FILTERS, ClientConfig, MergeBounds
from godwit.errors import GodwitError, NotConnected, Refused
from godwit.runtime import connect
from godwit.runtime.replicated_client import ReplicatedNetworkClient
from godwit.simulator.replication_checkers import EventId
from godwit.simulator.replication_experiment import PAPER_TABLE
from tests.network.cli_broker import broker_apart, godwit, in_background, lines
from tests.network.fleet import hasten
from tests.network.proxy import Proxy
from tests.network.replica_sites import (
    Site,
    Sites,
    all_attached,
    broken,
    replica_sites,
    sites_apart,
    took,
)
from tests.network.test_native import start
from tests.network.waiting import run, until

PATIENT = MergeBounds(ask_after_s=0.2, give_up_s=60.0)
EVENTS = 20  # before, while and after a replica is in trouble


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)


def replicated(sites: Sites, name: str, **options: Any) -> ReplicatedNetworkClient:
    options = {"bounds": PATIENT, **options}
    return connect(sites.addresses, replicas=len(sites), name=name, **options)


async def publish(source: ReplicatedNetworkClient, count: int, matching: set[EventId]) -> EventId:
    """So many events, every second one of which is wanted, and then one that is; each is at a replica afterwards."""
    id = ("", 0)
    for n in range(2 * count):
        id = (source.name, source.machine.sequence + 1)
        if n % 2:
            matching.add(id)
        await source.publish({"n": n % 2})
    return id


async def killed(site: Site) -> Any:
    await site.broker.kill()
    return site.broker.start


async def cut_off(site: Site) -> Any:
    site.proxy.close()

    async def back() -> None:
        site.proxy.open()

    return back


async def silent(site: Site) -> Any:
    """Its connection stands, and nothing passes: nobody is told."""
    site.proxy.stall()

    async def back() -> None:
        site.proxy.go_on()

    return back


async def disk_lost(site: Site) -> Any:
    await site.lose_disk()

    async def back() -> None:
        pass

    return back


FAULTS = {"killed": killed, "cut off": cut_off, "silent": silent, "disk lost": disk_lost}


async def scene(sites: Sites, fault: str, how: str) -> None:
    matching: set[EventId] = set()
    async with replicated(sites, "ann") as ann, replicated(sites, "es", publish=how) as source:
        await all_attached(ann, source)
        subscription = await ann.subscribe("n = 1")
        await source.advertise("n >= 0")
        await publish(source, EVENTS, matching)
        for site in sites[:2]:  # one after the other; the first is the one that a source publishes through
            back = await FAULTS[fault](site)
            await publish(source, EVENTS, matching)
            await back()
            await all_attached(ann, source)
        last = await publish(source, EVENTS, matching)
        displayed = await took(ann, subscription, last)
        assert ann.receipt.missing == ()
        assert ann.receipt.displayed == len(displayed)
    assert broken(sites.history(matching, displayed)) == []
    assert len(displayed) == 4 * EVENTS


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_doubled_or_out_of_order_when_a_replica_is(tmp_path: Path, fault: str) -> None:
    async def apart() -> None:
        async with sites_apart(tmp_path) as sites:
            await scene(sites, fault, "all")

    run(apart)


@pytest.mark.parametrize("fault", ["killed", "cut off", "disk lost"])
def test_a_source_that_publishes_through_one_replica_at_a_time_goes_on_through_the_next(
    tmp_path: Path, fault: str
) -> None:
    async def line() -> None:
        async with replica_sites(tmp_path) as sites:
            await scene(sites, fault, "one")

    run(line)


# ---------------------------------------------------------------- Table 1 on sockets


async def table_row(folder: Path, filter: str) -> tuple[bool, bool, bool]:
    """Both replicas receive some events, the first one event that the second misses, on a way that is slower."""
    async with sites_apart(folder, ("b1", "b2")) as sites:
        first, second = sites
        async with (
            replicated(sites, "ann", filter=filter) as ann,
            connect(first.broker.address, name="es") as to_first,
            connect(second.broker.address, name="es") as to_second,
        ):
            await all_attached(ann)
            subscription = await ann.subscribe("n >= 0")
            start = to_first.machine.sequence
            for number in (start + 1, start + 2):
                await to_first.publish({"n": 0}, number=number)
                await to_second.publish({"n": 0}, number=number)
            if filter == "complete":  # which displays an event when both have brought it
                await until(lambda: ann.receipt.displayed == 2, "both ways have brought two events")
            else:
                await until(
                    lambda: ann.receipt.displayed + ann.receipt.suppressed == 4, "both ways have brought two events"
                )
            first.proxy.stall()
            await to_first.publish({"n": 1}, number=start + 3)
            for number in (start + 4, start + 5):
                await to_second.publish({"n": 1}, number=number)
            if filter != "complete":  # which waits for the first replica
                await until(
                    lambda: ann.receipt.displayed + ann.receipt.suppressed == 6, "the faster way has brought all"
                )
            first.proxy.go_on()
            await to_first.publish({"n": 2}, number=start + 6)
            await to_second.publish({"n": 2}, number=start + 6)
            count = {"none": 9, "unique": 6, "ordered": 5, "complete": 6}[filter]
            displayed = [(await subscription.next()).id for _ in range(count)]
        history = sites.history({("es", start + n) for n in range(1, 7)}, displayed)
    wrong = broken(history)
    return "ordered" not in wrong, "consistent" not in wrong, "complete" not in wrong


@pytest.mark.parametrize("filter", FILTERS)
def test_each_filter_keeps_and_breaks_what_table_1_says(tmp_path: Path, filter: str) -> None:
    assert run(table_row(tmp_path, filter)) == PAPER_TABLE[filter]


# ---------------------------------------------------------------- receipts


def test_a_receipt_names_the_event_that_a_replica_had_and_nobody_brought(tmp_path: Path) -> None:
    async def gap() -> None:
        async with sites_apart(tmp_path, ("b1", "b2")) as sites:
            first, _ = sites
            async with replicated(sites, "ann") as ann, connect(first.broker.address, name="es") as source:
                await all_attached(ann)
                subscription = await ann.subscribe("n >= 0", queue=QueueRules(count_max=1))
                await source.publish({"n": 0})
                assert (await subscription.next()).attributes["n"] == 0
                first.proxy.close()
                await until(lambda: ann.replica_states[str(first.address)].kind == "away", "it is cut off")
                await source.publish({"n": 1})
                await source.publish({"n": 2})
                first.proxy.open()
                assert (await subscription.next()).attributes["n"] == 2
                [missing] = ann.receipt.missing
                assert (missing.publisher, missing.sequence) == ("es", source.machine.sequence - 1)
                assert (missing.replica, missing.reason) == (str(first.address), "gap")
                assert ann.receipts[str(first.address)][-1].purged == {"count": 1}

    run(gap)


def test_a_receipt_names_an_event_that_came_after_the_wait_was_over_and_the_replica_that_was_given_up(
    tmp_path: Path,
) -> None:
    async def late() -> None:
        bounds = MergeBounds(ask_after_s=0.05, give_up_s=0.1)
        async with sites_apart(tmp_path, ("b1", "b2")) as sites:
            first, second = sites
            async with (
                replicated(sites, "ann", bounds=bounds) as ann,
                connect(first.broker.address, name="es") as to_first,
                connect(second.broker.address, name="es") as to_second,
            ):
                await all_attached(ann)
                subscription = await ann.subscribe("n >= 0")
                start = to_first.machine.sequence
                first.proxy.close()
                await until(lambda: ann.replica_states[str(first.address)].kind == "away", "it is cut off")
                await to_first.publish({"n": 1}, number=start + 1)
                await to_second.publish({"n": 2}, number=start + 2)
                assert (await subscription.next()).attributes["n"] == 2
                first.proxy.open()
                await until(lambda: ann.receipt.missing, "the late event is named")
                [missing] = ann.receipt.missing
                assert (missing.sequence, missing.reason) == (start + 1, "overtaken")
                assert ann.receipt.given_up[0].replica == str(first.address)

    run(late)


def test_the_next_process_of_a_name_goes_on_with_every_session_and_names_no_gap_that_is_none(tmp_path: Path) -> None:
    async def restarted() -> None:
        async with sites_apart(tmp_path, ("b1", "b2")) as sites, replicated(sites, "es") as source:
            async with replicated(sites, "ann", config=ClientConfig(confirm_every=1)) as ann:
                await all_attached(ann, source)
                subscription = await ann.subscribe("n >= 0", name="all")
                await source.publish({"n": 0})
                assert (await subscription.next()).attributes["n"] == 0
            for n in (1, 2):
                await source.publish({"n": n})
            await source.drain()
            async with replicated(sites, "ann") as ann:
                subscription = await ann.subscribe("n >= 0", name="all")
                came = [(await subscription.next()).attributes["n"] for _ in range(2)]
                assert came == [1, 2]
                assert ann.receipt.missing == ()

    run(restarted)


# ---------------------------------------------------------------- contexts


def test_replicas_follow_the_place_and_the_state_of_their_client(tmp_path: Path) -> None:
    async def walk() -> None:
        async with (
            replica_sites(tmp_path, ("b1", "b2")) as sites,
            replicated(sites, "ann") as ann,
            connect(sites[1].broker.address, name="es") as source,
        ):
            await all_attached(ann)
            await source.advertise("at IS NOT NULL")
            here = await ann.subscribe("at = myloc AND floor >= my.floor")
            for step, place in enumerate(["hall", "yard", "roof"]):
                await ann.set_place(place)
                await ann.set_context({"floor": step}, part="stairs")
                back = await cut_off(sites[step % 2])
                for floor in range(3):
                    for at in ("hall", "yard", "roof"):
                        await source.publish({"at": at, "floor": floor})
                await back()
                await all_attached(ann)
                came = [(await here.next()).attributes for _ in range(3 - step)]
                assert came == [{"at": place, "floor": floor} for floor in range(step, 3)]
            assert len(here) == 0
            assert ann.machine.context["floor"] == 2

    run(walk)


# ---------------------------------------------------------------- what is refused


def test_two_addresses_of_one_broker_are_one_replica_and_the_client_says_so(tmp_path: Path) -> None:
    async def twice() -> None:
        async with sites_apart(tmp_path, ("b1", "b2")) as sites:
            also_first = Proxy(sites[0].broker.address)
            await also_first.start()
            addresses = [*sites.addresses, also_first.address]
            async with connect(addresses, replicas=3, name="ann", bounds=PATIENT) as ann:
                with pytest.raises(NotConnected, match=r"are the same broker, b1: each replica needs another one"):
                    await ann.attached(replicas=3)
                await ann.attached(replicas=2)
                subscription = await ann.subscribe("n >= 0")
                await ann.publish({"n": 1})
                assert (await subscription.next()).attributes == {"n": 1}
            await also_first.stop()

    run(twice)


def test_what_every_replica_refuses_is_refused_and_a_client_that_nobody_answers_says_who_is_away(
    tmp_path: Path,
) -> None:
    async def refused() -> None:
        async with sites_apart(tmp_path, ("b1", "b2")) as sites, replicated(sites, "ann") as ann:
            await all_attached(ann)
            await ann.advertise("n >= 0")
            with pytest.raises(Refused, match="none of your advertisements"):
                await ann.publish({"m": 1})
            assert ann.buffered == 0
            for site in sites:
                site.proxy.close()
            await until(lambda: ann.state.kind == "away", "both are cut off")
            ann.publish({"n": 1})
            with pytest.raises(NotConnected, match="no replica has 1 of its events"):
                await ann.flushed(0.01)
            for site in sites:
                site.proxy.open()
            await ann.flushed()

    run(refused)


def test_options_that_replicas_do_not_have_are_errors() -> None:
    two = ["127.0.0.1:1", "127.0.0.1:2"]
    for options, text in (
        ({"replicas": 3}, "replicas is 3, and 2 addresses are given"),
        ({"replicas": 2, "mode": "named"}, "mode cannot be used with replicas"),
        ({"replicas": 2, "store": "x"}, "store cannot be used with replicas"),
        ({"replicas": 2, "filter": "some"}, "allowed are none, unique, ordered, complete"),
        ({"filter": "unique"}, "filter can be used only with replicas"),
    ):
        with pytest.raises(GodwitError, match=text):
            connect(two, **options)
    with pytest.raises(GodwitError, match="given twice"):
        connect([two[0], two[0]], replicas=2)


# ---------------------------------------------------------------- the command line


def test_sub_and_pub_have_a_session_at_every_broker_and_go_on_without_one_of_them() -> None:
    with broker_apart() as (apart, first):
        second = apart.do(start("b2", {}))
        both = ["--broker", str(first.address), "--broker", str(second.address), "--replicas"]
        result = in_background("sub", "n > 0", "-C", "3", "--name", "ann", *both)

        def listens() -> bool:
            machines: list[Any] = [broker.node.machine for broker in (first, second)]
            found = [machine.sessions.session("ann") for machine in machines]
            return all(session is not None and "sub" in session.subscriptions for session in found)

        apart.until(listens)
        assert godwit("pub", "n=1", *both).exit_code == 0
        apart.do(second.stop())
        assert godwit("pub", "n=2", "--through", "one", *both).exit_code == 0
        assert godwit("pub", "n=3", *both).exit_code == 0
        status, printed, said = result()
        assert (status, [line["attributes"]["n"] for line in lines(printed)]) == (0, [1, 2, 3])
        assert "missing" not in said


def test_options_of_replicas_are_errors_without_them() -> None:
    for words, text in (
        (["sub", "TRUE", "--replica-filter", "unique"], "--replica-filter needs --replicas"),
        (["sub", "TRUE", "--replicas", "--share", "g"], "cannot be used with --replicas"),
        (["pub", "n=1", "--through", "one"], "--through needs --replicas"),
        (["pub", "n=1", "--replicas", "--retain", "k"], "cannot be used with --replicas"),
        (["sub", "TRUE", "--replicas", "--replica-filter", "some"], "allowed are none, unique, ordered, complete"),
    ):
        result = godwit(*words)
        assert result.exit_code != 0
        assert text in result.output
