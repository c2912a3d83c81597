"""A stream of events that is opened by a ticket, at a broker with users."""

import json
from pathlib import Path

import httpx
from websockets.asyncio.client import connect

from godwit.runtime.http_tickets import TICKET_S
from godwit.runtime.rights_watch import RightsWatch
from godwit.runtime.users import User
from tests.network.http_broker import listening
from tests.network.rights_broker import Secured, secured, user
from tests.network.serving import serving
from tests.network.test_security_log import prepared, quick_hash
from tests.network.waiting import run


async def ticket_of(broker: Secured, name: str) -> str:
    async with broker.web_client(name) as client:
        answer = await client.post("/events/ticket")
        assert (answer.status_code, answer.json()["expires_in_s"]) == (201, TICKET_S)
        assert answer.headers["cache-control"] == "no-store"
        ticket: str = answer.json()["ticket"]
        return ticket


def page(broker: Secured) -> httpx.AsyncClient:
    """A client that sets no headers, as an EventSource."""
    return httpx.AsyncClient(base_url=f"http://{broker.web}", timeout=60.0, trust_env=False)


def test_a_ticket_opens_one_stream_with_the_rights_of_its_user(tmp_path: Path) -> None:
    ann, bob = user("ann", ["n > 0"], ["n > 0"]), user("bob", ["n > 0"], [])

    async def scene() -> None:
        async with secured(tmp_path, ann, bob) as broker, page(broker) as source:
            ticket = await ticket_of(broker, "ann")
            async with listening(source, ticket=ticket, filter="n > 5", client="ann/page") as stream:
                async with broker.web_client("bob") as publisher:
                    assert (await publisher.post("/events", content=b'{"n": 3}\n{"n": 7}')).status_code == 202
                assert await stream.take("n", 1) == [7]
                again = await source.get("/events", params={"ticket": ticket})
                assert (again.status_code, "was used already" in again.json()["error"]) == (401, True)
                assert "www-authenticate" not in again.headers  # or browsers would ask for a password
            more = {"filter": "n > 5", "last_event_id": stream.last_id}
            async with broker.web_client("bob") as publisher:
                await publisher.post("/events", json={"n": 8})
            async with listening(source, ticket=await ticket_of(broker, "ann"), **more) as stream:
                assert await stream.take("n", 1) == [8]  # and not 7 again
            refused = await source.get("/events", params={"ticket": await ticket_of(broker, "bob"), "filter": "n > 5"})
            assert refused.status_code == 403
            refused = await source.get("/events", params={"ticket": await ticket_of(broker, "ann"), "filter": "TRUE"})
            assert refused.status_code == 403

    run(scene)


def test_a_ticket_is_for_nothing_else_and_nobody_gets_one_without_credentials(tmp_path: Path) -> None:
    async def scene() -> None:
        async with secured(tmp_path, user("ann", ["*"], ["*"], "admin = true")) as broker, page(broker) as source:
            assert (await source.post("/events/ticket")).status_code == 401
            ticket = {"ticket": await ticket_of(broker, "ann")}
            assert (await source.post("/events", params=ticket, json={"n": 1})).status_code == 401
            assert (await source.post("/events/ticket", params=ticket)).status_code == 401
            assert (await source.get("/sessions", params=ticket)).status_code == 401
            elsewhere = {"origin": "https://elsewhere.example"}
            assert (await source.get("/events", params=ticket, headers=elsewhere)).status_code == 403
            async with listening(source, **ticket):  # none of them has used it up
                pass

    run(scene)


def test_an_expired_ticket_and_one_of_a_user_who_is_gone_are_refused_and_counted(tmp_path: Path) -> None:
    ann, bob = user("ann", [], ["*"]), user("bob", [], ["*"])

    async def scene() -> None:
        async with secured(tmp_path, ann, bob) as broker, page(broker) as source:
            watch, tickets, now = RightsWatch(broker.node, broker.authenticator), broker.http.tickets, [0.0]
            watch.start()
            tickets.clock = lambda: now[0]
            early = await ticket_of(broker, "ann")
            now[0] += TICKET_S
            late = await ticket_of(broker, "ann")
            broker.users.write_text(bob)
            assert broker.authenticator.users is not None  # type: ignore[attr-defined]
            broker.authenticator.users.refresh()  # type: ignore[attr-defined]
            for ticket, reason in ((early, "has expired"), (late, "no longer valid"), ("x", "unknown")):
                refused = await source.get("/events", params={"ticket": ticket})
                assert (refused.status_code, reason in refused.json()["error"]) == (401, True), refused.text
            assert broker.http.audit.logins["http", "ticket"] == 3
            await watch.stop()

    run(scene)


def test_the_log_of_a_broker_has_the_refusal_and_no_ticket(tmp_path: Path) -> None:
    prepared(tmp_path, ann=User(password=quick_hash("a"), subscribe=("*",)))

    async def scene() -> None:
        async with serving("broker.toml", folder=tmp_path) as broker:
            async with httpx.AsyncClient(base_url=f"http://{broker.said['http']}", trust_env=False) as client:
                ticket = (await client.post("/events/ticket", auth=("ann", "a"))).json()["ticket"]
                async with listening(client, ticket=ticket):
                    pass
                assert (await client.get("/events", params={"ticket": ticket})).status_code == 401
            said = await broker.log("refused login", listener="http")
            assert {"host": "127.0.0.1", "cause": "ticket"}.items() <= said.items()
            assert "was used already" in said["reason"]
            await broker.stop()
            assert ticket not in str(broker.logged)

    run(scene())


def test_a_ticket_for_a_socket_opens_one_and_no_stream(tmp_path: Path) -> None:
    async def introduced(broker: Secured, ticket: str) -> str:
        """The first message of the broker to a client that shows a ticket."""
        async with connect(f"ws://{broker.web}/ws") as socket:
            await socket.send(json.dumps({"type": "Intro", "token": ticket}))
            await socket.send(json.dumps({"type": "Attach", "client": "ann/page"}))
            return str(json.loads(await socket.recv()))

    async def scene() -> None:
        async with secured(tmp_path, user("ann", ["*"], ["*"])) as broker, page(broker) as source:
            async with broker.web_client("ann") as client:
                said = (await client.post("/ws/ticket")).json()
            assert said["user"] == "ann"
            assert (await source.get("/events", params={"ticket": said["ticket"]})).status_code == 401
            assert "'Attached'" in await introduced(broker, said["ticket"])
            assert "was used already" in await introduced(broker, said["ticket"])
            assert "the ticket is unknown" in await introduced(broker, await ticket_of(broker, "ann"))

    run(scene)
