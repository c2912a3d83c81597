"""The languages of queries over profiles: one table for searches, subscriptions, rules of communities and grants.

Every name that commands, pages and the HTTP API offer comes from here, with an example to begin with. Short names that
people try first are accepted, too. What is stored and sent has the full name, so other peers need not know the short
ones. Only light things are imported here: the help of the command line names the languages.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from godwit.languages import Query

__all__ = ["DEFAULT", "LANGUAGE_HELP", "OFFERED", "SHORT_NAMES", "full_name", "parse_profile_query"]

DEFAULT = "xql"
OFFERED = {
    DEFAULT: "//skill[. = 'welding']",
    "xpath": "/user[skill = 'welding']",
    "cql2-text": "\"user/skill\" = 'welding'",
    "cql2-json": '{"op": "=", "args": [{"property": "user/skill"}, "welding"]}',
    "filter": "user/skill = 'welding'",
}
"""By name, a query that finds users with a skill. CESQL is understood but not offered: it cannot name an element."""
SHORT_NAMES = {"cql2": "cql2-text", "native": "filter"}
"""By short name, the full one."""
LANGUAGE_HELP = f"Language of the query: {', '.join(OFFERED)}. cql2 is short for cql2-text, native for filter."


def full_name(language: str) -> str:
    """The name of a language, which may be given by its short name."""
    return SHORT_NAMES.get(language, language)


def parse_profile_query(language: str, text: str) -> "Query":
    """A query over profiles. `GodwitError` if there is no such language, or if the text is no query of it."""
    from godwit.languages import parse_query

    return parse_query(text, full_name(language))
