"""The documentation site: its navigation names every page, it is built without a warning, and it asks no other host.

And the diagrams of the pages are those that the code, the examples and the transcripts give.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from scripts.diagrams import IMAGES, caption, drawn
from tests.browser.stations import browser_page
from tests.conventions.repository import ROOT, documents
from tests.conventions.test_docs import blocks
from tests.network.waiting import run

pytest.importorskip("mkdocs", reason="the documentation site needs the extra godwit[docs]: make venv")
pytest.importorskip("material", reason="the documentation site needs the extra godwit[docs]: make venv")

from scripts import site_hooks

FETCHED = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")
STYLED = re.compile(r"""(?:url\(|@import )["']?((?:https?:)?//[^"')\s]+)""")
BUILD_SECONDS_MAX = 300  # it takes ten; the bound is for a machine that is busy


class Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads mkdocs.yml, in which one value is a call."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def configuration() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)
    return loaded


def named(nav: Any) -> Iterator[str]:
    """The pages of a navigation."""
    if isinstance(nav, str):
        yield nav
    for each in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from named(each)


def faults(nav: Any, pages: list[str], listed: str) -> Iterator[str]:
    """What is wrong with a navigation, when there are such pages, and such a list of decisions."""
    known = list(named(nav))
    yield from (f"{page} is named twice" for page in sorted({page for page in known if known.count(page) > 1}))
    for page in pages:
        if re.fullmatch(r"decisions/\d+-.*", page):
            if f"]({page.removeprefix('decisions/')})" not in listed:
                yield f"{page} is not in decisions/README.md"
        elif page not in known:
            yield f"{page} is not in the navigation of mkdocs.yml"
    yield from (f"there is no {page}" for page in known if page not in pages)


def foreign(text: str) -> list[str]:
    """What a browser would fetch from another host when it shows this page or style."""
    return [*FETCHED.findall(text), *STYLED.findall(text)]


def test_the_navigation_names_every_page() -> None:
    docs = ROOT / "docs"
    pages = [path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))]
    listed = (docs / "decisions" / "README.md").read_text(encoding="utf-8")
    assert list(faults(configuration()["nav"], [*pages, *site_hooks.ROOT_PAGES.values()], listed)) == []


def test_a_page_that_is_missing_or_made_up_is_caught() -> None:
    nav = [{"Home": "README.md"}, {"Guides": [{"Run": "run.md"}, {"Again": "run.md"}, "gone.md"]}]
    assert list(
        faults(nav, ["README.md", "run.md", "new.md", "decisions/0001-a.md", "decisions/0002-b.md"], "[1](0001-a.md)")
    ) == [
        "run.md is named twice",
        "new.md is not in the navigation of mkdocs.yml",
        "decisions/0002-b.md is not in decisions/README.md",
        "there is no gone.md",
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built for these tests."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def test_the_site_is_built_without_a_warning_and_has_every_page(site: Path) -> None:
    assert (site / "index.html").is_file()
    for page in named(configuration()["nav"]):
        assert (site / page.replace("README.md", "index.md")).with_suffix(".html").is_file(), page


def test_the_site_fetches_nothing_from_another_host(site: Path) -> None:
    found = {
        path.relative_to(site).as_posix(): urls
        for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")])
        if (urls := foreign(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_pages_opened_as_files_can_be_searched_and_ask_no_host(site: Path) -> None:
    async def search() -> None:
        async with browser_page() as page:
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            await page.goto((site / "architecture.html").as_uri())
            await page.locator("input[name=query]").click()
            await page.locator("input[name=query]").press_sequentially("quenching")
            await page.locator(".md-search-result__item h1").first.wait_for()
            assert [url for url in asked if not url.startswith("file:")] == []

    run(search())


def test_no_page_has_a_diagram_in_mermaid_which_a_browser_would_fetch_from_another_host() -> None:
    assert [path.name for path in documents() if blocks(path.read_text(encoding="utf-8"), "mermaid")] == []


def test_what_another_host_would_be_asked_for_is_caught() -> None:
    page = (
        '<link href="https://a.example/x.css"><script src=//b.example/y.js></script><a href="https://c.example">c</a>'
    )
    assert foreign(page) == ["https://a.example/x.css", "//b.example/y.js"]
    assert foreign("@import 'https://a.example/f.css'; src: url(https://b.example/f.woff)") == [
        "https://a.example/f.css",
        "https://b.example/f.woff",
    ]


def test_links_lead_to_the_pages_of_the_site_and_code_is_left_alone() -> None:
    text = "[a](../../src/godwit/trace.py) [`b` c](../../README.md#install) `[d](../x.md)` [e](run.md) [f](https://a.example)"
    assert site_hooks.rewritten(text, "guides/page.md") == (
        "[a](../code/src/godwit/trace.py.md) [`b` c](../overview.md#install) `[d](../x.md)` [e](run.md) [f](https://a.example)"
    )
    fence = "```sh\n[a](../../README.md)\n```\n"
    assert site_hooks.rewritten(fence, "guides/page.md") == fence
    assert site_hooks.rewritten("[a](docs/guides/run.md) ![b](docs/images/map.webp)", "overview.md") == (
        "[a](guides/run.md) ![b](images/map.webp)"
    )


def test_code_that_a_page_links_to_is_shown_and_a_folder_is_listed() -> None:
    assert "```python\n" in site_hooks.code_page("src/godwit/trace.py")
    assert "- `run.md`" in site_hooks.code_page("docs/guides")


@pytest.mark.parametrize("file", list(drawn()))
def test_a_diagram_is_the_one_that_is_drawn_now(file: str) -> None:
    assert (IMAGES / file).read_text(encoding="utf-8") == drawn()[file], "draw it again: make diagrams"


def test_a_message_of_a_transcript_has_a_caption_if_it_is_shown() -> None:
    assert caption("Frame(7, 6, Publish(Event P/3))") == "Publish: event 3"
    assert (
        caption("Request(3, Publish(Event({'x': 3}, publisher='P', sequence=3, published_at=2.5)))")
        == "Publish: event 3"
    )
    assert caption("Frame(5, 5, Subscribe(('b3/1', '1'), `x >= 0`))") == ""
