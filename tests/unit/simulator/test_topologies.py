"""Overlays: what each builder builds, what files may say, and questions about them."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import ScenarioError
from godwit.simulator.topologies import (
    BROKERS_MAX,
    LinkSpec,
    Overlay,
    balanced_tree,
    components,
    degrees,
    from_file,
    is_tree,
    leaves,
    line,
    random_graph,
    random_tree,
    star,
)
from tests.hash_seeds import outputs

SEEDS = st.integers(0, 2**32)


def pairs(overlay: Overlay) -> list[tuple[str, str]]:
    return [(link.a, link.b) for link in overlay.links]


def assert_sound(overlay: Overlay) -> None:
    """No broker twice, no link twice, none to itself, and all connected."""
    assert len(set(overlay.brokers)) == len(overlay.brokers)
    ends = [frozenset(pair) for pair in pairs(overlay)]
    assert len(set(ends)) == len(ends)
    assert all(len(each) == 2 for each in ends)
    assert len(components(overlay)) == 1


# ---------------------------------------------------------------- builders


def test_a_line_goes_from_one_end_to_the_other() -> None:
    assert pairs(line(3)) == [("b0", "b1"), ("b1", "b2")]
    assert line(1) == Overlay(("b0",), ())


def test_a_star_has_the_first_broker_in_its_centre() -> None:
    assert pairs(star(3)) == [("b0", "b1"), ("b0", "b2")]


def test_the_overlay_of_pubmob_has_85_brokers_and_64_leaves() -> None:
    overlay = balanced_tree(4, 4, latency_s=0.01, bandwidth_bps=256_000)
    assert (len(overlay.brokers), len(leaves(overlay))) == (85, 64)
    assert leaves(overlay)[0] == "b21"
    assert pairs(overlay)[:5] == [("b0", "b1"), ("b0", "b2"), ("b0", "b3"), ("b0", "b4"), ("b1", "b5")]
    assert overlay.links[0] == LinkSpec("b0", "b1", 0.01, 256_000, 1.0)


@given(height=st.integers(1, 5), degree=st.integers(1, 4))
def test_a_balanced_tree_has_a_power_of_its_degree_as_leaves(height: int, degree: int) -> None:
    overlay = balanced_tree(height, degree)
    assert_sound(overlay)
    assert is_tree(overlay)
    if degree > 1 and height > 1:
        assert len(leaves(overlay)) == degree ** (height - 1)


@given(n=st.integers(1, 60), seed=SEEDS)
def test_lines_stars_and_random_trees_are_trees(n: int, seed: int) -> None:
    for overlay in (line(n), star(n), random_tree(n, Random(seed))):
        assert_sound(overlay)
        assert is_tree(overlay)
        assert len(overlay.brokers) == n


@given(n=st.integers(2, 40), degree=st.integers(1, 8), seed=SEEDS)
def test_a_random_graph_is_connected_with_the_degree_as_near_as_can_be(n: int, degree: int, seed: int) -> None:
    degree = min(degree, n - 1)
    overlay = random_graph(n, degree, Random(seed))
    assert_sound(overlay)
    found = list(degrees(overlay).values())
    if degree == 1:  # connected, so it cannot have less than a row
        assert is_tree(overlay)
        assert max(found) <= 2
    else:
        assert max(found) <= degree
        assert sum(degree - each for each in found) <= 3


def test_the_graph_of_spcf_has_twenty_brokers_of_degree_six() -> None:
    assert set(degrees(random_graph(20, 6, Random(1))).values()) == {6}


def test_random_overlays_differ_with_the_seed_and_leave_the_global_generator_alone() -> None:
    import random

    before = random.getstate()
    assert random_tree(30, Random(1)) == random_tree(30, Random(1)) != random_tree(30, Random(2))
    assert random_graph(30, 4, Random(1)) == random_graph(30, 4, Random(1)) != random_graph(30, 4, Random(2))
    assert random.getstate() == before


def test_random_overlays_do_not_depend_on_how_texts_are_hashed() -> None:
    code = (
        "from random import Random\nfrom godwit.simulator import topologies as t\n"
        "print(t.random_graph(40, 5, Random(3)), t.random_tree(40, Random(3)), t.components(t.line(3)))"
    )
    assert len(outputs(code)) == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda: line(0),
        lambda: star(BROKERS_MAX + 1),
        lambda: balanced_tree(0, 2),
        lambda: balanced_tree(99, 99),
        lambda: random_tree(-1, Random(1)),
        lambda: random_graph(4, 4, Random(1)),
        lambda: random_graph(4, 0, Random(1)),
    ],
)
def test_an_overlay_of_an_impossible_size_is_refused(build) -> None:
    with pytest.raises(ScenarioError):
        build()


# ---------------------------------------------------------------- questions


def test_parts_that_no_link_connects_are_told_apart() -> None:
    overlay = Overlay(("a", "b", "c", "d"), (LinkSpec("a", "c"), LinkSpec("b", "d")))
    assert components(overlay) == (("a", "c"), ("b", "d"))
    assert not is_tree(overlay)


def test_a_ring_is_no_tree_and_all_its_brokers_count_as_leaves() -> None:
    ring = random_graph(5, 2, Random(1))
    assert not is_tree(ring)
    assert leaves(ring) == ring.brokers


def test_a_part_with_a_cycle_and_one_apart_are_no_tree_although_the_numbers_fit() -> None:
    overlay = Overlay(("a", "b", "c", "d"), (LinkSpec("a", "b"), LinkSpec("b", "c"), LinkSpec("c", "a")))
    assert not is_tree(overlay)


# ---------------------------------------------------------------- files

LINKS = [{"a": "zurich", "b": "bern", "latency_ms": 3, "bandwidth_kbps": 100, "cost": 2}, {"a": "bern", "b": "geneva"}]

TOML_LINKS = """
[[links]]
a = "zurich"
b = "bern"
latency_ms = 3
bandwidth_kbps = 100
cost = 2
[[links]]
a = "bern"
b = "geneva"
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("links.json", json.dumps(LINKS)),
        ("links.json", json.dumps({"links": LINKS})),
        (
            "links.toml",
            TOML_LINKS,
        ),
        ("links.txt", "# the west\nzurich bern 3 100 2\n\nbern geneva  # slow\n"),
    ],
)
def test_every_form_of_a_file_gives_the_same_overlay(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert from_file(tmp_path / name, latency_s=0.5) == Overlay(
        ("zurich", "bern", "geneva"),
        (LinkSpec("zurich", "bern", 0.003, 100_000, 2), LinkSpec("bern", "geneva", 0.5, None, 1)),
    )


def test_a_line_with_one_word_is_a_broker_without_links(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("alone\n")
    assert from_file(tmp_path / "one") == Overlay(("alone",), ())


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("x.txt", "a b\na\nb c fast\n", "x.txt:3: 'b c fast' is not a link: allowed is"),
        ("x.txt", "a b -3\n", "x.txt:1: "),
        ("x.txt", "a b 3 0\n", "x.txt:1: "),
        ("x.txt", "a b nan\n", "x.txt:1: "),
        ("x.txt", "a b 99999\n", "latency_ms is 99999.0: allowed is a number from 0 to 60,000"),
        ("x.txt", "a a\n", "broker 'a' has a link to itself"),
        ("x.txt", "a b\nb a\n", "two links between 'b' and 'a'"),
        ("x.txt", "\n", "0 brokers"),
        ("x.json", "[{", "x.json: "),
        ("x.json", "[1]", "links[0] is 1: allowed is a table"),
        ("x.json", '{"linkz": []}', "linkz is not known (did you mean links?)"),
        ("x.json", "3", "the file is 3"),
        ("x.toml", 'links = [{a = "a"}]', "links[0].b is missing"),
        ("x.toml", "a b", "(at line 1"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_what_is_allowed(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ScenarioError) as caught:
        from_file(tmp_path / name)
    assert says in str(caught.value)
    assert name in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        from_file(tmp_path / "gone.json")
