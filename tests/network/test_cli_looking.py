"""`godwit sessions`, `routes`, `trace` and `explain` against two brokers that answer HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from godwit.cli import explain_command, inspect_command
from tests.network.cli_broker import Apart, godwit, in_background, lines
from tests.network.http_broker import Running, start

Pair = tuple[Apart, Running, Running]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    apart = Apart()
    b2 = apart.do(start("b2", {"b1": None}))
    b1 = apart.do(start("b1", {"b2": b2.native}))
    machines = [b1.node.machine, b2.node.machine]
    apart.until(lambda: all(each.routing.is_settled() and each.links for each in machines))
    apart.until(lambda: all(link.open for each in machines for link in each.links.values()))
    try:
        yield apart, b1, b2
    finally:
        apart.do(b1.stop())
        apart.do(b2.stop())
        apart.end()


RECOMPUTED = "  (recomputed from the present tables)"


@pytest.fixture(scope="module")
def events(pair: Pair) -> dict[str, str]:
    """`ann` at b2 wants one of two events of `van` at b1, and is away."""
    apart, b1, b2 = pair
    at_1, at_2 = ["--broker", str(b1.native)], ["--broker", str(b2.native)]
    assert godwit("pub", "n=0", "--name", "van", *at_1).exit_code == 0  # from now on b1 has a publisher
    assert godwit("sub", "kind = 'parking' AND cost < 3", "--name", "ann", "-W", "0", *at_2).exit_code == 0
    apart.until(lambda: len(b1.node.machine.routing.matcher) >= 1)  # type: ignore[attr-defined]
    names = {}
    for name, cost in (("wanted", 2), ("dear", 5)):
        [line] = lines(godwit("pub", "kind=parking", f"cost={cost}", "--name", "van", *at_1).stdout)
        names[name] = line["event"]
    return names


def http(broker: Running) -> list[str]:
    return ["--http", str(broker.web)]


def test_sessions_are_listed_and_one_is_told_in_full(pair: Pair, events: dict[str, str]) -> None:
    ran = godwit("sessions", *http(pair[2]))
    assert ran.stderr == ""
    rows = lines(ran.stdout)
    assert [(row["client"], row["attached"], row["queued"]) for row in rows] == [("ann", False, 1)]
    [session] = lines(godwit("sessions", "ann", *http(pair[2])).stdout)
    assert session["subscribed"][0]["filter"] == "kind = 'parking' AND cost < 3"
    ran = godwit("sessions", "nobody", *http(pair[2]))
    assert (ran.exit_code, ran.stderr) == (2, "error: 'nobody' has no session at b2\n")


def test_routes_and_links_are_listed(pair: Pair, events: dict[str, str]) -> None:
    rows = lines(godwit("routes", *http(pair[1])).stdout)
    assert ("subscriptions", "b2", "kind = 'parking' AND cost < 3") in [
        (row["table"], row["from"], row["filter"]) for row in rows
    ]
    [link] = lines(godwit("routes", "--links", *http(pair[1])).stdout)
    assert (link["peer"], link["up"]) == ("b2", True)


def test_why_a_client_got_an_event_is_told_hop_by_hop(pair: Pair, events: dict[str, str]) -> None:
    ran = godwit("explain", events["wanted"], "ann", *http(pair[1]))
    assert ran.exit_code == 0
    first, second = lines(ran.stdout)
    assert (first["broker"], second["broker"]) == ("b1", "b2")
    assert "was forwarded to b2" in first["verdict"]
    assert "waits in the client's queue" in second["verdict"]


def test_why_a_client_did_not_get_an_event_is_told_down_to_the_literal(pair: Pair, events: dict[str, str]) -> None:
    ran = godwit("explain", events["dear"], "ann", *http(pair[1]))
    assert ran.exit_code == 1
    first, second = lines(ran.stdout)
    assert "it was sent to no other broker" in first["verdict"]
    assert second["subscriptions"][0]["fails"] == ["cost < 3"]  # though the event never came there


def test_a_broker_that_cannot_be_asked_is_a_hop_with_a_reason(
    pair: Pair, events: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pair[1].server.http_of, "b2", "http://127.0.0.1:1")
    _, second = lines(godwit("explain", events["wanted"], "ann", *http(pair[1])).stdout)
    assert (second["broker"], "connection refused" in second["error"]) == ("b2", True)


def test_what_happens_is_printed_as_it_happens(pair: Pair) -> None:
    b1 = pair[1]
    ended = in_background("trace", "--client", "car", "-C", "1", *http(b1))
    activity = b1.http.activity
    pair[0].until(lambda: bool(activity.listeners))
    godwit("pub", "n=1", "--name", "car", "--broker", str(b1.native))
    status, printed, _ = ended()
    assert status == 0
    [record] = lines(printed)
    assert (record["kind"], record["publisher"]) == ("published", "car")


def test_for_people_there_are_tables_and_a_tree(
    pair: Pair, events: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (inspect_command, explain_command):
        monkeypatch.setattr(module, "is_terminal", lambda: True)
    assert "away, until 20" in godwit("sessions", *http(pair[2])).stdout
    told = godwit("sessions", "ann", *http(pair[2])).stdout
    assert "kind = 'parking' AND cost < 3" in told
    assert "1 link\n" in godwit("routes", "--links", *http(pair[1])).stdout
    drawn = godwit("explain", events["dear"], "ann", *http(pair[1])).stdout
    assert drawn.startswith(f"✗ {events['dear']} did not reach ann{RECOMPUTED}\n├── b1  ")
    assert "fails  because of cost < 3" in drawn
    drawn = godwit("explain", "van:99", "ann", *http(pair[1])).stdout
    assert drawn.startswith("? van:99 is not recorded for ann\n")
    assert RECOMPUTED not in drawn
    assert godwit("explain", events["wanted"], "ann", *http(pair[1])).stdout.startswith("✓ ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["sessions", "--http", "127.0.0.1:1"],
            "connection refused\nStart a broker with `godwit serve`",
        ),
        (["routes", "--http", "ftp://x"], "is not an address of a broker's HTTP: it must be host:port"),
        (["explain", "van", "ann"], "'van' is not an event: it must be PUBLISHER:NUMBER"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: list[str], said: str) -> None:
    ran = godwit(*words)
    assert ran.exit_code == 2
    assert said in ran.stderr


def test_a_cell_shows_every_kind_of_value() -> None:
    values: list[tuple[str, Any, str]] = [
        ("x", None, ""),
        ("x", True, "yes"),
        ("x", 12_345, "12,345"),
        ("x", 0.5, "0.5"),
        ("x", ["a", 1], "a, 1"),
        ("x", [{}, {}], "2"),
        ("x", {"a": 1, "b": None}, "a=1"),
        ("x", "\x1b", "\\u001b"),
    ]
    for name, value, expected in values:
        assert inspect_command.shown(name, value) == expected, json.dumps(value)


def test_a_session_is_found_whatever_its_client_is_called(pair: Pair) -> None:
    _, b1, _ = pair
    for name in ("ann/7", "a b?c#d%2F"):
        assert godwit("ctx", "floor=2", "--name", name, "--broker", str(b1.native)).exit_code == 0
        [session] = lines(godwit("sessions", name, *http(b1)).stdout)
        assert session["client"] == name
