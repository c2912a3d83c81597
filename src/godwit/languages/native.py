"""Our own language as one of the languages: a filter is its own routable part, and needs no further test."""

from collections.abc import Mapping

from godwit.filters import parse, to_text
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import LANGUAGES, NATIVE, Query

__all__ = ["NativeLanguage"]


class NativeLanguage:
    """The language of docs/reference/filter_language.md."""

    name = NATIVE

    def parse(self, text: str, operators: Mapping[str, Operator] = NO_OPERATORS) -> Query:
        """The query that a text says."""
        filter = parse(text)
        return Query(NATIVE, to_text(filter), filter)


LANGUAGES.register(NATIVE, NativeLanguage())
