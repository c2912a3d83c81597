"""A client's subscriptions on its disk: they are there when they must be, and a bad file is refused and left alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from godwit.broker.messages import QueueRules
from godwit.errors import StoreError
from godwit.runtime.subscription_store import FORMAT, StoredSubscription, SubscriptionStore

FULL = StoredSubscription("a", "xql", "//a[b = 'ß']", "battery > 20", 9e9, QueueRules(count_max=3), "team", True)
PLAIN = StoredSubscription("b", "filter", "n > 1")


def rows(path: Path, client: str = "ann") -> list[tuple[int, StoredSubscription]]:
    """What the next process of a client finds."""
    with closing(SubscriptionStore(path, client)) as store:
        return list(store.newest())


def test_every_field_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "ann.store"
    with closing(SubscriptionStore(path, "ann")) as store:
        assert [store.put(FULL), store.put(PLAIN)] == [1, 2]
    assert rows(path) == [(1, FULL), (2, PLAIN)]
    assert path.stat().st_mode & 0o077 == 0


def test_a_row_is_in_the_file_when_put_returns(tmp_path: Path) -> None:
    path = tmp_path / "ann.store"
    with closing(SubscriptionStore(path, "ann")) as store:
        store.put(PLAIN)
        copy = tmp_path / "copy"
        copy.write_bytes(path.read_bytes())
        assert rows(copy) == [(1, PLAIN)]


def test_the_row_before_stays_until_a_broker_has_accepted_another(tmp_path: Path) -> None:
    other = StoredSubscription("b", "filter", "n > 2")
    with closing(SubscriptionStore(tmp_path / "s", "ann")) as store:
        first, second = store.put(PLAIN), store.put(other)
        assert store.refuse("b", second) == (first, PLAIN)
        third = store.put(other)
        store.accept("b", third)
        assert store.refuse("b", third) is None
        assert list(store.newest()) == []


def test_one_that_is_accepted_while_a_later_one_is_under_way_takes_nothing_away(tmp_path: Path) -> None:
    with closing(SubscriptionStore(tmp_path / "s", "ann")) as store:
        numbers = [store.put(PLAIN) for _ in range(3)]
        store.accept("b", numbers[1])
        assert store.refuse("b", numbers[2]) == (numbers[1], PLAIN)
        store.accept("b", numbers[1])
        assert store.refuse("b", numbers[1]) is None


def test_retained_events_are_asked_for_until_a_broker_has_accepted_that(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with closing(SubscriptionStore(path, "ann")) as store:
        store.put(FULL)
    assert [row.retained for _, row in rows(path)] == [True]
    with closing(SubscriptionStore(path, "ann")) as store:
        store.accept("a", 1)
    assert [row.retained for _, row in rows(path)] == [False]


def test_the_end_of_a_subscription_leaves_one_that_was_put_since(tmp_path: Path) -> None:
    with closing(SubscriptionStore(tmp_path / "s", "ann")) as store:
        ended = store.put(PLAIN)
        store.end("b")
        again = store.put(PLAIN)
        assert again > ended
        store.end("b", up_to=ended)
        assert [number for number, _ in store.newest()] == [again]
        store.clear()
        assert list(store.newest()) == []


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with closing(SubscriptionStore(path, "ann")) as store:
        store.put(PLAIN)
        with pytest.raises(StoreError, match="in use by another client"):
            SubscriptionStore(path, "ann")
        store.put(FULL)
    assert len(rows(path)) == 2


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(statement)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ann.store"
    with closing(SubscriptionStore(path, "ann")) as store:
        store.put(PLAIN)
    return path


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE about SET value = 7 WHERE name = 'format'", f"a store of format 7, and this version reads {FORMAT}"),
        ("UPDATE about SET value = 'bob' WHERE name = 'client'", "the store of the client 'bob', not of 'ann'"),
        ("UPDATE about SET value = 'x' WHERE name = 'what'", "it has no description"),
        ("DROP TABLE about", "it has no description"),
        ("UPDATE subscriptions SET record = replace(record, '> 1', '> 2')", "row 1 is not what was written"),
        ("UPDATE subscriptions SET checksum = 'x'", "row 1 is not what was written"),
    ],
)
def test_a_store_that_is_not_as_it_was_written_is_refused_and_left_alone(
    path: Path, statement: str, words: str
) -> None:
    change(path, statement)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=words) as caught:
        SubscriptionStore(path, "ann")
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"subscriptions = []", b"SQLite format 3\0" + b"\xff" * 5_000])
def test_a_file_that_is_something_else_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is not a store of subscriptions, or is damaged"):
        SubscriptionStore(path, "ann")
    assert path.read_bytes() == content


def test_a_damaged_page_is_refused_or_changes_nothing(path: Path) -> None:
    """Whichever byte is overwritten, the subscriptions that are read are those that were written."""
    whole = path.read_bytes()
    found = set()
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            assert rows(path) == [(1, PLAIN)]
            found.add("read")
        except StoreError:
            found.add("refused")
    assert found == {"read", "refused"}


@pytest.mark.parametrize("pages", [1, 2])
def test_a_file_that_was_cut_short_is_refused(path: Path, pages: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: pages * len(whole) // 3])
    with pytest.raises(StoreError, match="is damaged"):
        SubscriptionStore(path, "ann")


def test_a_place_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "s"):
        with pytest.raises(StoreError, match=f"{path} cannot be used"):
            SubscriptionStore(path, "ann")
