"""What is read off traces about ways to move: on traces written by hand, where the figures are known."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from godwit.reproduce.handoffs import _blackouts, figures
from godwit.reproduce.radio_handoff import session_waits
from godwit.reproduce.trace_tables import read
from godwit.trace import Record, TraceWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def written(folder: Path, *lines: tuple[float, str, Record]) -> Path:
    with TraceWriter(folder, {}) as sink:
        for at, node, record in lines:
            sink.write(at, node, record)
    return folder


def connected(at: float, client: str, broker: str) -> tuple[float, str, Record]:
    return at, client, Record("link_up", broker)


def published(at: float, number: int) -> tuple[float, str, Record]:
    return at, "b0", Record("published", "p0", publisher="p0", sequence=number)


def delivered(at: float, number: int) -> tuple[float, str, Record]:
    return at, "s0", Record("delivered", publisher="p0", sequence=number)


def handled(at: float, node: str, peer: str, message: str, size: int) -> tuple[float, str, Record]:
    return at, node, Record("handled", peer, message, size=size)


@pytest.fixture
def twin(tmp_path: Path) -> Path:
    return written(
        tmp_path / "twin",
        connected(0.0, "s0", "b1"),
        handled(0.1, "b0", "b1", "Subscribe", 50),
        *(published(float(n), n) for n in range(1, 6)),
        *(delivered(n + 0.5, n) for n in range(1, 6)),
    )


def test_what_the_twin_delivers_and_the_run_does_not_is_lost(spark: "SparkSession", tmp_path: Path, twin: Path) -> None:
    run = written(
        tmp_path / "run",
        connected(0.0, "s0", "b1"),
        handled(0.1, "b0", "b1", "Subscribe", 50),
        *(published(float(n), n) for n in range(1, 6)),
        delivered(1.5, 1),
        (1.6, "b1", Record("crashed")),
        connected(2.2, "s0", "b2"),
        handled(2.3, "b2", "s0", "Attach", 40),
        handled(2.3, "b0", "b2", "Relocate", 20),
        handled(2.4, "b2", "b0", "Replay", 100),
        handled(2.5, "b2", "b0", "Publish", 900),
        handled(2.5, "s0", "b2", "Delivery", 900),
        delivered(2.6, 2),
        delivered(4.3, 4),
        delivered(4.4, 4),
        delivered(4.5, 3),
    )
    stays = written(tmp_path / "stays", connected(0.0, "s0", "b1"), connected(1.0, "s0", "b1"), delivered(1.5, 1))
    both = figures(spark, {"run": (run, twin), "stays": (stays, twin)})
    found = both["run"]
    assert (found.moves, found.owed, found.lost, found.twice, found.out_of_order) == (1, 5, 1, 1, 1)
    assert (found.control_per_move, found.bytes_per_move, found.air_per_move) == (2, 120, 1)
    assert found.gap_s == pytest.approx(0.4)
    assert found.new_gap_s == pytest.approx(2.1)  # event 2 had entered before
    assert found.old_down == 1
    back = both["stays"]  # who comes back to the same broker has not moved
    assert (back.moves, back.lost, back.gap_s, back.old_down) == (0, 4, None, 0)


def test_a_broker_is_down_from_its_crash_until_it_is_back(spark: "SparkSession", tmp_path: Path, twin: Path) -> None:
    run = written(
        tmp_path / "run",
        connected(0.0, "s0", "b1"),
        (0.5, "b1", Record("crashed")),
        (0.6, "b1", Record("restarted")),
        connected(1.0, "s0", "b2"),
        (1.1, "b1", Record("crashed")),
        (1.2, "b2", Record("crashed")),
        connected(1.2, "s0", "b3"),
        delivered(1.5, 1),
    )
    found = figures(spark, {"run": (run, twin)})["run"]
    assert (found.moves, found.old_down) == (2, 1)


def test_a_blackout_is_from_the_subscription_to_the_first_event_that_comes_for_it(
    spark: "SparkSession", tmp_path: Path
) -> None:
    run = written(
        tmp_path / "run",
        connected(0.0, "p0", "b0"),
        (0.0, "b0", Record("subscribed", "s0")),
        delivered(0.2, 1),
        (1.0, "b0", Record("session_ended", "s0")),
        (2.0, "b3", Record("subscribed", "s0")),
        delivered(2.6, 5),
        (3.0, "b3", Record("session_ended", "s0")),
        (3.1, "b2", Record("subscribed", "s0")),  # the old one is not gone everywhere
        delivered(3.2, 6),
    )
    [found] = _blackouts(spark, run, 0.1, 4)
    assert (found.delay_s, found.blackout_s) == pytest.approx((0.3, 0.6))


def test_a_client_waits_for_its_session_from_its_connection_until_it_is_there(
    spark: "SparkSession", tmp_path: Path
) -> None:
    run = written(
        tmp_path / "run",
        (1.0, "b1", Record("relocating", "s0")),
        (1.1, "b2", Record("relocating", "s1")),
        (1.3, "b1", Record("relocated", "s0")),
        (1.4, "b3", Record("relocating", "s1")),  # gone on before its session came
        (2.0, "b3", Record("relocated", "s1")),
        (3.0, "b1", Record("relocating", "s2")),
    )
    assert session_waits(read(spark, {"ask": run})) == {"ask": [pytest.approx(0.3), pytest.approx(0.6)]}
