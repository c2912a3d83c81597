"""Small pictures of every page in a fixed state, to see when a page has come to look different.

`python -m tests.browser.stored_pictures` takes them again (`make screenshots`). They are compared cell by cell:
fonts differ from machine to machine, and times from run to run.
"""

import io
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageChops

from tests.browser.fixed_state import complete, fixed_network, page_names
from tests.browser.kept_browser import run
from tests.browser.test_dashboard import dashboard, show

FOLDER = Path(__file__).parent / "pictures"
SIZE = {"width": 900, "height": 1_000}
STORED = (360, 400)
CELLS = (36, 40)
MEAN_MAX, CONSPICUOUS, CELLS_MAX = 2.0, 64, 12  # two runs differed by 0.1 on average, two pages by 2.8 or more
COLOURS = 48
CHANGES = "time, .plot, .hand-overs"
"""What is different each time: painted over."""
LAST = ("live",)  # these leave a session behind, which others would show


async def take_all(page: Any) -> dict[str, Image.Image]:
    """A picture of each page, by its name."""
    await page.set_viewport_size(SIZE)
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await show(page, "why")
    pictures = {}
    for name in sorted(await page_names(page), key=lambda name: (name in LAST, name)):
        await show(page, name, **({"hide": "events"} if name == "map" else {}))
        await complete(page, name)
        data = await page.screenshot(mask=[page.locator(CHANGES)], mask_color="#888888")
        pictures[name] = Image.open(io.BytesIO(data)).convert("RGB").resize(STORED, Image.Resampling.BOX)
    return pictures


class Difference(NamedTuple):
    """How much two pictures differ."""

    mean: float  # of all cells, of 255
    cells: int  # that look quite different

    @property
    def is_small(self) -> bool:
        """Whether it may be another font, or another time of day."""
        return self.mean <= MEAN_MAX and self.cells <= CELLS_MAX


def difference(one: Image.Image, other: Image.Image) -> Difference:
    """Compare two pictures, cell by cell."""
    cells = [each.convert("RGB").resize(CELLS, Image.Resampling.BOX) for each in (one, other)]
    found = ImageChops.difference(*cells).tobytes()
    most = [max(found[at : at + 3]) for at in range(0, len(found), 3)]
    return Difference(sum(found) / len(found), sum(each > CONSPICUOUS for each in most))


def stored(name: str) -> Image.Image | None:
    """The picture of a page that is kept; None: there is none."""
    file = FOLDER / f"{name}.png"
    return Image.open(file).convert("RGB") if file.is_file() else None


async def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    async with fixed_network() as brokers, dashboard(brokers["b1"].url) as page:
        for name, picture in (await take_all(page)).items():
            picture.quantize(COLOURS).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    run(main())
