"""Reading an event log: positions, pieces and columns. Needs no Spark."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from godwit.errors import PipelineError
from godwit.event_log import START, EventLog, Position, lines_from
from godwit.filters.events import Event
from godwit.filters.values import Point
from godwit.pipeline.columns import Form, attributes_of
from godwit.pipeline.log_columns import Wanted, batches
from godwit.pipeline.log_pieces import LogPiece, advanced, end_of, pieces, start_of
from tests.property.strategies import attributes

NOW = 1_794_700_800.25


def filled(folder: Path, events: list[Event], **more: Any) -> Path:
    log = EventLog(folder, **more)
    for event in events:
        log.append([event])
    log.close()
    return folder


def counted(folder: Path, count: int, **more: Any) -> Path:
    return filled(folder, [Event({"n": n}, "p", n + 1, published_at=NOW + n) for n in range(count)], **more)


def read(folder: Path, start: Position, end: Position, wanted: Wanted, bytes_max: int | None = None) -> list[Any]:
    found = pieces(folder, start, end, bytes_max)
    return [row for piece in found for batch in batches(piece, wanted, 7) for row in batch.to_pylist()]


def numbers(folder: Path, start: Position, end: Position, bytes_max: int | None = None) -> list[int]:
    return [row["n"] for row in read(folder, start, end, Wanted.parse("n int"), bytes_max)]


def test_both_sides_see_the_same_positions(tmp_path: Path) -> None:
    log = counted(tmp_path, 20, segment_bytes=500)
    positions = [START, *(position for _, position in lines_from(log))]
    end = end_of(log)
    assert end == positions[-1]
    assert end.segment > 2
    for count, position in enumerate(positions):
        assert numbers(log, START, Position(*position)) == list(range(count))
        assert numbers(log, Position(*position), end) == list(range(count, 20))
        assert numbers(log, START, advanced(log, START, end, count) if count else START) == list(range(count))
        assert advanced(log, Position(*position), end, 100) == end


@pytest.mark.parametrize("bytes_max", [1, 70, 100, 250, 10_000])
def test_each_event_is_in_one_piece_wherever_it_is_cut(tmp_path: Path, bytes_max: int) -> None:
    log = counted(tmp_path, 20, segment_bytes=700)
    assert numbers(log, START, end_of(log), bytes_max) == list(range(20))


def test_a_line_that_is_being_written_is_not_there(tmp_path: Path) -> None:
    log = counted(tmp_path, 2)
    end = end_of(log)
    with (log / "00000001.jsonl").open("ab") as file:
        file.write(b'{"publisher":"p","sequ')
    assert end_of(log) == end
    assert end_of(tmp_path / "nowhere") == START


def test_segments_that_are_gone_before_they_were_read_are_missed(tmp_path: Path) -> None:
    log = counted(tmp_path, 9, segment_bytes=200)
    at, end = advanced(log, START, end_of(log), 1), end_of(log)
    (log / "00000001.jsonl").unlink()
    assert start_of(log) == Position(2, 0)
    assert numbers(log, start_of(log), end)[-1] == 8
    for look, byte in ((lambda: end_of(log, at), at.bytes), (lambda: pieces(log, START, end), 0)):
        with pytest.raises(PipelineError, match=rf"what was behind byte {byte} of segment 1 was removed before it was"):
            look()


def test_what_was_taken_away_is_said_or_skipped_and_what_was_read_is_not_missed(tmp_path: Path) -> None:
    log = counted(tmp_path, 9, segment_bytes=200)
    end, ends = end_of(log), {n: Position(n, (log / f"0000000{n}.jsonl").stat().st_size) for n in (1, 2)}
    taken = [numbers(log, START, ends[n])[-1] + 1 for n in (1, 2)]
    for n in (1, 2):
        (log / "_removed.json").write_text(json.dumps([ends[n]]))  # as `EventLog` does it
        (log / f"0000000{n}.jsonl").unlink()
        assert numbers(log, ends[n], end) == list(range(taken[n - 1], 9))
        assert end_of(log, ends[n]) == end
        assert advanced(log, ends[n], end, 100) == end
    gone = rf"byte {ends[1].bytes} of segment 1 and all of segments 2 to 2 was removed .*'skip_removed'"
    for look in (lambda: end_of(log, ends[1]), lambda: advanced(log, ends[1], end, 1)):
        with pytest.raises(PipelineError, match=gone):
            look()
    for start in (START, ends[1]):
        found = pieces(log, start, end, skip_removed=True)
        assert [int(Path(piece.path).stem) for piece in found] == list(range(3, end.segment + 1))
        assert end_of(log, start, skip_removed=True) == end
        assert advanced(log, start, end, 1, skip_removed=True).segment == 3
    assert pieces(log, START, ends[1], skip_removed=True) == []  # a batch of which nothing is left
    with pytest.raises(PipelineError, match="it is another log now"):
        end_of(log, Position(99, 0), skip_removed=True)


def test_a_segment_that_is_taken_away_under_a_readers_hands_is_said(tmp_path: Path) -> None:
    log = counted(tmp_path, 3)
    [piece] = pieces(log, START, end_of(log))
    reading = batches(piece, Wanted(), 1)
    assert next(reading).num_rows == 1
    Path(piece.path).unlink()
    assert sum(batch.num_rows for batch in reading) == 2  # who has opened it has it
    with pytest.raises(PipelineError, match=r"00000001\.jsonl was removed while it was to be read"):
        list(batches(piece, Wanted(), 1))


def test_a_segment_that_is_gone_from_the_middle_is_missed(tmp_path: Path) -> None:
    log = counted(tmp_path, 9, segment_bytes=200)
    end = end_of(log)
    (log / "00000002.jsonl").unlink()
    assert start_of(log) == START
    with pytest.raises(PipelineError, match="has no segment 2, but later ones: its events are lost"):
        pieces(log, START, end)


@pytest.mark.parametrize(("at", "year"), [(9e18, 9999), (253_402_300_800, 9999), (-9e18, 1)])
def test_a_time_that_no_column_can_hold_does_not_end_the_reading(tmp_path: Path, at: float, year: int) -> None:
    log = filled(tmp_path, [Event({}, "p", 1, published_at=at, expires_at=at), Event({}, "p", 2, published_at=NOW)])
    first, second = read(log, START, end_of(log), Wanted())
    assert (first["published_at"].year, first["expires_at"].year, first["day"].year) == (year, year, year)
    assert second["published_at"] == datetime.fromtimestamp(NOW, UTC)


def test_a_log_that_is_another_one_now_is_noticed(tmp_path: Path) -> None:
    end = end_of(counted(tmp_path / "a", 3))
    with pytest.raises(PipelineError, match=r"was read up to byte \d+ of segment 1, and is shorter now"):
        end_of(counted(tmp_path / "b", 2), end)
    with pytest.raises(PipelineError, match="and no segment is there"):
        end_of(tmp_path, end)
    assert end_of(tmp_path) == start_of(tmp_path) == START


def test_columns_are_those_of_a_table_of_events_and_of_the_attributes_that_were_named(tmp_path: Path) -> None:
    event = Event(
        {
            "price": 3,
            "at": Point(8.5, 47.4),
            "tags": ("a", "b"),
            "sender.x": 1,
            "when": datetime(2026, 1, 1, tzinfo=UTC),
        },
        *("p", 7, b"\xff", "text/plain", NOW),
    )
    log = filled(tmp_path, [event])
    wanted = Wanted.parse("price float, tags several text, at point", rest="rest")
    [row] = read(log, START, end_of(log), wanted)
    rest = json.loads(row.pop("rest"))
    assert rest == {"sender.x": 1, "when": {"$time": "2026-01-01T00:00:00+00:00"}}
    assert row.pop("published_at") == datetime.fromtimestamp(NOW, UTC)
    assert str(row.pop("day")) == "2026-11-15"
    assert row == {
        "publisher": "p",
        "sequence": 7,
        "expires_at": None,
        "to": None,
        "content_type": "text/plain",
        "payload": b"\xff",
        "price": 3.0,
        "tags": ["a", "b"],
        "at": {"lon": 8.5, "lat": 47.4},
    }
    [row] = read(log, START, end_of(log), Wanted.parse(""))
    assert json.loads(row["attributes"])["tags"] == ["a", "b"]


@given(attributes(("a", "b", "publisher")))
def test_whatever_an_event_holds_comes_out_of_columns_and_rest(attributes: Any) -> None:
    from godwit.filters.events import flattened
    from godwit.pipeline.log_columns import _batch

    wanted = Wanted.parse("a float, b several any, publisher text", rest="rest")
    batch = _batch([(attributes, {"publisher": "p", "sequence": 1})], wanted)
    [rest] = batch.column("rest").to_pylist()
    columns = [name for name in batch.schema.names if name != "rest"]
    assert {**attributes_of(batch.select(columns))[0], **flattened(json.loads(rest))} == attributes


@pytest.mark.parametrize(
    ("form", "held"),
    [("float", 2**53 + 1), ("int", 1.5), ("int", 2**63), ("text", 1), ("text", ("a", "b")), ("several int", (1, "a"))],
)
def test_what_does_not_fit_is_said_or_goes_to_the_rest(tmp_path: Path, form: str, held: Any) -> None:
    log = filled(tmp_path, [Event({"a": held}, "p", 1)])
    with pytest.raises(PipelineError, match=r"event p:1 has a = .*, which is not .*: use `a any`"):
        read(log, START, end_of(log), Wanted.parse(f"a {form}"))
    [row] = read(log, START, end_of(log), Wanted.parse(f"a {form}", rest="more"))
    assert row["a"] is None
    assert json.loads(row["more"]) == {"a": list(held) if isinstance(held, tuple) else held}


@pytest.mark.parametrize(
    ("attributes", "rest", "said"),
    [
        ("price", "", "'price' is not a name and form"),
        ("price flaot", "", "'flaot' is not a form of a column"),
        ("a int, a text", "", "attribute 'a' is given twice"),
        ("a int", "a", "there is a column 'a' already"),
        ("", "day", "there is a column 'day' already"),
        ("{", "", "not valid JSON"),
    ],
)
def test_what_cannot_be_meant_is_said(attributes: str, rest: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        Wanted.parse(attributes, rest)


def test_names_of_any_kind_can_be_said_in_json() -> None:
    assert Wanted.parse('{"a, b": "several int"}').forms == (("a, b", Form("int", several=True)),)


def test_a_line_that_is_no_event_is_said_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "00000001.jsonl"
    file.write_bytes(b'{"publisher":"p","sequence":1,"attributes":{}}\n{"n": 1}\n')
    with pytest.raises(PipelineError, match=r"00000001\.jsonl, byte 47: this is not a line of an event log"):
        read(tmp_path, START, end_of(tmp_path), Wanted())
    with pytest.raises(PipelineError, match="has 56 bytes, and was read up to byte 99 before"):
        list(batches(LogPiece(str(file), 56, 99), Wanted(), 5))
