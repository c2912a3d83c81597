"""The HTTP API of a peer over real sockets: answers are as the OpenAPI document says, and for nobody else."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from godwit.errors import Refused
from godwit.teamwork import Role
from godwit.teamwork.query_languages import OFFERED, SHORT_NAMES
from godwit.teamwork.web_api import OPERATIONS
from godwit.teamwork.web_calls import ANYBODY
from tests.network.http_broker import Source
from tests.network.json_schema import faults
from tests.network.team_site import OWN, Site, team_site
from tests.network.waiting import run, until

BEGINS = 1_893_495_600.0
JSON = "application/json"
PAGES = {"/", "/openapi.json", "/team", "/team/{path:path}", "/dashboard/{path:path}"}


class Checked:
    """A client whose answers are held against the OpenAPI document, with a list of what was called."""

    def __init__(self, client: httpx.AsyncClient, document: dict[str, Any]) -> None:
        self.client, self.document = client, document
        self.called: set[tuple[str, str]] = set()

    async def __call__(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        answer = await self.client.request(method, path, **more)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        template, told = self._operation(method, path)
        content = told["responses"][str(status)].get("content", {})
        if JSON in content and answer.headers["content-type"] == JSON:
            assert list(faults(answer.json(), content[JSON]["schema"], self.document)) == [], template
        else:
            assert not content or answer.headers["content-type"].partition(";")[0] in content, template
        if status < 400:
            self.called.add((method, template))
        return answer.json() if answer.headers.get("content-type") == JSON else answer.content

    def _operation(self, method: str, path: str) -> tuple[str, Any]:
        """The longest path of the document that fits: `/a/b` before `/a/{x}`."""
        bare = path.partition("?")[0]
        fitting = [each for each in self.document["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each), bare)]
        found = min(fitting, key=lambda each: each.count("{"))
        return found, self.document["paths"][found][method.lower()]


@asynccontextmanager
async def checked(site: Site, user: str) -> AsyncIterator[Checked]:
    async with site.login(user) as client:
        yield Checked(client, (await client.get("/openapi.json")).json())


async def next_event(source: Source, name: str) -> Any:
    """The next event of a stream with this name."""
    while True:
        found, data = await source.next()
        if found == name:
            return data


# ---------------------------------------------------------------- the document


def test_every_operation_answers_as_the_document_says(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, "bob") as site, checked(site, "ann") as api:
            await session_walk(api)
            await people_walk(api)
            scope = await community_walk(api, site)
            id = await document_walk(api, scope, site)
            await rights_walk(api, scope, id)
            await talk_walk(api, site, scope, id)
            await notification_walk(api, site, scope)
            found = await api("GET", "/api/search?words=cracks&wait_s=20", headers={"accept": JSON})
            assert [each["name"] for each in found["results"]] == ["report.txt"]
            async with api.client.stream("GET", "/api/news") as response:
                api.called.add(("GET", "/api/news"))
                assert response.headers["content-type"].startswith("text/event-stream")
            await api("POST", "/api/logout", 204)
            assert {(row.method, row.path) for row in OPERATIONS} == api.called

    run(scene())


def test_every_route_but_pages_is_in_the_document(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, site.client() as client:
            document = (await client.get("/openapi.json")).json()
            served = {getattr(route, "path", "") for route in site.server.api.application.routes}
            assert served - document["paths"].keys() == PAGES

    run(scene())


async def session_walk(api: Checked) -> None:
    await api("GET", "/healthz")
    assert (await api("GET", "/api/session"))["user"] == "ann"
    await api("PUT", "/api/password", 403, json={"new": "short"})
    await api("PUT", "/api/password", 204, json={"new": "long enough"})
    token = await api("POST", "/api/tokens", 201, json={"label": "backup"})
    assert [each["label"] for each in await api("GET", "/api/tokens")] == ["backup"]
    await api("DELETE", f"/api/tokens/{token['token']['id']}", 204)
    await api("DELETE", f"/api/tokens/{token['token']['id']}", 404)
    assert (await api("POST", "/api/login_links", 201, json={"user": "bob"}))["path"].startswith("/team/login#gw_")
    assert (await api("GET", "/api/status"))["user"] == "ann"
    assert isinstance(await api("GET", "/api/audit?limit=5&newest=true"), list)
    code = (await api("POST", "/api/login_links", 201, json={"user": "ann"}))["path"].partition("#")[2]
    await api("POST", "/api/login", json={"code": code})
    await api("POST", "/api/login", 401, json={"code": code})


async def people_walk(api: Checked) -> None:
    made = await api("POST", "/api/people", 201, json={"name": "dan", "role": "reader", "profile": {"skill": ["law"]}})
    assert made["profile"] == {"skill": ["law"]}
    await api("POST", "/api/people", 400, json={"name": "eve", "profile": {"shoe_size": 40}})
    await api("POST", "/api/people", 403, json={"name": "a/b\n"})
    page = await api("GET", "/api/people?text=law&limit=1")
    assert page["total"] == 2
    assert len(page["items"]) == 1
    assert (await api("PATCH", "/api/people/ann", json={"profile": {"name": "Ann"}}))["profile"]["name"] == "Ann"
    assert (await api("GET", "/api/people/ann"))["role"] == "owner"
    assert (await api("GET", "/api/people/ann/history"))[-1]["fields"] == {"name": "Ann"}
    assert (await api("POST", "/api/people/dan/suspend"))["state"] == "suspended"
    assert (await api("POST", "/api/people/dan/resume"))["state"] == "joined"
    await api("GET", "/api/people/nobody", 404)
    await api("POST", "/api/people/dan/host")
    await api("PUT", "/api/presence", 204, json={"availability": "busy"})
    await api("PUT", "/api/presence", 400, json={"availability": "asleep"})


async def community_walk(api: Checked, site: Site) -> str:
    made = await api("POST", "/api/communities", 201, json={"name": "Bridges"})
    scope = str(made["id"])
    one = f"/api/{scope.replace('community/', 'communities/')}"
    await api("PATCH", one, json={"description": "of steel"})
    assert (await api("GET", f"{one}/history"))[-1]["fields"] == {"description": "of steel"}
    assert (await api("GET", one))["description"] == "of steel"
    assert (await api("POST", f"{one}/members", json={"user": "bob", "role": "editor", "invite": False}))[
        "members"
    ] == {
        "ann": "owner",
        "bob": "editor",
    }
    await api("POST", f"{one}/members", json={"user": "cid"})
    await api("DELETE", f"{one}/members/cid")
    yard = site.teams["bob"].communities.create("Yard", join="open")
    await until(lambda: any(each["id"] == yard for each in site.ann.communities.listed()))
    other = f"/api/{yard.replace('community/', 'communities/')}"
    assert [each["name"] for each in (await api("GET", "/api/communities"))["others"]] == ["Yard"]
    await api("POST", f"{other}/join", 204)
    await until(lambda: any(each.id == yard for each in site.ann.communities.mine()))
    await api("POST", f"{other}/leave", 204)
    await api("POST", f"{other}/ask", 204)
    await api("GET", "/api/communities/nobody.1234", 404)
    return scope


async def rights_walk(api: Checked, scope: str, id: str) -> None:
    for place in (f"/api/scopes/{scope}/rights", f"/api/scopes/{scope}/documents/{id}/rights"):
        assert await api("GET", place) == []
        assert [grant["user"] for grant in await api("PUT", place, json=[{"user": "bob"}])] == ["bob"]
        assert await api("PUT", place, json=[]) == []
    assert await api("GET", "/api/rights") == {"search": None, "subscribe": None}
    limited = await api("PATCH", "/api/rights", json={"search": [{"user": "ann"}]})
    assert limited["search"][0]["user"] == "ann"
    await api("PATCH", "/api/rights", json={"search": None})


async def document_walk(api: Checked, scope: str, site: Site) -> str:
    all = f"/api/scopes/{scope}/documents"
    made = await api("POST", f"{all}?name=report.txt", 201, content=b"a crack in pier 4")
    one = f"{all}/{made['id']}"
    assert (await api("GET", one))["is_here"]
    assert await api("GET", f"{one}/content") == b"a crack in pier 4"
    assert (await api("PUT", f"{one}/content", content=b"two cracks"))["version"] == 2
    assert await api("GET", f"{one}/content?version=1") == b"a crack in pier 4"
    assert (await api("PATCH", one, json={"fields": {"title": "Pier 4"}}))["fields"]["title"] == "Pier 4"
    assert [each["number"] for each in await api("GET", f"{one}/versions")] == [1, 2]
    assert len(await api("GET", f"{one}/history")) == 3
    assert (await api("POST", f"{one}/lock"))["locked_by"] == "ann"
    assert (await api("POST", f"{one}/unlock"))["locked_by"] == ""
    assert (await api("GET", f"{all}?text=pier"))["total"] == 1
    assert (await api("GET", f"{all}?first=1"))["items"] == []
    await api("GET", f"{all}?limit=5000", 400)
    moved = await api("POST", f"{one}/move", json={"scope": site.ann.scope})
    await api("GET", one, 404)
    back = f"/api/scopes/{site.ann.scope}/documents/{moved['id']}"
    await api("POST", f"{back}/move", json={"scope": scope})
    gone = await api("POST", f"{all}?name=empty", 201, content=b"")
    assert await api("GET", f"{all}/{gone['id']}/content") == b""
    await api("DELETE", f"{all}/{gone['id']}", 204)
    await api("GET", f"{all}/{gone['id']}/content", 404)
    await api("POST", f"{all}?name=a%2Fb", 403, content=b"x")
    return str(moved["id"])


async def talk_walk(api: Checked, site: Site, scope: str, document: str) -> None:
    talk = (await api("POST", "/api/conversations", json={"users": ["bob"]}))["scope"]
    sent = await api("POST", f"/api/scopes/{talk}/messages", 201, json={"text": "hello"})
    await api("POST", f"/api/scopes/{talk}/messages", 201, json={"text": "again", "reply_to": sent["id"]})
    page = await api("GET", f"/api/scopes/{talk}/messages?limit=1")
    assert [each["text"] for each in page["items"]] == ["again"]
    assert page["total"] == 2
    bob = site.teams["bob"].messages
    await until(lambda: talk in bob.conversations() and len(bob.thread(talk)) == 2)
    await until(lambda: len(site.ann.messages.get(talk, sent["id"]).receipts) == 1)
    first = (await api("GET", f"/api/scopes/{talk}/messages"))["items"][0]["receipts"]
    assert [(each["user"], each["delivered"] is None, each["read"]) for each in first] == [("bob", False, None)]
    await api("POST", f"/api/scopes/{talk}/messages/{sent['id']}/read", 204)
    await api("POST", f"/api/scopes/{talk}/messages", 403, json={"text": " "})
    assert [each["title"] for each in await api("GET", "/api/conversations")] == ["Bob Brandt", "Bridges"]
    wanted = {"title": "Review", "times": [BEGINS, BEGINS + 60], "documents": [document]}
    meeting = await api("POST", f"/api/scopes/{scope}/meetings", 201, json=wanted)
    one = f"/api/scopes/{scope}/meetings/{meeting['id']}"
    answered = await api("PUT", f"{one}/answers", json=[{"time": BEGINS, "answer": "yes"}])
    assert answered["answers"] == [{"user": "ann", "time": BEGINS, "answer": "yes"}]
    assert (await api("POST", f"{one}/choose", json={"time": BEGINS}))["chosen"] == BEGINS
    assert b"BEGIN:VCALENDAR" in await api("GET", f"{one}/calendar.ics")
    assert (await api("POST", f"{one}/cancel"))["is_cancelled"]
    assert (await api("GET", one))["best"] == BEGINS
    assert len(await api("GET", f"/api/scopes/{scope}/meetings")) == len(await api("GET", "/api/meetings")) == 1


async def notification_walk(api: Checked, site: Site, scope: str) -> None:
    wanted = {"name": "messages", "kinds": ["message"], "channels": [{"kind": "desktop"}]}
    made = await api("POST", "/api/subscriptions", 201, json=wanted)
    assert made in await api("GET", "/api/subscriptions")
    hook = {**wanted, "channels": [{"kind": "webhook", "target": f"{site.url}/nothing"}], "kinds": ["lost"]}
    by_webhook = await api("POST", "/api/subscriptions", 201, json=hook)
    assert by_webhook["webhook_secret"] == site.ann.webhook_secret
    assert site.ann.webhook_secret not in str(await api("GET", "/api/subscriptions"))
    bob = site.teams["bob"]
    await until(lambda: any(each.id == scope for each in bob.communities.mine()))
    bob.messages.send(scope, "look at this")
    await until(lambda: site.ann.subscriptions.unread == 1)
    told = await api("GET", "/api/notifications?only_unread=true")
    assert told["unread"] == 1
    assert told["items"][0]["subscription_name"] == "messages"
    await api("POST", "/api/notifications/read", 204, json={"ids": [told["items"][0]["id"]]})
    assert (await api("GET", "/api/notifications"))["unread"] == 0
    await api("DELETE", f"/api/subscriptions/{made['id']}", 204)
    await api("POST", "/api/subscriptions", 400, json={**wanted, "kinds": ["everything"]})


def test_a_wrong_answer_is_caught() -> None:
    one = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    document = {"components": {"schemas": {"X": one}}}
    schema = {"type": "array", "items": {"$ref": "#/components/schemas/X"}}
    assert list(faults([{"n": 1}], schema, document)) == []
    wrong_answers: list[Any] = [{"n": 1}, [{"n": "1"}], [{"n": True}], [{"n": 1, "m": 1}], [{}], [1]]
    for wrong in wrong_answers:
        assert list(faults(wrong, schema, document)) != [], wrong


# ---------------------------------------------------------------- who may ask


def test_without_a_login_there_is_nothing_to_see(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, site.client() as client:
            for row in OPERATIONS:
                path = re.sub(r"\{\w+\}", "x", row.path)
                if row.right != ANYBODY:
                    answer = await client.request(row.method, path)
                    assert answer.status_code == 401, path
                    assert "ann" not in answer.text
            assert (await client.get("/api/session")).json()["user"] == ""
            assert (await client.get("/api/status", headers={"authorization": "Bearer gw_x"})).status_code == 401

    run(scene())


def test_nobody_reads_what_is_another_s(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, checked(site, "bob") as bob, checked(site, "cid") as cid:
            ann = site.ann
            scope = ann.communities.create("Secret", listed=False)
            document = ann.documents.add(scope, BytesIO(b"hidden words"), "secret.txt")
            message = ann.messages.send(scope, "hidden words")
            meeting = ann.meetings.propose(scope, "hidden words", [BEGINS])
            talk = ann.messages.conversation(["cid"])
            ann.messages.send(talk, "between ann and cid")
            base, name = f"/api/scopes/{scope}", scope.partition("/")[2]
            for path in (
                f"{base}/documents/{document.id}",
                f"{base}/documents/{document.id}/content",
                f"{base}/documents/{document.id}/versions",
                f"{base}/documents/{document.id}/history",
                f"{base}/meetings/{meeting}",
                f"{base}/meetings/{meeting}/calendar.ics",
                f"/api/{scope.replace('community/', 'communities/')}",
            ):
                hidden = await bob("GET", path, 404)
                missing = await bob("GET", path.replace(name, "ann.0000"), 404)
                assert str(hidden).replace(name, "") == str(missing).replace("ann.0000", ""), path
            assert (await bob("GET", f"{base}/documents"))["items"] == []
            assert (await bob("GET", f"{base}/messages"))["items"] == []
            assert await bob("GET", f"{base}/meetings") == []
            assert (await bob("GET", f"/api/scopes/{talk}/messages"))["items"] == []
            assert await bob("GET", "/api/conversations") == []
            found = await bob("GET", "/api/search?words=hidden&wait_s=1", headers={"accept": JSON})
            assert found["results"] == []
            assert (await bob("GET", "/api/communities"))["others"] == []
            assert len((await cid("GET", f"/api/scopes/{talk}/messages"))["items"]) == 1
            assert message not in str(await bob("GET", "/api/status"))
            for path in ("/api/subscriptions", "/api/notifications"):
                await bob("GET", path, 403)
            await bob("GET", "/api/audit", 403)
            await bob("POST", "/api/login_links", 403, json={"user": "ann"})
            await bob("POST", f"{base}/documents?name=x", 404, content=b"x")

    run(scene())


def test_another_user_reads_and_does_not_write(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, checked(site, "bob") as bob:
            scope = site.ann.communities.create("Bridges")
            site.ann.communities.add(scope, "bob", Role.EDITOR)
            made = site.ann.documents.add(scope, BytesIO(b"plan"), "plan.txt")
            base = f"/api/scopes/{scope}"
            assert await bob("GET", f"{base}/documents/{made.id}/content") == b"plan"
            assert any(each.user == "bob" and made.id in each.record for each in site.ann.audit.entries())
            said = await bob("POST", f"{base}/documents?name=x", 403, content=b"x")
            assert "ann's signs for ann alone" in said["error"]
            await bob("POST", f"{base}/messages", 403, json={"text": "hello"})
            await bob("PATCH", "/api/people/bob", 403, json={"profile": {"name": "Robert"}})
            assert not (await bob("GET", "/api/session"))["may_write"]

    run(scene())


def test_a_user_who_is_hosted_writes_and_hears_news(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, checked(site, "ann") as ann, checked(site, "bob") as bob:
            await bob("POST", "/api/people/bob/host", 403)
            await bob("PATCH", "/api/people/bob", 403, json={"profile": {"name": "Robert"}})
            await ann("POST", "/api/people/bob/host")
            assert (await bob("GET", "/api/session"))["may_write"]
            hosted = site.ann.as_user("bob")
            await until(lambda: any(each.name == "bob" and each.devices for each in hosted.people.all()))
            async with bob.client.stream("GET", "/api/news") as response:
                await bob("PATCH", "/api/people/bob", json={"profile": {"name": "Robert"}})
                source = Source(response)
                while (await next_event(source, "change"))["record"] != "user/bob":
                    pass  # the new device hears who is online, too
            await until(lambda: site.ann.people.get("bob").profile.get("name") == "Robert")
            assert await bob("GET", "/api/subscriptions") != []
            await bob("GET", "/api/audit", 403)

    run(scene())


def test_rights_that_are_taken_away_end_sessions_and_streams(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, site.login("bob") as client:
            async with client.stream("GET", "/api/news") as response:
                assert response.status_code == 200
                site.ann.people.suspend("bob")
                site.server.api.check_streams()
                assert [line async for line in response.aiter_lines() if line.startswith("data")] == []
            assert (await client.get("/api/people")).status_code == 401
            assert (await client.post("/api/login", json={"code": site.accounts.new_code("bob")})).status_code == 401

    run(scene())


# ---------------------------------------------------------------- login


def test_passwords_let_in_and_wrong_ones_must_wait(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, site.client(headers=OWN) as client:
            site.accounts.set_hash("ann", "hash of right password")
            said = {"user": "ann", "password": "right password"}
            answer = await client.post("/api/login", json=said)
            assert answer.status_code == 200
            cookie = answer.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert (await client.get("/api/status")).status_code == 200
            reasons = []
            for user in ("ann", "nobody"):
                refused = await client.post("/api/login", json={"user": user, "password": "wrong"})
                assert refused.status_code == 401
                reasons.append(refused.json()["error"])
            assert reasons[0] == reasons[1]
            for _ in range(5):
                refused = await client.post("/api/login", json={"user": "ann", "password": "wrong"})
            assert "too many failed attempts" in refused.json()["error"]
            assert (await client.post("/api/login", json=said)).status_code == 401
            await client.post("/api/logout")
            assert (await client.get("/api/status")).status_code == 401

    run(scene())


def test_pages_of_other_sites_can_do_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, site.login("ann") as client:
            for headers in (
                {"origin": "http://evil.example"},
                {"origin": "null"},
                {"sec-fetch-site": "cross-site"},
                {"sec-fetch-site": "same-site"},
            ):
                for method, path in (("GET", "/api/people"), ("POST", "/api/communities"), ("GET", "/api/news")):
                    answer = await client.request(method, path, headers=headers, json={"name": "x"})
                    assert answer.status_code == 403
                    assert "access-control-allow-origin" not in answer.headers
            del client.headers["x-godwit"]
            assert (await client.post("/api/communities", json={"name": "x"})).status_code == 403
            client.headers["x-godwit"] = "1"
            form = {"content-type": "text/plain"}
            assert (await client.post("/api/communities", content=b'{"name":"x"}', headers=form)).status_code == 415
            assert (await client.options("/api/people", headers={"origin": "http://evil.example"})).status_code == 405
            assert site.ann.communities.mine() == []

    run(scene())


def test_tokens_need_no_cookie_and_end_when_they_are_ended(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, site.program("ann") as program:
            assert (await program.post("/api/communities", json={"name": "By a program"})).status_code == 201
            [token] = site.accounts.keys("ann", "token")
            async with program.stream("GET", "/api/news") as response:
                await program.delete(f"/api/tokens/{token.id}")
                assert [line async for line in response.aiter_lines() if line.startswith("data")] == []
            assert (await program.get("/api/people")).status_code == 401
            secret = str(program.headers["authorization"]).removeprefix("Bearer ")
            files = [path.read_bytes() for path in site.ann.folder.glob("web_accounts*")]
            assert not any(secret.encode() in content for content in files)

    run(scene())


# ---------------------------------------------------------------- bodies and files


def test_bodies_are_bounded_and_explained(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, upload_bytes_max=100_000) as site, checked(site, "ann") as api:
            for body in (b"{", b'{"nme": "x"}', b'{"name": 3}', b"[" * 100_000, b"\xff"):
                answer = await api.client.post("/api/communities", content=body, headers={"content-type": JSON})
                assert answer.status_code == 400, body[:10]
                assert "the body is wrong" in answer.json()["error"]
            await api("POST", "/api/communities", 413, json={"name": "x" * 2**21})
            base = f"/api/scopes/{site.ann.scope}/documents"
            await api("POST", f"{base}?name=x", 413, content=b"x" * 100_001)
            await api("POST", f"{base}?name=x", 413, content=pieces(100_001))
            await api("POST", f"{base}?name=x", 201, content=pieces(100_000))
            await api("POST", base, 400, content=b"x")
            wrong = await api("GET", "/api/search?query=%2F%2F%5B&wait_s=1", 400, headers={"accept": JSON})
            assert (wrong["line"], wrong["column"]) == (1, 3)

    run(scene())


def test_a_fault_of_the_peer_is_answered_and_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, checked(site, "ann") as api:
            monkeypatch.setattr(site.ann.people, "all", lambda: int("x"))
            said = await api("GET", "/api/people", 500)
            assert "ValueError" in said["error"]
            assert any("/api/people failed" in fault for fault in (await api("GET", "/api/status"))["faults"])

    run(scene())


def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 3_000_000
        raise ConnectionError

    async def scene() -> None:
        async with team_site(tmp_path) as site, site.login("ann") as client:
            path = f"/api/scopes/{site.ann.scope}/documents"
            with pytest.raises(ConnectionError):
                await client.post(f"{path}?name=x", content=broken())
            uploads = site.server.api.uploads
            await until(lambda: uploads.under_way == 0)
            assert site.ann.documents.all(site.ann.scope) == []
            assert site.ann.contents.bytes_used == 0

    run(scene())


def test_a_large_file_goes_in_and_comes_out_in_parts(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, site.login("ann") as client:
            size = 5_000_001
            path = f"/api/scopes/{site.ann.scope}/documents"
            made = (await client.post(f"{path}?name=large", content=pieces(size))).json()
            assert made["size"] == size
            part = await client.get(f"{path}/{made['id']}/content", headers={"range": "bytes=4999999-"})
            assert part.status_code == 206
            assert part.content == b"xx"

    run(scene())


def test_a_page_that_was_uploaded_never_runs_as_one_of_ours(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, site.login("ann") as client:
            path = f"/api/scopes/{site.ann.scope}/documents"
            name = 'a".html'
            made = (await client.post(path, params={"name": name}, content=b"<script>alert(1)</script>")).json()
            answer = await client.get(f"{path}/{made['id']}/content")
            assert answer.headers["content-type"] == "application/octet-stream"
            assert answer.headers["content-disposition"].startswith("attachment")
            assert "sandbox" in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"

    run(scene())


def test_a_document_of_another_peer_is_fetched_for_a_thin_client(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, "bob") as site, checked(site, "ann") as api:
            made = site.teams["bob"].documents.add(site.ann.scope, BytesIO(b"from bob"), "bob.txt")
            await until(lambda: any(each.id == made.id for each in site.ann.documents.all(site.ann.scope)))
            path = f"/api/scopes/{site.ann.scope}/documents/{made.id}"
            assert not (await api("GET", path))["is_here"]
            assert await api("GET", f"{path}/content") == b"from bob"
            assert (await api("GET", path))["is_here"]

    run(scene())


def test_a_document_that_others_show_to_the_user_is_there_for_a_thin_client(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, "bob") as site, checked(site, "ann") as api:
            await until(lambda: site.ann.status().connection == "attached")
            bob = site.teams["bob"]
            scope = bob.communities.create("Bridges", listed=False)
            made = bob.documents.add(scope, BytesIO(b"from bob"), "bob.txt")
            path = f"/api/scopes/{scope}/documents/{made.id}"
            await api("GET", path, 404)
            bob.rights.show(scope, made.id, ["ann"])
            found = await api("GET", path)
            assert (found["name"], found["scope"], found["is_here"]) == ("bob.txt", scope, False)
            assert await api("GET", f"{path}/content") == b"from bob"

    run(scene())


def test_rights_are_read_and_set_by_thin_clients(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, "bob") as site, checked(site, "ann") as api:
            scope = site.ann.communities.create("Bridges", listed=False)
            made = site.ann.documents.add(scope, BytesIO(b"steel"), "plan.txt")
            path = f"/api/scopes/{scope}"
            for place in (f"{path}/documents/{made.id}/rights", f"{path}/rights"):
                assert await api("GET", place) == []
                assert not site.ann.access.may_see("bob", scope, f"artefact/{made.id}")
                [grant] = await api("PUT", place, json=[{"user": "bob"}])
                assert grant["user"] == "bob"
                assert site.ann.access.may_see("bob", scope, f"artefact/{made.id}")
                await api("PUT", place, 403, json=[{"role": "king"}])
                assert await api("PUT", place, json=[]) == []
            free = {"search": None, "subscribe": None}
            assert await api("GET", "/api/rights") == free
            limited = await api("PATCH", "/api/rights", json={"search": [{"role": "owner"}]})
            assert (limited["search"][0]["role"], limited["subscribe"]) == ("owner", None)
            with pytest.raises(Refused, match="no grant of search covers it"):
                site.ann.access.check_query("bob", "may_search", None)
            await api("PATCH", "/api/rights", 403, json={"search": []})
            assert await api("PATCH", "/api/rights", json={"search": None}) == free

    run(scene())


def test_only_members_learn_who_else_may_read_a_document(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, checked(site, "bob") as api:
            scope = site.ann.communities.create("Bridges", listed=False)
            made = site.ann.documents.add(scope, BytesIO(b"steel"), "plan.txt")
            site.ann.rights.show(scope, made.id, ["bob"])
            path = f"/api/scopes/{scope}/documents/{made.id}"
            assert (await api("GET", path))["name"] == "plan.txt"
            await api("GET", f"{path}/rights", 404)
            await api("GET", f"/api/scopes/{scope}/rights", 404)

    run(scene())


async def pieces(size: int) -> AsyncIterator[bytes]:
    """A body whose length nobody has said."""
    for start in range(0, size, 65_536):
        yield b"x" * min(65_536, size - start)


# ---------------------------------------------------------------- streams


def test_news_reach_those_who_may_know(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            team_site(tmp_path) as site,
            site.login("ann") as ann,
            site.login("bob") as bob,
            ann.stream("GET", "/api/news") as for_ann,
            bob.stream("GET", "/api/news") as for_bob,
        ):
            hears_ann, hears_bob = Source(for_ann), Source(for_bob)
            hidden = site.ann.communities.create("Secret", listed=False)
            site.ann.messages.send(hidden, "hidden words")
            assert (await next_event(hears_ann, "change"))["scope"] == hidden
            site.ann.people.change_profile({"name": "Ann the First"})
            first = await next_event(hears_bob, "change")
            assert (first["kind"], first["record"], first["scope"]) == ("user", "user/ann", site.ann.scope)

    run(scene())


async def changes_until(source: Source, record: str) -> list[tuple[str, str]]:
    """Kind and record of the changes that a stream tells, up to a change of this record itself."""
    heard = [("", "")]
    while heard[-1] != (record.partition("/")[0], record):
        change = await next_event(source, "change")
        heard.append((change["kind"], change["record"]))
    return heard


def test_news_of_presence_reach_the_user_to_whom_it_is_shown(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            team_site(tmp_path, "bob") as site,
            site.login("ann") as ann,
            site.login("cid") as cid,
            ann.stream("GET", "/api/news") as for_ann,
            cid.stream("GET", "/api/news") as for_cid,
        ):
            await until(lambda: site.ann.people.get("bob").presence == "available")
            hears_ann, hears_cid = Source(for_ann), Source(for_cid)
            site.teams["bob"].presence.set("busy", shown_to=["ann"])
            await until(lambda: site.ann.people.get("bob").presence == "busy")
            site.ann.people.change_profile({"name": "Ann the First"})
            assert ("presence", "user/bob") in await changes_until(hears_ann, "user/ann")
            assert "presence" not in {kind for kind, _ in await changes_until(hears_cid, "user/ann")}

    run(scene())


def test_search_streams_results_and_ends_with_its_client(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, "bob") as site, site.login("ann") as client:
            await until(lambda: site.ann.status().connection == "attached")
            site.teams["bob"].documents.add(site.ann.scope, BytesIO(b"the word is heron"), "bird.txt")
            await until(lambda: site.ann.documents.all(site.ann.scope))
            stream = {"accept": "text/event-stream"}
            query = {"words": "bird", "kinds": "artefact", "stays_open": "true"}
            async with client.stream("GET", "/api/search", params=query, headers=stream) as response:
                found = await next_event(Source(response), "result")
                assert found["name"] == "bird.txt"
                assert len(site.server.api.streams) == 1
            await until(lambda: len(site.server.api.streams) == 0)
            query["stays_open"] = "false"
            async with client.stream("GET", "/api/search", params=query, headers=stream) as response:
                assert (await next_event(Source(response), "end"))["found"] == 1
            bad = await client.get("/api/search", params={"words": "x", "kinds": "planet"})
            assert bad.status_code == 400

    run(scene())


def test_searches_subscriptions_and_rules_take_every_language_that_is_offered(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, checked(site, "ann") as api:
            offered = (await api("GET", "/api/session"))["languages"]
            assert offered == OFFERED
            for name in (*offered, *SHORT_NAMES):
                full = SHORT_NAMES.get(name, name)
                asked = urlencode({"query": offered[full], "language": name, "kinds": "user", "wait_s": 0.1})
                found = await api("GET", f"/api/search?{asked}", headers={"accept": JSON})
                assert [each["id"] for each in found["results"]] == ["bob"], name
                wanted = {"name": name, "kinds": ["user"], "channels": [{"kind": "desktop"}], "query": offered[full]}
                made = await api("POST", "/api/subscriptions", 201, json={**wanted, "language": name})
                assert made.get("language", "xql") == full
                ruled = {"name": name, "join": "rule", "rule": offered[full], "language": name}
                await api("POST", "/api/communities", 201, json=ruled)
            wrong = await api("GET", "/api/search?query=x&language=sql", 400, headers={"accept": JSON})
            assert "there is no language 'sql': known are" in wrong["error"]

    run(scene())


def test_streams_of_a_user_are_counted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, site.login("ann") as client:
            streams = site.server.api.streams
            for _ in range(32):
                streams.new("ann", None)
            refused = await client.get("/api/news")
            assert refused.status_code == 429
            assert "32 streams" in refused.json()["error"]

    run(scene())
