"""What an application wants: in any language, with the operators it allows, and shared with those who want the same."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from godwit.errors import ConfigurationError, FilterError, FilterSyntaxError
from godwit.filters import parse
from godwit.languages import Operator, operator
from godwit.languages.xml_documents import xml_event
from godwit.runtime.wanted_queries import restored, wanted
from godwit.testing import network

LIMIT_S = 300.0
CALL = "begins_like(name, 'Anna')"


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


def test_what_is_stored_is_wanted_again() -> None:
    for said, language in (("n > 1", "filter"), ("//a[b = 1]", "xql"), (parse("n > 2"), "filter")):
        found = wanted(said, language, None, parse("battery > 3"), 9.0, None, "group", True)
        again = restored(found.stored("s"))
        assert (again.language, again.expires, again.group, again.retained) == (language, 9.0, found.group, True)
        assert again.stored("s") == found.stored("s")


def test_operators_are_those_that_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.languages.operators._REGISTERED", {})
    with pytest.raises(FilterSyntaxError, match="begins_like"):
        wanted(CALL, "cesql", None)
    wanted(CALL, "cesql", {"begins_like": Operator("begins_like", lambda text, other: True)})
    with pytest.raises(ConfigurationError, match="no operator 'begins_like'"):
        wanted(CALL, "cesql", ["begins_like"])
    operator("begins_like")(lambda text, other: True)
    wanted(CALL, "cesql", None)
    wanted(CALL, "cesql", ["begins_like"])
    with pytest.raises(FilterSyntaxError, match="begins_like"):
        wanted(CALL, "cesql", [])


def test_what_is_no_query_is_an_error_in_words() -> None:
    with pytest.raises(FilterError, match="3 is not a filter"):
        wanted(3, "filter", None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="no language 'klingon'"):
        wanted("Qapla'", "klingon", None)


def test_what_was_held_for_a_client_without_memory_is_decided_when_it_asks() -> None:
    async def scene() -> None:
        async with network(2) as net:
            ann, bob = await net.client("ann", "b1"), await net.client("bob", "b2")
            query = "users/user[name = 'Anna' $and$ age > 17]"
            await ann.subscribe(query, language="xql", name="adults")
            await ann.close()
            for age in (7, 18):
                anna, other = f"<name>Anna</name><age>{age}</age>", "<name>Bob</name><age>30</age>"
                await bob.publish(xml_event(f"<users><user>{anna}</user><user>{other}</user></users>".encode()))
            again = await net.client("ann", "b1")
            await net.settled()  # they have come, and nobody has said what they are for
            adults = await again.subscribe(query, language="xql", name="adults")
            await net.settled()
            assert (len(adults), adults.residues) == (1, 1)
            assert (await adults.next()).attributes["users/user/age"] == (18, 30)

    run(scene)


def test_a_group_shares_what_its_members_want_and_not_what_brokers_route_by() -> None:
    async def scene() -> None:
        async with network(2) as net:
            publisher = await net.client("p", "b2")
            came: Counter[tuple[str, bytes]] = Counter()
            for n, name in enumerate(("Anna", "Anna", "Bob")):
                member = await net.client(f"m{n}", "b1")

                def count(event: Any, name: str = name) -> None:
                    came[name, event.payload] += 1

                await member.subscribe(f"//user[name = '{name}']", language="xql", share="g", callback=count)
            await net.settled()
            documents = [f"<user><name>{name}</name></user>".encode() for name in ("Anna", "Bob")]
            for document in documents * 4:
                await publisher.publish(xml_event(document))
            await net.settled()
            assert came == {("Anna", documents[0]): 4, ("Bob", documents[1]): 4}

    run(scene)
