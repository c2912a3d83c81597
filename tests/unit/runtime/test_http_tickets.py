"""Tickets for streams of events: for whom, for how long, how often, and how many."""

import pytest

from godwit.errors import NotAdmitted
from godwit.runtime.authentication import Principal
from godwit.runtime.http_requests import Problem
from godwit.runtime.http_tickets import SPENT_MAX, TICKET_S, TICKETS_MAX, TICKETS_PER_USER_MAX, Tickets, is_ticket


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def refused(tickets: Tickets, text: str, *, is_local: bool = True) -> str:
    with pytest.raises(NotAdmitted) as said:
        tickets.redeem(text, is_local=is_local)
    assert said.value.cause == "ticket"
    assert text not in str(said.value)
    return str(said.value)


def test_a_ticket_stands_for_who_asked_for_it_and_is_taken_once() -> None:
    tickets, ann, bob = Tickets("/events/ticket", "stream", Clock()), Principal("ann"), Principal("bob")
    for_ann, for_bob = tickets.issue(ann), tickets.issue(bob)
    assert tickets.redeem(for_bob, is_local=False) is bob
    assert tickets.redeem(for_ann, is_local=False) is ann
    assert "was used already" in refused(tickets, for_ann)
    assert "unknown" in refused(tickets, for_ann[:-1] + "\udc80")


def test_a_ticket_lasts_for_its_time_and_not_longer() -> None:
    clock = Clock()
    tickets = Tickets("/events/ticket", "stream", clock)
    early, late = tickets.issue(Principal("ann")), tickets.issue(Principal("ann"))
    clock.now += TICKET_S - 1
    tickets.redeem(early, is_local=True)
    clock.now += 1
    assert "has expired: it is valid for 30 s" in refused(tickets, late)
    assert "was used already" in refused(tickets, early)


def test_a_ticket_ends_with_its_user_and_its_token() -> None:
    tickets, ann = Tickets("/events/ticket", "stream", Clock()), Principal("ann")
    of_ann, of_old_token = tickets.issue(ann), tickets.issue(Principal("bob", until=1.0))
    ann.end("your password is no longer valid")
    assert "your password is no longer valid" in refused(tickets, of_ann)
    assert "token" in refused(tickets, of_old_token)


def test_a_ticket_without_a_user_counts_on_this_machine_alone() -> None:
    tickets, nobody = Tickets("/events/ticket", "stream", Clock()), Principal()
    assert tickets.redeem(tickets.issue(nobody), is_local=True) is nobody
    text = tickets.issue(nobody)
    assert "own machine" in refused(tickets, text, is_local=False)
    assert "was used already" in refused(tickets, text)


def test_neither_one_user_nor_all_together_have_too_many() -> None:
    clock = Clock()
    tickets = Tickets("/events/ticket", "stream", clock)
    texts = [tickets.issue(Principal("ann")) for _ in range(TICKETS_PER_USER_MAX)]
    with pytest.raises(Problem) as said:
        tickets.issue(Principal("ann"))
    assert (said.value.status, said.value.cause) == (429, "limit")
    tickets.redeem(texts[0], is_local=True)
    tickets.issue(Principal("ann"))
    for number in range(TICKETS_MAX - TICKETS_PER_USER_MAX):
        tickets.issue(Principal(f"user {number}"))
    with pytest.raises(Problem) as said:
        tickets.issue(Principal("bob"))
    assert said.value.status == 503
    clock.now += TICKET_S
    assert tickets.redeem(tickets.issue(Principal("bob")), is_local=True).user == "bob"
    assert SPENT_MAX <= TICKETS_MAX
    assert "unknown" in refused(tickets, texts[0])  # it was so long ago that nobody remembers


def test_a_ticket_is_told_from_a_token() -> None:
    tickets = Tickets("/ws/ticket", "WebSocket", Clock())
    assert is_ticket(tickets.issue(Principal("ann")))
    assert not is_ticket("eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl")
    assert not is_ticket("")
    assert "POST /ws/ticket gives one" in refused(tickets, "ticket-of-nobody")
