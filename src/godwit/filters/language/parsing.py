"""`parse`: a filter from its text, or an error with the position, the fault and what is allowed there."""

from collections.abc import Mapping

from godwit.errors import FilterError, FilterSyntaxError, FilterTooBig
from godwit.filters.filters import Filter
from godwit.filters.language.filter_parser import FilterParser
from godwit.filters.language.scanning import Fault, kinds_of, located, words_of
from godwit.filters.references import OpenSet, replaced
from godwit.filters.regions import Region
from godwit.filters.sets import ValueSet

TEXT_BYTES_MAX = 1_048_576
CLIENT_TEXT_BYTES_MAX = 32_768  # of a filter that a client sends: parsing takes about a microsecond for each


def parse(text: str, *, places: Mapping[str, Region] | None = None, bytes_max: int = TEXT_BYTES_MAX) -> Filter:
    """The filter that `text` says. `places` gives the region of each name that `place('…')` may use.

    A text of more than `bytes_max` bytes is refused before it is looked at: a strange one is given less room.
    """
    known = places or {}
    check_size(text, bytes_max)
    words = words_of(text)
    kinds = kinds_of(words)
    try:
        return _read(text, words, kinds, known)
    except Fault:  # read once more, with words that know where they stand
        words = located(text, words, kinds)
    try:
        _read(text, words, kinds, known)
    except Fault as fault:
        raise FilterSyntaxError.at(fault.offset, fault.message, text, fault.expected) from None
    raise AssertionError("a text that is wrong is wrong again")


def parse_if_filter(text: str) -> Filter | None:
    """Parse a filter; None if the text is not one, for callers that try another language next."""
    check_size(text, TEXT_BYTES_MAX)
    words = words_of(text)
    try:
        return _read(text, words, kinds_of(words), {})
    except Fault:
        return None


def check_size(text: str, bytes_max: int) -> None:
    """Refuse a text of more than `bytes_max` bytes, before anything is done with it."""
    if len(text) > bytes_max or (4 * len(text) > bytes_max and len(text.encode(errors="surrogatepass")) > bytes_max):
        raise FilterTooBig(f"a filter of more than {bytes_max} bytes, which are the most allowed")


def _read(text: str, words: list[str], kinds: list[str], places: Mapping[str, Region]) -> Filter:
    filter = FilterParser(words, kinds).whole()
    return with_places(filter, places) if "place" in text.lower() else filter


def as_filter(said: Filter | str) -> Filter:
    """A filter as an application may say it: as such, or as text. `FilterError` for anything else."""
    if isinstance(said, Filter):
        return said
    if isinstance(said, str):
        return parse(said)
    raise FilterError(
        f"{said!r:.60} is not a filter: allowed is one of godwit.filters, or its text, such as 'price < 10'"
    )


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
