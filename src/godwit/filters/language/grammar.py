"""The grammar of the filter language, for lark's LALR(1) parser, and the reader's words for its terminals.

What a word means beyond its place (which functions exist, which kinds `IS` knows) is decided in `filter_builder.py`, so
few words are reserved and the errors can say what exists. docs/reference/filter_language.md shows this grammar to
users.
"""

_STEPS = r"[\w@:$]*(\/[\w@:$]+)*"

TERMINALS = {
    "STRING": r"([uU]&)?'([^']|'')*'",
    "QUOTED": r'((my|sender)\.)?([uU]&)?"([^"]|"")*"',
    "NUMBER": r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
    "NAME": rf"[^\W\d]{_STEPS}(\.[\w@:$]+(\/[\w@:$]+)*)*|[@$]{_STEPS}",
    "OP": r"<>|!=|<=|>=|=|<|>",
}
"""The words that are no keywords, in the order in which they are tried."""

GRAMMAR = r"""
start: disjunction

?disjunction: conjunction (_OR conjunction)*
?conjunction: inversion (_AND inversion)*
?inversion: NOT inversion                               -> inverted
          | "(" disjunction ")"
          | comparison                                  -> plain
          | (ANY | ALL) [NOT] comparison                -> quantified
          | operand _IS NULL                            -> is_null
          | operand _IS NOT NULL                        -> is_not_null

?comparison: operand                                    -> bare
           | operand OP operand                         -> compared
           | operand OP operand OP operand              -> chained
           | operand [NOT] _BETWEEN operand _AND operand -> between
           | operand [NOT] _IN "(" [operand ("," operand)*] ")" -> listed
           | operand [NOT] _LIKE operand [_ESCAPE STRING] -> like
           | operand [NOT] _WITHIN operand              -> within
           | _WITHIN "(" operand "," operand ")"        -> within_call
           | operand _IS [NOT] NAME                     -> of_kind

?operand: NAME                                          -> name
        | QUOTED | NUMBER | STRING
        | TRUE                                          -> true
        | FALSE                                         -> false
        | NAME STRING                                   -> typed
        | (NAME | QUOTED) "(" [argument ("," argument)*] ")" -> call
?argument: operand | pair
         | "(" pair ("," pair)* ")"                     -> pairs
pair: NUMBER NUMBER

STRING.2: /{STRING}/
QUOTED.2: /{QUOTED}/
NUMBER.1: /{NUMBER}/
NAME: /{NAME}/
OP: /{OP}/

%declare _AND _OR _BETWEEN _IN _LIKE _ESCAPE _WITHIN _IS NOT NULL TRUE FALSE ANY ALL
""".format(**TERMINALS)

KEYWORDS = {
    **{word: f"_{word}" for word in ("AND", "OR", "BETWEEN", "IN", "LIKE", "ESCAPE", "WITHIN", "IS")},
    **{word: word for word in ("NOT", "NULL", "TRUE", "FALSE", "ANY", "ALL")},
}
"""What an upper-cased NAME is instead, when it is reserved."""

PLAIN_NAME = r"(?:[^\W\d]|[@$])[\w@:$]*(?:/[\w@:$]+)*"
"""An attribute that needs no quotes, unless it is a keyword or `myloc`."""

_COMPARISONS = "a comparison (= <> < <= > >= BETWEEN IN LIKE IS WITHIN)"
_KINDS = ("NUMBER", "TEXT", "TIME", "BOOL", "POINT")
_WORDS = {
    **{terminal: word for word, terminal in KEYWORDS.items() if word not in ("TRUE", "FALSE")},
    "NUMBER": "a number",
    "STRING": "a 'text'",
    "COMMA": "a comma",
    "LPAR": "(",
    "RPAR": ")",
    "$END": "the end of the filter",
}


def expected_words(terminals: set[str]) -> tuple[str, ...]:
    """What may stand where the parser stopped, in the reader's words."""
    close = (")",) if "RPAR" in terminals else ()
    if {"NAME", "NUMBER"} <= terminals:  # an operand may begin here
        if "NOT" in terminals:
            return (
                ("an attribute", "a value", "NOT", "(") if "LPAR" in terminals else ("an attribute", "a value", "NOT")
            )
        return ("an argument" if "LPAR" in terminals else "a value", *close)
    if "NAME" in terminals:
        return ("NULL", "NOT", *_KINDS) if "NULL" in terminals else _KINDS
    words: list[str] = []
    if {"OP", "_IN"} <= terminals:  # an operand has ended here
        words.append(_COMPARISONS)
        terminals = terminals & {"_AND", "_OR", "COMMA", "RPAR", "$END"}
    if terminals & {"_AND", "COMMA", "RPAR"}:  # a name has ended here; that a text or ( could follow it helps nobody
        terminals = terminals - {"STRING", "LPAR"}
    return (*words, *(word for terminal, word in _WORDS.items() if terminal in terminals))
