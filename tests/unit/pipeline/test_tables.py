"""Tables on disk: a change is made wholly or not at all, by one writer at a time, never in a foreign folder."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from godwit.errors import PipelineError
from godwit.filters.events import values_of
from godwit.pipeline import tables
from godwit.pipeline.columns import Form, form_of_values, from_arrow, joined, to_arrow
from godwit.pipeline.schemas import about
from tests.property.strategies import values
from tests.unit.disk import Step, recorded


def made(folder: Path, numbers: list[int], mode: tables.Mode = "new", attribute: str = "n") -> None:
    with tables.changing(folder, "events", mode) as change:
        tables.save(pa.table({attribute: numbers}), change.place("2026-11-15"))
        forms = change.before.attributes if change.before else {}
        change.commit({**forms, attribute: Form("int")})


def rows(folder: Path) -> list[int]:
    return [n for path in tables.files(folder) for n in pq.read_table(path, partitioning=None).column(0).to_pylist()]


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith("_") and path.name not in KNOWN]


KNOWN = ("_godwit.json", "_lock")


def test_a_table_that_is_not_there_is_named_with_the_command_that_makes_one() -> None:
    with pytest.raises(PipelineError, match="there is no table 'nowhere': `godwit pipeline ingest` makes tables"):
        about("nowhere")


def test_a_table_is_made_added_to_and_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    made(folder, [1, 2])
    made(folder, [3], "append", "m")
    assert rows(folder) == [1, 2, 3]
    assert about(folder).attributes == {"m": Form("int"), "n": Form("int")}
    made(folder, [4], "overwrite")
    assert rows(folder) == [4]
    assert about(folder).attributes == {"n": Form("int")}
    assert leftovers(folder) == []


def test_a_table_that_is_there_is_not_made_anew(tmp_path: Path) -> None:
    made(tmp_path, [1])
    with pytest.raises(PipelineError, match="already: --append adds to it, --overwrite replaces it"):
        made(tmp_path, [2])
    assert rows(tmp_path) == [1]


@pytest.mark.parametrize("mode", ["new", "append", "overwrite"])
def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, mode: tables.Mode) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(PipelineError, match="not a Godwit table, and not empty"):
        made(tmp_path, [1], mode)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_table_is_not_made_among_the_rows_of_another(tmp_path: Path) -> None:
    made(tmp_path, [1])
    with pytest.raises(PipelineError, match="is within the table"):
        made(tmp_path / "deep" / "within", [2])
    made(tmp_path / "_beside", [2])
    assert rows(tmp_path) == [1]


def test_a_table_of_another_kind_is_not_added_to(tmp_path: Path) -> None:
    made(tmp_path, [1])
    with (
        pytest.raises(PipelineError, match="is a table of events, not one of fixes"),
        tables.changing(tmp_path, "fixes", "append"),
    ):
        pass


def test_only_a_table_that_more_is_added_to_speaks_of_that(tmp_path: Path) -> None:
    with tables.changing(tmp_path, "matches") as change:
        change.commit()
    with pytest.raises(PipelineError, match="already: --overwrite replaces it"):
        tables.check(tmp_path, "matches")


def test_what_others_put_below_a_table_is_not_of_it_and_stays(tmp_path: Path) -> None:
    made(tmp_path, [1])
    beside = tmp_path / "city" / "trace.parquet"
    beside.parent.mkdir()
    pq.write_table(pa.table({"at": [1.0]}), beside)
    assert rows(tmp_path) == [1]
    made(tmp_path, [2], "overwrite")
    assert rows(tmp_path) == [2]
    assert beside.exists()


@pytest.mark.parametrize("folder", ["new", "new/deep/within"])
def test_what_fails_leaves_nothing(tmp_path: Path, folder: str) -> None:
    root = tmp_path / folder

    def fail() -> None:
        with tables.changing(root, "events") as change:
            tables.save(pa.table({"n": [1]}), change.place())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not any(tmp_path.iterdir())


def test_there_is_one_writer_at_a_time(tmp_path: Path) -> None:
    with tables.changing(tmp_path, "events") as change:
        tables.save(pa.table({"n": [1]}), change.place())
        with pytest.raises(PipelineError, match="another process is writing"):
            made(tmp_path, [2], "append")
        change.commit({"n": Form("int")})
    assert rows(tmp_path) == [1]


@pytest.mark.parametrize("tidies", [False, True])
@pytest.mark.parametrize("before", [[1, 2], []])
def test_a_writer_killed_at_any_moment_has_done_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: list[int], tidies: bool
) -> None:
    """Each step of the disk in turn is the last before the kill; whoever reads next finds one of two states.

    The dead tidy nothing up. Who is interrupted, or has no room left, does.
    """

    class Killed(BaseException):
        pass

    left, states = 0, []
    steps: dict[str, Any] = {"replace": Path.replace, "unlink": Path.unlink, "mkdir": Path.mkdir, "fsync": os.fsync}

    def counted(step: str) -> object:
        def take(self: Any, *rest: object, **more: object) -> object:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return steps[step](self, *rest, **more)

        return take

    for budget in range(100):
        folder = tmp_path / str(budget)
        if before:
            made(folder, before)
        left = budget
        with monkeypatch.context() as patch:
            for step in steps:
                patch.setattr(os if step == "fsync" else Path, step, counted(step))
            if not tidies:
                patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            try:
                made(folder, [3], "overwrite")
                done = True
            except Killed:
                done = False
        tables.finish(folder)
        states.append(rows(folder))
        made(folder, [9], "append")
        assert rows(folder) == [*states[-1], 9]
        assert leftovers(folder) == []
        if done:
            break
    assert states == sorted(states)  # first the old rows, from some moment on the new ones
    assert states[-1] == [3]
    assert {tuple(state) for state in states} == {tuple(before), (3,)}


@pytest.mark.parametrize("name", ["../thesis.parquet", "TMP/thesis.parquet", "day=2026-11-15/../../thesis.parquet"])
def test_a_decision_of_somebody_else_removes_no_file_outside_of_the_table(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "events"
    made(folder, [1])
    (tmp_path / "thesis.parquet").write_text("mine")
    decision = {
        "removed": [name.replace("TMP", str(tmp_path))],
        "table": "events",
        "attributes": {},
        "quarantine": False,
    }
    for text in (json.dumps(decision), "{}", "nonsense"):
        (folder / "_commit.json").write_text(text)
        with pytest.raises(PipelineError, match=r"_commit.json is invalid"):
            tables.finish(folder)
    assert (tmp_path / "thesis.parquet").read_text() == "mine"
    assert rows(folder) == [1]


@given(values(), values())
def test_widening_keeps_every_value(one: object, other: object) -> None:
    for first, second in ((one, other), ((one, other), one)):
        forms = [form_of_values(held) for held in (first, second)]  # type: ignore[arg-type]
        exact = all(type(v) is not int or abs(v) <= 2**53 for h in (first, second) for v in values_of(h))  # type: ignore[arg-type]
        form = joined(*forms, exact=exact)
        for held, own in zip((first, second), forms, strict=True):
            wide = tables.widened(to_arrow(own, [held, None]), "x", form)
            [back, missing] = from_arrow("x", wide)
            assert (back, missing) == (held, None)
            assert {type(v) is bool for v in values_of(back)} == {type(v) is bool for v in values_of(held)}  # type: ignore[arg-type]


def test_an_attribute_with_other_values_is_widened_in_the_files_that_are_there(tmp_path: Path) -> None:
    for numbers, exact, kind in (([1, 2], True, "float"), ([1, 2**60], True, "any"), ([1, 2], False, "any")):
        folder = tmp_path / f"{numbers[1]}-{exact}"
        made(folder, numbers)
        with tables.changing(folder, "events", "append") as change:
            forms = tables.widen(change, {"n": (Form("float"), exact)}, lambda do, items: list(map(do, items)))
            assert forms == {"n": Form(kind)}
            change.commit(forms)
        [path] = tables.files(folder)
        assert list(from_arrow("n", pq.read_table(path, partitioning=None).column("n").combine_chunks())) == numbers


# ---------------------------------------------------------------- the end of the power


def order_faults(done: list[Step], file: str) -> list[str]:
    """What was not on the disk when something that relies on it was done: a file was added to a table."""
    decided = done.index(("rename", "_commit.json"))
    gone = len(done) - 1 - done[::-1].index(("unlink", "_commit.json"))
    new, folder = f"_writing/new/{file}", file.rpartition("/")[0]
    before, between, after = done[:decided], done[decided : gone + 1], done[gone + 1 :]
    moved = between[between.index(("rename", file)) :]
    needed = [
        *[(before, path) for path in (new, new.rpartition("/")[0], "_writing/new", "_writing", "_commit.json.new")],
        *[(between[:2], "."), (moved, folder), (moved, "."), (moved, "_godwit.json.new"), (after, ".")],
    ]
    faults = [f"{path} in part {part}" for part, (steps, path) in enumerate(needed) if ("fsync", path) not in steps]
    if ("fsync", new) in before and ("fsync", "_commit.json.new") in before:
        last = max(place for place, step in enumerate(before) if step[1].startswith("_writing"))
        if last > before.index(("fsync", "_commit.json.new")):
            faults.append("the note before the files")
    return faults


def test_when_the_power_ends_what_the_note_says_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(name: str, *, waits: bool) -> list[Step]:
        folder = tmp_path / name
        made(folder, [1])
        with recorded(monkeypatch, folder) as done, monkeypatch.context() as patched:
            if not waits:
                patched.setattr(tables, "synced", lambda paths: None)
            made(folder, [2], "append")
        return done

    file = "day=2026-11-15/000002-00001.parquet"
    assert order_faults(steps("right", waits=True), file) == []
    assert len(order_faults(steps("wrong", waits=False), file)) == 6  # a planted fault: files are not waited for
