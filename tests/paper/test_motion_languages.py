"""[motion §3 to §6], the part about languages: one test for each sentence that our code carries out."""

import pytest

from godwit.filters import Event, parse
from godwit.languages import Operator, PubSubSystem, Subject, Translation, chained, parse_query
from godwit.languages.tiers import (
    iel_of,
    isl_of,
    isl_text,
    islmatch,
    sel_of,
    ssl_of,
    ssl_text,
    to_filters,
    to_middle,
    to_spear,
    xqlmatch,
)
from godwit.languages.xml_documents import parsed_document, xml_event
from godwit.languages.xql.parsing import parsed_query
from godwit.matching import BddMatcher

FEMALE_MANAGER = b"""<User><Sex>female</Sex>
<Address><Zip>1050</Zip><City>Wien</City></Address><Address><Zip>5473</Zip><City>Milano</City></Address>
<Role>manager</Role></User>"""
AT_HOME = FEMALE_MANAGER.replace(b"5473", b"1010")  # one zip code is not greater than 1040
WITHOUT_A_ROLE = FEMALE_MANAGER.replace(b"<Role>manager</Role>", b"")
LISTING_2 = (
    "./User/Role",
    "./User?[./Address/Zip $gt$ 1040 ]/Role",
    "./User?[./Address/Zip $gt$ 1040 $and$ Sex='female' ]/Role",
    "./User?[($all$ ./Address/Zip $gt$ 1040) $and$ Sex='female' ][$any$ ./Role='manager']",
)


# ---------------------------------------------------------------- §3


def test_the_bdd_representation_lends_itself_to_deletes() -> None:
    matcher = BddMatcher()
    matcher.add_many([("a", parse("x > 1 AND y = 'z'")), ("b", parse("x > 1 AND y = 'w'"))])
    matcher.remove("a")
    assert matcher.match(Event({"x": 2, "y": ("z", "w")})) == ["b"]


# ---------------------------------------------------------------- §4


def test_a_system_is_given_by_a_triple_and_a_translation_by_two_total_functions() -> None:
    numbers: PubSubSystem[int, int] = PubSubSystem("numbers", lambda event, query: event == query)
    halves: PubSubSystem[int, int] = PubSubSystem("halves", lambda event, query: event == query)
    translation = Translation(numbers, halves, lambda event: event // 2, lambda query: query // 2)
    assert translation.is_approximative_for(4, 4)
    assert translation.is_exact_for(4, 6)
    assert not translation.is_exact_for(4, 5)  # 5 // 2 is 2 as well: a negative residue
    assert translation.is_residue(4, 5)


def test_peers_will_receive_more_events_than_they_subscribed_for_and_filter_out_those_they_did() -> None:
    event, query = xml_event(FEMALE_MANAGER), parse_query("User/Address[Zip = 5473 $and$ City = 'Wien']", "xql")
    assert query.routable.matches(event)
    assert not query.wants(Subject(event))
    assert not query.matches(event)


# ---------------------------------------------------------------- §5, top tier


@pytest.mark.parametrize(
    ("document", "answers"),
    [
        (FEMALE_MANAGER, (True, True, True, True)),
        (AT_HOME, (True, True, True, False)),  # "the zip codes of all her addresses are greater than 1040"
        (FEMALE_MANAGER.replace(b"female", b"male"), (True, True, False, False)),
        (WITHOUT_A_ROLE, (False, False, False, False)),  # "user nodes which have some role"
    ],
)
def test_all_queries_of_listing_2_mean_what_the_text_says(document: bytes, answers: tuple[bool, ...]) -> None:
    root = parsed_document(document)
    assert tuple(xqlmatch(root, parsed_query(text)) for text in LISTING_2) == answers
    assert tuple(parse_query(text, "xql").matches(xml_event(document)) for text in LISTING_2) == answers


# ---------------------------------------------------------------- §5, middle tier


def test_information_at_analogous_paths_is_collected_in_sets_and_what_belongs_together_is_lost() -> None:
    root = parsed_document(FEMALE_MANAGER)
    iel = iel_of(root)
    assert iel["User/Address/Zip"] == (1050, 5473)
    assert iel["User/Address/City"] == ("Milano", "Wien")
    said = parsed_query("User/Address[Zip = 5473 $and$ City = 'Wien']")
    assert not xqlmatch(root, said)
    assert islmatch(iel, isl_of(said))  # "This is exactly where our translation becomes approximative."


@pytest.mark.parametrize("text", ["./User?[$any$ ./Role = 'manager']", "./User?[Address[Zip = 1050]]", *LISTING_2])
def test_isl_contains_no_quantifiers_and_no_filters(text: str) -> None:
    printed = isl_text(isl_of(parsed_query(text)))
    assert not {"$any$", "$all$", "[", "]", "//", "*"} & set(printed.replace("(", " ").replace(")", " ").split())
    assert "[" not in printed


def test_a_universal_subquery_holds_if_the_attribute_does_not_exist_or_one_occurrence_satisfies() -> None:
    said = isl_of(parsed_query("$all$ x $lt$ 5"))
    assert isl_text(said) == "(($not$ x) $or$ (x $lt$ 5))"
    assert islmatch({}, said)
    assert islmatch({"x": (3, 7)}, said)
    assert not islmatch({"x": (6, 7)}, said)


# ---------------------------------------------------------------- §5, bottom tier


@pytest.mark.parametrize(("text", "ssl"), [("r/@x $near$ 3", "true()"), ("$not$ (r/@x $near$ 3)", "true()")])
def test_new_operators_become_true_or_false_by_the_negations_around_them(text: str, ssl: str) -> None:
    near = {"near": Operator("near", lambda left, right: abs(float(left) - right) < 1)}
    assert ssl_text(ssl_of(isl_of(parsed_query(text, near)))) == ssl


def test_the_middleware_can_be_extended_to_handle_an_operator_explicitly() -> None:
    from godwit.filters import between, some

    def routable(attribute: str, value: float) -> object:
        return some(attribute, between(value - 1, value + 1))

    near = {"near": Operator("near", lambda left, right: abs(float(left) - right) < 1, routable)}  # type: ignore[arg-type]
    query = parse_query("r/@x $near$ 3", "xql", near)
    assert query.routable.matches(xml_event(b"<r x='3.5'/>"))
    assert not query.routable.matches(xml_event(b"<r x='9'/>"))


def test_alternative_systems_can_be_integrated_below_the_middle_tier_or_beside_it() -> None:
    root, said = parsed_document(FEMALE_MANAGER), parsed_query(LISTING_2[3])
    for translation in (chained(to_middle(), to_spear()), to_filters()):
        assert translation.is_approximative_for(root, said)
        assert translation.is_exact_for(root, said)


# ---------------------------------------------------------------- §6


def test_our_filters_have_no_residue_where_sets_of_values_are_told_apart() -> None:
    """All values at a path are asked by a filter of ours; SSL knows only whether one of them is there."""
    root, said = parsed_document(AT_HOME), parsed_query("./User?[$all$ ./Address/City = 'Wien']")
    assert not xqlmatch(root, said)
    assert chained(to_middle(), to_spear()).is_residue(root, said)
    assert not to_filters().is_residue(root, said)
    assert sel_of(iel_of(root))["User/Address/City"] == "#Milano##Wien#"
