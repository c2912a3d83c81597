"""Probes: which connections of publishers have them, and that nothing else depends on it."""

from godwit.simulator.run import run
from godwit.simulator.scenario import named, with_changes
from godwit.trace import Record

Row = tuple[float, str, int]

SCENARIO = with_changes(
    named("city"),
    [
        "clients={publishers=6, subscribers=6, placement='leaves', publish_per_s=0}",
        "clients.probes={count=3}",
        "clients.roaming={model='line', who='publishers', away_s=3, publisher_mode='standard', speeds_kmh=[100]}",
        "run={warmup_s=6, duration_s=40, settle_s=15, judge=false}",
    ],
)


class Trace:
    """When publishers connected, where, and the probes that they published."""

    def __init__(self) -> None:
        self.connected: list[tuple[float, str, str]] = []
        self.probed: list[Row] = []

    def write(self, at: float, node: str, record: Record) -> None:
        if record.kind == "link_up" and node.startswith("p"):
            self.connected.append((at, node, record.peer))
        if record.kind == "probed":
            self.probed.append((at, node, record.number))


def traced(*changes: str) -> Trace:
    trace = Trace()
    run(with_changes(SCENARIO, list(changes)), 7, trace=trace)
    return trace


def test_connections_before_a_time_have_no_probes_and_all_others_have_theirs() -> None:
    every, later = traced(), traced("clients.probes.from_s=6")
    assert later.connected == every.connected
    assert any(at < 6 for at, _, _ in every.probed)

    def since(when: float, publisher: str) -> float:
        return max(at for at, who, _ in every.connected if who == publisher and at <= when)

    assert later.probed == [each for each in every.probed if since(each[0], each[1]) >= 6]
    assert len(later.probed) > 12
