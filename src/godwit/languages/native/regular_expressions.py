r"""Regular expressions in bounded time, and what filters can tell of them.

*Theory.* RE2 searches in time proportional to the text, whatever the pattern. The factor is the size of the program
that the pattern becomes: that is bounded, and a search spends its steps by both. A pattern may match any part of a
text; `^` and `$` tie it to the ends.

*Rules.*
1. A pattern has at most `PATTERN_LENGTH_MAX` characters and `PROGRAM_SIZE_MAX` instructions.
2. `texts_around` never leaves out a text in which the pattern is found. It says whether it holds others, too.
3. The library is loaded when the first pattern is read: filters need none.
"""

from functools import lru_cache
from typing import Any

from godwit.errors import BadValue
from godwit.filters import Kind, ValueSet, all_of_kind, ends_with, holds_text, one_of, starts_with

__all__ = ["PATTERN_LENGTH_MAX", "PROGRAM_SIZE_MAX", "RegularExpression", "regular_expression", "texts_around"]

PATTERN_LENGTH_MAX = 1_024
PROGRAM_SIZE_MAX = 1_000
MEMORY_BYTES = 1_048_576
"""What RE2 may keep for one pattern."""

INSTRUCTIONS_PER_STEP = 64
"""Instructions, times characters, that take a microsecond at the worst."""

SPECIAL = frozenset("\\.+*?()|[]{}^$")


class RegularExpression:
    """A pattern, ready to be looked for."""

    __slots__ = ("_search", "_size")

    def __init__(self, pattern: str) -> None:
        compiled = _compiled(pattern)
        self._search = compiled.search
        self._size: int = compiled.programsize

    def is_found_in(self, text: str) -> bool:
        """Whether some part of the text matches."""
        return self._search(text) is not None

    def steps(self, text: str) -> int:
        """What a search in this text costs at the worst."""
        return 1 + len(text) * self._size // INSTRUCTIONS_PER_STEP


@lru_cache(maxsize=1_024)
def regular_expression(pattern: str) -> RegularExpression:
    """The regular expression that a text says. `BadValue` if it says none, or is too large. (rule 1)"""
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise BadValue(f"a regular expression of {len(pattern)} characters: at most {PATTERN_LENGTH_MAX} are allowed")
    return RegularExpression(pattern)


def _compiled(pattern: str) -> Any:
    try:
        import re2  # rule 3
    except ModuleNotFoundError:
        raise BadValue("regular expressions need google-re2: pip install 'godwit[languages]'") from None
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, MEMORY_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise BadValue(f"no regular expression that RE2 can search for in bounded time: {said}") from None
    if compiled.programsize > PROGRAM_SIZE_MAX:
        raise BadValue(
            f"a regular expression of {compiled.programsize} instructions: at most {PROGRAM_SIZE_MAX} are allowed "
            "(a repetition in a repetition multiplies them)"
        )
    return compiled


def texts_around(pattern: str) -> tuple[ValueSet, bool]:
    """A set of texts that holds all in which a pattern is found, and whether it holds no others. (rule 2)"""
    if "|" in pattern:  # each alternative may begin in its own way
        return all_of_kind(Kind.TEXT), False
    begins = pattern.startswith("^")
    literal, rest = _literal_beginning(pattern[1:] if begins else pattern)
    if rest in ("", "$"):
        return _texts(literal, begins, rest == "$"), True
    if not literal:
        return all_of_kind(Kind.TEXT), False
    return _texts(literal, begins, False), False


def _texts(literal: str, begins: bool, ends: bool) -> ValueSet:
    if begins and ends:
        return one_of([literal])
    if not literal:
        return all_of_kind(Kind.TEXT)
    return starts_with(literal) if begins else ends_with(literal) if ends else holds_text(literal)


def _literal_beginning(pattern: str) -> tuple[str, str]:
    """The characters with which every match of a pattern begins, and what is left of the pattern."""
    found: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\" and at + 1 < len(pattern) and pattern[at + 1].isascii() and not pattern[at + 1].isalnum():
            found.append(pattern[at + 1])
            at += 2
        elif character in SPECIAL:
            if character in "*?{" and found:  # what is repeated may be missing
                found.pop()
            break
        else:
            found.append(character)
            at += 1
    return "".join(found), pattern[at:]
