"""Movement models: the likeliest next broker by the formula, of equally likely ones the first by name, never `here`."""

import json
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from godwit.mobility.predictors import Itineraries, MovementModel, NoisyPredictor, model_of

BROKERS = "abcd"
Ways = Mapping[str, Mapping[str, float]]

brokers = st.sampled_from(BROKERS)
weights = st.integers(0, 5) | st.floats(0, 3) | st.sampled_from([5e-324, 1e308, 10**400, 0.1, 0.2, 0.3])
ways = st.dictionaries(brokers, st.dictionaries(brokers, weights))
few = st.dictionaries(brokers, st.dictionaries(brokers, st.integers(0, 3)))  # ties, often
pairs = st.dictionaries(brokers, ways) | st.dictionaries(brokers, few)
before = st.none() | brokers


def first_order(transitions: Ways, here: str) -> str | None:
    """What models answered before they knew of pairs."""
    found = {to: weight for to, weight in transitions.get(here, {}).items() if to != here and weight > 0}
    return min(found, key=lambda to: (-found[to], to)) if found else None


def by_the_formula(model: MovementModel, here: str, before: str) -> dict[str, Fraction]:
    """λ · n / N + (1 − λ) · P(to | here), λ = N / (N + kinds), for each broker but here."""

    def counts(ways: Mapping[str, float]) -> dict[str, Fraction]:
        return {to: Fraction(ways.get(to, 0)) for to in BROKERS if to != here}

    first, pair = counts(model.transitions.get(here, {})), counts(model.pairs.get(before, {}).get(here, {}))
    seen, kinds, all_first = sum(pair.values()), sum(n > 0 for n in pair.values()), sum(first.values())
    if not seen:
        return first
    share = Fraction(seen, 1) / (seen + kinds)
    return {to: share * pair[to] / seen + (1 - share) * (first[to] / all_first if all_first else 0) for to in first}


@given(ways | few, pairs, brokers, before)
def test_without_pairs_or_without_a_broker_before_the_answer_is_that_of_first_order(
    transitions: Ways, known: dict[str, Ways], here: str, before: str | None
) -> None:
    wanted = first_order(transitions, here)
    assert MovementModel(transitions).next_broker("c", here, 1) == wanted
    assert MovementModel(transitions).next_broker("c", here, 1, before) == wanted
    assert MovementModel(transitions, known).next_broker("c", here, 1) == wanted
    others = {name: table for name, table in known.items() if name != before}
    assert MovementModel(transitions, others).next_broker("c", here, 1, before) == wanted


@given(ways | few, pairs, brokers, brokers)
@example({"b": {"a": 1, "c": 1}}, {"a": {"b": {"a": 2, "c": 2}}}, "b", "a")
@example({}, {"a": {"b": {"c": 1}}}, "b", "a")
def test_with_pairs_it_is_the_likeliest_by_the_formula_and_the_first_by_name_and_never_here(
    transitions: Ways, known: dict[str, Ways], here: str, before: str
) -> None:
    model = MovementModel(transitions, known)
    likely = by_the_formula(model, here, before)
    wanted = min((to for to in likely if likely[to] > 0), key=lambda to: (-likely[to], to), default=None)
    answer = model.next_broker("c", here, 1, before)
    assert answer == wanted
    assert answer != here


@given(ways | few, pairs, brokers, before, st.randoms(use_true_random=False))
def test_neither_the_order_in_a_file_nor_a_snapshot_changes_an_answer(
    transitions: Ways, known: dict[str, Ways], here: str, before: str | None, rng: object
) -> None:
    def shuffled(table: object) -> object:
        if not isinstance(table, dict):
            return table
        rows = list(table.items())
        rng.shuffle(rows)  # type: ignore[attr-defined]
        return {name: shuffled(held) for name, held in rows}

    model = MovementModel(transitions, known)
    text = json.dumps({"transitions": shuffled(transitions), "pairs": shuffled(known)})
    others = model_of(text, "model.json"), model_of(model.to_text(), "again")
    assert {each.next_broker("c", here, 1, before) for each in others} == {model.next_broker("c", here, 1, before)}


@given(st.lists(brokers, max_size=8), brokers, st.integers(1, 9), before)
def test_who_knows_the_future_need_not_know_the_past(
    visits: list[str], here: str, visit: int, before: str | None
) -> None:
    known = Itineraries({"c": visits})
    assert known.next_broker("c", here, visit, before) == known.next_broker("c", here, visit)


def test_to_and_fro_along_a_line_only_who_knows_the_broker_before_is_right() -> None:
    """From b2 they go on in the direction that they came from, at the ends they turn round."""
    visits = ["b0", "b1", "b2", "b3", "b4", "b3", "b2", "b1"] * 10
    transitions: dict[str, Counter[str]] = {}
    known: dict[str, dict[str, Counter[str]]] = {}
    for last, here, to in zip(visits, visits[1:], visits[2:], strict=False):
        transitions.setdefault(here, Counter())[to] += 1
        known.setdefault(last, {}).setdefault(here, Counter())[to] += 1
    first, second = (
        model_of(json.dumps({"transitions": transitions, **more}), "model.json") for more in ({}, {"pairs": known})
    )
    assert (first.next_broker("c", "b2", 1, "b1"), first.next_broker("c", "b2", 1, "b3")) in (("b1",) * 2, ("b3",) * 2)
    assert (second.next_broker("c", "b2", 1, "b1"), second.next_broker("c", "b2", 1, "b3")) == ("b3", "b1")
    asked = list(zip(visits, visits[1:], visits[2:], strict=False))
    right = [sum(model.next_broker("c", here, 1, last) == to for last, here, to in asked) for model in (first, second)]
    assert right[1] == len(asked)
    assert right[0] < 0.7 * len(asked)


def test_the_more_kinds_of_steps_a_pair_has_seen_the_less_it_outweighs_what_everybody_does() -> None:
    first = {"b": {"c": 1, "d": 99}}
    sure, torn = ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1, "f": 1}}})
    assert MovementModel(first, sure).next_broker("x", "b", 1, "a") == "c"  # λ = 1/2: 1/2 + 1/200 against 99/200
    assert MovementModel(first, torn).next_broker("x", "b", 1, "a") == "d"  # λ = 1/2: 1/4 + 1/200 against 99/200


def test_a_spoilt_predictor_passes_on_where_the_client_was() -> None:
    model = MovementModel({"b": {"a": 1, "c": 1}}, {"a": {"b": {"c": 9}}})
    spoilt = NoisyPredictor(model, 0.0, tuple(BROKERS))
    assert (spoilt.next_broker("x", "b", 1), spoilt.next_broker("x", "b", 1, "a")) == ("a", "c")
