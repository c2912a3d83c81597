"""Metrics on traces made by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from godwit.reproduce import metrics
from godwit.trace import Record, TraceWriter, read

Rows = list[tuple[float, str, Record]]


@pytest.fixture
def table(tmp_path: Path) -> Callable[[Rows], Any]:
    def made(rows: Rows) -> Any:
        with TraceWriter(tmp_path / "trace", {}) as sink:
            for row in rows:
                sink.write(*row)
        return read(tmp_path / "trace")

    return made


def handled(at: float, message: str) -> tuple[float, str, Record]:
    return at, "b1", Record("handled", "b0", message)


def asked(client: str, name: str, text: str, kind: str = "subscription") -> tuple[float, str, Record]:
    return 0.0, client, Record("asked", message=kind, subscription=name, detail=text)


def probed(at: float, publisher: str, sequence: int, i: int, x: int = 1) -> tuple[float, str, Record]:
    return at, publisher, Record("probed", "b1", "", publisher, sequence, number=i, detail=f'{{"x": {x}}}')


def delivered(at: float, client: str, publisher: str, sequence: int) -> tuple[float, str, Record]:
    return at, client, Record("delivered", publisher=publisher, sequence=sequence)


def test_cost_counts_control_on_each_hop_after_the_warm_up_and_nothing_else(table):
    rows = [handled(1, "Advertise"), handled(5, "Advertise"), handled(6, "Advertise"), handled(6, "Publish")]
    rows += [handled(7, "Prefetch"), handled(7, "Request"), handled(8, "Unsubscribe"), (8.0, "b1", Record("published"))]
    assert metrics.control_messages(table(rows), 5.0) == {"Advertise": 2, "Prefetch": 1, "Unsubscribe": 1}


def test_a_probe_counts_once_for_each_subscriber_that_wants_it(table):
    rows = [asked("s1", "a", "x = 1"), asked("s2", "a", "x >= 1"), asked("s3", "a", "x = 2")]
    rows += [asked("p1", "all", "x = 1", "advertisement"), probed(10, "p1", 1, 1), probed(11, "p1", 2, 2)]
    rows += [delivered(10.5, "s1", "p1", 1), delivered(11.25, "s1", "p1", 2), delivered(11.5, "s2", "p1", 2)]
    found = metrics.probes(table(rows))
    assert found.ratios() == [(1, 0.5), (2, 1.0)]
    assert found.ratio() == 0.75
    assert found.delays().tolist() == [0.25, 0.5, 0.5]


def test_who_asks_for_something_else_or_for_nothing_more_is_not_waited_for(table):
    rows = [asked("s1", "a", "x = 1"), asked("s1", "a", "x = 2"), asked("s2", "a", "x = 1"), asked("s2", "a", "")]
    rows += [
        asked("s3", "a", "x = 1"),
        asked("s3", "b", "x > 0"),
        probed(10, "p1", 1, 1),
        delivered(10.5, "s3", "p1", 1),
    ]
    found = metrics.probes(table(rows))
    assert (len(found.delay), found.ratio()) == (1, 1.0)


def test_stops_are_counted_by_first_probes_and_the_warm_up_is_cut_off_after_that(table):
    rows = [asked("s1", "a", "x = 1"), probed(1, "p1", 1, 1), probed(2, "p1", 2, 2), probed(10, "p1", 3, 1)]
    found = metrics.probes(table(rows), 2.0)
    assert found.stop.tolist() == [1, 2]
    assert found.number.tolist() == [2, 1]
    assert not np.isfinite(found.delay).any()
    assert np.isnan(found.where(found.stop == 3).ratio())


def test_entries_of_tables_are_averaged_over_time(table):
    def size(at: float, broker: str, entries: int, name: str) -> tuple[float, str, Record]:
        return at, broker, Record("table", number=entries, detail=name)

    rows = [size(0, "b1", 4, "in_ads"), size(0, "b1", 99, "out_ads"), size(15, "b1", 8, "in_ads")]
    rows += [size(12, "b2", 10, "in_subs"), handled(20, "Advertise")]
    assert metrics.table_entries(table(rows), 10.0) == {"b1": 6.0, "b2": 8.0}


def test_a_percentile_of_nothing_is_no_number():
    assert np.isnan(metrics.percentile(np.array([]), 0.5))
    assert metrics.percentile(np.array([1.0, 2.0, 3.0]), 0.5) == 2.0
