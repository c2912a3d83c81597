"""Queue rules and lifetimes as texts: each rule by its name, and errors that say what is allowed."""

import pytest

from godwit.broker.messages import QueueRules
from godwit.broker.queue_rule_texts import RULES, lifetime_of, queue_rules_of
from godwit.errors import FilterError


def test_there_is_a_text_for_every_rule() -> None:
    assert tuple(RULES) == QueueRules.__struct_fields__


def test_rules_are_read_by_their_names_and_none_are_none() -> None:
    said = [("age_s_max", "2.5"), ("newest_per", "vehicle"), ("count_max", "0"), ("bytes_max", "1000")]
    assert queue_rules_of(said) == QueueRules(2.5, "vehicle", None, 0, 1_000)
    assert queue_rules_of([]) is None


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("count", "3", r"queue\.count is not a rule of a queue: allowed are age_s_max, newest_per"),
        ("count_max", "-1", r"queue\.count_max is '-1': it must be a whole number, 0 or more"),
        ("count_max", "9" * 400, "it must be a whole number"),
        ("count_max", "²", "it must be a whole number"),
        ("age_s_max", "nan", "it must be a number of seconds above 0"),
        ("age_s_max", "soon", "it must be a number of seconds above 0"),
        ("newest_per", "", "it must be the name of an attribute"),
    ],
)
def test_what_is_no_rule_or_no_value_is_an_error(name: str, text: str, error: str) -> None:
    with pytest.raises(FilterError, match=error):
        queue_rules_of([(name, text)])


def test_a_lifetime_is_a_number_of_seconds_within_a_bound() -> None:
    assert lifetime_of("60") == 60.0
    for text in ("0", "-1", "inf", "1e12", ""):
        with pytest.raises(FilterError, match=r"\$expires_in is .*: it must be a number of seconds above 0"):
            lifetime_of(text, "$expires_in")
