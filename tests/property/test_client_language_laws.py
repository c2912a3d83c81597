"""The law of queries: a network with its native client answers as the queries themselves do, in every language.

Brokers route by what a query lets through, the client decides; negations and wrong types are drawn as often as not.
"""

import asyncio
from random import Random
from typing import Any

import pytest

from godwit.client.exact_queries import ExactQueries
from godwit.filters import Event
from godwit.languages import parse_query
from godwit.languages.xml_documents import xml_event
from godwit.testing import network

LIMIT_S = 300.0
NAMES = ("Anna", "Bob", "", "17")
WHOLE = (7, 17, 18)  # CESQL writes no others
NUMBERS = (*WHOLE, 18.5)
FORMS = {
    "xql": ["//user[{}]", "r/user[{}]", "r[$all$ user[{}]/age > 17]", "r[$not$ user[{}]]"],
    "xpath": ["//user[{}]", "/r/user[{}]", "not(//user[{}])", "count(//user[{}]) = 1"],
}

Said = tuple[str, str]


def condition(rng: Random, depth: int, atom: Any, words: tuple[str, str, str]) -> str:
    """Atoms with negations, conjunctions and disjunctions around them, as a language writes them."""
    both, either, negation = words
    match rng.randrange(5) if depth else 0:
        case 1:
            return negation.format(condition(rng, depth - 1, atom, words))
        case 2 | 3:
            parts = (condition(rng, depth - 1, atom, words) for _ in range(2))
            return f"({f' {rng.choice((both, either))} '.join(parts)})"
    return str(atom(rng))


def xml_atom(rng: Random) -> str:
    """A comparison that XQL and XPath write alike."""
    name = f"'{rng.choice(NAMES)}'"
    return rng.choice(
        [f"name = {name}", f"age > {rng.choice(NUMBERS)}", "email", f"name != {name}", "@id", f". = {name}"]
    )


def native_atom(rng: Random) -> str:
    name = f"'{rng.choice(NAMES)}'"
    return rng.choice([f"name = {name}", f"age > {rng.choice(WHOLE)}", "name LIKE 'A%'", f"age <> {rng.choice(WHOLE)}"])


def cesql_atom(rng: Random) -> str:
    return rng.choice([native_atom(rng), "EXISTS name", "LENGTH(name) > 3", "age + 1 > 18"])


def cql2_atom(rng: Random) -> str:
    return rng.choice([native_atom(rng), "name IS NULL", "age + 1 > 18", "CASEI(name) = CASEI('anna')"])


def query(rng: Random) -> Said:
    language = rng.choice(("xql", "xpath", "cesql", "cql2-text", "filter"))
    if language in FORMS:
        words = ("$and$", "$or$", "$not$ ({})") if language == "xql" else ("and", "or", "not({})")
        return language, rng.choice(FORMS[language]).format(condition(rng, 2, xml_atom, words))
    atom = {"cesql": cesql_atom, "cql2-text": cql2_atom, "filter": native_atom}[language]
    return language, condition(rng, 3, atom, ("AND", "OR", "NOT ({})"))


def event(rng: Random, n: int) -> Event:
    if rng.random() < 0.3:
        attributes: dict[str, Any] = {"n": n, "specversion": "1.0", "id": str(n), "source": "/s", "type": "t"}
        if rng.random() < 0.8:
            attributes["name"] = rng.choice(NAMES)
        if rng.random() < 0.8:
            attributes["age"] = rng.choice((*NUMBERS, "18"))
        return Event(attributes)
    users = ""
    for _ in range(rng.randrange(3)):
        email = rng.choice(["", "<email/>", "<email>a@b</email>"])
        number = rng.choice(["", ' id="1"'])
        users += f"<user{number}><name>{rng.choice(NAMES)}</name><age>{rng.choice(NUMBERS)}</age>{email}</user>"
    return xml_event(f"<r>{users}</r>".encode(), {"n": n})


async def answers(seed: int) -> int:
    """How many answers there were, all of them those of the queries; and how many residues."""
    rng = Random(seed)
    asked = [query(rng) for _ in range(20)]
    events = [event(rng, n) for n in range(20)]
    async with network(2, family=rng.choice(("tree", "graph"))) as net:
        ann, bob = await net.client("ann", "b1"), await net.client("bob", "b2")
        subscriptions = [await ann.subscribe(text, language=language) for language, text in asked]
        for place in rng.sample(range(20), 3):  # with no gap and no double
            asked[place] = query(rng)
            await subscriptions[place].replace(asked[place][1], language=asked[place][0])
        await net.settled()
        for each in events:
            await bob.publish(each)
        await net.settled()
        for (language, text), subscription in zip(asked, subscriptions, strict=True):
            wanted = parse_query(text, language)
            expected = [each.attributes["n"] for each in events if wanted.matches(each)]
            came = [each.attributes["n"] for each in await taken(subscription)]
            assert came == expected, (seed, language, text)
            let_through = sum(wanted.routable.matches(each) for each in events)
            assert (subscription.wanted, subscription.residues) == (len(expected), let_through - len(expected))
        assert ann.residues == sum(each.residues for each in subscriptions)
        return sum(each.wanted for each in subscriptions)


async def taken(subscription: Any) -> list[Event]:
    return [await subscription.next() for _ in range(len(subscription))]


@pytest.mark.parametrize("seed", range(12))
def test_a_network_with_its_client_answers_as_the_queries_do(seed: int) -> None:
    assert asyncio.run(asyncio.wait_for(answers(seed), LIMIT_S)) > 20


def test_a_client_that_does_not_decide_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExactQueries, "decide", lambda self, names, event, wishes: (names, []))
    with pytest.raises(AssertionError, match=r"xql|xpath|cesql|cql2"):
        asyncio.run(asyncio.wait_for(answers(0), LIMIT_S))
