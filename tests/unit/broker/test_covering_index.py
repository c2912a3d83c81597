"""Which filters may cover which: signs of patterns leave out only what cannot."""

import pytest

from godwit.broker.covering_index import ALL_SIGNS, CoveringIndex, signs_of
from godwit.broker.placements import Group
from godwit.filters import parse
from godwit.filters.algebra import covers
from godwit.filters.effort import Effort

TEXTS = [
    "a LIKE '%ab%'", "a LIKE '%ab_c%'", "a LIKE '%xab_cd%'", "a LIKE 'ab%'", "a LIKE '%abc'", "a LIKE 'ab_%c'",
    "a = 'abxc'", "a IN ('abc', 'abxc')", "a IN ('abc', 7)", "a < 'abc'", "a BETWEEN 'ab' AND 'abz'", "b LIKE '%ab_c%'",
    "a LIKE '%ab_c%' AND b = 1", "a LIKE '%ab%' AND ALL a LIKE '%b%'", "a IN ()", "a IS NOT NULL", "a IS NULL",
    "a NOT LIKE '%ab%'", "a LIKE '%ab%' OR b = 1", "a LIKE my.x", "ALL a LIKE '%ab_c'", "TRUE", "a LIKE '%b_%'",
    f"a LIKE '%{'ab' * 600}%'", f"a = '{'ab' * 600}'", "a = 5",
]  # fmt: skip


@pytest.mark.parametrize("wide", TEXTS)
def test_signs_leave_out_nothing_that_is_covered(wide: str) -> None:
    f = parse(wide)
    for narrow in TEXTS:
        g = parse(narrow)
        if covers(f, g):
            assert not signs_of(f).asks & ~signs_of(g).has, narrow


def test_signs_leave_out_most_that_is_not_covered() -> None:
    asks = signs_of(parse("a LIKE '%x12_y%'")).asks
    assert asks
    assert asks & ~signs_of(parse("a LIKE '%x34_y%'")).has
    assert asks & ~signs_of(parse("b LIKE '%x12_y%'")).has
    assert signs_of(parse("a LIKE '%x12_y%' OR b = 1")) == (0, ALL_SIGNS)


def test_each_filter_that_is_looked_at_is_a_step_and_without_steps_there_are_no_candidates() -> None:
    index: CoveringIndex[Group] = CoveringIndex()
    for number in range(10):
        index.add(Group(parse(f"x > {number}"), ("b", str(number))))
    asked = Group(parse("x > 3"), ("b", "asked"))
    for candidates in (index.that_may_cover, index.that_may_be_covered_by):
        effort = Effort(100)
        assert len(list(candidates(asked, effort))) == effort.spent == 10
        assert len(list(candidates(asked, Effort(4)))) == 4
