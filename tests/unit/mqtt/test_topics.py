"""Topic filters: which are well formed, and what they become in Godwit."""

import pytest

from godwit.errors import FilterError, MqttFault
from godwit.filters import event, parse
from godwit.mqtt import ReasonCode, matches, topic_filter
from godwit.mqtt.topics import checked_filter, checked_name


@pytest.mark.parametrize(
    ("pattern", "topic", "is_match"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/tennis/player1/#", "sport/tennis/player12", False),
        ("sport/#", "sport", True),
        ("#", "a", True),
        ("#", "/", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/x", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("Accounts", "ACCOUNTS", False),
    ],
)
def test_filters_match_as_in_the_examples_of_the_standard(pattern, topic, is_match):
    assert matches(pattern, topic) is is_match
    assert topic_filter(pattern).matches(event({"topic": topic})) is is_match


@pytest.mark.parametrize(
    "text", ["sport+", "sport/tennis#", "sport/tennis/#/ranking", "+a/b", "a/#b", "", "a\0", "a\n", "?x = 1"]
)
def test_filters_that_are_not_well_formed_are_refused(text):
    with pytest.raises(MqttFault) as caught:
        checked_filter(text)
    assert caught.value.reason_code == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("text", ["$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/g#/a"])
def test_shared_subscriptions_need_a_name_and_a_filter(text):
    with pytest.raises(MqttFault) as caught:
        checked_filter(text)
    assert caught.value.reason_code == ReasonCode.PROTOCOL_ERROR


@pytest.mark.parametrize("text", ["a/+", "a/#", "", "\x7f", "a\x00"])
def test_names_have_no_wildcards_and_no_control_characters(text):
    with pytest.raises(MqttFault):
        checked_name(text)
    assert checked_name("a b/é/\u2028") == "a b/é/\u2028"  # odd, and allowed


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a/b", "topic = 'a/b'"),
        ("a/#", "topic LIKE TOPIC 'a/#'"),
        ("a/+/c", "topic LIKE TOPIC 'a/+/c'"),
        ("+/#", "topic LIKE TOPIC '#'"),
        ("$share/g/a/b", "topic = 'a/b'"),
        ("$share/g/+/b", "topic LIKE TOPIC '+/b'"),
        ("a/b?speed > 50", "topic = 'a/b' AND speed > 50"),
    ],
)
def test_a_topic_filter_is_a_filter_on_the_attribute_topic(text, same):
    assert topic_filter(text).filter == parse(same)


def test_share_name_levels_and_content_are_told_apart():
    wanted = topic_filter("$share/group/a/+?kind = 'x#y+z' OR n > 1", "m < 3")
    assert (wanted.share, wanted.levels) == ("group", "a/+")
    assert wanted.content == parse("(kind = 'x#y+z' OR n > 1) AND m < 3")


def test_content_that_does_not_parse_is_an_error_of_the_filter_language():
    with pytest.raises(FilterError):
        topic_filter("a?speed >")
    with pytest.raises(FilterError):
        topic_filter("a", "speed) OR (x = 1")


def test_a_very_long_filter_is_exact_too():
    long = "/".join(["level"] * 500)
    wanted = topic_filter(f"{long}/+/x")
    assert wanted.filter.matches(event({"topic": f"{long}/a/x"}))
    assert not wanted.filter.matches(event({"topic": f"{long}/a/y"}))
    assert wanted.matches(event({"topic": f"{long}/a/x"}))
    assert not wanted.matches(event({"topic": f"{long}/a/y"}))


def test_events_without_a_text_as_topic_match_no_topic_filter():
    for attributes in ({}, {"topic": 5}, {"other": "a"}):
        assert not topic_filter("#").matches(event(attributes))
    assert topic_filter("a").matches(event({"topic": [5, "a"]}))
