"""Codes of topics that were looked up are kept, for few and short texts."""

from godwit.matching.topic_shapes import TEXT_KEPT_LENGTH_MAX, TEXTS_KEPT_MAX, TopicShapes


def test_the_codes_of_short_texts_are_kept_and_those_of_long_ones_are_not() -> None:
    shapes = TopicShapes.of({"a/+": 1})
    assert shapes is not None
    short, long = "a/" + "x" * (TEXT_KEPT_LENGTH_MAX - 2), "a/" + "x" * (TEXT_KEPT_LENGTH_MAX - 1)
    assert shapes.codes(short) == shapes.codes(long) != []
    assert shapes.codes(short) is shapes.codes(short)
    assert shapes.codes(long) is not shapes.codes(long)
    assert TEXT_KEPT_LENGTH_MAX * TEXTS_KEPT_MAX <= 2**20  # characters in all


def test_so_many_texts_are_kept_and_no_more() -> None:
    shapes = TopicShapes.of({"a/+": 1})
    assert shapes is not None
    first = shapes.codes("a/0")
    for number in range(1, TEXTS_KEPT_MAX):
        shapes.codes(f"a/{number}")
    assert shapes.codes("a/0") is first
    shapes.codes("a/new")
    assert shapes.codes("a/0") is not first


def test_a_topic_that_begins_with_a_dollar_is_found_by_patterns_that_do() -> None:
    shapes = TopicShapes.of({"$SYS/#": 1, "$SYS/+/#": 2, "+/a": 3, "#": 4, "$SYS/+": 5})
    assert shapes is not None
    assert sorted(shapes.in_text("$SYS/a")) == [1, 2, 5]
    assert sorted(shapes.in_text("SYS/a")) == [3, 4]
