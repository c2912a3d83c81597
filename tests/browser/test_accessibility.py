"""Every page by axe-core: nothing that keeps people out who cannot see, point or tell colours apart."""

from pathlib import Path
from typing import Any

from tests.browser.fixed_state import EXAMPLES, complete, fixed_network, page_names
from tests.browser.kept_browser import run
from tests.browser.stations import browser_page, need
from tests.browser.test_dashboard import PHONE, dashboard, show

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")
DESK = {"width": 1_200, "height": 900}
LOOKS = {"light": PHONE, "dark": DESK}


async def findings(page: Any) -> list[str]:
    """What is grave on the page that is shown, and where."""
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    found = await page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
    return [
        f"{each['impact']}: {each['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:300]}"
        for each in found
        if each["impact"] in GRAVE
        for node in each["nodes"]
    ]


def test_no_page_keeps_anybody_out() -> None:
    need(AXE.is_file(), "axe-core (tests/browser/node_modules)")

    async def scene() -> None:
        async with fixed_network() as brokers, dashboard(brokers["b1"].url) as page:
            await show(page, "why")
            grave: dict[str, list[str]] = {}
            for scheme, size in LOOKS.items():
                await page.emulate_media(color_scheme=scheme)
                await page.set_viewport_size(size)
                for name in await page_names(page):
                    for parameters in EXAMPLES.get(name, [{}]):
                        await show(page, name, **parameters)
                        await complete(page, name)
                        grave[f"{name} {parameters}, {scheme}"] = await findings(page)
            assert {where: found for where, found in grave.items() if found} == {}

    run(scene())


def test_what_keeps_people_out_is_found() -> None:
    need(AXE.is_file(), "axe-core (tests/browser/node_modules)")

    async def scene() -> None:
        async with browser_page() as page:
            await page.set_content("<main><button></button></main>")
            assert any("button-name" in each for each in await findings(page))

    run(scene())
