"""Subscriptions are read from JSON lines, PADRES lines and tables; what is wrong is said with file and line."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from godwit.errors import PipelineError
from godwit.filters import event
from godwit.filters.filters import attributes_of
from godwit.filters.language import parse
from godwit.languages import Query, parse_query
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


def test_a_line_may_name_the_language_of_its_filter(tmp_path: Path) -> None:
    file = tmp_path / "subscriptions.jsonl"
    json_filter = {"op": ">", "args": [{"property": "speed"}, {"property": "allowed"}]}
    lines = [
        {"id": "a", "filter": "amount > 10", "language": "cql2-text"},
        {"id": "b", "filter": "LENGTH(note) > 3", "language": "cesql", "sender": "trust > 1"},
        {"id": "c", "filter": json_filter, "language": "cql2-json"},
        {"id": "d", "filter": "amount > 10", "language": "filter"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = read_subscriptions(file)
    assert found["a"] == found["d"] == parse("amount > 10")  # exact: nothing but the filter
    note, speed = found["b"], found["c"]
    assert isinstance(note, Query)
    assert isinstance(speed, Query)
    assert (note.language, note.text) == ("cesql", parse_query("LENGTH(note) > 3", "cesql").text)
    assert "sender.trust" in attributes_of(note.routable)
    assert speed.matches(event({"speed": 3, "allowed": 2}))


def test_a_table_may_have_a_column_for_languages(tmp_path: Path) -> None:
    with tables.changing(tmp_path / "table", "subscriptions") as change:
        rows = {
            "subscription": pa.array(["a", "b"]),
            "filter": pa.array(["x > 1", "x > y"]),
            "language": pa.array([None, "cql2-text"]),
        }
        tables.save(pa.table(rows), change.place())
        change.commit()
    found = read_subscriptions(tmp_path / "table")
    assert found["a"] == parse("x > 1")
    assert isinstance(found["b"], Query)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '{"id": 1, "filter": "x > y", "language": "cql2-text", "context": {"a": 1}}\n',
            r":1: 'context' is for filters",
        ),
        ('{"id": 1, "filter": "x >", "language": "cql2-text"}\n', r":1: line 1, column 4"),
        ('{"id": 1, "filter": "x", "language": "sequel"}\n', r":1: .*'sequel'"),
        ('{"id": 1, "filter": "x > 1"}\n{"id": 1, "filter": "x > 2"}\n', r":2: there is a subscription '1' already"),
        ('{"id": 1, "filter": "x >"}\n', r":1: line 1, column 4"),
        ('{"id": 1}\n', r":1: .*missing required field `filter`"),
        ('{"id": 1, "filter": "x > 1", "to": "y = 1"}\n', r":1: .*unknown field `to`"),
        ('{"id": 1, "filter": "x > my.limit"}\n', r":1: the filter refers to my\.limit"),
        ("[class,eq,'STOCK'],[high,over,20]\n", r":1: character 20: 'over' is not an operator"),
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
    with pytest.raises(PipelineError, match=r"gone: no such file or folder"):
        read_subscriptions(tmp_path / "gone")
    with pytest.raises(PipelineError, match=r"is not a Godwit table"):
        read_subscriptions(tmp_path)


def test_an_exact_test_on_the_subscribers_own_context_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "subscriptions.jsonl"
    file.write_text('{"id": "a", "filter": "speed > my.limit + 10"}\n', encoding="utf-8")
    with pytest.raises(PipelineError, match=r"jsonl:1: .*my\.limit, the subscriber's own context"):
        read_subscriptions(file)
