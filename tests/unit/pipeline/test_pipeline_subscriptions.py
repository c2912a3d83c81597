"""Subscriptions are read from JSON lines, PADRES lines and tables; what is wrong is said with file and line."""

from pathlib import Path

import pyarrow as pa
import pytest

from godwit.errors import PipelineError
from godwit.filters.language import parse
from godwit.pipeline import tables
from godwit.pipeline.subscriptions import read_subscriptions


def test_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "subscriptions.jsonl"
    file.write_text(
        '{"id": 7, "filter": "price < 10"}\n\n'
        '{"id": "b", "filter": {"some": "price", "in": {"range": {"<": 10}}}}\n'
        '{"id": "c", "filter": "price < my.limit", "context": {"limit": 3}, "sender": "trust > 1"}\n',
        encoding="utf-8",
    )
    found = read_subscriptions(file)
    assert list(found) == ["7", "b", "c"]
    assert found["7"] == found["b"] == parse("price < 10")
    assert found["c"] == parse("price < 3 AND sender.trust > 1")


def test_lines_of_padres_are_called_by_their_number(tmp_path: Path) -> None:
    file = tmp_path / "subscriptions.txt"
    file.write_text("[class,eq,'STOCK'],[high,>,20.5]\n\n[class,eq,'STOCK']\n", encoding="utf-8")
    assert read_subscriptions(file) == {"1": parse("class = 'STOCK' AND high > 20.5"), "3": parse("class = 'STOCK'")}


def test_a_table(tmp_path: Path) -> None:
    with tables.changing(tmp_path / "table", "subscriptions") as change:
        rows = {"subscription": pa.array(["a", "b"]), "filter": pa.array(["x > 1", "y = 'z'"])}
        tables.save(pa.table(rows), change.place())
        change.commit()
    assert read_subscriptions(tmp_path / "table") == {"a": parse("x > 1"), "b": parse("y = 'z'")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"id": 1, "filter": "x > 1"}\n{"id": 1, "filter": "x > 2"}\n', r":2: there is a subscription '1' already"),
        ('{"id": 1, "filter": "x >"}\n', r":1: line 1, column 4"),
        ('{"id": 1}\n', r":1: .*missing required field `filter`"),
        ('{"id": 1, "filter": "x > 1", "to": "y = 1"}\n', r":1: .*unknown field `to`"),
        ('{"id": 1, "filter": "x > my.limit"}\n', r":1: the filter refers to my\.limit"),
        ("[class,eq,'STOCK'],[high,over,20]\n", r":1: character 20: 'over' is no operator"),
        ("class = 'STOCK'\n", r":1: character 1"),
        ("\n \n", r" holds no subscription"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "subscriptions"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PipelineError, match=rf"subscriptions{reason}"):
        read_subscriptions(file)


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"[a,eq,'\xff']\n")
    with pytest.raises(PipelineError, match=r"bad:1: a text that is not valid UTF-8"):
        read_subscriptions(tmp_path / "bad")
    with pytest.raises(PipelineError, match=r"there is no .*gone"):
        read_subscriptions(tmp_path / "gone")
    with pytest.raises(PipelineError, match=r"is no table of ours"):
        read_subscriptions(tmp_path)
