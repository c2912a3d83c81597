"""Languages of subscriptions: each text becomes a filter for routing and an exact test. [motion §4, §5]

>>> from godwit.languages import parse_query
>>> query = parse_query("kind = 'parking' AND cost < 3")
>>> query.routable == parse_query(query.text).routable
True
"""

from typing import TYPE_CHECKING

from godwit.languages.bounds import Bounds
from godwit.languages.operators import Operator, operator, operators_named, registered_operators
from godwit.languages.query import LANGUAGES, NATIVE, Language, Query, Subject, parse_query
from godwit.lazy_names import names_from

if TYPE_CHECKING:
    from godwit.languages.native import NativeLanguage
    from godwit.languages.systems import PubSubSystem, Translation, chained

__all__ = [
    "LANGUAGES",
    "NATIVE",
    "Bounds",
    "Language",
    "NativeLanguage",
    "Operator",
    "PubSubSystem",
    "Query",
    "Subject",
    "Translation",
    "chained",
    "operator",
    "operators_named",
    "parse_query",
    "registered_operators",
]

LANGUAGES.expect("godwit.languages.cesql", "cesql")  # loaded when they are asked for: some need large libraries
LANGUAGES.expect("godwit.languages.cql2", "cql2-text", "cql2-json")
LANGUAGES.expect("godwit.languages.native", NATIVE)
LANGUAGES.expect("godwit.languages.xpath", "xpath")
LANGUAGES.expect("godwit.languages.xql", "xql")

__getattr__ = names_from(
    __name__,
    {"NativeLanguage": "native", "PubSubSystem": "systems", "Translation": "systems", "chained": "systems"},
)
