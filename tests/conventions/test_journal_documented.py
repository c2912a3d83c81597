"""docs/reference/snapshots.md has the journal's format, its tables with every column and type, and its mark."""

import re
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from zlib import crc32

from godwit.codec import snapshots
from godwit.codec.batch_chains import MARK, SLOT_BYTES, Mark
from godwit.runtime.journal import FILE, FORMAT, LAYOUT, LOCK, SCHEMA
from godwit.runtime.journal_marks import MarkFile
from tests.conventions.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "snapshots.md").read_text(encoding="utf-8")
HEAD = "| table | columns | holds |\n|---|---|---|\n"

Tables = dict[str, list[tuple[str, str]]]  # columns with their types, by table


def section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def defined(schema: str) -> Tables:
    with closing(sqlite3.connect(":memory:")) as disk:
        disk.executescript(schema)
        names = [name for (name,) in disk.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [row[1:3] for row in disk.execute(f"PRAGMA table_info({name})")] for name in names}


def shown(text: str) -> Tables:
    rows = text.partition(HEAD)[2].partition("\n\n")[0]
    found = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", rows, re.MULTILINE)
    return {name: re.findall(r"`(\w+)` ?(\w*)", columns) for name, columns in found}


def faults(text: str, number: int, tables: Tables) -> Iterator[str]:
    if not text.strip().startswith(f"Format {number}. "):
        yield f"the format is {number}"
    if (found := shown(text)) != tables:
        yield f"the page has {found}"


def test_the_format_and_every_column_of_every_table_are_documented() -> None:
    assert list(faults(section(PAGE, "The journal"), FORMAT, defined(SCHEMA))) == []


def test_every_file_and_every_line_about_a_journal_is_documented() -> None:
    text = section(PAGE, "The journal")
    assert [name for name in (FILE, LOCK, MARK, *LAYOUT) if f"`{name}`" not in text] == []


def test_a_mark_can_be_read_by_what_the_page_says(tmp_path: Path) -> None:
    file = MarkFile(tmp_path / MARK)
    file.begin(7)
    file.write(7, 12, bytes(range(16)), is_synced=False)
    file.close()
    text, data = section(PAGE, "The mark"), (tmp_path / MARK).read_bytes()
    assert f"two slots of {SLOT_BYTES:,} bytes" in text
    assert len(data) == 2 * SLOT_BYTES
    fields = re.findall(r"^\| `?(\w+)`? \| (\d+) \|", text, re.MULTILINE)
    assert [name for name, _ in fields] == ["magic", "version", *Mark._fields, "checksum"]
    slots = []
    for at in (0, SLOT_BYTES):
        slot, found = data[at:], {}
        for name, size in fields:
            found[name], slot = slot[: int(size)], slot[int(size) :]
        checksum = int.from_bytes(found.pop("checksum"), "little")
        assert checksum == crc32(b"".join(found.values()))
        slots.append(found)
    newest = max(slots, key=lambda found: int.from_bytes(found["sequence"], "little"))
    assert f"| `{newest.pop('magic').decode()}` |" in text
    assert f"of this layout: {int.from_bytes(newest.pop('version'), 'little')} |" in text
    chain, [when] = newest.pop("chain"), struct.unpack("<d", newest.pop("at"))
    numbers = {name: int.from_bytes(value, "little") for name, value in newest.items()}
    assert Mark(chain=chain, at=when, **numbers) == file.last


def test_the_version_of_a_snapshot_is_documented() -> None:
    text = section(PAGE, "A snapshot")
    assert f'`"{snapshots.FORMAT}"`' in text
    assert f"of this layout: {snapshots.VERSION} |" in text


def test_what_is_missing_or_made_up_is_caught() -> None:
    tables: Tables = {"a": [("x", "TEXT"), ("y", "")]}
    assert defined("CREATE TABLE a (x TEXT PRIMARY KEY, y)") == tables
    right = f"Format 2. Tables:\n\n{HEAD}| `a` | `x` TEXT, `y` | text |\n\n"
    assert list(faults(right, 2, tables)) == []
    assert list(faults(right, 3, tables)) == ["the format is 3"]
    assert len(list(faults(right.replace("TEXT", "BLOB"), 2, tables))) == 1
    assert len(list(faults(right.replace(", `y`", ""), 2, tables))) == 1
    assert len(list(faults(right, 2, {**tables, "b": []}))) == 1
