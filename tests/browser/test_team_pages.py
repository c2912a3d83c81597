"""The pages of a team in a real browser: what they show is so, they ask nobody else, and everybody can use them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from godwit.teamwork import Grant, Role
from godwit.teamwork.query_languages import OFFERED
from tests.browser.kept_browser import run
from tests.browser.stations import browser_page, need
from tests.browser.team_state import BEGINS, fixed_team
from tests.browser.test_accessibility import AXE, LOOKS, findings
from tests.browser.test_dashboard import PHONE, fits, note, shows
from tests.network.team_site import Site, team_site
from tests.network.waiting import until

PAGES = (
    *("people", "communities", "documents", "search", "messages"),
    *("meetings", "notifications", "subscriptions", "status"),
)
HOSTILE = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">\u202egnol ${1+1}"


@asynccontextmanager
async def pages_of(site: Site, user: str = "ann") -> AsyncIterator[Any]:
    """The pages, as a user sees them. They ask this peer alone, and do not complain."""
    async with browser_page() as page:
        page.strangers, page.complaints = [], []
        page.on("request", lambda asked: note(page.strangers, asked.url, urlsplit(asked.url).netloc not in site.url))
        page.on("console", lambda said: note(page.complaints, said.text, said.type in ("error", "warning")))
        page.web = site.url
        await page.goto(f"{site.url}/team/login#{site.accounts.new_code(user)}")
        await page.wait_for_selector("nav[aria-label=Pages]")
        yield page
        assert page.strangers == []
        assert page.complaints == []


async def show(page: Any, name: str, **parameters: str) -> None:
    """Show a page, with all that it asks for at first."""
    await page.goto(f"{page.web}/team/{name}?{urlencode(parameters)}")
    await page.wait_for_selector("main h1")


async def press(page: Any, name: str) -> None:
    await page.get_by_role("button", name=name, exact=True).first.click()


def examples(ids: dict[str, str]) -> list[tuple[str, dict[str, str], str]]:
    """Each page with what its address may say, and a text that is on it when it is complete."""
    scope = ids["bridges"]
    return [
        ("people", {}, "Bob Brandt"),
        ("people", {"user": "ann"}, "Your profile"),
        ("people", {"user": "bob"}, "Write a message"),
        ("communities", {}, "Yard"),
        ("communities", {"id": scope}, "Add somebody"),
        ("documents", {"scope": scope}, "Inspection of pier 4"),
        ("documents", {"scope": scope, "id": ids["report"]}, "Version 2 by ann"),
        ("search", {"words": "crack"}, "Inspection of pier 4"),
        ("messages", {"scope": scope}, "ultrasonic"),
        ("meetings", {}, "Review of pier 4"),
        ("meetings", {"scope": scope, "id": ids["meeting"]}, "suits most"),
        ("notifications", {}, "because of your subscription"),
        ("subscriptions", {}, "Everything about bridges"),
        ("status", {}, "Connected."),
    ]


def test_no_page_keeps_anybody_out_or_is_wider_than_a_phone(tmp_path: Path) -> None:
    need(AXE.is_file(), "axe-core (tests/browser/node_modules)")

    async def scene() -> None:
        async with fixed_team(tmp_path) as (site, ids), pages_of(site) as page:
            grave: dict[str, Any] = {}
            for scheme, size in LOOKS.items():
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                await page.set_viewport_size(size)
                for name, parameters, text in examples(ids):
                    await show(page, name, **parameters)
                    await shows(page, text)
                    where = f"{name} {sorted(parameters)}, {scheme}"
                    grave[where] = await findings(page)
                    if not await fits(page):
                        grave[where].append("it is wider than the screen")
            await page.get_by_role("button", name="Log out").click()
            await shows(page, "No password yet?")
            grave["login"] = await findings(page)
            assert {where: found for where, found in grave.items() if found} == {}

    run(scene())


def test_every_page_is_found_by_keyboard_and_says_what_to_do_when_it_is_empty(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, pages_of(site) as page:
            await page.goto(site.url)
            await page.wait_for_selector("nav[aria-label=Pages]")
            await page.keyboard.press("Tab")  # the link that skips the menu
            await page.keyboard.press("Tab")  # the button that logs out
            for name in PAGES:
                await page.keyboard.press("Tab")
                await page.keyboard.press("Enter")
                await page.wait_for_url(f"**/team/{name}")
                assert await page.locator("nav[aria-label=Pages] a[aria-current=page]").count() == 1
            await page.go_back()
            assert urlsplit(page.url).path == f"/team/{PAGES[-2]}"
            for name, text in {
                "communities": "You belong to no community yet",
                "documents": "No documents yet",
                "search": "Find documents",
                "messages": "No conversations yet",
                "meetings": "No meetings are planned",
                "notifications": "Nothing has happened yet",
            }.items():
                await show(page, name)
                await shows(page, text)
            await page.set_viewport_size(PHONE)
            await show(page, "people", user="nobody")
            await shows(page, "there is no user 'nobody'")
            page.complaints.clear()  # the browser logs every answer of status 404

    run(scene())


def test_a_user_without_a_login_sees_the_login_alone(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, browser_page() as page:
            site.accounts.set_hash("ann", "hash of right password")
            await page.goto(f"{site.url}/team/people?user=bob")
            await page.get_by_label("User").fill("ann")
            await page.get_by_label("Password").fill("wrong password")
            await press(page, "Log in")
            await shows(page, "there is no such user, or the password is wrong")
            assert "Brandt" not in await page.content()
            await page.get_by_label("Password").fill("right password")
            await page.keyboard.press("Enter")
            await shows(page, "Bob Brandt")  # the page that was asked for
            await press(page, "Log out")
            await page.wait_for_selector("input[name=password]")
            answer = await page.goto(f"{site.url}/team/")
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy

    run(scene())


def test_a_document_is_stored_changed_and_found(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("the heron stands on one leg")

    async def scene() -> None:
        async with team_site(tmp_path) as site, pages_of(site) as page:
            await show(page, "communities")
            await page.get_by_text("New community").click()
            await page.get_by_label("Name").fill("Birds")
            await press(page, "Make the community")
            await page.get_by_role("heading", name="Birds").wait_for()
            await page.get_by_role("main").get_by_role("link", name="Documents").click()
            await page.set_input_files("input[type=file]", file)
            await page.get_by_role("link", name="notes.txt").click()
            await page.get_by_label("Title").fill("About herons")
            await press(page, "Save")
            await page.get_by_role("heading", name="About herons").wait_for()
            file.write_text("the heron stands on two legs")
            await page.set_input_files("input[type=file]", file)
            await press(page, "Upload")
            await shows(page, "Version 2 by ann")
            async with page.expect_download() as waiting:
                await page.get_by_role("link", name="Download", exact=True).click()
            await (await waiting.value).save_as(tmp_path / "downloaded.txt")
            assert (tmp_path / "downloaded.txt").read_text() == "the heron stands on two legs"
            await press(page, "Lock")
            await shows(page, "Locked by ann")
            await show(page, "search")
            await page.get_by_label("Words").fill("heron")
            await page.keyboard.press("Enter")
            await page.get_by_role("link", name="About herons").click()
            await press(page, "Delete")
            await press(page, "Yes")
            await shows(page, "No documents yet")

    run(scene())


def test_people_are_found_in_every_language_that_the_page_offers(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, pages_of(site) as page:
            await show(page, "search")
            await page.get_by_text("Query over profiles").click()
            offered = await page.get_by_label("Language").locator("option").all_inner_texts()
            assert offered == list(OFFERED)
            for name in offered:
                await show(page, "search")
                await page.get_by_text("Query over profiles").click()
                await page.get_by_label("Language").select_option(name)
                query = page.get_by_label("Query", exact=True)
                assert await query.get_attribute("placeholder") == OFFERED[name]
                await query.fill(OFFERED[name])
                await page.keyboard.press("Enter")
                await shows(page, "Bob Brandt")
                assert await page.get_by_label("Language").input_value() == name

    run(scene())


def test_messages_come_and_are_seen_at_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, "bob") as site, pages_of(site) as page:
            bob = site.teams["bob"]
            await show(page, "people", user="bob")
            await press(page, "Write a message")
            await page.get_by_label("Message").fill("Hello Bob")
            await press(page, "Send")
            await until(lambda: any(bob.messages.thread(scope) for scope in bob.messages.conversations()))
            [scope] = bob.messages.conversations()
            [hello] = bob.messages.thread(scope)
            await shows(page, "delivered to bob")
            bob.messages.mark(scope, hello.id)
            await shows(page, "read by bob")
            assert "delivered to" not in await page.content()
            await show(page, "people")
            bob.messages.send(scope, "Hello Ann", reply_to=hello.id)
            await page.get_by_role("link", name="Messages 1 new").click()
            await page.get_by_role("link", name="Hello Ann").click()
            await page.locator(".bubble blockquote").wait_for()
            await until(lambda: not site.ann.messages.unread())

    run(scene())


def test_a_meeting_is_proposed_answered_and_fixed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with fixed_team(tmp_path) as (site, ids), pages_of(site) as page:
            await show(page, "meetings", scope=ids["bridges"], id=ids["meeting"])
            await page.locator("select").first.select_option("yes")
            await press(page, "Save my answers")
            await until(lambda: "ann" in site.ann.meetings.get(ids["bridges"], ids["meeting"]).answers)
            await page.get_by_role("button", name="Choose").first.click()
            await page.locator(".verdict").wait_for()
            assert site.ann.meetings.get(ids["bridges"], ids["meeting"]).chosen == BEGINS
            await show(page, "meetings")
            await page.get_by_text("Propose a meeting").click()
            await page.get_by_label("Title").fill("Another one")
            await page.get_by_label("Time 1").fill("2031-05-01T10:00")
            await press(page, "Another time")
            await page.get_by_label("Time 2").fill("2031-05-02T10:00")
            await press(page, "Propose")
            await page.get_by_role("heading", name="Another one").wait_for()

    run(scene())


def test_notifications_are_shown_by_the_browser_and_end_with_their_subscription(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, "bob") as site, pages_of(site) as page:
            bob = site.teams["bob"]
            await page.add_init_script(
                "window.Notification = class { static permission = 'granted';"
                "constructor(title, more) { document.documentElement.dataset.told = `${title} / ${more.body}`; } };"
            )
            await show(page, "subscriptions")
            await page.get_by_label("Name").fill("new documents")
            await press(page, "Subscribe")
            await page.locator("li strong", has_text="new documents").wait_for()
            bob.documents.add(site.ann.scope, BytesIO(b"plan"), "plan.txt")
            told = str(await page.locator("html[data-told]").get_attribute("data-told"))
            assert told.startswith("plan.txt")
            assert "new documents" in told
            await page.get_by_role("link", name="Notifications 1 new").click()
            await shows(page, "because of your subscription “new documents”")
            await press(page, "Mark all as read")
            await shows(page, "All read.")
            await page.get_by_role("button", name="End the subscription new documents").click()
            await press(page, "Yes")
            await until(lambda: all(each.name != "new documents" for each in site.ann.subscriptions.subscriptions))

    run(scene())


def test_what_others_write_is_shown_as_text(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, "bob") as site, pages_of(site) as page:
            ann, bob = site.ann, site.teams["bob"]
            bob.people.change_profile({"name": HOSTILE, "skill": [HOSTILE], "about": HOSTILE * 1_000})
            scope = ann.communities.create(HOSTILE.replace("\u202e", ""), description=HOSTILE)
            ann.communities.add(scope, "bob", Role.EDITOR)
            await until(lambda: any(each.id == scope for each in bob.communities.mine()))
            name = "<img src=x onerror=\"document.title = 'taken'\">.html"
            made = bob.documents.add(scope, BytesIO(b"x"), name, {"title": HOSTILE, "description": HOSTILE})
            bob.messages.send(scope, HOSTILE)
            bob.meetings.propose(scope, HOSTILE[:200], [BEGINS], agenda=HOSTILE)
            await until(lambda: ann.meetings.all(scope) and ann.messages.thread(scope) and ann.documents.all(scope))
            [meeting] = ann.meetings.all(scope)
            await page.set_viewport_size(PHONE)
            for name, parameters in (
                ("people", {}),
                ("people", {"user": "bob"}),
                ("communities", {}),
                ("communities", {"id": scope}),
                ("documents", {"scope": scope}),
                ("documents", {"scope": scope, "id": made.id}),
                ("search", {"words": "script", "query": HOSTILE, "language": "native"}),
                ("search", {"words": "taken"}),
                ("messages", {"scope": scope}),
                ("meetings", {"scope": scope}),
                ("meetings", {"scope": scope, "id": meeting.id}),
                ("people", {"text": HOSTILE}),
                (HOSTILE.replace("/", "").replace(".", ""), {}),
            ):
                await show(page, name, **parameters)
                await page.wait_for_load_state("load")
                if name != "search" and not name.startswith("<"):
                    await page.get_by_text("<script>document.title").locator("visible=true").first.wait_for()
                assert await page.locator("main script, main img").count() == 0
                assert "taken" not in await page.title()
                assert await fits(page), (name, sorted(parameters))
            page.complaints.clear()  # the browser logs the answer to a query that is none

    run(scene())


def test_a_peer_that_stops_is_seen_to_be_gone(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path) as site, pages_of(site) as page:
            await show(page, "people")
            await shows(page, "Bob Brandt")
            await site.server.close()
            await shows(page, "The peer does not answer")
            page.complaints.clear()  # the browser logs every request that failed

    run(scene())


def test_a_user_of_another_peer_reads_and_is_told_why_nothing_can_be_changed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with fixed_team(tmp_path) as (site, ids), pages_of(site, "bob") as page:
            await show(page, "messages", scope=ids["bridges"])
            await shows(page, "This peer cannot sign for you")
            await show(page, "documents", scope=ids["bridges"], id=ids["report"])
            await shows(page, "Version 2 by ann")
            await show(page, "subscriptions")
            await shows(page, "This peer notifies its own user alone.")
            await show(page, "communities")
            assert "Tender" not in str(await page.text_content("ul.cards"))

    run(scene())


def test_a_document_offers_only_what_its_reader_may_do_and_says_why(tmp_path: Path) -> None:
    async def scene() -> None:
        async with team_site(tmp_path, "bob") as site, pages_of(site) as page:
            ann, bob = site.ann, site.teams["bob"]
            ours = ann.communities.create("Ours", join="open")
            theirs = bob.communities.create("Theirs", join="approval")
            read_only = bob.communities.create("Read only", join="open")
            bob.communities.add(read_only, "ann", Role.READER)
            plan = ann.documents.add(ours, BytesIO(b"a plan"), "plan.txt")
            tender = bob.documents.add(theirs, BytesIO(b"a tender"), "tender.txt")
            bob.rights.show(theirs, tender.id, [Grant(user="ann")])
            rules = bob.documents.add(read_only, BytesIO(b"a rule"), "rules.txt")
            await until(lambda: any(each.id == rules.id for each in known(ann, read_only)))

            async def offered(scope: str, id: str, text: str) -> list[str]:
                await show(page, "documents", scope=scope, id=id)
                await shows(page, text)
                return [str(each).strip() for each in await page.locator("main button").all_text_contents()]

            assert {"Lock", "Delete", "Save"} <= set(await offered(ours, plan.id, "Version 1 by ann"))
            assert await offered(theirs, tender.id, "you are not a member, and was shown to you") == []
            assert await page.get_by_text("Versions").count() == 0
            assert await offered(read_only, rules.id, "You are a reader of Read only") == []
            await show(page, "documents", scope=read_only)
            await shows(page, "rules.txt")
            assert await page.locator("input[type=file]").count() == 0

    run(scene())


def known(team: Any, scope: str) -> list[Any]:
    """The documents of a scope, as far as a peer knows them; none before it knows the scope."""
    return list(team.documents.all(scope)) if any(each.id == scope for each in team.communities.mine()) else []
