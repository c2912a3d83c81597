"""What the architecture page shows of the code is what the code has: its diagram of an arrival, its table of rooms."""

import re

from godwit.mobility.arrival import diagram
from tests.conventions.repository import PACKAGE, ROOT, rooms
from tests.conventions.test_docs import blocks

PAGE = "docs/architecture.md"


def faults(page: str) -> list[str]:
    """What is wrong with the diagram of an arrival in a page."""
    found = [block.rstrip("\n") for block in blocks(page, "mermaid")]
    if found == [diagram()]:
        return []
    return [f"{PAGE} must contain one mermaid block, and it must be this:\n{diagram()}"]


def shown_rooms(page: str) -> list[str]:
    """The rooms in the first column of the section *Rooms*, from the highest down."""
    section = page.partition("\n## Rooms\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [room for cell in cells for room in re.findall(r"`(\w+)`", cell)]


def test_the_life_of_an_arrival_is_drawn_from_its_transition_table() -> None:
    assert faults((ROOT / PAGE).read_text(encoding="utf-8")) == []


def test_a_diagram_that_differs_is_caught() -> None:
    page = f"# A page\n\n```mermaid\n{diagram()}\n```\n"
    assert faults(page) == []
    assert len(faults(page.replace("receiving --> flushing", "receiving --> done"))) == 1
    assert len(faults("# A page without a diagram\n")) == 1


def test_the_table_of_rooms_has_every_room_in_the_order_of_the_layers() -> None:
    built = [room for room in reversed(rooms()) if (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()]
    assert shown_rooms((ROOT / PAGE).read_text(encoding="utf-8")) == built


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len((ROOT / PAGE).read_text(encoding="utf-8").splitlines()) < 400
