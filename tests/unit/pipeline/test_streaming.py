"""What the driver of a stream does between batches, without Spark."""

from pathlib import Path
from typing import Any

import pytest

from godwit.errors import PipelineError
from godwit.filters.language import parse
from godwit.pipeline.streaming import Stream, _noted, stream
from godwit.pipeline.subscription_sources import FixedSubscriptions


class Query:
    """A query of Spark's that has ended."""

    isActive = False  # noqa: N815 - as Spark calls it

    def exception(self) -> Exception:
        return ValueError("what Spark says")


def made(out: Path) -> Stream:
    found = Stream(out, out / "_checkpoint", FixedSubscriptions({"a": parse("x > 1")}), None)
    found._known.look(must=True)
    return found


def test_a_batch_whose_index_cannot_be_opened_begins_again_and_it_is_said(tmp_path: Path) -> None:
    found = made(tmp_path)
    with found._ledger.held():
        entry = found._ledger.begin(0, "s", found._plan)
        (tmp_path / "_indexes" / entry.plan.index).write_bytes(b"GODWIT of another time")
        found._known.version = "another"  # so that it is saved anew
        again, index = found._usable(entry)
    assert index.open().ids.to_pylist() == ["a"]
    assert again.state == "begun"
    assert "batch 0 began with an index that cannot be opened" in found._known.trouble


def test_what_fails_in_the_last_batch_is_said_also_when_the_stream_is_stopped(tmp_path: Path) -> None:
    found = made(tmp_path)
    query: Any = Query()
    found.query = query
    found._stopping.set()
    assert found.wait()  # it was only told to stop
    found.failure = ValueError("what a worker says")
    with pytest.raises(ValueError, match="what Spark says"):
        found.wait()


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e300])
@pytest.mark.parametrize("name", ["late_s", "every_s"])
def test_seconds_that_are_none_are_refused(tmp_path: Path, name: str, seconds: float) -> None:
    class Events:
        isStreaming = True  # noqa: N815
        columns = ("publisher", "sequence", "published_at")

    events: Any = Events()
    more: Any = {name: seconds}
    with pytest.raises(PipelineError, match=f"{name} is .*: it must be 0 to 1e.12 seconds"):
        stream(events, FixedSubscriptions({}), tmp_path / "out", **more)


def test_what_spark_noted_of_a_batch_is_on_the_disk_before_it_counts(tmp_path: Path) -> None:
    there = ["metadata", "offsets/9", "offsets/.9.crc", "sources/0/9.compact", "sources/0/.9.compact.crc", "commits/8"]
    for name in [*there, "offsets/8", "commits/7", "sources/0/8"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = _noted(tmp_path, 9)
    assert sorted(found[: len(there)]) == sorted(tmp_path / name for name in there)
    folders = {tmp_path / name for name in (".", "offsets", "sources", "sources/0", "commits")}
    assert set(found[len(there) :]) == {*folders, tmp_path.parent}
