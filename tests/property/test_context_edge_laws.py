"""Contexts at one border broker, against what anybody would say who saw all of it.

*The laws.*
1. A client gets an event if and only if one of its filters matches the event with the context of its publisher on it,
   in the client's own context when the event arrived, and the event's `to` matches that context.
2. What the server asserts is what every event says of its sender, whatever its publisher wrote.
3. When all is answered, a client and its broker mean the same context, however often the connection broke and whatever
   was refused.
"""

import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker import addressing
from godwit.filters.events import Attributes, event
from godwit.filters.filters import And, Filter, Or, Some
from godwit.filters.language import parse
from godwit.filters.references import bind, references_of
from godwit.filters.sets import NOTHING, Complement
from godwit.mobility.relocation import Relocation
from tests.property.strategies import many
from tests.unit.broker.context_edge import Edge

CLIENTS = ("p", "q", "r")
VALUES: list[Any] = [0, 1, 2, True, "m", (0, 2), (1, "m"), (True, 2)]
NAMES = ("x", "y", "role")
ASSERTED = ("role",)

CONTENT = [
    *("a = 1", "a >= my.x", "a IN (my.x, my.y)", "a IS NULL", "a IS NOT NULL", "NOT (a = my.x)", "a <> 1"),
    *("a BETWEEN my.x AND my.y", "sender.x = 1", "sender.role = 'm' OR a = 2", "NOT (sender.x = my.x)"),
    "a = my.role",
]
CONTEXT = [
    *("x = 1", "x = my.x", "role = 'm'", "role = my.role", "role IS NULL", "NOT (x = 1)", "y <= my.y", "x IS NOT NULL"),
    *("x = 1 OR y = 2", "NOT (role = my.role)", "nobody = 1", "y IN (0, my.x)"),
]
EVENTS: list[dict[str, Any]] = [{}, {"a": 0}, {"a": 1}, {"a": True}, {"a": "m"}, {"a": (0, 1)}, {"a": 2, "b": 1}]

contexts = st.dictionaries(st.sampled_from(NAMES[:2]), st.sampled_from(VALUES), max_size=2)
lies = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=2)
vouched = st.one_of(st.just({}), st.sampled_from(VALUES).map(lambda value: {"role": value}))
filters = st.lists(st.sampled_from(CONTENT), min_size=1, max_size=2).map(" AND ".join)
asked = st.one_of(st.none(), st.sampled_from(CONTEXT), st.sampled_from(CONTEXT).map(lambda text: f"NOT ({text})"))
who = st.sampled_from(CLIENTS)
steps = st.one_of(
    st.tuples(st.just("set"), who, st.sampled_from(["", "gps"]), lies),
    st.tuples(st.just("want"), who, st.sampled_from(["f", "g"]), filters, asked),
    st.tuples(st.just("end"), who, st.sampled_from(["f", "g"])),
    st.tuples(st.just("publish"), who, st.sampled_from(EVENTS), asked),
    st.tuples(st.just("lie"), who, st.sampled_from(EVENTS), lies),
    st.tuples(st.just("go"), who),
    st.tuples(st.just("come"), who, vouched),
)


def holds(filter: Filter, attributes: Attributes, own: Attributes) -> bool:
    """Whether a filter matches, for somebody whose context is `own`: by trying every value of it."""
    if isinstance(filter, And):
        return all(holds(part, attributes, own) for part in filter.parts)
    if isinstance(filter, Or):
        return any(holds(part, attributes, own) for part in filter.parts)
    names = [reference.name for reference in references_of(filter) if reference.name in own]
    several = [value if isinstance(value, tuple) else (value,) for value in (own[name] for name in names)]
    bound = [bind(filter, dict(zip(names, way, strict=True))) for way in product(*several)]
    if isinstance(getattr(filter, "values", None), Complement):  # the opposite of any, as far as values fit
        fitting = [each for each in bound if each != Some(filter.attribute, NOTHING)]
        return fitting != [] and all(each.holds(attributes) for each in fitting)
    return any(each.holds(attributes) for each in bound)


class Truth:
    """What is true of one client."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, Any]] = {}
        self.asserted: dict[str, Any] = {}
        self.filters: dict[str, Filter] = {}
        self.got: list[tuple[str, int]] = []

    @property
    def claimed(self) -> dict[str, Any]:
        return {name: value for said in self.parts.values() for name, value in said.items()}

    @property
    def whole(self) -> dict[str, Any]:
        return {**self.claimed, **self.asserted}


class Run:
    """One broker, three clients, and the truth about them."""

    def __init__(self) -> None:
        self.edge = Edge(asserted=ASSERTED)
        self.truth = {name: Truth() for name in CLIENTS}
        for name in CLIENTS:
            self.edge.client(name)

    def take(self, step: tuple[Any, ...]) -> None:
        kind, name, *rest = step
        edge, client, truth = self.edge, self.edge.clients[name], self.truth[name]
        if kind == "come":
            truth.asserted = rest[0]
            edge.client(name, asserted=rest[0])
        elif name not in edge.at:
            return
        elif kind == "go":
            edge.leave(name)
            edge.run()
        elif kind == "set":
            part, values = rest
            edge.ask(name, client.set_context(values, edge.now, part=part))
            if not any(each in ASSERTED for each in values):
                truth.parts.pop(part, None)
                truth.parts[part] = values
        elif kind == "want":
            subscription, text, sender = rest
            edge.ask(name, client.subscribe(subscription, parse(text), edge.now, sender=sender and parse(sender)))
            both = text if sender is None else f"({text}) AND {_of_sender(sender)}"
            truth.filters[subscription] = parse(both)
        elif kind == "end" and rest[0] in truth.filters:
            edge.ask(name, client.unsubscribe(rest[0], edge.now))
            del truth.filters[rest[0]]
        elif kind == "publish":
            self.expect(name, {**rest[0], **_stamp(truth.whole)}, rest[1] and parse(rest[1]), truth.claimed)
            edge.ask(name, client.publish(rest[0], edge.now, to=rest[1] and parse(rest[1])))
        elif kind == "lie":
            said, lie = rest
            written = {**said, **_stamp(lie)}
            honest = {attribute: value for attribute, value in written.items() if attribute != "sender.role"}
            self.expect(name, {**honest, **_stamp(truth.asserted)}, None, {})
            number = client.sequence + 1
            edge.ask(name, client.publish_numbered(event(written, publisher=name, sequence=number)))

    def expect(self, publisher: str, attributes: dict[str, Any], to: Filter | None, own: Attributes) -> None:
        number = self.edge.clients[publisher].sequence + 1
        for truth in self.truth.values():
            wanted = any(holds(filter, attributes, truth.whole) for filter in truth.filters.values())
            if wanted and (to is None or holds(to, truth.whole, own)):
                truth.got.append((publisher, number))


def _of_sender(text: str) -> str:
    """The same asked of the sender, written by hand."""
    asked = "|".join((*NAMES, "nobody"))
    return "(" + re.sub(rf"(?<![.\w])({asked})\b", r"sender.\1", text) + ")"


def _stamp(context: Attributes) -> dict[str, Any]:
    return {f"sender.{name}": value for name, value in context.items()}


beginnings = st.tuples(vouched, contexts, filters, asked)


@many(3)
@given(st.lists(beginnings, min_size=3, max_size=3), st.lists(steps, max_size=40), st.sampled_from((0, addressing.FEW)))
def test_an_event_is_delivered_if_and_only_if_it_is_wanted_and_its_receiver_is_meant(
    begun: list[Any], taken: list[Any], few: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addressing, "FEW", few)  # how many receivers are tested one by one
        play(begun, taken)


def play(begun: list[Any], taken: list[Any]) -> None:
    run = Run()
    for name, (asserted, context, text, sender) in zip(CLIENTS, begun, strict=True):
        run.take(("come", name, asserted))
        run.take(("set", name, "", context))
        run.take(("want", name, "f", text, sender))
    for step in taken:
        run.take(step)
    for name, truth in run.truth.items():
        if name not in run.edge.at:
            run.edge.client(name, asserted=truth.asserted)
    for name, truth in run.truth.items():
        assert run.edge.notified(name) == truth.got, name
        assert dict(run.edge.clients[name].context) == truth.claimed
        assert dict(run.edge.context_at("b", name)) == truth.whole


@given(st.lists(st.tuples(vouched, lies, st.sampled_from(EVENTS)), min_size=1, max_size=8))
def test_what_is_forged_of_an_asserted_attribute_never_survives(said: list[Any]) -> None:
    edge = Edge("bc", asserted=ASSERTED)
    watcher = edge.client("w", at="c")
    edge.ask("w", watcher.subscribe("all", parse("TRUE"), 0.0))
    expected: list[Any] = []
    for asserted, lie, attributes in said:
        eve = edge.client("eve", asserted=asserted)
        made = event({**attributes, **_stamp(lie)}, publisher="eve", sequence=eve.sequence + 1)
        edge.ask("eve", eve.publish_numbered(made))
        expected.append(asserted.get("role"))
    found = [made.attributes.get("sender.role") for _, _, made, _ in edge.notifications]
    assert [(type(role), role) for role in found] == [(type(role), role) for role in expected]


RUSHED = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(["", "gps", "app"]), lies),
    st.tuples(st.just("publish")),
    st.tuples(st.just("step"), st.integers(1, 4)),
    st.tuples(st.just("break")),
    st.tuples(st.just("come"), st.sampled_from("bcd"), vouched),
    st.tuples(st.just("forget"), st.sampled_from("bcd")),
)


@given(
    st.sampled_from(["relocate", "ask", "carry", "explicit", "naive", "standard"]),
    st.integers(1, 3),
    st.lists(RUSHED, max_size=40),
)
def test_when_all_is_answered_client_and_broker_mean_the_same(mode: str, in_flight: int, rush: list[Any]) -> None:
    edge = Edge("bcd", asserted=ASSERTED)
    client = edge.client("c1", mode=mode, in_flight_max=in_flight)
    said: dict[str, list[Any]] = {}
    for kind, *rest in rush:
        if kind == "set":
            said.setdefault(rest[0], []).append(rest[1])
            edge.carry_out("c1", client.set_context(rest[1], edge.now, part=rest[0]))
        elif kind == "publish":
            edge.carry_out("c1", client.publish({"a": 1}, edge.now))
        elif kind == "step":
            for _ in range(rest[0]):
                edge.step()
        elif kind == "break" and "c1" in edge.at:
            edge.leave("c1")
        elif kind == "come" and "c1" not in edge.at:
            edge.arrive("c1", *rest)
        elif kind == "forget" and "c1" in edge.at:
            session = edge.brokers[rest[0]].sessions.session("c1")
            if session is not None and session.connection is None:
                broker = edge.brokers[rest[0]]
                broker.withdraw(broker.sessions.end("c1", edge.now), edge.now, "c1")
    edge.run()
    if "c1" not in edge.at:
        edge.client("c1", at="d")
    for _ in range(3):  # whoever waits for an answer that will not come
        for name, broker in edge.brokers.items():
            if "c1" in broker.component(Relocation).arrivals:
                edge.fire(name, ("relocate", "c1"))
                edge.run()
    assert client.is_attached
    assert not client.has_unanswered_changes()
    session = edge.brokers[edge.at["c1"]].sessions.session("c1")
    assert session is not None
    assert client.context == session.context.values
    assert "role" not in client.context
    merged: dict[str, Any] = {}
    for part, (values, _) in client.own.parts.items():
        assert values in [{}, *said[part]]
        merged.update(values)
    assert merged == client.context
