"""Every place in which a class of value sets has to be known is named here, and knows every class.

Whoever adds a class of value sets runs this first: it says where the class is missing. Whoever writes a new place that
tells classes apart has to name it here: in `MUST_KNOW` if each class needs a decision there, in `ANY_OTHER` if what is
done with an unknown class is right for all of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any

import pytest

from godwit.filters import relations
from godwit.filters.events import Event
from godwit.filters.filters import Filter, all_of, any_of, negation, only, some
from godwit.filters.language import from_json, parse, to_json, to_text
from godwit.filters.references import Reference, bind, interval
from godwit.filters.regions import box, circle, polygon
from godwit.filters.sets import (
    EVERYTHING,
    NOTHING,
    ValueSet,
    between,
    complement,
    ends_with,
    holds_text,
    like,
    one_of,
    places,
    starts_with,
    topic_pattern,
)
from godwit.filters.values import Point
from godwit.matching.bdd_matcher import BddMatcher
from godwit.matching.index_matcher import IndexMatcher
from tests.conventions import value_set_places
from tests.conventions.repository import Module, modules
from tests.conventions.value_set_places import Classes

TEXTS = "Prefix Suffix Substring Like TopicPattern"
REGIONS = "Box Circle Polygon"


@dataclass(frozen=True)
class Place:
    """What must know every class: one or several functions and tables, and the classes that they need not name."""

    functions: str  # within the module, separated by spaces
    besides: dict[str, str] = field(default_factory=dict)  # classes, separated by spaces -> why their default is right


MUST_KNOW: dict[str, tuple[Place, ...]] = {
    "godwit.filters.relations": (
        Place("_SUBSET", {"OpenSet": "lies in nothing but itself: _subset_of_any_class says so"}),
        Place("_DISJOINT", {"OpenSet": "may hold any value: _disjoint_of_any_class says so"}),
        Place("loose_hull", {"Complement Everything Nothing OpenSet": "only everything is known to hold them"}),
    ),
    "godwit.filters.language.printing": (
        Place(
            "literal_text phrase _only_element _pattern region_text",
            {"Everything": "literal_text compares with EVERYTHING"},
        ),
    ),
    "godwit.filters.language.json_form": (Place("_set_data"),),
    "godwit.filters.memory_sizes": (
        Place("_set_size", {"Everything Nothing Box Circle": "take no more than every literal does"}),
    ),
    "godwit.filters.measures": (
        Place("_extent", {"Complement Everything Nothing OpenSet Substring Like": "cannot be measured"}),
        Place("looseness", {f"{TEXTS} {REGIONS} OpenSet": "let through about as much as an interval with two ends"}),
    ),
    "godwit.filters.merging": (
        Place("_start", {"Complement Everything Nothing OpenSet Like Places": "have no first value to sort by"}),
    ),
    "godwit.filters.contexts": (Place("_width", {f"{TEXTS} Complement Everything OpenSet": "count as anything"}),),
    "godwit.filters.reasons": (Place("_near", {"Everything Nothing OpenSet": "have no border to look at"}),),
    "godwit.matching.filter_compiler": (
        Place("Compiler._write Compiler._writers Compiler._inexact", {"OpenSet": "is refused by Matcher.add"}),
    ),
    "godwit.pipeline.filter_sql": (
        Place("_SET _inside _asks_python _around", {"OpenSet": "is refused by condition_for"}),
    ),
}
"""By module: where a class that is not known is refused, or handled less well than it could be."""

ANY_OTHER: dict[str, dict[str, str]] = {
    "godwit.runtime.dashboard_settings": {
        "_point": "a position in a configuration that is not a point is a fault",
        "_region": "an area in a configuration that is no region is a fault",
    },
    "godwit.runtime.map_answers": {"_regions_in": "what is no region is not drawn"},
    "godwit.filters.relations": {
        "is_subset is_disjoint": "a short way for intervals; the tables decide the rest",
        "_subset_of_any_class _disjoint_of_any_class": "answer no for classes that they do not know",
        "intersection union": "None: no simple set says it",
        "unions": "joins in pairs, by union",
        "spread": "as it is",
        "range_of": "raises TypeError",
        "_as_region _head _tail _read_as_text": "are given only classes that they name",
    },
    "godwit.filters.topic_relations": {
        "topic_around": "None: no topic pattern is put around it",
        "elements": "is given only classes that it names",
    },
    "godwit.filters.measures": {"_share_of_topics": "cannot be measured in topics"},
    "godwit.filters.regions": {
        "inside apart area": "take any other region by its bounds, which never leave out a point"
    },
    "godwit.filters.sets": {"OneOf.__eq__": "no equal", "complement": "Complement"},
    "godwit.filters.open_tests": {"OpenTests._literal_holds": "asks for the sign"},
    "godwit.filters.references": {
        "OpenSet.__eq__": "no equal",
        "open_set_of": "nothing to fill in",
        "replaced": "asks for the sign",
    },
    "godwit.filters.algebra": {
        "satisfiable": "may be met",
        "implies": "no",
        "_Implication._holds_together": "by is_subset",
        "access_keys": "may cover anything that asks for the attribute",
        "keys_of": "is covered only by what is_subset finds",
        "cost_of_unions": "joined in pairs, which costs most",
    },
    "godwit.filters.contexts": {"bounds_of _around": "by hull"},
    "godwit.languages.native.exact_parser": {"_Parser._in_set": "stays a set"},
    "godwit.languages.native.exact_bounds": {"_known": "filters know nothing of it"},
    "godwit.filters.reasons": {"_landmarks": "by its bounds"},
    "godwit.matching.filter_compiler": {
        "Compiler._prepared": "writes no labels for it",
        "Compiler._splits": "one test is enough for it",
        "Compiler._region": "asked exactly",
        "_joined": "stays as it is",
    },
    "godwit.matching.literals": {
        "AttributeLiterals.add": "is no complement",
        "AttributeLiterals._set_number _closed_doubles": "asked by contains",
    },
    "godwit.matching.packed_values": {
        "SetTest.__init__": "is no complement",
        "SetTest.of": "asked for each distinct value",
        "steps_of_test": "a step for each value",
        "steps_of_one": "by its weight",
        "_verdicts _answers": "asked by contains",
        "_numbers_in _points_in": "asked by contains, unless its kinds say no",
    },
    "godwit.pipeline.filter_sql": {
        "_never": "by its kinds",
        "_there": "asks whether there is a value",
        "_beyond": "has no ends",
    },
    "godwit.broker.packet_checks": {"_is_bound": "has no list of values to be too long"},
    "godwit.broker.context_table": {"_ranges": "as it is"},
    "godwit.broker.retained": {"_named": "names no topics: all are looked at"},
    "godwit.broker.covering_index": {
        "choices_of": "is not found by values: it is asked",
        "signs_of _signs_of_set": "has no signs: no pattern covers it, and it asks for none",
    },
    "godwit.teamwork.profile_postings": {"_texts _numbers": "all rows of the path, by its kinds"},
    "godwit.languages.single_values": {
        "split_filter _range": "is no end of a range: as it is",
        "_kept _is_substring": "says nothing of *look*: as it is",
    },
    "godwit.languages.xql.routable": {
        "_implies _values": "is not known to be within: the filter gets a row of its own"
    },
    "godwit.mobility.possible_values": {"_open_set": "nothing to fill in", "Movements.loosened": "asks for the sign"},
}
"""By module and function: what is done with any other class than those it names, which is right for every value set."""

EXAMPLES: dict[str, ValueSet] = {
    "Box": box(0, 0, 10, 10),
    "Circle": circle(5, 5, 100_000),
    "Complement": complement(one_of([1, "ab"])),
    "Everything": EVERYTHING,
    "Interval": between(0, 5),
    "Like": like("a_%b"),
    "Nothing": NOTHING,
    "OneOf": one_of([1, True, "ab"]),
    "OpenSet": interval(Reference("low"), None),
    "Places": places(["ab", "market"]),
    "Polygon": polygon([(0, 0), (10, 0), (0, 10)]),
    "Prefix": starts_with("a"),
    "Substring": holds_text("b"),
    "Suffix": ends_with("b"),
    "TopicPattern": topic_pattern("+/b"),
}
"""One of each class."""

VALUES = (
    0,
    1,
    5,
    7.5,
    True,
    False,
    "",
    "a",
    "ab",
    "axb",
    "b",
    "a/b",
    "$a/b",
    "market",
    Point(5, 5),
    Point(1, 1),
    Point(20, 20),
)


# ---------------------------------------------------------------- faults


Found = dict[str, frozenset[str]]
"""By place, the classes that it names."""


def found_in(modules: Iterable[Module], known: Classes) -> Found:
    return {place: names for module in modules for place, names in value_set_places.places(module, known).items()}


def unnamed_places(found: Found) -> Iterator[str]:
    """Places that are not named above, and names above that are no places."""
    named = {f"{module}.{name}" for module, each in MUST_KNOW.items() for p in each for name in p.functions.split()}
    named |= {f"{module}.{name}" for module, each in ANY_OTHER.items() for names in each for name in names.split()}
    for place in sorted(found.keys() - named):
        yield f"{place} tells classes of value sets apart: name it in MUST_KNOW or ANY_OTHER of {__name__}"
    for place in sorted(named - found.keys()):
        yield f"{place} is named in {__name__}, but tells no classes of value sets apart"


def missing_classes(found: Found, known: Classes) -> Iterator[str]:
    """Classes that a place should know and does not."""
    for module, each in MUST_KNOW.items():
        for place in each:
            named = frozenset().union(*(found.get(f"{module}.{name}", ()) for name in place.functions.split()))
            besides = {name for names in place.besides for name in names.split()}
            for name in sorted(known.concrete - named - besides):
                yield (
                    f"{module}: {place.functions}: the class {name} of value sets is not known there: handle it, "
                    f"or say in MUST_KNOW of {__name__} why what is done with it anyhow is right"
                )
            for name in sorted(besides & named):
                yield f"{module}: {place.functions}: {name} is known there: it need not be excused"
    for name in sorted(known.concrete - EXAMPLES.keys()):
        yield f"EXAMPLES of {__name__} has no {name}"


@cache
def package_classes() -> Classes:
    """The classes of value sets of the package."""
    return value_set_places.classes(modules())


@cache
def package_places() -> Found:
    return found_in(modules(), package_classes())


# ---------------------------------------------------------------- the package


def test_every_place_that_tells_classes_of_value_sets_apart_is_named() -> None:
    assert list(unnamed_places(package_places())) == []


def test_every_class_of_value_sets_is_known_wherever_it_has_to_be() -> None:
    assert list(missing_classes(package_places(), package_classes())) == []


@pytest.mark.parametrize("table", [relations._SUBSET, relations._DISJOINT])
def test_both_tables_of_relations_hold_each_pair_of_classes(table: dict[tuple[type, type], object]) -> None:
    known = {type(EXAMPLES[name]) for name in package_classes().concrete - {"OpenSet"}}
    assert table.keys() == set(product(known, repeat=2))


def test_each_example_is_of_the_class_it_stands_for() -> None:
    for name, values in EXAMPLES.items():
        home = "godwit." + package_classes().homes[name].removesuffix(".py").replace("/", ".")
        assert type(values) is getattr(import_module(home), name)


def literals_on(values: ValueSet) -> list[Filter]:
    """Every literal on these values, and what is made of them."""
    one: list[Filter] = [literal("x", each) for literal in (some, only) for each in (values, complement(values))]
    return [*one, *map(negation, one), all_of(some("y", EVERYTHING), *one[:2]), any_of(some("y", EVERYTHING), *one[:2])]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_each_class_is_read_back_as_it_was_written(name: str) -> None:
    for filter in literals_on(EXAMPLES[name]):
        assert parse(to_text(filter)) == filter
        assert from_json(to_json(filter)) == filter


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_each_class_is_matched_as_it_says_itself(name: str) -> None:
    filters = [bind(filter, {"low": 2}) for filter in literals_on(EXAMPLES[name])]
    helds: list[Any] = [*VALUES, *product(VALUES[::3], repeat=2)]
    events = [Event({"x": held}) for held in helds]
    for matcher in (IndexMatcher(), BddMatcher()):
        matcher.add_many(enumerate(filters))
        for event in events:
            assert set(matcher.match(event)) == {n for n, f in enumerate(filters) if f.holds(event.attributes)}


# ---------------------------------------------------------------- planted: what is missing is found

A_NEW_CLASS = Module(
    "filters/planted.py", "from godwit.filters.sets import ValueSet\nclass Even(ValueSet):\n    pass\n"
)


def test_a_new_class_is_reported_wherever_it_has_to_be_known() -> None:
    faults = list(missing_classes(package_places(), value_set_places.classes([*modules(), A_NEW_CLASS])))
    assert len(faults) == sum(map(len, MUST_KNOW.values())) + 1  # and there is no example of it
    assert faults[0].startswith("godwit.filters.relations: _SUBSET: the class Even of value sets is not known there")


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return isinstance(x, Box | int)\n",
        "def f(x):\n    return type(x) is not Box\n",
        "def f(x):\n    match x:\n        case Box(west=west):\n            return west\n",
        "BOXES = (Box, str)\ndef f(x):\n    return isinstance(x, BOXES)\n",
        "f = {Box: 1}\n",
    ],
)
def test_a_new_place_is_found_however_it_is_written(text: str) -> None:
    place = Module("filters/planted.py", f"from godwit.filters.regions import Box\n{text}")
    [fault] = unnamed_places(package_places() | found_in([place], package_classes()))
    assert fault.startswith("godwit.filters.planted.f tells classes of value sets apart")


def test_a_place_that_is_gone_is_found_and_other_classes_of_the_same_name_are_none() -> None:
    [fault] = unnamed_places({place: names for place, names in package_places().items() if "retained" not in place})
    assert fault.startswith("godwit.broker.retained._named is named in")
    strange = Module("filters/planted.py", "from godwit.simulator.tracks import Box\nf = {Box: 1}\n")
    assert found_in([strange], package_classes()) == {}
