"""Brokers on one segment: what each way takes follows from who is interested, and nobody is left out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.reproduce import segment_multicast
from godwit.reproduce.segment_multicast import SegmentCounts, SegmentSpec, counted_segment

SMALL = SegmentSpec(brokers=5, overlap=0.5, clients=4, events=40, topics=12, groups=12, selectivity=0.1)


def by_way(spec: SegmentSpec, seed: int) -> dict[str, SegmentCounts]:
    return {each.way: each for each in counted_segment(spec, seed)}


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 6), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 12), st.integers(0, 99))
def test_the_ways_differ_by_what_they_are_defined_to_differ_by(
    brokers: int, overlap: float, groups: int, seed: int
) -> None:
    spec = SegmentSpec(
        brokers=brokers, overlap=overlap, clients=4, events=30, topics=12, groups=groups, selectivity=0.1
    )
    found = by_way(spec, seed)
    unicast, one, topics, exact = found.values()
    assert unicast.packets == unicast.receptions == exact.receptions
    assert unicast.false_receptions == exact.false_receptions == 0
    assert one.receptions == brokers - 1
    assert one.false_receptions == pytest.approx(one.receptions - unicast.receptions)
    assert unicast.receptions <= topics.receptions <= one.receptions
    assert exact.packets <= topics.packets <= one.packets <= 1
    assert exact.packets <= unicast.packets


def test_more_groups_have_fewer_false_receptions_and_common_filters_need_fewer_exact_groups() -> None:
    few, many = (by_way(SegmentSpec(brokers=6, overlap=0.5, groups=groups), 1) for groups in (1, 64))
    assert many["groups by topic"].false_receptions < few["groups by topic"].false_receptions
    apart, alike = (by_way(SegmentSpec(brokers=6, overlap=overlap), 1) for overlap in (0.0, 1.0))
    assert alike["exact groups"].groups < apart["exact groups"].groups


def test_a_broker_that_does_not_join_the_group_of_its_filter_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    members = segment_multicast._members
    monkeypatch.setattr(
        segment_multicast, "_members", lambda spec, filters: [group - {0} for group in members(spec, filters)]
    )
    with pytest.raises(AssertionError, match="must be in its group"):
        counted_segment(SMALL, 1)
