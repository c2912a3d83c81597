"""A session at several brokers of a tree: nothing lost, nothing twice, in order, while one replica lives."""

from functools import partial

import pytest
from msgspec import structs

from godwit.broker.effects import Effect
from godwit.broker.messages import NodeId
from godwit.client import ReplicaConfig
from godwit.client.complete_merge import CompleteMerge, MergeBounds
from godwit.simulator.replication_checkers import complete, consistent, ordered
from tests.seeds import few
from tests.simulation import replicated_overlay
from tests.simulation.replicated_overlay import Overlay


def broken(overlay: Overlay) -> list[str]:
    history = overlay.history()
    laws = {"ordered": ordered, "consistent": consistent, "complete": complete}
    return [name for name, law in laws.items() if not law(history)]


@pytest.mark.parametrize("seed", few(range(24), 3))
def test_whatever_befalls_replicas_nothing_is_lost_doubled_or_out_of_order(seed: int) -> None:
    overlay = Overlay(seed)
    assert broken(overlay) == []
    assert overlay.recorded("unawaited", "overtaken", "gap", "fault") == []
    merge = overlay.world.nodes["ann"].machine.merge  # type: ignore[attr-defined]
    assert (merge.held, [asked for asked in merge.asked.values() if asked]) == (0, [])


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = Overlay(3), Overlay(3)
    assert (one.displayed, one.records) == (other.displayed, other.records)


def test_the_papers_filters_fail_as_its_table_says_in_an_overlay_too() -> None:
    seen: dict[str, set[str]] = {}
    for filter in ("none", "unique", "ordered"):
        seen[filter] = {law for seed in range(8) for law in broken(Overlay(seed, filter))}
    assert seen == {"none": {"ordered", "consistent"}, "unique": {"ordered"}, "ordered": {"complete"}}


@pytest.mark.parametrize("publish", ["all", "one"])
@pytest.mark.parametrize("seed", few(range(12), 1))
def test_a_source_with_replicas_loses_doubles_and_overtakes_nothing(publish: str, seed: int) -> None:
    overlay = Overlay(seed, publish=publish)
    assert broken(overlay) == []
    assert len(overlay.matching) > 50


def test_a_source_whose_next_replica_gets_only_what_was_not_acknowledged_loses_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicated_overlay, "ReplicaConfig", partial(ReplicaConfig, again_max=0))
    assert disorders([Overlay(seed, publish="one") for seed in range(24)]) == {"complete"}


# ------------------------------------------------------------ faults that must be seen


def disorders(overlays: list[Overlay]) -> set[str]:
    return {law for overlay in overlays for law in broken(overlay)}


def test_a_client_that_does_not_wait_for_the_other_replica_loses_events(monkeypatch: pytest.MonkeyPatch) -> None:
    on_attached = CompleteMerge.on_attached

    def unawaited(self: CompleteMerge, replica: NodeId, now: float, **how: bool) -> list[Effect]:
        effects = on_attached(self, replica, now, **how)
        self.awaited[replica] = False
        return effects

    monkeypatch.setattr(CompleteMerge, "on_attached", unawaited)
    overlays = [Overlay(seed) for seed in range(8)]
    assert disorders(overlays) == {"complete"}
    assert any(overlay.recorded("overtaken") for overlay in overlays)


def test_a_client_that_displays_what_comes_late_is_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    display = CompleteMerge._display

    def forgetful(self: CompleteMerge, publisher: str, now: float) -> list[Effect]:
        effects = display(self, publisher, now)
        self._sources[publisher].displayed = 0
        return effects

    monkeypatch.setattr(CompleteMerge, "_display", forgetful)
    assert {"ordered", "consistent"} <= disorders([Overlay(seed) for seed in range(8)])


def test_past_the_bound_order_and_consistency_are_kept_and_what_is_given_up_is_on_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that waits a tenth of a second for brokers which are away for seconds, and keep their disks."""
    monkeypatch.setattr(replicated_overlay, "BOUNDS", MergeBounds(ask_after_s=0.05, give_up_s=0.1))
    overlays = [Overlay(seed, kinds=("crash", "partition")) for seed in range(8)]
    assert disorders(overlays) <= {"complete"}
    assert all(overlay.recorded("unawaited") for overlay in overlays)
    for overlay in overlays:
        missing = overlay.history().wanted - set(overlay.displayed)
        on_record = {(record.publisher, record.sequence) for record in overlay.recorded("overtaken", "gap", "lost")}
        assert missing <= on_record


def test_bounds_must_be_above_zero() -> None:
    with pytest.raises(ValueError, match="give_up_s is 0"):
        structs.replace(MergeBounds(), give_up_s=0).__post_init__()
