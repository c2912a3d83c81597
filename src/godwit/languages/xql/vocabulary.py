"""The words of XQL: operators and their spellings, methods and collections."""

__all__ = ["COLLECTIONS", "COMPARISONS", "FUNCTIONS", "METHODS", "NAMED", "SIGNS", "TEXT_OPERATORS", "WORDS"]

SIGNS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""Signs that stand for comparisons."""
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
TEXT_OPERATORS = ("contains", "startsw", "endsw")
"""Operators on texts, as the tables of [motion Fig. 3] have them."""
NAMED = frozenset([*COMPARISONS, *(f"i{name}" for name in COMPARISONS), *TEXT_OPERATORS])
"""All comparisons that can be written as words; with i in front without regard to case."""
WORDS = frozenset(["and", "or", "not", "any", "all", "union", "intersect", "to"]) | NAMED

METHODS = frozenset(
    [
        *("text", "rawText", "value", "nodeType", "nodeTypeString", "nodeName"),
        *("index", "end", "count", "baseName", "namespace", "prefix"),
    ]
)
"""What can be asked of a node, or of a collection, after `!` or within a filter."""
COLLECTIONS = frozenset(["textNode", "comment", "pi", "element", "attribute", "node"])
FUNCTIONS = frozenset(["ancestor", "date", "number", "true", "false"])
