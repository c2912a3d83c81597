"""Each picture of the documentation is shown by a page, and a script makes it, whose text has its name."""

import re
from pathlib import Path

from godwit.reproduce import pubmob_confirm, pubmob_search
from godwit.reproduce.pubmob_bounds import MODES
from scripts import figures
from scripts.diagrams import IMAGES, drawn
from tests.conventions.repository import ROOT, documents

SCREENSHOTS = tuple(
    ROOT / "tests" / "browser" / name for name in ("screenshots.py", "team_screenshots.py", "recording.py")
)
WRITES_WHOLE = re.compile(r'IMAGES / "([\w.]+)"|"images" / "([\w.]+)"')
WRITES_BY_NAME = re.compile(r'^ +\(?"(\w+)",? ?(?:: |"|\()', re.MULTILINE)


def screenshots(script: str) -> set[str]:
    """The pictures that a script takes: written whole, or the first words of the rows of its list."""
    whole = {one or other for one, other in WRITES_WHOLE.findall(script)}
    rows = WRITES_BY_NAME.findall(script) if 'IMAGES / f"{name}.png"' in script else []
    return whole | {f"{name}.png" for name in rows}


def makers() -> set[str]:
    """Every picture that a script makes."""
    taken = set().union(*(screenshots(path.read_text(encoding="utf-8")) for path in SCREENSHOTS))
    return {*drawn(), *figures.COUNTED, *figures.FROM_RUNS, *taken}


def pictures() -> set[str]:
    return {path.name for path in IMAGES.iterdir()}


def test_a_script_makes_each_picture() -> None:
    assert pictures() - makers() == set()


def test_a_page_shows_each_picture() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in documents())
    assert {name for name in pictures() if f"images/{name})" not in text} == set()


def test_plots_are_drawn_from_what_runs_have_left_behind(tmp_path: Path) -> None:
    each = dict.fromkeys(MODES, 0.5)
    trial = pubmob_search.Trial(
        choice=pubmob_search.BEGIN[0],
        counted=pubmob_search.COUNTED[0],
        cost=each,
        stands_after_s=each,
        first_delivered=each,
        median_s=each,
        conditions=(),
    )
    search, confirmed, images = (tmp_path / name for name in ("search", "confirmed", "images"))
    for folder in (search, confirmed, images):
        folder.mkdir()
    pubmob_search.write(search, [trial], 1)
    pubmob_confirm.write(confirmed, [pubmob_confirm.SeedTrial(key="A", seed=1, trial=trial)])
    assert figures.draw([search, confirmed], images, counted=False) == list(figures.FROM_RUNS)
    assert {path.name for path in images.iterdir()} == set(figures.FROM_RUNS)


def test_a_picture_that_no_script_makes_is_caught() -> None:
    assert screenshots(
        'IMAGES / "plan.png"\n    for name in (\n        ("here", "x"),\n    ): IMAGES / f"{name}.png"'
    ) == {
        "plan.png",
        "here.png",
    }
    assert "reproduced_by_hand.png" not in makers()
