"""The event log: what is appended is there once, after any end of the process, and what is wrong with it is said."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from time import time
from typing import Any

import pytest

from godwit.errors import EventLogError
from godwit.event_log import START, EventLog, Position, PublishProgress, Retention, lines_from, segments
from godwit.filters.events import Event


def event(n: int, publisher: str = "p") -> Event:
    return Event({"n": n}, publisher, n, published_at=1.5)


def events(numbers: Iterable[int]) -> list[Event]:
    return [event(n) for n in numbers]


def held(folder: Path, start: Position | None = None) -> list[int]:
    return [json.loads(line)["attributes"]["n"] for line, _ in lines_from(folder, start)]


def written(folder: Path, numbers: Iterable[int], **more: Any) -> None:
    log = EventLog(folder, **more)
    log.append(events(numbers))
    log.close()


def test_what_was_appended_is_there_again_and_once(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log")
    assert [each.sequence for each in log.append(events([1, 2, 2]))] == [1, 2]
    log.close()
    again = EventLog(tmp_path / "log")
    assert [each.sequence for each in again.append([event(2), event(3), event(2, "q")])] == [3, 2]
    again.close()
    assert held(tmp_path / "log") == [1, 2, 3, 2]


def test_it_is_there_though_nobody_closed_it(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        EventLog(tmp_path).append(events([1, 2]))
        os._exit(9)
    os.waitpid(child, 0)
    assert held(tmp_path) == [1, 2]
    written(tmp_path, [2, 3])
    assert held(tmp_path) == [1, 2, 3]


def test_a_line_that_was_not_finished_is_cut_off_wherever_it_ends(tmp_path: Path) -> None:
    written(tmp_path, [1, 2])
    file = tmp_path / "00000001.jsonl"
    whole = file.read_bytes()
    second = whole.index(b"\n") + 1
    for end in range(second, len(whole)):
        file.write_bytes(whole[:end])
        assert held(tmp_path) == [1]
        written(tmp_path, [1, 2])
        assert file.read_bytes() == whole
    file.write_bytes(whole + b"\0" * 100)
    written(tmp_path, [3])
    assert held(tmp_path) == [1, 2, 3]


def test_a_damaged_line_with_others_behind_it_is_said_and_nothing_is_cut(tmp_path: Path) -> None:
    written(tmp_path, [1, 2, 3])
    file = tmp_path / "00000001.jsonl"
    damaged = file.read_bytes().replace(b'{"n":2}', b'{"n":2]')
    file.write_bytes(damaged)
    with pytest.raises(EventLogError, match=r"00000001\.jsonl: line 2 is not an event, and there are others after it"):
        EventLog(tmp_path)
    assert file.read_bytes() == damaged


def test_a_full_segment_is_followed_by_the_next_and_none_comes_twice_in_the_new_one(tmp_path: Path) -> None:
    for n in range(1, 7):
        written(tmp_path, range(max(1, n - 3), n + 1), segment_bytes=1)
    assert segments(tmp_path) == [1, 2, 3, 4, 5, 6]
    assert held(tmp_path) == [1, 2, 3, 4, 5, 6]
    assert sorted(path.name for path in tmp_path.glob("_seen-*")) == ["_seen-00000006.json"]


def test_a_position_is_where_reading_goes_on(tmp_path: Path) -> None:
    for n in range(1, 5):
        written(tmp_path, [n], segment_bytes=150)
    positions = [position for _, position in lines_from(tmp_path)]
    assert segments(tmp_path) == [1, 2]
    for count, position in enumerate(positions, start=1):
        assert held(tmp_path, position) == list(range(count + 1, 5))
    log = EventLog(tmp_path)
    assert log.end == positions[-1]
    log.close()


def test_two_processes_do_not_write_one_log(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    with pytest.raises(EventLogError, match=rf"is being written by process {os.getpid()}"):
        EventLog(tmp_path)
    log.close()
    EventLog(tmp_path).close()


def test_a_disk_that_is_full_leaves_whole_lines_for_readers_and_none_comes_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(tmp_path)
    log.append(events([1]))
    real = os.write

    def full(file: int, data: Any) -> int:
        if len(data) < 200:
            raise OSError(28, "No space left on device")
        return real(file, bytes(data)[:-60])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(EventLogError, match="cannot be written: No space left on device"):
            log.append(events([2, 3, 4]))
    seen = [position for _, position in lines_from(tmp_path)]
    assert held(tmp_path) == [1, 2, 3]
    assert not (tmp_path / "00000001.jsonl").read_bytes().endswith(b"\n")
    written(tmp_path, [2, 3, 4])
    assert held(tmp_path) == [1, 2, 3, 4]
    assert [position for _, position in lines_from(tmp_path)][:3] == seen


def test_how_far_it_is_published_is_there_again(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match=r"is not an event log: there is no _log\.json in it"):
        PublishProgress(tmp_path)
    written(tmp_path, [1, 2])
    state = PublishProgress(tmp_path)
    state.begin("cab", 100, keeps=False)
    state.reached(Position(1, 10), 1)
    state.reached(Position(1, 20), 2)
    with pytest.raises(EventLogError, match="is being published by process"):
        PublishProgress(tmp_path)
    state.close()
    again = PublishProgress(tmp_path)
    assert (again.publisher, again.first, again.events, again.position) == ("cab", 100, 3, Position(1, 20))
    again.close()
    (tmp_path / "_published.json").write_text("{}")
    with pytest.raises(EventLogError, match="has no valid position"):
        PublishProgress(tmp_path)


def test_a_newer_format_and_a_folder_of_other_things_are_refused(tmp_path: Path) -> None:
    (tmp_path / "00000001.jsonl").write_text("")
    with pytest.raises(EventLogError, match="is not an event log"):
        EventLog(tmp_path)
    (tmp_path / "_log.json").write_text('{"format": 2}')
    with pytest.raises(EventLogError, match="has format 2: this version reads 1"):
        EventLog(tmp_path)


def test_a_log_says_the_name_and_the_version_of_its_format(tmp_path: Path) -> None:
    written(tmp_path, [1])
    about = tmp_path / "_log.json"
    assert json.loads(about.read_text()) == {"kind": "godwit event log", "format": 1}
    about.write_text('{"format": 1}')  # begun before the format had a name
    written(tmp_path, [2])
    assert held(tmp_path) == [1, 2]
    about.write_text('{"kind": "another log", "format": 1}')
    with pytest.raises(EventLogError, match="is of kind 'another log', not godwit event log"):
        EventLog(tmp_path)
    assert about.read_text() == '{"kind": "another log", "format": 1}'


def test_what_is_gone_from_a_log_before_it_was_read_is_missed(tmp_path: Path) -> None:
    for n in range(1, 5):
        written(tmp_path, [n], segment_bytes=1)
    reached = next(position for _, position in lines_from(tmp_path, Position(2, 0)))
    (tmp_path / "00000001.jsonl").unlink()
    assert held(tmp_path) == [2, 3, 4]  # taken away, the oldest first
    assert held(tmp_path, reached) == [3, 4]
    with pytest.raises(EventLogError, match="what was behind byte 0 of segment 1 was removed before it was read"):
        held(tmp_path, START)
    third = (tmp_path / "00000003.jsonl").read_bytes()
    (tmp_path / "00000003.jsonl").unlink()
    for start in (None, reached, Position(3, len(third))):
        with pytest.raises(EventLogError, match="has no segment 3, which was not read"):
            held(tmp_path, start)
    with pytest.raises(EventLogError, match="has no segment 5, which was not read"):
        held(tmp_path, Position(5, 9))
    (tmp_path / "00000003.jsonl").write_bytes(third[:-9])
    with pytest.raises(EventLogError, match=rf"was read up to byte {len(third)} of segment 3, and is shorter now"):
        held(tmp_path, Position(3, len(third)))
    (tmp_path / "empty").mkdir()
    assert held(tmp_path / "empty") == []


def test_a_log_that_spark_fills_is_not_for_others(tmp_path: Path) -> None:
    (tmp_path / "_log.json").write_text('{"format": 1, "publisher": "spark"}')
    with pytest.raises(EventLogError, match="is a log that Spark fills: use another folder"):
        EventLog(tmp_path)


# ---------------------------------------------------------------- what is kept


def numbers_in(folder: Path) -> list[int]:
    """What is in a log, which must be whole from some segment on and up to the last."""
    found = segments(folder)
    assert found == list(range(found[0], found[-1] + 1))
    return held(folder)


def size_of(folder: Path) -> int:
    return sum((folder / f"{n:08}.jsonl").stat().st_size for n in segments(folder))


def test_a_log_keeps_about_so_many_bytes_the_newest(tmp_path: Path) -> None:
    written(tmp_path / "one", [1])
    line = size_of(tmp_path / "one")
    log = EventLog(tmp_path / "log", keep=Retention(bytes=20 * line))
    for n in range(1, 200):
        log.append([event(n)])
        found = numbers_in(tmp_path / "log")
        assert found[-1] == n
        assert size_of(tmp_path / "log") <= 22 * (line + 4)
        if n > 20:
            assert len(found) >= 14  # and not much less
    log.close()
    written(tmp_path / "log", [198, 199, 200])  # what was seen is still known
    assert numbers_in(tmp_path / "log")[-3:] == [198, 199, 200]


def test_a_log_without_a_bound_keeps_all(tmp_path: Path) -> None:
    for n in range(1, 30):
        written(tmp_path, [n], segment_bytes=1)
    assert numbers_in(tmp_path) == list(range(1, 30))


def test_what_is_too_old_goes_also_while_nothing_comes(tmp_path: Path) -> None:
    day = 86_400.0
    at = [time()]
    log = EventLog(tmp_path, keep=Retention(seconds=8 * day), now=lambda: at[0])
    for n in range(1, 5):
        log.append([event(n)])
        last = tmp_path / f"{segments(tmp_path)[-1]:08}.jsonl"
        os.utime(last, (at[0], at[0]))
        at[0] += 2 * day
    assert segments(tmp_path) == [1, 2, 3, 4]
    log.tidy()
    assert numbers_in(tmp_path) == [2, 3, 4]
    at[0] += 2 * day
    log.tidy()
    assert numbers_in(tmp_path) == [3, 4]
    at[0] += 20 * day
    log.tidy()
    assert (numbers_in(tmp_path), segments(tmp_path)) == ([], [5])
    log.tidy()
    assert segments(tmp_path) == [5]  # nothing was written: nothing is begun
    log.append([event(4), event(5)])
    assert numbers_in(tmp_path) == [5]
    log.close()


def test_who_has_read_what_was_taken_away_goes_on_and_who_has_not_is_told(tmp_path: Path) -> None:
    log = EventLog(tmp_path, segment_bytes=1)
    positions = [START]
    for n in range(1, 6):
        log.append([event(n)])
        positions.append(log.end)
    log.close()
    EventLog(tmp_path, keep=Retention(bytes=1)).close()  # which keeps but the last segment
    first = segments(tmp_path)[0]
    assert first > 4
    for n, position in enumerate(positions):
        if n >= first - 1:
            assert held(tmp_path, position) == list(range(n + 1, 6))
        else:
            with pytest.raises(EventLogError, match=rf"what was behind byte {position.bytes} of segment {position[0]}"):
                held(tmp_path, position)
    state = PublishProgress(tmp_path)
    state.begin("cab", 100, keeps=False)
    assert state.skip_removed() == ""
    state.reached(positions[1], 1)
    assert "segment 1 and all of segments 2 to " in state.skip_removed()
    assert (state.position, state.events) == (Position(first, 0), 1)
    state.close()


class Killed(BaseException):
    """The process has ended here."""


def test_killed_between_any_two_steps_of_taking_away_the_log_is_whole_from_some_segment_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step is an `fsync`, a `rename` or an `unlink`: dying before each, one after the other."""
    died = 0
    for dies_at in range(200):
        folder = tmp_path / f"log{dies_at}"
        written(folder, range(1, 3), segment_bytes=1)
        for n in range(3, 8):
            written(folder, [n], segment_bytes=1)
        reached = [position for _, position in lines_from(folder)]
        left = [dies_at]

        def step(real: Any, left: list[int] = left) -> Any:
            def taken(*args: Any, **more: Any) -> Any:
                if not left[0]:
                    raise Killed
                left[0] -= 1
                return real(*args, **more)

            return taken

        with monkeypatch.context() as patched:
            for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
                patched.setattr(owner, name, step(getattr(owner, name)))
            try:
                EventLog(folder, keep=Retention(bytes=1)).close()
            except Killed:
                died += 1
        found = numbers_in(folder)
        assert found == list(range(8 - len(found), 8))
        for n, position in enumerate(reached, start=1):  # nobody is told less, or more, than what is so
            if n + 1 >= 8 - len(found):
                assert held(folder, position) == list(range(n + 1, 8))
            else:
                with pytest.raises(EventLogError, match="was removed before it was read"):
                    held(folder, position)
        written(folder, range(1, 10), segment_bytes=1)
        assert numbers_in(folder) == list(range(8 - len(found), 10))
        if left[0]:
            break
    assert died > 10
