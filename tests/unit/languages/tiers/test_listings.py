"""The tiers of [motion §5]: Listings 3 and 4, Figures 3 and 4, and the traps that the paper does not mention."""

import pytest

from godwit.languages import Operator
from godwit.languages.operators import NO_OPERATORS
from godwit.languages.tiers import (
    iel_of,
    iel_text,
    isl_of,
    isl_text,
    islmatch,
    sel_of,
    sel_text,
    spearmatch,
    ssl_of,
    ssl_text,
    xqlmatch,
)
from godwit.languages.tiers.isl import Compares, Defines
from godwit.languages.xml_documents import parsed_document
from godwit.languages.xql.parsing import parsed_query

# The listing puts texts between quotes to tell them from numbers; in XML they would be part of the text.
LISTING_1 = b"""<User>
<Sex>female</Sex>
<Address> <Zip>1050</Zip>
<City>Wien</City></Address >
<Address> <Zip>5473</Zip>
<City>Milano</City></Address >
</User>"""

LISTING_3 = """{User |->{},
User/Sex |->{'female'},
User/Address/Zip |->{1050,5473},
User/Address/City |->{'Milano','Vienna'}
User/Serialized |->{'ptrtrtb545hr74'}}"""

LISTING_4 = """{ User |-> '##',
User/Sex |-> '#female#',
User/Address/Zip |-> '#1050##5473#',
User/Address/Zipmin |-> 1050,
User/Address/Zipmax |-> 5473,
User/Address/City |-> '#Milano##Wien#'
User/Serialized |->'#ptrtrtb545hr74#'}"""


def test_listing_3_is_printed_to_the_letter_but_for_its_two_slips() -> None:
    corrected = LISTING_3.replace("'Vienna'}", "'Wien'},")  # Wien in Listings 1 and 4; a comma is missing
    assert iel_text(iel_of(parsed_document(LISTING_1), "ptrtrtb545hr74")) == corrected


def test_listing_4_is_printed_to_the_letter_but_for_its_two_slips() -> None:
    corrected = LISTING_4.replace("Wien#'", "Wien#',").replace("|->'", "|-> '")  # a comma and a space are missing
    iel = iel_of(parsed_document(LISTING_1), "ptrtrtb545hr74")
    assert sel_text(sel_of(iel), iel) == corrected


def test_the_set_of_the_text_becomes_the_entries_of_the_text() -> None:
    assert sel_of({"x": (1, 5, 2, 7)}) == {"x": "#1##5##2##7#", "xmin": 1, "xmax": 7}


def test_a_document_is_named_by_its_digest_when_nobody_names_it() -> None:
    [name] = iel_of(parsed_document(LISTING_1))["User/Serialized"]
    assert isinstance(name, str)
    assert len(name) == len("ptrtrtb545hr74")


@pytest.mark.parametrize(
    ("operator", "isl", "ssl"),
    [
        ("contains", "x $contains$ 'v'", "x $contains$ 'v'"),
        ("startsw", "x $startsw$ 'v'", "x $contains$ '#v'"),
        ("eq", "x $eq$ 'v'", "x $contains$ '#v#'"),
        ("endsw", "x $endsw$ 'v'", "x $contains$ 'v#'"),
    ],
)
def test_figure_3_operators_on_texts(operator: str, isl: str, ssl: str) -> None:
    said = Compares("x", operator, "v")
    assert (isl_text(said), ssl_text(ssl_of(said))) == (isl, ssl)


@pytest.mark.parametrize(
    ("operator", "isl", "ssl"),
    [
        ("lt", "x $lt$ 3", "xmin $lt$ 3"),
        ("gt", "x $gt$ 3", "xmax $gt$ 3"),
        ("le", "x $le$ 3", "xmin $le$ 3"),
        ("ge", "x $ge$ 3", "xmax $ge$ 3"),
        ("eq", "x $eq$ 3", "x $contains$ '#3#'"),
    ],
)
def test_figure_4_operators_on_numbers(operator: str, isl: str, ssl: str) -> None:
    said = Compares("x", operator, 3)
    assert (isl_text(said), ssl_text(ssl_of(said))) == (isl, ssl)


def test_what_defines_is_the_same_in_both_figures() -> None:
    assert (isl_text(Defines("x")), ssl_text(ssl_of(Defines("x")))) == ("x", "x $contains$ '#'")


@pytest.mark.parametrize(
    ("xql", "isl"),
    [("$all$ x $lt$ 5", "(($not$ x) $or$ (x $lt$ 5))"), ("$any$ x $eq$ 8", "x $eq$ 8")],
)
def test_quantifiers_are_translated_as_in_the_text(xql: str, isl: str) -> None:
    assert isl_text(isl_of(parsed_query(xql))) == isl


# ---------------------------------------------------------------- traps


def verdicts(data: bytes, query: str) -> tuple[bool, bool, bool]:
    root, said = parsed_document(data), parsed_query(query)
    iel, isl = iel_of(root), isl_of(said)
    return xqlmatch(root, said), islmatch(iel, isl), spearmatch(sel_of(iel), ssl_of(isl))


@pytest.mark.parametrize(
    ("data", "query"),
    [
        # $all$ under $not$: by the paper's rule `not (not x or x < 5)`, and 3 is less than 5
        (b"<r><x>3</x><x>7</x></r>", "$not$ ($all$ r/x $lt$ 5)"),
        (b"<r><x>3</x><x>7</x></r>", "r[$not$ ($all$ x $lt$ 5)]"),
        # $all$ in a filter: the second element has no x at all
        (b"<r><a><x>7</x></a><a/></r>", "r/a[$all$ x $lt$ 5]"),
        # a filter with $not$: another element has what this one has not
        (b"<r><a><x>7</x></a><a/></r>", "r/a[$not$ x]"),
        # a # in a value or an operand
        (b"<r><x>a#b</x></r>", "r/x = 'a#b'"),
        (b"<r><x>a</x><x>b</x></r>", "$not$ r/x = 'a##b'"),
        (b"<r><x>a</x><x>b</x></r>", "r/@q or $not$ r/x $contains$ '#'"),
        # equality of numbers over texts, in whatever way they are written
        (b"<r><x>1050.0</x></r>", "r/x = 1050"),
        (b"<r><x>1050</x></r>", "r/x = 1050.0"),
        (b"<r><x>01050</x></r>", "r/x $le$ 1050"),
        (b"<r><x>1050.0</x></r>", "$not$ r/x = '1050'"),
        (b"<r><x>1050.0</x></r>", "r/x = '1050.0'"),
        # the text of an element that holds elements, and that it is there
        (b"<r><x><f>Mary</f><l>Bob</l></x></r>", "r/x = 'Mary Bob'"),
        (b"<r><x><f>8</f></x></r>", "r/x = 8"),
        (b"<r><x><f>Mary</f></x></r>", "r/x"),
        (b"<r><x/></r>", "r/x"),
        (b"<r><x/></r>", "r/x = ''"),
        (b"<r><x>a</x><x>b</x></r>", "$not$ r/x = ''"),
        # elements that have the names of extremes
        (b"<r><x>5</x><xmin>1</xmin></r>", "r/xmin = '1' $and$ r/x $gt$ 4"),
        (b"<r><x>5</x><xmin>abc</xmin></r>", "r/x $lt$ 6"),
        (b"<r><xmin>abc</xmin></r>", "$not$ r/x $lt$ 5 $and$ r/xmin = 'abc'"),
        # an element that has the name of the document's entry
        (b"<r/>", "r[$not$ Serialized]"),
        (b"<r><Serialized>x</Serialized></r>", "r/Serialized = 'x'"),
    ],
)
def test_no_event_is_lost(data: bytes, query: str) -> None:
    assert verdicts(data, query) == (True, True, True)


def test_values_are_told_apart() -> None:
    assert verdicts(b"<r><x>a</x><x>b</x></r>", "r/x = 'ab'") == (False, False, False)
    assert verdicts(b"<r><x>a#</x></r>", "r/x = 'a'") == (False, False, False)
    assert verdicts(b"<r><x>h</x></r>", "r/x $contains$ '#'") == (False, False, False)


def test_an_operator_of_a_user_is_kept_in_isl_and_becomes_true_or_false_in_ssl() -> None:
    operators = {"shorter": Operator("shorter", lambda left, right: len(left) < right)}
    said = isl_of(parsed_query("r/@x $shorter$ 3", operators))
    assert isl_text(said) == "r/@x $shorter$ 3"
    assert ssl_text(ssl_of(said)) == "true()"
    root = parsed_document(b"<r x='abcd'/>")
    assert not islmatch(iel_of(root), said, operators)
    negated = isl_of(parsed_query("$not$ r/@x $shorter$ 3", operators))
    assert spearmatch(sel_of(iel_of(root)), ssl_of(negated))
    assert NO_OPERATORS == {}
