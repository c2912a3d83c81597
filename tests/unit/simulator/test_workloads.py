"""Workloads: selectivity and skew are as asked, advertisements cover, and files are read."""

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from godwit.errors import ScenarioError
from godwit.filters import Event, event, parse
from godwit.simulator.workload_files import filter_of_expression
from godwit.simulator.workloads import Publications, Workload, WorkloadSpec, Zipf, workload_of
from tests.hash_seeds import outputs

PUBLISHERS = 40


def workload(publishers: int = PUBLISHERS, seed: int = 1, **spec: object) -> Workload:
    return workload_of(WorkloadSpec(**spec), publishers, Random(seed))  # type: ignore[arg-type]


def selectivity_of(made: Workload, filters: int = 150, events: int = 600) -> float:
    rng = Random(2)
    wanted = [made.filter(k, rng) for k in range(filters)]
    said = [Event(made.attributes(k % PUBLISHERS, k // PUBLISHERS, rng)) for k in range(events)]
    return sum(f.matches(e) for f in wanted for e in said) / (filters * events)


# ---------------------------------------------------------------- random


@pytest.mark.parametrize("skew", [0.0, 1.0])
@pytest.mark.parametrize("predicates", [1, 3])
@pytest.mark.parametrize("selectivity", [0.02, 0.1, 0.5])
def test_an_event_matches_a_filter_with_the_chosen_probability(
    selectivity: float, predicates: int, skew: float
) -> None:
    found = selectivity_of(workload(selectivity=selectivity, predicates=predicates, skew=skew))
    assert found == pytest.approx(selectivity, rel=0.3)


def test_selectivity_one_matches_everything() -> None:
    assert selectivity_of(workload(selectivity=1.0, skew=2.0), 20, 100) == 1.0


def test_with_skew_some_topics_are_popular_and_without_none_is() -> None:
    def share_of_the_most_popular(skew: float) -> float:
        made, rng = workload(publishers=1_000, skew=skew), Random(3)
        counts = Counter(made.attributes(k, 0, rng)["topic"] for k in range(1_000))
        return counts.most_common(1)[0][1] / 1_000

    assert share_of_the_most_popular(0.0) < 0.1
    assert share_of_the_most_popular(1.2) > 0.25


def test_zipf_draws_each_number_as_often_as_it_says() -> None:
    zipf, rng = Zipf(5, 1.0), Random(4)
    counts = Counter(zipf.draw(rng) for _ in range(10_000))
    assert sum(map(zipf.probability, range(5))) == pytest.approx(1)
    for number in range(5):
        assert counts[number] / 10_000 == pytest.approx(zipf.probability(number), abs=0.02)


def test_equal_and_covering_filters_are_common_so_that_reductions_have_work() -> None:
    made, rng = workload(selectivity=0.2, topics=4, predicates=1), Random(5)
    filters = [made.filter(k, rng) for k in range(120)]
    related = sum(f.covers(g) or g.covers(f) for f, g in combinations(filters, 2))
    assert related / (120 * 119 / 2) > 0.02
    assert len(set(filters)) < 120


def test_more_predicates_than_attributes_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"workload\.predicates is 4"):
        workload(predicates=4, attributes=3)


# ---------------------------------------------------------------- laws of every kind


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    subscriptions, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    subscriptions.write_text('{"id": 1, "filter": "price < 10"}\n\n{"id": 2, "expr": ["=", "sym", "A"]}\n')
    lines = [
        {"attributes": {"price": n, "sym": "AB"[n % 2], "tags": ["x", "y"], **({"odd": True} if n % 2 else {})}}
        for n in range(60)
    ]
    events.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(subscriptions), str(events)


@pytest.mark.parametrize("kind", ["random", "publications", "mixed", "files"])
@pytest.mark.parametrize("seed", range(3))
def test_every_variant_of_an_advertisement_matches_all_that_its_publisher_says(
    kind: str, seed: int, files: tuple[str, str]
) -> None:
    made = workload(5, seed, kind=kind, subscriptions_file=files[0], events_file=files[1], locality=0.4)
    rng = Random(seed)
    for publisher in range(5):
        narrowest = made.advertisement(publisher)
        for variant in range(7):
            advertised = made.advertisement(publisher, variant)
            assert advertised.covers(narrowest)
            for k in range(40):
                said = made.attributes(publisher, k, rng)
                assert advertised.holds(said)
                assert event(said).attributes == said  # checked already


def test_the_same_seed_gives_the_same_workload_however_texts_are_hashed() -> None:
    code = """
from random import Random
from godwit.filters import to_text
from godwit.simulator.workloads import WorkloadSpec, workload_of
for kind in ("random", "publications", "mixed"):
    rng = Random(1)
    made = workload_of(WorkloadSpec(kind=kind, skew=1.0), 6, rng)
    for k in range(60):
        print(to_text(made.filter(k, rng)), made.attributes(k % 6, k, rng), to_text(made.advertisement(k % 6, k)))
"""
    assert len(outputs(code)) == 1


def test_mixed_filters_match_some_events_and_not_others() -> None:
    assert 0.1 < selectivity_of(workload(kind="mixed")) < 0.9


# ---------------------------------------------------------------- publications


def test_each_publisher_has_a_publication_of_its_own_and_each_filter_wants_one() -> None:
    made, rng = Publications(50, 0.0, Random(1)), Random(2)
    said = [Event(made.attributes(publisher, 0, rng)) for publisher in range(50)]
    assert len({str(each.attributes) for each in said}) == 50
    for k in range(100):
        wanted = made.filter(k, rng)
        assert sum(wanted.matches(each) for each in said) == 1


def test_locality_is_the_share_of_publishers_with_the_same_publication() -> None:
    made = Publications(50, 0.9, Random(1))
    counts = Counter(str(made.attributes(publisher, 0, Random(2))) for publisher in range(50))
    assert counts.most_common(1)[0][1] == 45
    assert len(counts) == 6


def test_without_publishers_there_is_nothing_to_want() -> None:
    assert not Publications(0, 0.0, Random(1)).filter(0, Random(2)).holds({"publication": "publication 0"})


# ---------------------------------------------------------------- files


def test_files_give_subscriptions_in_order_and_deal_events_to_publishers(files: tuple[str, str]) -> None:
    made, rng = workload(2, kind="files", subscriptions_file=files[0], events_file=files[1]), Random(1)
    assert [made.filter(k, rng) for k in range(3)] == [parse("price < 10"), parse("sym = 'A'"), parse("price < 10")]
    assert [made.attributes(0, k, rng)["price"] for k in range(3)] == [0, 2, 4]
    assert [made.attributes(1, k, rng)["price"] for k in (0, 1, 30)] == [1, 3, 1]
    assert made.advertisement(1).covers(parse("price BETWEEN 1 AND 59 AND sym = 'B' AND tags = 'x' AND odd = TRUE"))


def test_more_publishers_than_events_share_them(files: tuple[str, str]) -> None:
    made = workload(100, kind="files", subscriptions_file=files[0], events_file=files[1])
    assert made.advertisement(99).holds(made.attributes(99, 7, Random(1)))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (["and", ["=", "sym", "A"], ["between", "price", 1, 2.5]], "sym = 'A' AND price BETWEEN 1 AND 2.5"),
        (["or", ["!=", "x", 3], ["not", ["exists", "y"]]], "x <> 3 OR y IS NULL"),
        (["in", "sym", ["A", "B"]], "sym IN ('A', 'B')"),
        (["prefix", "sym", "S"], "sym LIKE 'S%'"),
    ],
)
def test_a_neutral_expression_is_a_filter(expression: list[object], text: str) -> None:
    assert filter_of_expression(expression) == parse(text)


@pytest.mark.parametrize(
    ("subscription", "event_line", "says"),
    [
        ('{"id": 1, "filter": "price <"}', "{}", "s:1: line 1, column 8"),
        ('{"id": 1, "filter": "x = my.y"}', "{}", "s:1: the filter refers to"),
        ('{"id": 1, "expr": ["<", "x"]}', "{}", "s:1: ['<', 'x'] is not an expression"),
        ('{"id": 1', "{}", "s:1: "),
        ('{"id": 1, "filter": "TRUE"}', '{"attributes": {"x": 1e999}}', "e:1: "),
        ('{"id": 1, "filter": "TRUE"}', "", "e: the file is empty"),
    ],
)
def test_a_bad_line_is_refused_with_file_and_number(
    tmp_path: Path, subscription: str, event_line: str, says: str
) -> None:
    (tmp_path / "s").write_text(subscription)
    (tmp_path / "e").write_text(event_line)
    with pytest.raises(ScenarioError) as caught:
        workload(kind="files", subscriptions_file=str(tmp_path / "s"), events_file=str(tmp_path / "e"))
    assert says in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        workload(kind="files", subscriptions_file=str(tmp_path / "gone"), events_file="")
