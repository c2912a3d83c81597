"""TLS, users, tokens and grants on real sockets: who comes in, and what comes through."""

import asyncio
from pathlib import Path
from time import time
from typing import Any

import jwt
import pytest
import trustme

from godwit.broker.messages import Bye
from godwit.errors import Refused
from godwit.runtime import client_transport
from godwit.runtime.connecting import connect
from godwit.runtime.security import SecuritySettings, authenticator_from
from godwit.runtime.tls import LinkSettings, TlsSettings, client_context, link_guard, server_context
from godwit.runtime.wire import Frames, Intro
from tests.network.guarded import Guarded, as_user, entry, guarded, heard, numbers, users
from tests.network.proxy import Proxy
from tests.network.serving import ANY_PORT, serving
from tests.network.waiting import run, until

SECRET = "a secret that is long enough, isn't it?"


class Authority:
    """Signs certificates and writes them to files."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._authority = trustme.CA()
        self.file = str(folder / f"{name}.pem")
        self._authority.cert_pem.write_to_path(self.file)

    def tls(self, name: str, *more: str, **settings: Any) -> TlsSettings:
        """The settings of who has that name."""
        issued = self._authority.issue_cert(name, *more, common_name=name)
        certificate, key = str(self.folder / f"{name}.crt"), str(self.folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return TlsSettings(certificate, key, self.file, **settings)


async def linked(a: Guarded, b: Guarded) -> None:
    await until(
        lambda: all(broker.node.machine.routing.is_settled() for broker in (a, b))  # type: ignore[attr-defined]
    )


def test_a_connection_over_tls_that_is_closed_twice_gives_no_more_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        ours = Authority(tmp_path)
        failed: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
        context = server_context(ours.tls("b1", "127.0.0.1"))
        async with (
            guarded(tls=context) as broker,
            connect(broker.address, name="ann", tls=client_context(ours.file)) as ann,
        ):
            await ann.attached()
            wire = ann.connection.wire
            assert isinstance(wire, client_transport.TcpTransport)
            wire.close()
            wire.close()
            await wire.lost.wait()  # until then there are turns of the loop, and so times for a sign of life
            assert failed == []
            for act in (wire.close, wire.pause, wire.read_on, lambda: wire.write([Intro()]), wire.abort):
                act()
        assert failed == []

    monkeypatch.setattr(client_transport, "BEAT_S", 0.0)
    run(scene)


@pytest.mark.parametrize("ends", ["cut", "reset"])
def test_a_connection_over_tls_that_ends_under_a_sign_of_life_leaves_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ends: str
) -> None:
    async def scene() -> None:
        ours = Authority(tmp_path)
        failed: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
        context = server_context(ours.tls("b1", "127.0.0.1"))
        async with guarded(tls=context) as broker:
            between = Proxy(broker.address)
            await between.start()
            async with connect(between.address, name="ann", tls=client_context(ours.file)) as ann:
                for _ in range(3):
                    await ann.attached()
                    wire = ann.connection.wire
                    assert isinstance(wire, client_transport.TcpTransport)
                    getattr(between, ends)()
                    await wire.lost.wait()  # with a sign of life in each turn of the loop until then
                    await until(lambda gone=wire: ann.connection.wire is not gone and ann.machine.is_attached)  # type: ignore[misc]
            await between.stop()
        assert failed == []
        assert [said for said in caplog.messages if "closed" in said] == []  # a warning of asyncio

    monkeypatch.setattr(client_transport, "BEAT_S", 0.0)
    run(scene)


def test_a_client_speaks_tls_and_checks_whom_it_speaks_to(tmp_path: Path) -> None:
    async def scene() -> None:
        ours, theirs = Authority(tmp_path), Authority(tmp_path, "others")
        context = server_context(ours.tls("b1", "127.0.0.1"))
        async with guarded(tls=context) as broker:
            async with connect(broker.address, name="ann", tls=client_context(ours.file)) as ann:
                mine = await ann.subscribe("n > 0")
                ann.publish({"n": 1})
                assert await numbers(mine, 1) == [1]
            async with connect(broker.address, name="bob", tls=client_context(theirs.file)) as bob:
                await until(lambda: "issuer certificate" in bob.closed_because)
            async with connect(broker.address, name="eve") as eve:  # without TLS
                await until(lambda: eve.closed_because)
                assert not eve.machine.is_attached

    run(scene)


def test_a_certificate_is_a_users_name(tmp_path: Path) -> None:
    async def scene() -> None:
        ours = Authority(tmp_path)
        context = server_context(ours.tls("b1", "127.0.0.1", client_certificates="optional"))
        van = ours.tls("van")
        known = users(tmp_path, "[users.van]\ncertificate = true\nsubscribe = ['*']\n")
        async with guarded(tls=context, **known) as broker:
            tls = client_context(ours.file, van.certificate, van.key)
            async with connect(broker.address, name="van/7", tls=tls) as client:
                await client.subscribe("n > 0")
                [connection] = broker.clients
                assert connection.principal is not None
                assert connection.principal.user == "van"

    run(scene)


@pytest.mark.parametrize("way", ["certificates", "secret", "both"])
def test_brokers_that_can_show_who_they_are_link_and_others_do_not(tmp_path: Path, way: str) -> None:
    async def scene() -> None:
        ours, theirs = Authority(tmp_path), Authority(tmp_path, "others")
        (tmp_path / "secret").write_text(SECRET)
        links = LinkSettings(tls=way != "secret", secret=str(tmp_path / "secret") if way != "certificates" else "")

        def settings(name: str, authority: Authority = ours, is_right: bool = True) -> dict[str, Any]:
            said = links
            if not is_right and links.secret:
                (tmp_path / "guess").write_text(SECRET[::-1])
                said = LinkSettings(links.tls, str(tmp_path / "guess"))
            tls = authority.tls(name, "127.0.0.1") if links.tls else TlsSettings()
            return {"tls": server_context(tls, links), "links": link_guard(name, said, tls)}

        async with guarded("b2", {"b1": None}, **settings("b2")) as b2:
            async with guarded("b1", {"b2": b2.address}, **settings("b1")) as b1:
                await linked(b1, b2)
                plain = client_context(ours.file) if links.tls else None
                async with (
                    connect(b1.address, name="p", tls=plain) as p,
                    connect(b2.address, name="s", tls=plain) as s,
                ):
                    mine = await s.subscribe("n > 0")
                    await until(lambda: len(b1.node.machine.routing.matcher) == 1)  # type: ignore[attr-defined]
                    p.publish({"n": 1})
                    assert await numbers(mine, 1) == [1]
            await until(lambda: "b1" not in b2.node.ports)
            # an impostor: it has the name, and neither certificate nor secret
            authority = theirs if links.tls else ours
            async with guarded("b1", {"b2": b2.address}, **settings("b1", authority, is_right=False)) as impostor:
                await until(lambda: impostor.closed or b2.server.audit.connections)
                assert "b1" not in b2.node.ports
                assert "b2" not in impostor.node.ports

    run(scene)


def test_a_broker_with_a_certificate_of_another_name_is_not_that_broker(tmp_path: Path) -> None:
    async def scene() -> None:
        ours, links = Authority(tmp_path), LinkSettings(tls=True)
        b2_tls, b3_tls = ours.tls("b2", "127.0.0.1"), ours.tls("b3", "127.0.0.1")
        async with guarded(
            "b2", {"b1": None}, tls=server_context(b2_tls, links), links=link_guard("b2", links, b2_tls)
        ) as b2:
            guard = link_guard("b1", LinkSettings(), TlsSettings())  # b3 says that it is b1, and checks nothing itself
            guard.tls = link_guard("b3", links, b3_tls).tls
            async with guarded("b1", {"b2": b2.address}, links=guard):
                await until(lambda: any("it must name b1" in why for _, why in b2.closed))
            plain = client_context(ours.file)  # nor does a client that says it is a broker get further
            reader, writer = await asyncio.open_connection(b2.address.host, b2.address.port, ssl=plain)
            writer.write(Frames.packed([Intro(broker="b1")]))
            assert await reader.read() == b""
            writer.close()
            assert "certificate of b1 is missing" in b2.closed[-1][1]
            # whom b1 dials must be b2 as well
            async with guarded(
                "b1", {"b9": b2.address}, links=link_guard("b1", links, ours.tls("b1", "127.0.0.1"))
            ) as b1:
                await until(lambda: any("it must name b9" in why for _, why in b1.closed))

    run(scene)


def test_grants_decide_what_comes_through(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "users.toml"
        path.write_text(
            entry("ann", "publish = [\"kind = 'parking'\"]", "subscribe = [\"kind IN ('parking', 'news')\"]")
            + entry("all", "publish = ['*']", "subscribe = ['*']")
        )
        for beyond_grants in ("refuse", "narrow"):
            authenticator = authenticator_from(SecuritySettings(users=str(path), beyond_grants=beyond_grants))
            async with (
                guarded(authenticator=authenticator) as broker,
                as_user(broker, "ann") as ann,
                as_user(broker, "all") as p,
            ):
                theirs = await p.subscribe("n > 0")
                covered = await ann.subscribe("kind = 'news' AND n > 1")
                if beyond_grants == "refuse":
                    with pytest.raises(Refused, match="subscribe to that"):
                        await ann.subscribe("n > 0")
                else:
                    wide = await ann.subscribe("n > 0")
                for n, kind in enumerate(["news", "news", "fire", "parking"], start=1):
                    p.publish({"n": n, "kind": kind})
                await p.drain()
                assert await numbers(theirs, 4) == [1, 2, 3, 4]
                assert await numbers(covered, 1) == [2]
                if beyond_grants == "narrow":
                    assert await numbers(wide, 3) == [1, 2, 4]
                ann.publish({"n": 5, "kind": "fire"})
                ann.publish({"n": 6, "kind": "parking"})
                await ann.drain()
                assert await numbers(theirs, 1) == [6]
                assert "publish that" in ann.machine.refusals[-1].reason

    run(scene)


def test_whoever_came_with_a_token_goes_when_the_token_is_over(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "key").write_text(SECRET)
        authenticator = authenticator_from(SecuritySettings(token_key=str(tmp_path / "key")))
        async with guarded(authenticator=authenticator) as broker:
            said = {"sub": "ann", "exp": time() + 1.5, "godwit": {"publish": ["*"], "subscribe": ["*"]}}
            reader, writer = await broker.open()
            writer.write(Frames.packed([Intro(token=jwt.encode(said, SECRET))]))
            assert await heard(reader, 1) == [Bye("token expired")]
            assert await heard(reader, 1) == []
            writer.close()

    run(scene)


def test_a_served_broker_knows_its_users_and_logs_no_secret(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "users.toml").write_text(entry("ann", "publish = ['*']", "subscribe = ['*']"))
        (tmp_path / "key").write_text(SECRET)
        (tmp_path / "links").write_text(SECRET[::-1])
        tokens = [jwt.encode({"sub": "bob", "exp": exp, "godwit": {}}, SECRET) for exp in (1, 4_000_000_000)]
        environment = {
            "GODWIT_SECURITY__ANONYMOUS": "never",
            "GODWIT_SECURITY__USERS": "users.toml",
            "GODWIT_SECURITY__TOKEN_KEY": "key",
            "GODWIT_LINKS__SECRET": "links",
            "GODWIT_LOG__LEVEL": "debug",
        }
        async with serving(*ANY_PORT, "--name", "b1", folder=tmp_path, environment=environment) as broker:
            async with connect(broker.native, name="ann", user="ann", password="ann-password") as ann:
                mine = await ann.subscribe("n > 0")
                ann.publish({"n": 1})
                assert await numbers(mine, 1) == [1]
            async with connect(broker.native, name="bob", token=tokens[1]) as bob:
                with pytest.raises(Refused, match="not allowed to subscribe"):
                    await bob.subscribe("n > 0")
            said = b""
            for intro in (
                Intro(),
                Intro(user="ann", password="hunter2-hunter2"),
                Intro(token=tokens[0]),
                Intro(token=tokens[1] + "x"),
                Intro(broker="b2", token=SECRET),
            ):
                reader, writer = await asyncio.open_connection(broker.native.host, broker.native.port)
                writer.write(Frames.packed([intro]))
                said += await reader.read()
                writer.close()
            assert said.count(b"Bye") == 4
            assert await broker.stop() == 0
            told = said + repr(broker.logged).encode()
        assert b"password is wrong" in told
        for path in (tmp_path / "godwit-data").rglob("*"):
            told += path.read_bytes() if path.is_file() else b""
        for secret in ("ann-password", "hunter2", SECRET, SECRET[::-1], "argon2", *tokens):
            assert secret.encode() not in told

    run(scene)
