"""The books of `godwit team demo`: what is lost and what leaks is seen."""

import pytest

from godwit.cli.team.demo.books import Books
from tests.network.waiting import run


def test_what_comes_and_what_is_refused_is_counted() -> None:
    async def scene() -> None:
        books = Books()
        await books.due("a document", lambda: True)
        await books.due("a result", lambda: True, is_result=True)
        books.denied("a secret", lambda: False)
        account = books.closed()
        assert (account.found, account.delivered, account.refused, account.lost, account.leaked) == (1, 1, 1, 0, 0)
        assert account.is_clean

    run(scene())


def test_what_does_not_come_is_lost_and_what_comes_late_is_not() -> None:
    async def scene() -> None:
        came: list[str] = []
        books = Books()
        await books.due("the first", lambda: "first" in came, patience_s=0.01)
        await books.due("the second", lambda: "second" in came, patience_s=0.01)
        came.append("second")
        account = books.closed()
        assert (account.delivered, account.lost, account.faults) == (1, 1, ("lost: the first",))
        assert not account.is_clean

    run(scene())


@pytest.mark.parametrize("is_late", [False, True])
def test_what_somebody_sees_without_a_right_has_leaked(is_late: bool) -> None:
    seen = not is_late
    books = Books()
    books.denied("a secret", lambda: seen)
    seen = True
    account = books.closed()
    assert (account.refused, account.leaked, account.faults) == (0, 1, ("leaked: a secret",))
    assert not account.is_clean
