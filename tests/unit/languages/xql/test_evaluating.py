"""XQL over documents: what the examples of the proposal leave open."""

from collections.abc import Mapping

import pytest

from godwit.errors import FilterError, QueryTooCostly
from godwit.languages import Operator, Subject, parse_query
from godwit.languages.operators import NO_OPERATORS
from godwit.languages.xml_documents import parsed_document, xml_event
from godwit.languages.xql.evaluating import Evaluation, Place, is_true
from godwit.languages.xql.nodes import Document, node_string
from godwit.languages.xql.parsing import parsed_query

DOCUMENT = b"""<?before x?><!-- first -->
<r kind='top'>
  <x n='1'><y>1</y><y>2</y><z>Abc</z></x>
  <x n='2'><y>3</y><y>2.50</y><y/><x n='3'><y>7</y></x></x>
  <d>1998-05-01</d><p>some <b>bold</b><!-- note --> text</p><?do it?>
</r>"""


def found(query: str, operators: Mapping[str, Operator] = NO_OPERATORS) -> object:
    document = Document(parsed_document(DOCUMENT))
    result = Evaluation(document, operators).result(parsed_query(query, operators), Place(document))
    if isinstance(result, bool):
        return result
    return [item if isinstance(item, str | int | float) else node_string(item) for item in result]


@pytest.mark.parametrize(
    ("query", "items"),
    [
        ("r/x/y[0]", ["1", "3"]),
        ("(r/x/y)[0]", ["1"]),
        ("(//y)[-1]", ["7"]),
        ("//y[-1]", ["2", "", "7"]),
        ("r/x[0]/y[0 $to$ 1]", ["1", "2"]),
        ("r/x[1]/y[-2 $to$ -1]", ["2.50", ""]),
        ("//x//y", ["1", "2", "3", "2.50", "", "7"]),
        ("//y[. $ge$ 3]", ["3", "7"]),
        ("//y[. = 2.5]", ["2.50"]),
        ("//y[. = '2.5']", []),
        ("//y[. $ne$ 1]", ["2", "3", "2.50", "7"]),  # what cannot be cast meets no comparison
        ("//y[. $ne$ '1']", ["2", "3", "2.50", "", "7"]),
        ("r/x/z[. $ieq$ 'ABC']", ["Abc"]),
        ("r/x/z[. $ilt$ 'abd']", ["Abc"]),
        ("r/x/z[. $startsw$ 'A' and . $endsw$ 'c' and . $contains$ 'b']", ["Abc"]),
        ("r/x[@n = 2]/@n", ["2"]),
        ("r/p/textNode()", ["some", "text"]),
        ("r/p/node()", ["some", "bold", "note", "text"]),
        ("r/p/comment()", ["note"]),
        ("comment()", ["first"]),
        ("r/pi()", ["it"]),
        ("r/pi('do')", ["it"]),
        ("r/element('d')", ["1998-05-01"]),
        ("r/attribute('kind')", ["top"]),
        ("r/p", ["some bold text"]),
        ("r/d[. < date('1999-01-01')]", ["1998-05-01"]),
        ("r/z[. < date('1999-01-01')]", []),
        ("r/x/ancestor(r)/@kind", ["top"]),
        ("//y/ancestor(x/x)/@n", ["3"]),
        ("r/x!count()", [2]),
        ("count(//y)", [6]),
        ("//d!nodeTypeString()", ["element"]),
        ("r/@kind!nodeName()", ["kind"]),
        ("r/x[index() = 1]/@n", ["2"]),
        ("r/x[end()]/@n", ["2"]),
        ("r/x[0] $union$ r/d $union$ r/x[0]", ["1 2 Abc", "1998-05-01"]),
        ("//y $intersect$ r/x/y[. > 2]", ["3", "2.50"]),
        ("r/x[y = /r/x/y[. = 3]]/@n", ["2"]),
        ("r/x[3 = y]/@n", ["2"]),
        ("number(r/x/y)", [1, 2, 3, 2.5]),
        ("true()", True),
        ("$all$ r/nothing = 3", True),
        ("$all$ //y $lt$ 10", False),
        ("$all$ r/x/@n $lt$ 3", True),
        ("$not$ r/q", True),
    ],
)
def test_what_a_query_finds(query: str, items: object) -> None:
    assert found(query) == items


def test_an_operator_of_a_user_is_an_infix_or_a_function() -> None:
    operators = {"same_length": Operator("same_length", lambda left, right: len(left) == len(right))}
    assert found("r/x/z[. $same_length$ 'xyz']", operators) == ["Abc"]
    assert found("r/x/z[same_length(., 'xyz')]", operators) == ["Abc"]
    assert found("r/x/z[. same_length 'xy']", operators) == []


def test_an_operator_that_raises_fails_the_test_and_says_why() -> None:
    operators = {"bad": Operator("bad", lambda left, right: 1 / 0)}
    with pytest.raises(FilterError, match="the operator 'bad' failed: ZeroDivisionError"):
        found("r/x/z[. $bad$ 'xyz']", operators)


@pytest.mark.parametrize("query", ["//*//*//*[x]", "//*[//*[//*]]", "//*[$all$ //y = //y]", "//c/ancestor(//x)"])
def test_the_steps_of_a_test_are_bounded(query: str) -> None:
    event = xml_event(b"<a>" + (b"<b>" * 20 + b"<c>x</c>" + b"</b>" * 20) * 200 + b"</a>")
    wanted = parse_query(query, "xql")
    with pytest.raises(QueryTooCostly):
        wanted.wants(Subject(event, steps_max=20_000))


def test_what_is_no_document_is_not_wanted() -> None:
    wanted = parse_query("$not$ a", "xql")
    assert wanted.matches(xml_event(b"<b/>"))
    assert not wanted.matches(xml_event(b"<a/>"))
    assert not wanted.wants(Subject(xml_event(b"<b/>", content_type="text/plain")))


def test_a_result_is_true_when_it_is_not_empty() -> None:
    assert is_true([0])
    assert not is_true([])
    assert not is_true(False)
