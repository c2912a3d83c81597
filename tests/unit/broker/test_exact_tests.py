"""Exact tests of a session: bound when they are asked for, once for each context."""

from godwit.broker.exact_tests import ExactTests
from godwit.filters import Filter, bind, parse
from godwit.filters.events import Attributes


class Binding:
    """Binds, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def why_not(self, filter: Filter) -> str | None:
        return None

    def exact(self, filter: Filter, context: Attributes) -> Filter:
        self.count += 1
        return bind(filter, context)


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
