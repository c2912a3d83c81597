"""Queries that clients send as texts: bounded in size, with one kind of error.

*Rules.*
1. A text of more than `CLIENT_TEXT_BYTES_MAX` bytes is refused before it is looked at.
2. Whatever is wrong with a text, or with the name of its language, is a `FilterError`.
3. Texts are remembered with their queries, up to a number of bytes: many clients send the same ones.
"""

from collections.abc import Callable, Mapping

from godwit.errors import FilterError, FilterTooBig, GodwitError
from godwit.filters.language import CLIENT_TEXT_BYTES_MAX
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import NATIVE, Query, parse_query

__all__ = ["ClientQueries", "ParseClientQuery", "answer_to", "client_query"]

TEXTS_BYTES_MAX = 2**18  # parsed, each takes about 100 bytes
SHARE = 8  # a text that takes more than this part of all is not remembered

ParseClientQuery = Callable[[str, str], Query]
"""Parses a text in a language."""


def client_query(text: str, language: str = NATIVE, operators: Mapping[str, Operator] = NO_OPERATORS) -> Query:
    """The query that a client's text says. (rules 1 and 2)"""
    if len(text.encode(errors="surrogatepass")) > CLIENT_TEXT_BYTES_MAX:
        raise FilterTooBig(f"a query of more than {CLIENT_TEXT_BYTES_MAX} bytes, which are the most allowed")
    try:
        return parse_query(text, language, operators)
    except FilterError:
        raise
    except (GodwitError, RecursionError) as error:
        raise FilterError(str(error)) from None


class ClientQueries:
    """The queries of at most `bytes_max` bytes of text, and what is wrong with those that are none. (rule 3)"""

    def __init__(self, operators: Mapping[str, Operator] = NO_OPERATORS, bytes_max: int = TEXTS_BYTES_MAX) -> None:
        self.operators = operators
        self._bytes_max = bytes_max
        self._known: dict[tuple[str, str], Query | FilterError] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._known

    def parse(self, text: str, language: str = NATIVE) -> Query:
        """The query that a text says. `FilterError`: it says none."""
        key = (text, language)
        found = self._known.get(key)
        if found is None:
            found = answer_to(text, language, self.operators)
            self.remember(text, language, found)
        else:  # the last that was asked for goes last
            self._known[key] = self._known.pop(key)
        if isinstance(found, FilterError):
            raise found.with_traceback(None)
        return found

    def remember(self, text: str, language: str, found: Query | FilterError) -> None:
        """The parsed query of a text, cached."""
        key = (text, language)
        if len(text) > self._bytes_max // SHARE or key in self._known:
            return
        self._known[key] = found
        self._bytes += len(text)
        while self._bytes > self._bytes_max:
            oldest = next(iter(self._known))
            self._bytes -= len(oldest[0])
            del self._known[oldest]


def answer_to(
    text: str, language: str = NATIVE, operators: Mapping[str, Operator] = NO_OPERATORS
) -> Query | FilterError:
    """The query that a text says, or what is wrong with it."""
    try:
        return client_query(text, language, operators)
    except FilterError as error:
        return error
