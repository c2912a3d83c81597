"""The words of the filter language: what they look like, and which are reserved.

`filter_parser.py` puts them together. docs/reference/filter_language.md shows the grammar to users, and tests hold the
parser to what it says there.
"""

_STEPS = r"[\w@:$]*(?:/[\w@:$]+)*"

TERMINALS = {
    "STRING": r"(?:[uU]&)?'[^']*(?:''[^']*)*'",
    "QUOTED": r'(?:(?:my|sender)\.)?(?:[uU]&)?"[^"]*(?:""[^"]*)*"',
    "NUMBER": r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "NAME": rf"[^\W\d]{_STEPS}(?:\.[\w@:$]+(?:/[\w@:$]+)*)*|[@$]{_STEPS}",
    "OP": r"<>|!=|<=|>=|=|<|>",
}
"""The words that are not reserved, in the order in which they are tried."""

BLANKS = " \t\r\n\f"
"""What may stand between two words."""

KEYWORDS = frozenset(
    ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "WITHIN", "IS", "NULL", "TRUE", "FALSE", "ANY", "ALL")
)
"""The reserved words. A NAME that is one of them, in upper case, is not a name."""

PLAIN_NAME = r"(?:[^\W\d]|[@$])[\w@:$]*(?:/[\w@:$]+)*"
"""An attribute that needs no quotes, unless it is a keyword or `myloc`."""
