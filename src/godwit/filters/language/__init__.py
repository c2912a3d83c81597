"""The filter language: text and JSON form of the same filters. docs/reference/filter_language.md is its reference.

*Theory.* `parse` reads the text: `scanning` cuts it into words, `filter_parser` puts them together, and `operands` and
`literals` say what phrases mean. `printing` goes the other way. `json_form` is the same tree as plain data, for
programs.
"""

from collections.abc import Mapping
from typing import Any

from godwit.filters.filters import Filter
from godwit.filters.language.json_form import from_json, loads, to_json
from godwit.filters.language.parsed_texts import ParsedTexts
from godwit.filters.language.parsing import CLIENT_TEXT_BYTES_MAX, as_filter, parse
from godwit.filters.language.printing import pretty, to_text
from godwit.filters.regions import Region

__all__ = [
    "CLIENT_TEXT_BYTES_MAX",
    "ParsedTexts",
    "as_filter",
    "from_json",
    "loads",
    "parse",
    "pretty",
    "read",
    "to_json",
    "to_text",
]


def read(source: str | Mapping[str, Any], *, places: Mapping[str, Region] | None = None) -> Filter:
    """The filter in whatever form it comes: text, a JSON document (a text that starts with `{`), or plain data."""
    if not isinstance(source, str):
        return from_json(source)
    return loads(source) if source.lstrip().startswith("{") else parse(source, places=places)
