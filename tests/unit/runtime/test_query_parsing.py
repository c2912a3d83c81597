"""The thread that parses queries takes turns between parties."""

import asyncio
from threading import Event as ThreadEvent

import pytest

from godwit.errors import FilterError
from godwit.languages import Query, parse_query
from godwit.runtime import query_parsing
from godwit.runtime.query_parsing import QueryParser


def test_one_text_of_each_party_is_parsed_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    go = ThreadEvent()

    def answer(text: str, language: str, operators: object) -> Query:
        go.wait(10)
        order.append(text)
        return parse_query("TRUE")

    monkeypatch.setattr(query_parsing, "answer_to", answer)

    async def scene() -> None:
        parser = QueryParser({})
        many = [parser.parse("mallory", f"m{n}", "cesql") for n in range(4)]
        one = parser.parse("ann", "a", "cesql")
        go.set()
        await asyncio.gather(one, *many)
        parser.close()

    asyncio.run(scene())
    assert order == ["m0", "m1", "a", "m2", "m3"]


def test_what_is_wrong_is_an_answer_and_nothing_is_parsed_after_the_end() -> None:
    async def scene() -> None:
        parser = QueryParser({})
        assert isinstance(await parser.parse("ann", "a = ", "cesql"), FilterError)
        assert isinstance(await parser.parse("ann", "a = 1", "cesql"), Query)
        parser.close()
        with pytest.raises(asyncio.CancelledError):
            await parser.parse("ann", "a = 1", "cesql")

    asyncio.run(scene())
