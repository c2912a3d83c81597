"""The parser of filters, which is written by hand, reads what the grammar of the page says, and refuses the rest.

A text is refused at the word where the grammar refuses it, or further left if it means nothing there.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from godwit.errors import FilterSyntaxError
from godwit.filters.language import parse
from tests.property.page_grammar import refused_at
from tests.property.strategies import many

NAMES = [
    "x",
    "price",
    "User/@id",
    "@id",
    "my.x",
    "sender.y",
    "other.z",
    "myloc",
    "straße",
    "²",
    '"q"',
    'my."a b"',
    '""',
]
NAMES += ["u", "my", "sender.", "timestamp", "Matches", 'U&"\\0041"', 'my.u&"z', 'sender."s']
NUMBERS = ["5", "-5", "+1.5", ".5", "5.", "1e3", "-1e-3", "1e999"]
TEXTS = ["'a'", "''", "'it''s'", "'%b_'", "U&'\\0041'", "u&'\\zz'", "'two\nlines'", "'2026-11-15T06:00:00Z'", "'x''"]
OPS = ["=", "<>", "!=", "<", "<=", ">", ">=", "=="]
KEYWORDS = [
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "IN",
    "LIKE",
    "ESCAPE",
    "WITHIN",
    "IS",
    "NULL",
    "TRUE",
    "FALSE",
    "ANY",
    "ALL",
]
CALLS = ["circle(8, 47, 500)", "polygon((8 47, 9 47, 8 48))", "point(1, 2)", "places('a')", "myloc(2)", "f(", "box()"]
STRANGE = ["&", "|", "!", "~", "\0", "\ud800", "*", "/", "+", "-", ".", '"', "'", "\xa0", "٣", "\v"]

OPERANDS = [*NAMES[:6], *NUMBERS[:4], *TEXTS[:4], "TRUE", *CALLS[:5]]
WORDS = [*NAMES, *NUMBERS, *TEXTS, *OPS, *KEYWORDS, *map(str.lower, KEYWORDS), *CALLS, *"(),", *STRANGE]

operands = st.sampled_from(OPERANDS)
denials = st.sampled_from(["", " NOT"])
lists = st.lists(operands, max_size=3).map(", ".join)
comparisons = st.one_of(
    operands,
    st.tuples(operands, st.sampled_from(OPS), operands).map(" ".join),
    st.tuples(operands, st.sampled_from("<>"), operands, st.sampled_from(OPS), operands).map("".join),
    st.tuples(operands, denials, operands, operands).map("{0[0]}{0[1]} BETWEEN {0[2]} AND {0[3]}".format),
    st.tuples(operands, denials, lists).map("{0[0]}{0[1]} IN ({0[2]})".format),
    st.tuples(operands, operands, st.sampled_from(["", " ESCAPE '!'"])).map("{0[0]} LIKE {0[1]}{0[2]}".format),
    st.tuples(operands, operands).map("WITHIN ({0[0]}, {0[1]})".format),
    st.tuples(operands, st.sampled_from(["NULL", "NOT NULL", "TEXT", "not time", "RED"])).map(" IS ".join),
)  # fmt: skip
conditions = st.recursive(
    st.tuples(st.sampled_from(["", "", "ANY ", "ALL NOT "]), comparisons).map("".join),
    lambda inner: st.one_of(
        inner.map("NOT {}".format),
        inner.map("({})".format),
        st.tuples(inner, st.sampled_from([" AND ", " OR ", "\nor "]), inner).map("".join),
    ),
    max_leaves=4,
)


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A condition with some of its words replaced, left out or put in."""
    words = draw(conditions).split(" ")
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.integers(0, len(words)))
        words[place : place + draw(st.integers(0, 1))] = draw(st.lists(st.sampled_from(WORDS), max_size=1))
    return " ".join(words)


texts = st.one_of(conditions, broken(), st.lists(st.sampled_from(WORDS), max_size=10).map(" ".join))

SYNTAX = (  # messages about the grammar
    "has no place here",
    "the filter ends too early",
    "the filter is empty",
    "write ",
    "the character ",
    "begins here",
)


def disagreement(text: str) -> str | None:
    """Where the parser and the grammar differ."""
    refused = refused_at(text)
    try:
        parse(text)
    except FilterSyntaxError as error:
        lines = text.split("\n")
        offset = sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1
        is_syntax = any(words in error.message for words in SYNTAX)
        if refused is None:
            return f"refused: {error}" if is_syntax else None
        if offset > refused or (is_syntax and offset != refused):
            return f"refused at {offset} in place of {refused}: {error}"
        return None
    return None if refused is None else f"read, and the grammar refuses it at {refused}"


@many(25)
@given(texts)
@example("x IS NOT ")
@example("5) AND x")
@example("x MATCHES 'a'")
@example("x = u&'a' AND my.\"b\" < 3")
def test_the_parser_and_the_grammar_of_the_page_agree(text: str) -> None:
    assert disagreement(text) is None


def test_a_disagreement_is_found() -> None:
    assert refused_at("x = 5 AND") == 9
    assert refused_at("x = = 5") == 4
    assert refused_at("x = #") == 4
    assert refused_at("5 < 6") is None
