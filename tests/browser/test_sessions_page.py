"""The Sessions page, against brokers that run: a session on its way to another broker, and what exact tests decided."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from godwit.runtime.connecting import connect
from godwit.runtime.tcp import Address
from tests.browser.kept_browser import run
from tests.browser.test_dashboard import dashboard, show, shows
from tests.network.http_broker import broker, listening
from tests.network.proxy import Proxy
from tests.network.waiting import until

SPEEDING = "/car[number(speed) > number(limit)]"  # one attribute against another, which no filter can say


@asynccontextmanager
async def proxy(target: Address) -> AsyncIterator[Proxy]:
    made = Proxy(target)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def test_a_session_is_moving_until_the_link_to_its_old_broker_is_back() -> None:
    async def scene() -> None:
        async with (
            broker("b1", {"b2": None}) as (b1, _),
            proxy(b1.native) as link,
            broker("b2", {"b1": link.address}) as (b2, _),
            connect(b1.native, name="tram") as tram,
            connect(b2.native, name="van") as van,
            dashboard(b2.url) as page,
        ):
            await b1.ready()
            await b2.ready()
            await tram.subscribe("n > 0", name="all")
            link.close()
            await until(lambda: bool(b2.http.reasons()))
            await tram.move(b2.native)
            await show(page, "sessions")
            moving = page.get_by_role("region", name="Moving").get_by_role("row").filter(has_text="tram")
            await moving.wait_for()
            assert (await moving.get_by_role("cell").all_inner_texts())[:4] == ["tram", "moving", "b2", "b1"]
            await shows(page, "1 client has come to another broker")
            await van.publish({"n": 1})
            await moving.get_by_role("cell", name="1", exact=True).wait_for()
            link.open()
            await moving.wait_for(state="detached")
            row = page.get_by_role("region", name="Sessions").get_by_role("row").filter(has_text="tram")
            await row.get_by_text("attached").wait_for()
            assert (await row.get_by_role("cell").all_inner_texts())[:3] == ["tram", "b2", "attached"]

    run(scene())


def test_residues_of_an_exact_test_are_counted_beside_its_subscription() -> None:
    async def scene() -> None:
        async with (
            broker() as (running, client),
            listening(client, client="screen", filter=SPEEDING, language="xpath") as source,
            dashboard(running.url) as page,
        ):
            for speed in (40, 45, 60):
                body = f"<car><speed>{speed}</speed><limit>50</limit></car>"
                await client.post("/events", content=body, headers={"content-type": "text/xml"})
            await source.next()
            await show(page, "sessions", client="screen")
            await shows(page, "1 wanted, 2 residues, 0 failed")
            await show(page, "why")
            await shows(page, "failed the exact test")

    run(scene())
