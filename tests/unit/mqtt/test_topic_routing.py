"""Topic filters with wildcards, routed: an event goes on only where a client wants it, level by level."""

import pytest

from godwit.filters import to_text
from godwit.mqtt import topic_filter
from godwit.testing import machines


@pytest.mark.parametrize("pattern", ["fleet/+", "+/a"])
def test_events_that_a_wildcard_does_not_match_cross_no_link(pattern: str) -> None:
    net = machines("a-b b-c")
    ann, van = net.attach("ann", "a"), net.attach("van", "c")
    net.ask("ann", ann.subscribe("mine", to_text(topic_filter(pattern).filter), net.now))
    before = len(net.sent)
    for topic in ("fleet", "fleet/a/b", "$fleet/a", "a"):
        net.ask("van", van.publish({"topic": topic}, net.now))
    assert [sent.message for sent in net.sent[before:] if "topic" in repr(sent.message)] == []
    assert net.notified("ann") == []
    net.ask("van", van.publish({"topic": "fleet/a"}, net.now))
    assert net.notified("ann") == [("van", 5)]
    assert [sent for sent in net.sent[before:] if "topic" in repr(sent.message)]  # so a crossing would be seen


def test_a_pattern_that_another_covers_is_not_told_to_neighbours() -> None:
    net = machines("a-b b-c")
    ann, van = net.attach("ann", "a"), net.attach("van", "c")
    net.ask("van", van.publish({"topic": "x"}, net.now))
    net.ask("ann", ann.subscribe("all", to_text(topic_filter("fleet/#").filter), net.now))
    before = len(net.sent)
    net.ask("ann", ann.subscribe("some", to_text(topic_filter("fleet/+/speed").filter), net.now))
    assert [sent for sent in net.sent[before:] if "fleet/+/speed" in repr(sent.message)] == []
    net.ask("ann", ann.subscribe("other", to_text(topic_filter("+/x").filter), net.now))
    assert [sent for sent in net.sent[before:] if "+/x" in repr(sent.message)]
