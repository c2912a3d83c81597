"""CQL2, the Common Query Language of the OGC (21-065), in its text and its JSON encoding.

>>> from godwit.filters import event, to_text
>>> from godwit.languages import parse_query
>>> query = parse_query("floors > 5 AND swimming_pool = TRUE", "cql2-text")
>>> to_text(query.routable), query.test
('floors > 5 AND swimming_pool = TRUE', None)
>>> query.matches(event({"floors": 7, "swimming_pool": True}))
True
"""

from godwit.languages.cql2.expressions import Expression
from godwit.languages.cql2.json_encoding import parse_json, to_json
from godwit.languages.cql2.language import CQL2_JSON, CQL2_TEXT, Cql2Language, Cql2Test
from godwit.languages.cql2.text_printer import to_text
from godwit.languages.cql2.text_reader import parse_text

__all__ = [
    "CQL2_JSON",
    "CQL2_TEXT",
    "Cql2Language",
    "Cql2Test",
    "Expression",
    "parse_json",
    "parse_text",
    "to_json",
    "to_text",
]
