"""Questions about filters of strangers take a bounded number of steps; what is counted here is work, never time."""

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import pytest

from godwit.filters import algebra, alternatives, merging, parse
from godwit.filters.algebra import covers, intersects, is_never, normal_form
from godwit.filters.alternatives import joined
from godwit.filters.effort import EFFORT_MAX, Answers, Derived, Effort
from godwit.filters.filters import TRUE, And, Filter, Or
from godwit.filters.merging import merge_all, merged, simplify, weaken

STEPS = 20_000
COMPARISONS = ("is_subset", "is_disjoint", "union", "intersection", "unions", "intersections")


def filters_of_a_stranger() -> dict[str, tuple[Filter, Filter]]:
    """Pairs of filters of about 900 literals that made brokers wait."""

    def each(text: Callable[[int], str]) -> tuple[Filter, Filter]:
        return parse(text(0)), parse(text(1))

    return {
        "one attribute, only": each(lambda k: " OR ".join(f"ALL a = {2 * i + k}" for i in range(900))),
        "unequal, and below": each(lambda k: " OR ".join(f"a <> {i} AND b < {i * k}" for i in range(450))),
        "boxes": each(lambda k: " OR ".join(f"a BETWEEN {9 * i} AND {9 * i + 5 + k} AND b > {i}" for i in range(450))),
        "patterns": each(lambda k: " OR ".join(f"ALL a LIKE '%x{i}_y{k}%'" for i in range(900))),
        "and of or": each(
            lambda k: " AND ".join(
                "(" + " OR ".join(f"a{j} <> {i} OR ALL b{j} < {i * k}" for j in range(5)) + ")" for i in range(90)
            )
        ),
        "or of and of or": each(
            lambda k: " OR ".join(
                "(" + " AND ".join(f"(a{j} <> {i + k} OR ALL b{j} < {i})" for j in range(8)) + ")" for i in range(56)
            )
        ),
        "long lists": each(
            lambda k: " OR ".join(f"ALL a IN ({', '.join(str(i * n + k) for n in range(40))})" for i in range(60))
        ),
    }


STRANGERS = filters_of_a_stranger()


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often two sets were compared, as `comparisons[0]`."""
    count = [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            count[0] += 1
            return function(*arguments)

        return call

    for module in (algebra, alternatives, merging):
        for name in COMPARISONS:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counted(getattr(module, name)))
    return count


@pytest.mark.parametrize("name", STRANGERS)
def test_no_question_about_two_filters_compares_more_than_its_steps(name: str, comparisons: list[int]) -> None:
    f, g = STRANGERS[name]
    for ask in (covers, intersects, merged):
        comparisons[0] = 0
        effort = Effort(STEPS)
        ask(f, g, effort=effort)
        assert comparisons[0] <= STEPS
        assert effort.spent <= 2 * STEPS
    changes: list[Callable[[Filter], Filter]] = [
        lambda filter: simplify(filter, Effort(STEPS)),
        lambda filter: weaken(filter, 10, Effort(STEPS)),
        lambda filter: merge_all((filter, g), excess_max=0.5, effort=Effort(STEPS)),
    ]
    for change in changes:
        comparisons[0] = 0
        change(f)
        assert comparisons[0] <= 2 * STEPS


def test_the_bound_is_what_keeps_the_worst_question_short(comparisons: list[int]) -> None:
    f, g = STRANGERS["one attribute, only"]
    assert intersects(f, g), "as far as can be told"
    assert comparisons[0] <= EFFORT_MAX
    without_bound = Effort(100 * EFFORT_MAX)
    assert not intersects(f, g, without_bound)
    assert without_bound.spent > 5 * EFFORT_MAX
    assert comparisons[0] > EFFORT_MAX


def test_when_the_steps_are_used_up_the_answer_is_the_safe_one() -> None:
    wide, narrow = parse("a < 10 OR b < 10"), parse("a < 5 OR b < 3 OR b < 2")
    assert covers(wide, narrow)
    assert not covers(wide, narrow, Effort(3))
    apart = parse("ALL a = 1"), parse("ALL a = 2")
    assert not intersects(*apart)
    assert intersects(*apart, Effort(0))
    never = parse("ALL a = 1 AND ALL a = 2")
    assert is_never(never)
    assert not is_never(never, Effort(-1))
    assert merged(wide, narrow, effort=Effort(3)) is None
    assert simplify(narrow, Effort(0)) == narrow
    assert joined(narrow.parts, Effort(0)) == list(narrow.parts)  # type: ignore[union-attr]
    assert weaken(narrow, 1, Effort(0)) == TRUE


def test_a_normal_form_without_steps_left_is_weaker() -> None:
    filter = parse("(a = 1 OR b = 2) AND (c = 3 OR d = 4) AND (e = 5 OR f = 6)")
    assert len(normal_form(filter).conjunctions) == 8
    assert normal_form(filter).exact
    assert not normal_form(filter, effort=Effort(8)).exact


def test_alternatives_are_found_and_not_tried_one_by_one(comparisons: list[int]) -> None:
    """An OR of many equalities costs a look for each conjunction that is held against it."""
    wide = parse(" OR ".join(f"(a = {i} AND b < {i})" for i in range(1_000)))
    narrow = parse(" OR ".join(f"(a = {i} AND b < {i - 1})" for i in range(1_000)))
    assert covers(wide, narrow)
    assert comparisons[0] <= 2 * 1_000


# ---------------------------------------------------------------- answers that are remembered


def test_a_remembered_answer_costs_the_steps_that_it_took_first() -> None:
    answers = Answers(covers, 1_000)
    f, g = parse("a < 10 OR b < 10"), parse("a < 5 AND c = 1")
    first, second = Effort(), Effort()
    assert answers.ask(f, g, first) is answers.ask(f, g, second) is True
    assert first.spent == second.spent > 0
    assert len(answers) == 1


def test_answers_are_remembered_up_to_a_weight() -> None:
    answers = Answers(covers, 100)
    for i in range(100):
        answers.ask(parse("a < 1"), parse(f"a < {i}"), Effort())
        assert len(answers) <= 50
    heavy = parse(" OR ".join(f"a{i} = 1" for i in range(100)))
    before = len(answers)
    answers.ask(heavy, heavy, Effort())
    assert len(answers) <= before


def test_answers_about_the_same_objects_cost_the_same_and_are_asked_once() -> None:
    asked: list[Filter] = []

    def ask(f: Filter, g: Filter, effort: Effort) -> bool:
        asked.append(f)
        return covers(f, g, effort)

    answers = Answers(ask, 1_000)
    f, g, again = parse("a < 10 OR b < 10"), parse("a < 5 AND c = 1"), parse("a < 10 OR b < 10")
    spent = []
    for subject in (f, f, again, again):
        effort = Effort()
        assert answers.ask(subject, g, effort)
        spent.append(effort.spent)
    assert len(set(spent)) == 1
    assert len(asked) == 1


def test_answers_about_objects_that_are_gone_are_no_answers_about_others() -> None:
    answers = Answers(covers, 10_000)
    for i in range(1_000):  # objects of Python often have the identity of one that was before
        f, g = parse(f"a < {i % 7}"), parse(f"a < {i % 11}")
        assert answers.ask(f, g, Effort()) == covers(f, g)


def test_answers_about_filters_without_literals_are_bounded_too() -> None:
    answers = Answers(covers, 100)
    everything, nothing = [And(()) for _ in range(30)], [Or(()) for _ in range(30)]
    before = sum(map(getrefcount, everything))
    for f in everything:
        for g in nothing:
            assert answers.ask(f, g, Effort())
    assert len(answers) == 1
    assert sum(map(getrefcount, everything)) - before <= 100  # each answer that is remembered keeps its filters


def test_any_but_answers_as_one_question_after_the_other_within_any_number_of_steps() -> None:
    named = {f"n{i}": parse(f"a < {i} OR b < {i}") for i in (1, 3, 5, 7)}
    for text in ("a < 4", "a < 9", "b < 1"):
        g = parse(text)
        for besides in ("n1", "n5", "n7", "none"):
            for steps in range(40):
                answers, slow, fast = Answers(covers, 1_000), Effort(steps), Effort(steps)
                assert answers.any_but(besides, named, g, fast) == _one_by_one(answers, besides, named, g, slow)
                assert fast.left == slow.left


def _one_by_one(answers: Answers[bool], besides: str, named: dict[str, Filter], g: Filter, effort: Effort) -> bool:
    for name, f in named.items():
        if name == besides:
            effort.spend(1)
        is_yes = name != besides and answers.ask(f, g, effort)
        if effort.is_over:
            return False
        if is_yes:
            return True
    return False


class TestDerived:
    @staticmethod
    def counted() -> tuple[Derived[Filter, int], list[Filter]]:
        """Something that takes ten steps to derive, and what it was derived from."""
        asked: list[Filter] = []

        def derive(filter: Filter, effort: Effort) -> int:
            asked.append(filter)
            effort.spend(10)
            return filter.size

        return Derived(derive, 2), asked

    def test_what_is_remembered_is_paid_for_each_time_and_made_once(self) -> None:
        derived, asked = self.counted()
        filter, effort = parse("a = 1 OR b = 2"), Effort(100)
        assert [derived.of(filter, effort) for _ in range(3)] == [2, 2, 2]
        assert (effort.spent, asked) == (30, [filter])

    def test_what_too_few_steps_allow_is_not_remembered(self) -> None:
        derived, asked = self.counted()
        filter = parse("a = 1 OR b = 2")
        derived.of(filter, Effort(5))
        assert len(derived) == 0
        derived.of(filter, Effort(100))
        derived.of(filter, Effort(5))  # the answer of so few steps is another one
        assert len(asked) == 3

    def test_equal_filters_in_another_order_are_others(self) -> None:
        derived, asked = self.counted()
        derived.of(parse("a = 1 OR b = 2"), Effort())
        derived.of(parse("b = 2 OR a = 1"), Effort())
        assert len(asked) == 2

    def test_the_oldest_are_forgotten(self) -> None:
        derived, asked = self.counted()
        filters = [parse(f"a = {n} OR b = 2") for n in range(3)]
        for filter in (*filters, filters[0]):
            derived.of(filter, Effort())
        assert (len(derived), len(asked)) == (2, 4)


def test_a_large_filter_is_taken_apart_once_however_many_it_is_held_against(monkeypatch: pytest.MonkeyPatch) -> None:
    large = parse("k = 1 AND (" + " OR ".join(f"(a{i} > {i} AND b{i} < {i})" for i in range(100)) + ")")
    others = [parse(f"k = 1 AND (c = {n} OR d = {n})") for n in range(20)]
    count = [0]
    product = algebra._product

    def counted(*arguments: Any) -> Any:
        count[0] += 1
        return product(*arguments)

    monkeypatch.setattr(algebra, "_product", counted)
    covers(others[0], large)
    once = count[0]
    for other in others[1:]:
        covers(other, large)
    assert count[0] == once
