"""PADRES text: publications and filters, what is refused, and that the real files are understood to the last line."""

import bz2
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import BadEvent, FilterError
from godwit.filters import parse
from godwit.filters.events import values_of
from godwit.pipeline.padres import OPERATORS, filter_of, is_filter, publication
from tests.conventions.repository import ROOT

DATA = ROOT.parent / "shared" / "data" / "events" / "padres"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not here")

NAMES = st.text("abcXYZ_09-", min_size=1, max_size=8)
TEXTS = st.text(st.characters(exclude_characters="'", codec="utf-8"), max_size=12)
NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)


def test_a_publication_is_its_pairs() -> None:
    assert publication("[class,'STOCK'],[symbol,'AAPL'],[open,63.30],[volume,10924200],[date,'28-Dec-04']") == {
        "class": "STOCK",
        "symbol": "AAPL",
        "open": 63.3,
        "volume": 10924200,
        "date": "28-Dec-04",
    }


@pytest.mark.parametrize(
    ("line", "attributes"),
    [
        ("p [class,stock],[price,10]", {"class": "stock", "price": 10}),
        ("publish [class,'stock'], [price, 1e3]", {"class": "stock", "price": 1000.0}),
        ("[spec,'[class,eq,stock],[price,<,123.45]']", {"spec": "[class,eq,stock],[price,<,123.45]"}),
        ("[a,''],[b,\"it's\"],[c,'7']", {"a": "", "b": "it's", "c": "7"}),
        ("[zip,1050],[zip,5473],[zip,1]", {"zip": (1050, 5473, 1)}),
        ("[n,-5],[t,-],[d,1.5.2]", {"n": -5, "t": "-", "d": "1.5.2"}),
        ("[n,0],[zip,01050],[f,0.5]", {"n": 0, "zip": "01050", "f": 0.5}),
    ],
)
def test_what_else_a_publication_may_hold(line: str, attributes: dict[str, object]) -> None:
    assert publication(line) == attributes


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("", "character 1: the line ends where"),
        ("price = 3", "character 1: 'price = 3' where"),
        ("[class,'STOCK'],", "character 17: the line ends where"),
        ("[class,'STOCK'][a,1]", "character 16: '\\[a,1\\]' where the end of the line"),
        ("[class,'STOCK],[a,1]", "character 1: "),
        ("[class,eq,'STOCK']", "character 1: "),
        ("[a,1e999]", "'a': inf is not a finite number"),
        ("[a,99999999999999999999]", "beyond 64 bits"),
        (f"[a,{'9' * 5_000}]", "'a': inf is not a finite number"),
    ],
)
def test_a_bad_publication_says_where(line: str, place: str) -> None:
    with pytest.raises(BadEvent, match=place):
        publication(line)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("[class,eq,'STOCK'],[high,>,20.5]", "class = 'STOCK' AND high > 20.5"),
        ("s [class,eq,stock],[price,<=,3],[price,>=,1]", "class = 'stock' AND price <= 3 AND price >= 1"),
        ("[low,=,50],[x,<,'m']", "low = 50 AND x < 'm'"),
        ("[a,neq,'x'],[b,<>,3]", "a <> 'x' AND b <> 3"),
        ("a [amount,isPresent,10],[b,ispresent,'any']", "amount IS NOT NULL AND b IS NOT NULL"),
        ("[a,str-prefix,'x'],[b,str-suffix,'y']", "a LIKE 'x%' AND b LIKE '%y'"),
        ("[a,str-contains,'%'],[b,str-contain,'y']", "a LIKE '%\\%%' AND b LIKE '%y%'"),
    ],
)
def test_a_filter_means_what_ours_means(line: str, text: str) -> None:
    assert filter_of(line) == parse(text)
    assert is_filter(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[a,~,3]", r"character 1: '~' is not an operator: allowed are eq, =, .*isPresent"),
        ("[a,=,1],[b,3]", "character 9: "),
        ("[a,str-prefix,3]", "3 is not a text"),
        ("[a,<,1e999]", "not a finite number"),
        (f"[a,<,{'9' * 5_000}]", "not a finite number"),
        ("price < 3", "character 1"),
    ],
)
def test_a_bad_filter_says_where(line: str, said: str) -> None:
    with pytest.raises(FilterError, match=said):
        filter_of(line)


@pytest.mark.parametrize("line", ["[class,'STOCK']", '{"id": 1, "filter": "a = 1"}', "", "price < 3"])
def test_what_is_no_filter_does_not_look_like_one(line: str) -> None:
    assert not is_filter(line)


@given(st.lists(st.tuples(NAMES, TEXTS | NUMBERS), min_size=1, max_size=6))
def test_what_is_written_is_read(pairs: list[tuple[str, str | int | float]]) -> None:
    line = ",".join(f"[{name},'{value}']" if isinstance(value, str) else f"[{name},{value}]" for name, value in pairs)
    found = publication(line)
    assert [value for name in dict.fromkeys(name for name, _ in pairs) for value in values_of(found[name])] == [
        value for name in dict.fromkeys(name for name, _ in pairs) for other, value in pairs if other == name
    ]


@given(st.text(max_size=30) | st.text("[],'\"aps 1.<>=", max_size=30))
def test_any_line_is_read_or_refused_with_our_own_word(line: str) -> None:
    for read, fault in ((publication, BadEvent), (filter_of, FilterError)):
        with suppress(fault):
            read(line)


def test_every_operator_is_tried_above() -> None:
    assert set(OPERATORS) == {
        *("eq", "=", "neq", "<>", "<", "<=", ">", ">=", "ispresent"),
        *("str-prefix", "str-suffix", "str-contains", "str-contain"),
    }


@needs_data
def test_every_real_filter_is_understood() -> None:
    lines = [
        line
        for path in sorted((DATA / "scout").glob("*.txt"))
        for line in path.read_text().splitlines()
        if line.strip()
    ]
    assert len([filter_of(line) for line in lines]) > 10_000


@needs_data
def test_every_hundredth_real_quote_is_understood() -> None:
    with bz2.open(DATA / "stockquotes.txt.bz2", "rt") as lines:
        found = [publication(line) for number, line in enumerate(lines) if number % 100 == 0]
    assert len(found) == 2_452
    assert {tuple(each) for each in found} == {("class", "symbol", "open", "high", "low", "close", "volume", "date")}
