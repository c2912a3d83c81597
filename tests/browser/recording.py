"""`make recording`: twenty seconds of the map while `godwit demo` runs, as an animated picture for the README."""

import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from PIL import Image

from tests.browser.stations import browser_page

FILE = Path(__file__).parents[2] / "docs" / "images" / "map.webp"
SECONDS = 20.0
FRAMES_PER_S = 5.0
DRIVE_S = 45  # a broker is killed after 40 %, and comes back after 55 %
BEGINS_S = 6.0  # of the drive
SIZE = {"width": 1_000, "height": 760}
SHOWN = (800, 608)
BYTES_MAX = 2_000_000
QUALITY = 55


@asynccontextmanager
async def demonstration() -> AsyncIterator[str]:
    """The demonstration, until the end of the block: the address of its map, when the cars drive."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "godwit", "demo", "--open", "--seconds", str(DRIVE_S)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "BROWSER": "true %s"},  # a browser that shows nothing: ours is another
    )
    assert process.stdout is not None
    try:
        said: dict[str, Any] = {"phase": ""}
        while not said["phase"].startswith("driving"):
            said = json.loads(await process.stdout.readline())
        yield said["map"]
    finally:
        process.send_signal(signal.SIGINT)
        account = (await process.communicate())[0].splitlines()[-1]
        print(account.decode())


async def frames(page: Any) -> list[Image.Image]:
    """Pictures of the page, one after the other."""
    taken: list[Image.Image] = []
    began = perf_counter()
    while (now := perf_counter() - began) < SECONDS:
        await page.wait_for_timeout(max(0.0, 1_000 * (len(taken) / FRAMES_PER_S - now)))
        data = await page.screenshot(type="jpeg", quality=90)
        taken.append(Image.open(io.BytesIO(data)).convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS))
    return taken


async def main() -> None:
    async with demonstration() as address, browser_page() as page:
        await page.set_viewport_size(SIZE)
        await page.goto(address)
        await page.wait_for_selector(".legend li")
        await page.wait_for_timeout(1_000 * BEGINS_S)
        taken = await frames(page)
    each_ms = round(1_000 * SECONDS / len(taken))
    taken[0].save(
        FILE,
        save_all=True,
        append_images=taken[1:],
        duration=each_ms,
        loop=0,
        quality=QUALITY,
        method=6,
        minimize_size=True,
    )
    size = FILE.stat().st_size
    print(f"{FILE}: {len(taken)} frames, {size:,} bytes")
    assert size <= BYTES_MAX, f"{size:,} bytes: at most {BYTES_MAX:,} are allowed"


if __name__ == "__main__":
    asyncio.run(main())
