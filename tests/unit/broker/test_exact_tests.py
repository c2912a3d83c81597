"""Exact tests of a session: bound when they are asked for, once for each context."""

from godwit.broker.exact_tests import OPEN_SETS_MAX, ExactTests
from godwit.broker.messages import Context, Publish, Subscribe
from godwit.filters import Filter, ValueSet, bind, event, parse
from godwit.filters.events import Attributes
from godwit.filters.references import OpenSet, sets_made
from godwit.filters.values import Value
from tests.unit.broker.test_user_quotas import Edge


class Binding:
    """Binds, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def why_not(self, filter: Filter) -> str | None:
        return None

    def exact(self, filter: Filter, context: Attributes) -> Filter:
        self.count += 1
        return bind(filter, context)

    def made(self, waiting: OpenSet, context: Attributes) -> list[ValueSet]:
        self.count += 1
        return sets_made(waiting, context)


def test_a_change_of_context_binds_nothing_until_somebody_asks() -> None:
    binding, tests = Binding(), ExactTests()
    for number in range(100):
        tests.put(f"s{number}", parse("a = my.x"), binding, {})
    for x in range(20):
        tests.rebind(binding, {"x": x})
    assert binding.count == 0
    assert tests["s7"] == parse("a = 19")
    assert tests["s7"] == parse("a = 19")
    assert binding.count == 1


def test_a_test_follows_its_filter_and_the_context() -> None:
    binding, tests = Binding(), ExactTests()
    other = parse("b = 1")
    assert not tests
    assert tests.get("s", other) is other
    tests.put("s", parse("a = my.x"), binding, {"x": 1})
    assert tests.get("s") == parse("a = 1")
    tests.put("s", parse("a > my.x"), binding, {"x": 1})
    assert tests.get("s") == parse("a > 1")
    tests.rebind(binding, {"x": 2})
    assert tests["s"] == parse("a > 2")
    assert (list(tests), len(tests), "s" in tests) == (["s"], 1, True)
    tests.remove("s")
    tests.remove("s")
    assert "s" not in tests
    assert tests.get("s") is None


def test_an_event_binds_only_what_it_asks_for_and_once_for_equal_references() -> None:
    binding, tests = Binding(), ExactTests()
    for number in range(30):
        literals = [f"a{n} > my.x" for n in range(100)] + [f"n = {number}"]
        tests.put(f"s{number}", parse(" OR ".join(literals)), binding, {"x": 1})
    for x in range(20):
        tests.rebind(binding, {"x": x})
        assert not any(tests.matches(name, event({"b": 100})) for name in tests)
        assert binding.count == x
        assert all(tests.matches(name, event({"a7": x + 1})) for name in tests)
        assert not any(tests.matches(name, event({"a7": x})) for name in tests)
        assert binding.count == x + 1


def wide(client: str, name: str) -> Subscribe:
    """A hundred literals on the client's own context."""
    return Subscribe((client, name), parse(" OR ".join(f"a{n} LIKE my.x" for n in range(100))))


def test_the_open_literals_of_one_session_are_bounded() -> None:
    edge = Edge()
    edge.come("ann")
    for n in range(OPEN_SETS_MAX // 100):
        assert edge.ask("ann", wide("ann", str(n))) == ""
    reason = edge.ask("ann", wide("ann", "more"))
    assert f"at most {OPEN_SETS_MAX} are allowed in one session" in reason
    assert edge.ask("ann", wide("ann", "0")) == ""  # in the place of as many
    assert edge.ask("ann", Context({"x": "%a%b%"})) == ""
    assert f"at most {OPEN_SETS_MAX}" in edge.ask("ann", Context({"x": ("%a%b%", "%c%d%")}))
    session = edge.broker.sessions.session("ann")
    assert session is not None
    assert session.context == Context({"x": "%a%b%"})


def test_beyond_the_bound_a_context_that_comes_with_its_client_matches_nothing() -> None:
    edge = Edge()
    edge.come("p")
    edge.come("ann")
    for n in range(OPEN_SETS_MAX // 100):
        assert edge.ask("ann", wide("ann", str(n))) == ""
    session = edge.broker.sessions.session("ann")
    assert session is not None
    contexts: tuple[tuple[Value | tuple[Value, ...], int], ...] = ((("%a%b%", "%c%d%"), 0), ("%a%b%", 1))
    for number, (x, count) in enumerate(contexts, 1):
        edge.go("ann")
        session.adopt_context(Context({"x": x}), {}, edge.broker.sessions.binding, edge.now)
        edge.come("ann")
        before = session.queue.taken
        edge.ask("p", Publish(event({"a0": "-a-b-"}, publisher="p", sequence=number)))
        assert session.queue.taken - before == count
