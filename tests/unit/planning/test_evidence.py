"""What is chosen, from what was simulated."""

from typing import Any

from msgspec.structs import replace

from godwit.planning.evidence import Evidence, EvidenceRow, HandoverGaps, Setup, chosen
from godwit.trace import Record

SETUP = Setup(
    brokers=2,
    brokers_of=2,
    clients=2,
    clients_of=2,
    begins_s=0.0,
    seconds=100.0,
    speedup=1.0,
    publishers=1,
    events_per_s=1.0,
    wanted=0.1,
    seed=1,
    folder="",
)
GOOD = EvidenceRow(
    mode="relocate",
    reduction="covering",
    safe=True,
    lost=0,
    duplicated=0,
    out_of_order=0,
    broken=(),
    messages=100,
    bytes_sent=1_000,
    table_entries=10,
    moves=5,
    gap_p50_ms=10.0,
    gap_p99_ms=50.0,
    replay="",
)


def choose(*rows: EvidenceRow) -> Any:
    return chosen(Evidence(setup=SETUP, rows=rows))


def test_the_mode_with_the_shortest_gap_and_the_reduction_with_fewest_bytes_are_chosen() -> None:
    found = choose(
        replace(GOOD, mode="ask", gap_p99_ms=90.0),
        replace(GOOD, reduction="flooding", bytes_sent=9_000),
        GOOD,
        replace(GOOD, reduction="merging", bytes_sent=1_500),
    )
    assert (found.mode, found.reduction) == ("relocate", "covering")
    assert "50 ms" in found.reasons[0]
    assert "flooding 9,000 bytes" in found.reasons[-1]


def test_what_is_not_safe_is_never_chosen_and_is_named() -> None:
    found = choose(replace(GOOD, gap_p99_ms=1.0, safe=False, lost=1), replace(GOOD, mode="ask"))
    assert found.mode == "ask"
    assert found.reasons[1] == "not relocate: events were lost, delivered twice or out of order"
    assert choose(replace(GOOD, safe=False, out_of_order=2)) is None


def test_a_mode_that_promises_less_does_not_win_by_luck() -> None:
    found = choose(replace(GOOD, mode="carry", gap_p99_ms=1.0), GOOD)
    assert found.mode == "relocate"
    assert "carry" in found.reasons[1]
    assert choose(replace(GOOD, mode="carry")).mode == "carry"


def test_equal_figures_leave_the_default_reduction() -> None:
    assert choose(replace(GOOD, reduction="identity"), GOOD).reduction == "covering"


def test_without_anything_to_simulate_the_defaults_are_proposed() -> None:
    found = chosen(Evidence(setup=None, rows=()))
    assert found is not None
    assert (found.mode, found.reduction) == ("relocate", "covering")
    assert "nothing was simulated" in found.reasons[0]


def test_a_gap_is_from_the_connection_to_the_session() -> None:
    gaps = HandoverGaps()
    gaps.write(1.0, "ann", Record("link_up", "b1"))
    gaps.write(1.5, "b1", Record("relocated", "bob"))
    gaps.write(1.25, "b1", Record("relocated", "ann"))
    assert gaps.seconds == [0.25]
