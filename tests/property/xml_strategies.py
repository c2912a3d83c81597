"""Random XML documents, and XQL queries that often find something in them."""

from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

from godwit.languages import Query, Subject
from godwit.languages.xml_documents import structure_of
from godwit.languages.xql.tree import (
    And,
    Applied,
    Attribute,
    Call,
    Compare,
    Current,
    Element,
    Expression,
    Filtered,
    Index,
    Intersect,
    Literal,
    Not,
    Or,
    Path,
    Step,
    Union,
)

NAMES = ["a", "b", "c"]
TEXTS = [
    "",
    "x",
    "X",
    "x y",
    " x  y ",
    "1",
    "1.0",
    "01",
    "2",
    " 2 ",
    "2.50",
    "-1",
    "1e1",
    "+1",
    "10",
    "#",
    "1#",
    "\u00a0",
]
NUMBERS = [0, 1, 2, 2.5, 10, -1, 12]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge", "ieq", "ine", "ilt", "ige", "contains", "startsw", "endsw"]


def documents(prefixes: bool = True) -> st.SearchStrategy[bytes]:
    """Documents of a few elements."""
    names = st.sampled_from([*NAMES, *NAMES, "n:a"] if prefixes else NAMES)
    attributes = st.dictionaries(
        st.sampled_from(["p", "q", *(["n:p"] if prefixes else [])]), st.sampled_from(TEXTS), max_size=2
    )
    leaves = st.builds(_element, names, attributes, st.lists(st.sampled_from(TEXTS).map(escape), max_size=1))
    inner = st.recursive(
        leaves,
        lambda below: st.builds(
            _element,
            names,
            attributes,
            st.lists(st.one_of(below, below, st.sampled_from(TEXTS).map(escape)), max_size=4),
        ),
        max_leaves=8,
    )
    return st.builds(
        lambda name, attributes, content: _element(name, {**attributes, "xmlns:n": "urn:n"}, content).encode(),
        names,
        attributes,
        st.lists(inner, max_size=4),
    )


def _element(name: str, attributes: dict[str, str], content: list[str]) -> str:
    return (
        f"<{name}{''.join(f' {key}={quoteattr(text)}' for key, text in attributes.items())}>{''.join(content)}</{name}>"
    )


def literals() -> st.SearchStrategy[Expression]:
    return st.one_of(st.sampled_from(TEXTS), st.sampled_from(NUMBERS)).map(Literal)


def queries(explicit: bool = False) -> st.SearchStrategy[Expression]:
    """Queries; `explicit` ones have no wildcards, no methods and no other operators than the paper's tables have."""
    elements = st.one_of(
        st.sampled_from(NAMES).map(Element),
        st.sampled_from(NAMES).map(Element),
        st.just(Element("a", "n")) if not explicit else st.nothing(),
        st.sampled_from([Element("*", "*"), Element("a", "*")]) if not explicit else st.nothing(),
    )
    ends = st.one_of(elements, elements, st.sampled_from([Attribute("p"), Attribute("q"), Current()]))
    if not explicit:
        ends = st.one_of(ends, st.sampled_from([Attribute("p", "n"), Attribute("*", "*"), Call("text")]))
    operators = st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "contains"] if explicit else COMPARISONS)

    def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        steps = st.lists(
            st.one_of(elements, st.builds(_filtered, elements, st.lists(inner, min_size=1, max_size=2))), max_size=2
        )
        descends = st.booleans() if not explicit else st.just(False)
        paths = st.builds(_path, st.booleans(), steps, ends, descends)
        compares = st.builds(Compare, operators, paths, literals(), st.booleans())
        choices = [
            paths,
            compares,
            compares,
            inner.map(Not),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
        ]
        if not explicit:
            choices += [
                st.builds(Compare, st.sampled_from(COMPARISONS[:6]), paths, paths, st.booleans()),
                st.builds(lambda left, right: Union((left, right)), paths, paths),
                st.builds(lambda left, right: Intersect((left, right)), paths, paths),
                st.builds(Compare, operators, paths.map(lambda of: Applied(of, Call("count"))), literals()),
                st.builds(Compare, operators, paths.map(lambda of: Applied(of, Call("text"))), literals()),
                st.builds(Compare, operators, literals(), paths),
                paths.map(lambda of: Filtered(of, (Index(((0, 0),)),))),
            ]
        return st.one_of(*choices)

    return st.recursive(elements, larger, max_leaves=6)


def _filtered(of: Expression, conditions: list[Expression]) -> Expression:
    return Filtered(of, tuple(conditions))


def _path(absolute: bool, steps: list[Expression], end: Expression, descends: bool) -> Expression:
    terms = [*steps, end]
    if len(terms) == 1 and not absolute:
        return end
    return Path(absolute, tuple(Step(term, descends and number == len(terms) - 1) for number, term in enumerate(terms)))


FEW_TEXTS = ["x", "1", "1.0", " x ", ""]


def small_documents() -> st.SearchStrategy[bytes]:
    """Documents of one shape, `a` with some `b` with some `c`, in which small queries find what they ask for."""
    texts = st.sampled_from(FEW_TEXTS)
    leaves = st.builds(lambda name, text: _element(name, {}, [text]), st.sampled_from(["b", "c", "c"]), texts)
    inner = st.builds(
        lambda attributes, leaves: _element("b", attributes, leaves),
        st.dictionaries(st.just("p"), texts, max_size=1),
        st.lists(leaves, max_size=2),
    )
    some = st.lists(st.one_of(inner, leaves, inner), min_size=1, max_size=3)
    return some.map(lambda content: _element("a", {}, content).encode())


def small_queries() -> st.SearchStrategy[Expression]:
    """Queries about such documents: conditions on `b`, negated and quantified."""
    ends: st.SearchStrategy[Expression] = st.sampled_from([Element("c"), Element("c"), Attribute("p"), Current()])
    values = st.sampled_from([*map(Literal, [*FEW_TEXTS, "1 1", "x x"]), *map(Literal, [1, 0, 11])])
    operators = st.sampled_from(["eq", "eq", "eq", "ne", "lt", "ge", "contains"])
    simple: st.SearchStrategy[Expression] = st.one_of(ends, st.builds(Compare, operators, ends, values, st.booleans()))
    conditions: st.SearchStrategy[Expression] = st.one_of(
        simple.map(Not), simple, st.builds(lambda left, right: And((left, Not(right))), simple, simple)
    )
    filtered = st.builds(lambda said: Filtered(Element("b"), (said,)), conditions)
    paths = st.builds(
        lambda step, end: _path(True, [Element("a"), step], end, False),
        st.one_of(filtered, st.just(Element("b"))),
        ends,
    )
    whole = filtered.map(lambda step: _path(True, [Element("a")], step, False))
    root = conditions.map(lambda said: Filtered(Element("a"), (said,)))
    tests = st.one_of(whole, whole, paths, root, st.builds(Compare, operators, paths, values, st.booleans()))
    return st.one_of(tests, tests, tests.map(Not))


def xpath_queries() -> st.SearchStrategy[str]:
    """XPath expressions about such documents."""
    ends = st.sampled_from(["c", "c", "b", "@p", ".", "c/text()", "text()", "*", "b/c"])
    values = st.sampled_from(["'x'", "'1'", "'1.0'", "' x '", "''", "1", "1.0", "0", "11", "0.5", "-1", "'x1'"])
    signs = st.sampled_from(["=", "=", "!=", "<", ">="])
    simple = st.one_of(
        ends,
        st.builds(lambda end, sign, value: f"{end} {sign} {value}", ends, signs, values),
        st.builds(lambda end, sign, value: f"{value} {sign} {end}", ends, signs, values),
        st.builds(
            lambda name, end, value: f"{name}({end}, {value})",
            st.sampled_from(["contains", "starts-with"]),
            ends,
            st.sampled_from(["'x'", "'1'", "' '", "''"]),
        ),
        st.builds(
            lambda name, end, sign, value: f"{name}({end}) {sign} {value}",
            st.sampled_from(["string", "normalize-space", "number", "count", "string-length"]),
            ends,
            signs,
            values,
        ),
        st.builds(lambda left, sign, right: f"{left} {sign} {right}", ends, signs, ends),
        st.sampled_from(["1", "last()", "position() = 2", "true()", "false()", "local-name() = 'b'", "count(c)"]),
    )
    conditions = st.recursive(
        simple,
        lambda inner: st.one_of(
            inner.map(lambda said: f"not({said})"),
            st.builds(
                lambda left, word, right: f"({left} {word} {right})", inner, st.sampled_from(["and", "or"]), inner
            ),
            inner.map(lambda said: f"c[{said}]"),
        ),
        max_leaves=3,
    )
    steps = st.one_of(
        st.sampled_from(["b", "*", "*[local-name() = 'b']"]), st.builds(lambda said: f"b[{said}]", conditions)
    )
    paths = st.builds(
        lambda start, step, sign, end: f"{start}{sign if start else '//'}{step}{f'/{end}' if end else ''}",
        st.sampled_from(["a", "/a", "a", "./a", "*", "m:a", "", "//b", "//m:a"]),
        steps,
        st.sampled_from(["/", "/", "/", "//", "//"]),
        st.one_of(st.just(""), ends),
    )
    root = conditions.map(lambda said: f"/a[{said}]")
    tests = st.one_of(
        paths,
        paths,
        root,
        st.builds(lambda path, sign, value: f"{path} {sign} {value}", paths, signs, values),
        st.builds(lambda left, right: f"{left} | {right}", paths, paths),
    )
    negated = tests.map(lambda said: f"not({said})")
    return st.one_of(tests, tests, negated).map(lambda said: f"declare namespace m = 'urn:n'; {said}")


def is_certain(query: Query, subject: Subject) -> bool:
    """Whether an event passes the filter of a query and needs no test."""
    known, structure = query.certainty(), structure_of(subject)
    assert structure is not None
    return (
        known is not None
        and query.routable.matches(subject.event)
        and structure.meets(known.assumptions)
        and (known.filter is None or known.filter.matches(subject.event))
    )


def decided(query: Query, subject: Subject) -> bool | None:
    """What filters say of a query under assumptions that the document meets; None: nothing."""
    known, structure = query.assumed_bounds(), structure_of(subject)
    assert structure is not None
    if known is None or not structure.meets(known.assumptions):
        return None
    if known.bounds.lower.matches(subject.event):
        return True
    return None if known.bounds.upper.matches(subject.event) else False
