"""What a filter takes in memory: not less than is measured, and the sum of changes is that of the entries."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Heard, Opened
from godwit.broker.messages import Attach, Request, Subscribe
from godwit.filters import parse
from godwit.filters.memory_sizes import ENTRY_BYTES, EntrySizes, memory_size, text_size
from godwit.mobility import mobile_broker

COUNT = 20


def any_of(count: int, form: str, salt: int) -> str:
    return " OR ".join(form.format(i=i, j=i + 1_000 * salt) for i in range(count))


KINDS: dict[str, Callable[[int], str]] = {
    "intervals": lambda salt: any_of(60, "(a{i} > {j} AND b{i} < {j})", salt),
    "equalities": lambda salt: any_of(120, "a{i} = {j}", salt),
    "numbers": lambda salt: f"a IN ({', '.join(str(i * 1_000 + salt) for i in range(1_000))})",
    "texts": lambda salt: f"a IN ({', '.join(repr(f't{i * 1_000 + salt}') for i in range(500))})",
    "long text": lambda salt: f"a = '{'x' * 20_000}{salt}'",
    "long text, not of ASCII": lambda salt: f"a = '{'x' * 10_000}\N{BEAR FACE}{salt}'",
    "prefix": lambda salt: f"a LIKE '{'x' * 10_000}{salt}%'",
    "pattern": lambda salt: f"a LIKE '%{'xy_' * 300}{salt}%'",
    "simple": lambda salt: f"kind = 'parking' AND n = {salt}",
    "own context": lambda salt: any_of(60, "a{i} = my.p", salt).replace("a0", f"a{salt}x"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_filters_take_no_more_than_is_counted(kind: str) -> None:
    """As measured in a broker with a neighbour, with its tables, and without the filters' texts."""
    broker = mobile_broker("b1", {"b2": 1.0}, BrokerConfig())
    for input in (Opened("c"), Heard("c", Attach("c"))):
        broker.handle(input, 0.0)
    text = KINDS[kind]
    parse(text(0))  # what is made once
    counted = 0
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for n in range(1, COUNT + 1):
            filter = parse(text(n))
            counted += ENTRY_BYTES + memory_size(filter)
            broker.handle(Heard("c", Request(n, Subscribe(("c", f"s{n}"), filter))), 0.0)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert broker.sessions.quotas.filters.bytes >= counted
    assert taken <= 1.25 * counted
    assert counted <= 5 * taken


def test_each_character_of_a_text_counts() -> None:
    assert text_size("abc") == 3
    assert text_size("abc\N{BEAR FACE}") == 16
    short, long = parse("a = 'x'"), parse(f"a = '{'x' * 1_000}'")
    assert memory_size(long) - memory_size(short) >= 999
    assert memory_size(parse(f"{'a' * 100} = 1")) - memory_size(parse("a = 1")) == 99


def test_the_sum_of_changes_is_that_of_the_entries() -> None:
    sizes, one, other = EntrySizes(), parse("a = 1"), parse("b IN (1, 2, 3) OR c LIKE '%x_y%'")
    sizes.change(None, one)
    sizes.change(one, other)
    assert sizes.bytes == ENTRY_BYTES + memory_size(other) == EntrySizes([other]).bytes
    sizes.change(other, None)
    assert sizes.bytes == 0
