"""`make figures`: the plots of the documentation, drawn by what `godwit reproduce` draws them with.

| picture | made from |
|---|---|
| `segment_packets.png`, `segment_false_receptions.png` | counted again, with seed 1 (seconds) |
| `reproduction_p3_p4.png` | `search.json` of `godwit reproduce pubmob --search 24 --seed 1` |
| `reproduction_confirmed.png` | `confirmed.json` of `godwit reproduce pubmob --confirm` |

The last two need hours of runs, so they are drawn again only with the folders of such runs:
`make figures RUNS="reproduced/pubmob …"`.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from godwit.reproduce import pubmob_confirm, pubmob_search
from godwit.reproduce.segment_multicast import draw_segments
from scripts.diagrams import IMAGES

SEED = 1
COUNTED = {
    "segment_packets.png": "segment_packets_by_brokers.png",
    "segment_false_receptions.png": "segment_false_receptions_by_brokers.png",
}
"""By picture of the documentation, the file that `draw_segments` writes."""
FROM_RUNS: dict[str, tuple[str, type, Callable[[Path, Any], tuple[Path, Path]]]] = {
    "reproduction_p3_p4.png": ("search.json", pubmob_search.Trial, pubmob_search.show),
    "reproduction_confirmed.png": ("confirmed.json", pubmob_confirm.SeedTrial, pubmob_confirm.show),
}
"""By picture, the file with its trials, their class, and what draws them."""


def draw(runs: Sequence[Path], images: Path = IMAGES, *, counted: bool = True) -> list[str]:
    """Draw what can be drawn with the folders of these runs; the names of the pictures."""
    drawn = []
    with tempfile.TemporaryDirectory() as folder:
        if counted:
            draw_segments(Path(folder), SEED)
            for picture, file in COUNTED.items():
                shutil.copyfile(Path(folder) / file, images / picture)
                drawn.append(picture)
        for picture, (file, kind, show) in FROM_RUNS.items():
            for found in (each / file for each in runs if (each / file).is_file()):
                trials: Any = msgspec.convert(msgspec.json.decode(found.read_bytes())["trials"], list[kind])  # type: ignore[valid-type]
                png, _ = show(Path(folder), trials)
                shutil.copyfile(png, images / picture)
                drawn.append(picture)
    return drawn


def main() -> None:
    """Draw them; the words of the command are folders of runs."""
    draw([Path(folder) for folder in sys.argv[1:]])


if __name__ == "__main__":
    main()
