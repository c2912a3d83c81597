"""The libraries of the dashboard in a browser: they work together, are small, and ask no other host for anything."""

import gzip
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from godwit.dashboard.vendored_files import VENDOR, import_map, vendored_packages
from tests.browser.kept_browser import run
from tests.browser.stations import browser_page
from tests.conventions.repository import PACKAGE

GZIP_BYTES_MAX = 500_000
SITE = "http://dashboard.test"  # nobody answers there: the test does
TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".css": "text/css", ".json": "application/json"}
NAMED = re.compile(rb"https?://[\w.-]+")
HARMLESS = {
    b"http://www.w3.org",  # names of namespaces
    b"https://leafletjs.com",  # a link that a map shows, if it is not told otherwise, and a comment
    *(
        b"https://d3js.org",
        b"https://github.com",
        b"https://bugs.chromium.org",
        b"https://bugzilla.mozilla.org",
    ),  # comments
}

PAGE = Path(__file__).with_name("vendored.html")


def test_the_libraries_work_together_and_ask_no_other_host() -> None:
    async def scene() -> None:
        async with browser_page() as page:
            asked: list[str] = []

            async def answer(route: Any, request: Any) -> None:
                asked.append(request.url)
                path = urlsplit(request.url).path
                file = PACKAGE / VENDOR / path.removeprefix("/vendor/")
                if not request.url.startswith(f"{SITE}/"):
                    await route.abort()
                elif path == "/":
                    text = PAGE.read_text().replace("IMPORT_MAP", json.dumps(import_map("/vendor/")))
                    await route.fulfill(body=text, content_type="text/html")
                elif path.startswith("/vendor/") and file.is_file():
                    await route.fulfill(body=file.read_bytes(), content_type=TYPES.get(file.suffix, "image/png"))
                else:
                    await route.fulfill(status=404)

            await page.route("**/*", answer)
            await page.goto(f"{SITE}/")
            await page.wait_for_function("window.shown")
            assert await page.evaluate("shown.countries") > 150
            assert 1 < await page.evaluate("shown.distance") < 1_000
            await page.click("#app button")
            assert await page.inner_text("#app button") == "2"
            assert await page.locator("#plot canvas").count() == 1
            assert await page.locator("#map canvas").count() == 1
            assert [url for url in asked if not url.startswith(f"{SITE}/")] == []
            assert any(url.endswith("marker-icon.png") for url in asked)

    run(scene)


def test_what_a_page_loads_is_small() -> None:
    files = [file.path for package in vendored_packages() for file in package.files if file.source != "LICENSE"]
    sizes = {path: len(gzip.compress((PACKAGE / VENDOR / path).read_bytes(), 9)) for path in files}
    print(f"libraries of the dashboard: {sum(sizes.values()):,} bytes with gzip")
    assert sum(sizes.values()) < GZIP_BYTES_MAX


def test_no_library_names_another_host_but_in_comments_and_links() -> None:
    for package in vendored_packages():
        for file in package.files:
            if file.source != "LICENSE":
                named = set(NAMED.findall((PACKAGE / VENDOR / file.path).read_bytes()))
                assert named <= HARMLESS, file.path
