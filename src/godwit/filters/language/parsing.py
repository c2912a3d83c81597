"""`parse`: a filter from its text, or an error that says where it is wrong and what would have been right."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedToken

from godwit.errors import FilterError, FilterSyntaxError, FilterTooBig
from godwit.filters.filters import Filter
from godwit.filters.language.filter_builder import FilterBuilder, filter_of
from godwit.filters.language.grammar import GRAMMAR, expected_words
from godwit.filters.language.scanning import ARITHMETIC, MATCHES, REGULAR_EXPRESSION, Fault, Scanner
from godwit.filters.references import OpenSet, replaced
from godwit.filters.regions import Region
from godwit.filters.sets import ValueSet

TEXT_BYTES_MAX = 1_048_576
CLIENT_TEXT_BYTES_MAX = 32_768  # of a filter that a client sends: parsing takes about a microsecond for each
SHOWN_LENGTH_MAX = 40
NO_NULL = "NULL is no value: ask IS NULL or IS NOT NULL"


def parse(text: str, *, places: Mapping[str, Region] | None = None, bytes_max: int = TEXT_BYTES_MAX) -> Filter:
    """The filter that `text` says. `places` gives the region of each name that `place('…')` may use.

    A text of more than `bytes_max` bytes is refused before it is looked at: a strange one is given less room.
    """
    try:
        return _read(text, places or {}, bytes_max)
    except Fault as fault:
        raise _at(fault, text) from None
    except UnexpectedToken as error:
        raise _at(_unexpected(error, text), text) from None


def parse_if_filter(text: str) -> Filter | None:
    """The filter that `text` says; None if it says none, for a reader who knows another way to read it."""
    try:
        return _read(text, {}, TEXT_BYTES_MAX)
    except (Fault, UnexpectedToken):  # to say what was expected takes longer than to read a filter
        return None


def _read(text: str, places: Mapping[str, Region], bytes_max: int) -> Filter:
    if len(text) > bytes_max or (4 * len(text) > bytes_max and len(text.encode(errors="surrogatepass")) > bytes_max):
        raise FilterTooBig(f"a filter of more than {bytes_max} bytes, which are the most allowed")
    filter = filter_of(_parser().parse(text))  # type: ignore[arg-type]
    return with_places(filter, places) if "place" in text.lower() else filter


def as_filter(said: Filter | str) -> Filter:
    """A filter as an application may say it: as such, or as text. `FilterError` for anything else."""
    if isinstance(said, Filter):
        return said
    if isinstance(said, str):
        return parse(said)
    raise FilterError(f"{said!r:.60} is no filter: allowed is one of godwit.filters, or its text, such as 'price < 10'")


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer=Scanner, transformer=FilterBuilder(), maybe_placeholders=True)


def _at(fault: Fault, text: str) -> FilterSyntaxError:
    """The fault as an error, with its line and column counted."""
    return FilterSyntaxError.at(fault.offset, fault.message, text, fault.expected)


def _unexpected(error: UnexpectedToken, text: str) -> Fault:
    word: Any = error.token
    expected = expected_words(set(error.accepts or ()))
    if word.type == "$END":
        is_blank = not text.strip()
        message = "the filter is empty; TRUE matches every event" if is_blank else "the filter ends too early"
        return Fault(message, 0 if is_blank else len(text.rstrip()), expected)
    if word.type == "NUMBER" and word[0] in "+-" and "_AND" in error.expected:
        return Fault(ARITHMETIC, word)
    if word.type == "NAME" and word.upper() == MATCHES and "_LIKE" in error.expected:
        return Fault(REGULAR_EXPRESSION, word)
    if word.type == "NULL":
        message = (
            "IS NULL takes no ANY or ALL" if "NAME" in error.expected and "NUMBER" not in error.expected else NO_NULL
        )
        return Fault(message, word, expected)
    shown = word if len(word) <= SHOWN_LENGTH_MAX else f"{word[:SHOWN_LENGTH_MAX]}…"
    return Fault(f"{shown} has no place here", word, expected)


def with_places(filter: Filter, places: Mapping[str, Region]) -> Filter:
    """The filter with each `place('…')` looked up."""

    def region(values: OpenSet) -> list[ValueSet]:
        if values.builder != "place":
            return [values]
        name, offset = values.operands
        if name in places:
            return [places[name]]  # type: ignore[index]
        known = tuple(repr(known) for known in sorted(places))
        message = f"there is no place {name!r}" if known else f"no places are known here, so {name!r} has no region"
        raise Fault(message, offset, known)  # type: ignore[arg-type]

    return replaced(filter, region)
