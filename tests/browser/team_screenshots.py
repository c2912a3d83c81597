"""`make screenshots`: the pictures of the pages of a team in the docs."""

import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from tests.browser.kept_browser import run
from tests.browser.stations import browser_page
from tests.browser.team_state import fixed_team

IMAGES = Path(__file__).parents[2] / "docs" / "images"


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with fixed_team(Path(folder)) as (site, ids), browser_page() as page:
            await page.set_viewport_size({"width": 1100, "height": 620})
            await page.goto(f"{site.url}/team/login#{site.accounts.new_code('ann')}")
            await page.wait_for_selector(".cards")
            scope = ids["bridges"]
            for name, path, parameters, ready in (
                ("team_document", "documents", {"scope": scope, "id": ids["report"]}, ".list li"),
                ("team_messages", "messages", {"scope": scope}, ".bubble"),
            ):
                await page.goto(f"{site.url}/team/{path}?{urlencode(parameters)}")
                await page.wait_for_selector(ready)
                await page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    sys.exit(run(main()))
