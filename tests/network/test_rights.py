"""Rights that end, on real sockets: over every transport, for clients that are here, away, or at another broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from typing import Any

import jwt
import pytest
from websockets.exceptions import ConnectionClosed

from godwit.broker.messages import Attach, Attached, Bye, Delivery, Publish, Refused, Request, Revoked, Subscribe
from godwit.errors import Refused as RefusedError
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.runtime.connecting import connect
from godwit.runtime.rights_watch import RightsWatch
from tests.network.http_broker import listening
from tests.network.mqtt_devices import Device
from tests.network.rights_broker import SECRET, Secured, secured, user
from tests.network.waiting import run, until
from tests.seeds import slow

NEWS, ALL = ["kind = 'news'"], ["*"]


@asynccontextmanager
async def watched(folder: Path, *entries: str, **settings: Any) -> AsyncIterator["Watched"]:
    async with secured(folder, user("all", ALL, ALL), *entries, **settings) as broker:
        watch = RightsWatch(broker.node, broker.authenticator, recheck_s=0.01)
        watch.start()
        try:
            yield Watched(broker)
        finally:
            await watch.stop()


class Watched:
    """A broker whose user file is looked at all the time."""

    def __init__(self, broker: Secured) -> None:
        self.broker = broker

    def write(self, *entries: str) -> None:
        """Let the user file say this; `all` stays."""
        draft = self.broker.users.with_suffix(".new")
        draft.write_text("\n".join([user("all", ALL, ALL), *entries]))
        draft.replace(self.broker.users)

    async def publish(self, *kinds: str) -> None:
        async with self.broker.client("all") as everybody:
            for n, kind in enumerate(kinds, start=1):
                await everybody.publish({"kind": kind, "n": n, "topic": f"t/{kind}"})


# ---------------------------------------------------------------- native


def test_native_a_right_that_is_taken_away_ends_at_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at, at.broker.client("ann") as ann:
            mine, news = await ann.subscribe("n > 0", name="mine"), await ann.subscribe("kind = 'news'", name="news")
            await ann.publish({"kind": "fire"})
            at.write(user("ann", NEWS, NEWS))
            with pytest.raises(RefusedError, match=r"your rights have changed.*only to what matches: kind = 'news'"):
                await mine.next()
            with pytest.raises(RefusedError, match="not allowed to publish that"):
                await ann.publish({"kind": "fire"})
            await ann.publish({"kind": "news"})
            await at.publish("fire", "news")
            assert [(await news.next()).attributes["kind"] for _ in range(2)] == ["news", "news"]
            with pytest.raises(RefusedError, match="subscribe to that"):
                await ann.subscribe("n > 0", name="mine")
            at.write(user("ann", ALL, ALL))
            await until(lambda: at.broker.machine.components["authorisation"].rights_of("ann").is_everything)
            again = await ann.subscribe("n > 0", name="mine")
            await at.publish("fire")
            assert (await again.next()).attributes["kind"] == "fire"

    run(scene)


def test_native_a_user_that_is_removed_is_let_go_and_its_sessions_end(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at, at.broker.client("ann") as ann:
            await ann.subscribe("n > 0")
            async with at.broker.client("ann", "ann/away") as away:
                await away.subscribe("n > 0")
            await until(lambda: at.broker.machine.sessions.session("ann/away").connection is None)
            at.write()
            await until(lambda: "the user was removed" in ann.state.reason or "no such user" in ann.state.reason)
            await until(lambda: len([s for s in at.broker.machine.sessions if s.client.startswith("ann")]) == 0)
            assert not ann.machine.is_attached

    run(scene)


def test_native_a_password_that_was_changed_lets_go_who_came_by_the_old_one(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at, at.broker.client("ann") as ann:
            await ann.attached()
            at.write(user("all", ALL, ALL).replace("users.all", "users.ann"))  # another hash
            await until(lambda: ann.state.kind != "attached")
            assert at.broker.machine.sessions.session("ann") is not None

    run(scene)


def test_what_waits_for_a_client_that_is_away_is_judged_when_rights_change_also_while_the_broker_is_down(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL), keeps_journal=True) as at:
            async with at.broker.client("ann") as ann:
                await ann.subscribe("n > 0", name="mine")
            await at.publish("fire", "news")
        entries = [user("ann", ALL, NEWS)]
        async with watched(tmp_path, *entries, keeps_journal=True) as at, at.broker.client("ann") as ann:
            await ann.attached()
            assert ann.receipt is not None
            assert ann.receipt.purged == {"rights": 1}
            await until(lambda: ann.machine.notified == 1)

    run(scene)


def test_a_token_without_rights_of_its_own_follows_the_file_and_one_with_them_ends_by_itself(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at:
            plain = jwt.encode({"sub": "ann", "exp": time() + 3_600}, SECRET)
            own = jwt.encode({"sub": "bob", "exp": time() + 1.5, "godwit": {"subscribe": ["*"]}}, SECRET)
            async with (
                connect(at.broker.native, name="ann/1", token=plain) as ann,
                connect(at.broker.native, name="bob/1", token=own) as bob,
            ):
                mine = await ann.subscribe("n > 0")
                await bob.subscribe("n > 0")
                at.write(user("ann", ALL, NEWS))
                with pytest.raises(RefusedError, match="your rights have changed"):
                    await mine.next()
                assert bob.machine.is_attached
                at.write()
                await until(lambda: not ann.machine.is_attached)
                await until(lambda: not bob.machine.is_attached)
                await until(lambda: "token" in bob.state.reason)

    run(scene)


# ---------------------------------------------------------------- moving


def test_a_session_that_moves_is_judged_by_the_rights_where_it_comes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL), name="b1", neighbours={"b2": None}) as at:
            neighbours = {"b1": at.broker.native}
            async with (
                watched(tmp_path, user("ann", ALL, NEWS), name="b2", neighbours=neighbours, anonymous="local") as there,
                at.broker.client("ann") as ann,
            ):
                await until(lambda: there.broker.machine.routing.is_settled() and "b1" in there.broker.node.ports)
                mine = await ann.subscribe("n > 0", name="mine")
                await ann.move()
                await at.publish("fire", "news")
                await ann.move(there.broker.native)
                await ann.attached()
                assert (await mine.next()).attributes["kind"] == "news"
                with pytest.raises(RefusedError, match="your rights have changed"):
                    await mine.next()
                assert ann.receipt is not None
                assert ann.receipt.purged == {"rights": 1}
                # and at b1 a user that is gone there cannot come back, though b2 knows it
                at.write()
                await ann.move(at.broker.native)
                await until(lambda: "no such user" in ann.state.reason)

    run(scene)


# ---------------------------------------------------------------- WebSocket and HTTP


def test_web_socket_a_right_that_is_taken_away_ends_at_once_and_a_user_that_is_gone_is_let_go(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at, at.broker.socket("ann") as ann:
            await ann.say(Attach("ann"), Request(1, Subscribe(("ann", "mine"), parse("n > 0"))))
            assert isinstance(await ann.heard(), Attached)
            at.write(user("ann", NEWS, NEWS))
            assert (await ann.hears(Revoked)).ended == ("mine",)
            await ann.say(Request(2, Publish(event({"kind": "fire"}, publisher="ann", sequence=1))))
            assert "publish that" in (await ann.hears(Refused)).reason
            at.write()
            assert await ann.hears(Bye) == Bye("the user was removed")
            with pytest.raises(ConnectionClosed):
                await ann.heard()

    run(scene)


def test_http_a_stream_is_told_that_its_right_has_ended_and_posts_are_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at, at.broker.web_client("ann") as ann:
            assert (await ann.post("/events", json={"kind": "fire"})).status_code == 202
            async with listening(ann, filter="n > 0", client="ann") as source:
                at.write(user("ann", NEWS, NEWS))
                name, told = await source.next()
                assert (name, told["ended"]) == ("rights", True)
                assert "your rights have changed" in told["reason"]
                with pytest.raises(EOFError):
                    await source.next()
            assert (await ann.post("/events", json={"kind": "fire"})).status_code == 403
            async with listening(ann, filter="kind = 'news'", client="ann") as source:
                await at.publish("fire", "news")
                assert await source.take("kind", 1) == ["news"]
                at.write()
                assert await source.next() == ("rights", {"ended": True, "reason": "the user was removed"})
            assert (await ann.post("/events", json={"kind": "news"})).status_code == 401

    run(scene)


def test_http_a_stream_that_comes_back_after_its_right_has_ended_begins_with_what_it_may_have(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at, at.broker.web_client("ann") as ann:
            async with listening(ann, filter="n > 0", client="ann"):
                pass
            await until(lambda: at.broker.machine.sessions.session("ann").connection is None)
            await at.publish("fire", "news")
            at.write(user("ann", NEWS, NEWS))
            await until(lambda: not at.broker.machine.sessions.session("ann").subscriptions)
            async with listening(ann, filter="kind = 'news'", client="ann") as source:
                assert await source.take("kind", 1) == ["news"]  # it has waited
                await at.publish("news")
                assert await source.take("kind", 1) == ["news"]

    run(scene)


def test_http_who_is_no_administrator_any_more_sees_no_more_of_the_trace(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("boss", ALL, ALL, "admin = true")) as at:
            async with at.broker.web_client("boss") as boss, boss.stream("GET", "/trace") as answer:
                assert answer.status_code == 200
                at.write(user("boss", ALL, ALL))
                async for _ in answer.aiter_bytes():
                    pass  # it ends
            async with at.broker.web_client("boss") as boss:
                assert (await boss.get("/sessions")).status_code == 403

    run(scene)


# ---------------------------------------------------------------- MQTT


@pytest.mark.parametrize("level", [slow(4), 5])
def test_mqtt_a_right_that_is_taken_away_ends_at_once(tmp_path: Path, level: int) -> None:
    async def scene() -> None:
        narrow = ["topic LIKE 't/news%'"]
        details: dict[str, Any] = {"expiry_s": 3_600} if level == 5 else {"clean": False}
        async with (
            watched(tmp_path, user("ann", ALL, ALL)) as at,
            at.broker.device("ann", level, **details) as ann,
        ):
            await ann.subscribe("t/#", 1)
            await ann.subscribe("t/news", 1)
            at.write(user("ann", narrow, narrow))
            await ann.gone.wait()
            if level == 5:
                assert ann.gone_because.value == 0x87
            assert list(at.broker.machine.sessions.session("ann").subscriptions) == ["t/news"]
            ann._clean = False
            await ann.connect(at.broker.mqtt.port)
            assert ann.is_present
            await at.publish("fire", "news")
            assert (await ann.next()).topic == "t/news"
            code = await ann.publish("t/fire", b"x", qos=1)
            if level == 5:
                assert code.value == 0x87
            at.write()
            await ann.gone.wait()
            await until(lambda: at.broker.machine.sessions.session("ann") is None)

    run(scene)


@pytest.mark.parametrize("level", [4, slow(5)])
def test_mqtt_the_will_of_a_user_that_is_gone_is_not_published(tmp_path: Path, level: int) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at, at.broker.client("all") as everybody:
            wills = await everybody.subscribe("topic LIKE 'will%'")
            for gone in (False, True):
                device = Device("ann", level)
                device.paho.username_pw_set("ann", "ann-password")
                device.paho.will_set(f"will/{'gone' if gone else 'there'}", b"bye", 1)
                await device.connect(at.broker.mqtt.port)
                if gone:
                    at.write()
                    await device.gone.wait()
                await device.vanish()
                if not gone:
                    assert (await wills.next()).attributes["topic"] == "will/there"
            await until(lambda: at.broker.machine.sessions.session("ann") is None)
            await everybody.publish({"topic": "will, last"})
            assert (await wills.next()).attributes["topic"] == "will, last"

    run(scene)


def test_who_is_let_in_by_a_password_that_is_removed_meanwhile_does_not_come_in(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at:
            passwords: Any = at.broker.authenticator._passwords  # type: ignore[attr-defined]
            may_go_on = asyncio.Event()
            test = passwords.is_right

            async def slow(hash: str, password: str) -> bool:
                right = bool(await test(hash, password))
                await may_go_on.wait()
                return right

            passwords.is_right = slow
            async with at.broker.client("ann") as ann:
                await until(lambda: at.broker.server.connections)
                at.write()
                await until(lambda: at.broker.authenticator.users.entry("ann") is None)  # type: ignore[attr-defined]
                may_go_on.set()
                await until(lambda: "no such user" in ann.state.reason)

    run(scene)


def test_deliveries_over_a_web_socket_are_narrowed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            watched(tmp_path, user("ann", ALL, ALL), beyond_grants="narrow") as at,
            at.broker.socket("ann") as ann,
        ):
            await ann.say(Attach("ann"), Request(1, Subscribe(("ann", "mine"), parse("n > 0"))))
            await ann.hears(Attached)
            at.write(user("ann", NEWS, NEWS))
            assert (await ann.hears(Revoked)).narrowed == ("mine",)
            await at.publish("fire", "news")
            assert (await ann.hears(Delivery)).event.attributes["kind"] == "news"

    run(scene)
