"""The architecture page has the rooms that the code has, in the order of the layers, and stays short."""

import re

from tests.conventions.repository import PACKAGE, ROOT, rooms

PAGE = "docs/architecture.md"


def shown_rooms(page: str) -> list[str]:
    """The rooms in the first column of the section *Rooms*, from the highest down."""
    section = page.partition("\n## Rooms\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [room for cell in cells for room in re.findall(r"`(\w+)`", cell)]


def test_the_table_of_rooms_has_every_room_in_the_order_of_the_layers() -> None:
    built = [room for room in reversed(rooms()) if (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()]
    assert shown_rooms((ROOT / PAGE).read_text(encoding="utf-8")) == built


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len((ROOT / PAGE).read_text(encoding="utf-8").splitlines()) < 400
