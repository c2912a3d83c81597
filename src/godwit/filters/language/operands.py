"""What an operand of a comparison means: an attribute, a value, a reference to the subscriber's context, or a set such
as `circle(…)`.

*Rule.* A fault knows the word that it is about. Nothing else is raised.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from godwit.errors import BadValue
from godwit.filters import references, regions, sets
from godwit.filters.contexts import SENDER
from godwit.filters.events import NAME_LENGTH_MAX
from godwit.filters.language.scanning import EXACT_FUNCTIONS, EXACT_PART, Fault, offset_of
from godwit.filters.references import LOCATION, OpenSet, Reference
from godwit.filters.sets import ValueSet
from godwit.filters.values import Point, Value, checked_value

DIGITS_MAX = 400
SMALL = 2**63  # a number between this and its negative is a value
NAMESPACES = ("my", "sender")


class Attribute(NamedTuple):
    """An operand that names an attribute."""

    name: str
    word: str


class Constant(NamedTuple):
    """An operand that is a value, or a reference to one."""

    value: Value | Reference
    word: str


class Named(NamedTuple):
    """An operand that is a set of values."""

    values: ValueSet
    word: str


class Topics(NamedTuple):
    """An operand that is a topic pattern, TOPIC 'fleet/+'. It stands after LIKE."""

    values: ValueSet
    word: str


class Pair(NamedTuple):
    """Two numbers side by side: a corner of a polygon."""

    lon: float
    lat: float
    word: str


class Spelled(Protocol):
    """What a word stands for: an operand, also of a parser that knows more of them."""

    @property
    def word(self) -> str:
        """The word that begins it."""


Operand = Attribute | Constant | Named | Topics
Argument = Operand | Pair | list[Pair]


def built(word: str, build: Callable[..., Any], *arguments: Any) -> Any:
    """What `build` makes of the arguments; its complaint becomes one about `word`."""
    try:
        return build(*arguments)
    except BadValue as error:
        raise Fault(str(error), word) from None


# ---------------------------------------------------------------- names and values


def name_operand(word: str) -> Attribute | Constant:
    """What a NAME means."""
    if "." in word:
        return _qualified(word)
    if len(word) == 5 and word.lower() == "myloc":
        return Constant(Reference(LOCATION), word)
    if len(word) <= NAME_LENGTH_MAX and word.isascii():  # as most are
        return Attribute(str(word), word)
    return Attribute(_checked_name(word, word), word)


def quoted_operand(word: str) -> Attribute | Constant:
    """What a QUOTED means."""
    prefix, _, rest = word.partition('"')
    name = rest[:-1].replace('""', '"')
    if prefix.endswith("&"):
        name = _unescaped(name, word)
    name = _checked_name(name, word)
    if prefix.startswith("my."):
        return Constant(Reference(name), word)
    return Attribute(_checked_name(SENDER + name, word), word) if prefix.startswith(SENDER) else Attribute(name, word)


def number_operand(word: str) -> Constant:
    """What a NUMBER means."""
    return Constant(number_value(word), word)


def number_value(word: str) -> int | float:
    """The value that a NUMBER is."""
    if len(word) > DIGITS_MAX:
        raise Fault(f"a number of {len(word)} digits: no number needs more than {DIGITS_MAX}", word)
    value = int(word) if word.lstrip("+-").isdigit() else float(word)
    if -SMALL < value < SMALL:  # as most are
        return value
    return built(word, checked_value, value)  # type: ignore[no-any-return]


def text_operand(word: str) -> Constant:
    """What a STRING means."""
    return Constant(text_value(word), word)


def text_value(word: str) -> str:
    """The value that a STRING is."""
    if word[0] == "'":
        text = word[1:-1].replace("''", "'")
    else:
        text = _unescaped(word[3:-1].replace("''", "'"), word)
    return built(word, checked_value, text)  # type: ignore[no-any-return]


def typed_operand(kind: str, text: Constant) -> Constant | Topics:
    """What a NAME before a STRING means."""
    if kind.upper() == "TOPIC":
        return Topics(built(text.word, sets.topic_pattern, text.value), kind)
    if kind.upper() != "TIMESTAMP":
        raise Fault(f"{kind} cannot stand before a text", kind, ("TIMESTAMP '2026-11-15T06:00:00Z'", "TOPIC 'a/+'"))
    try:
        moment = datetime.fromisoformat(text.value)  # type: ignore[arg-type]
    except ValueError:
        raise Fault(f"{text.word} is not a time", text.word, ("an ISO time such as '2026-11-15T06:00:00Z'",)) from None
    return Constant(built(text.word, checked_value, moment), kind)


def call_operand(word: str, quoted: Operand | None, arguments: list[Any]) -> Operand:
    """What a call means. `quoted` is what its name means, if that is a QUOTED."""
    function = _FUNCTIONS.get(word.lower())
    if function is not None:
        return function(arguments, word)
    operand = name_operand(word) if quoted is None else quoted
    if isinstance(operand, Constant) and isinstance(operand.value, Reference):
        return Named(_steps(operand.value, arguments, word), word)
    if word.lower() in EXACT_FUNCTIONS:
        raise Fault(f"{word}(…) {EXACT_PART}", word)
    raise Fault(f"there is no function {word}", word, ("within", *SET_FUNCTIONS, "myloc"))


def _checked_name(name: str, word: str) -> str:
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise Fault(f"an attribute's name has 1 to {NAME_LENGTH_MAX} characters, this has {len(name)}", word)
    return built(word, checked_value, name)  # type: ignore[no-any-return]


def _qualified(word: str) -> Attribute | Constant:
    namespace, _, name = word.partition(".")
    if namespace not in NAMESPACES:
        raise Fault(
            f'there is no namespace {namespace}; an attribute with a dot in its name stands in quotes: "{word}"',
            word,
            NAMESPACES,
        )
    if "." in name:
        raise Fault(f'a name with a dot in it stands in quotes: {namespace}."{name}"', word)
    if namespace == "my":
        return Constant(Reference(_checked_name(name, word)), word)
    return Attribute(_checked_name(word, word), word)


_ESCAPE = re.compile(r"\\(?:(\\)|([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})|)")


def _unescaped(text: str, word: str) -> str:
    r"""The text of U&'…': `\XXXX` and `\+XXXXXX` are code points, `\\` is a backslash."""

    def character(escape: re.Match[str]) -> str:
        backslash, short, long = escape.groups()
        code = int(short or long or "110000", 16)
        if backslash is None and code > 0x10FFFF:
            raise Fault(
                f"{escape[0]} names no character: \\XXXX and \\+XXXXXX do, in hexadecimal; \\\\ is a backslash", word
            )
        return backslash or chr(code)

    return _ESCAPE.sub(character, text)


# ---------------------------------------------------------------- functions


def _number(argument: Any, what: str, name: str) -> float:
    if isinstance(argument, Constant) and type(argument.value) in (int, float):
        return argument.value  # type: ignore[return-value]
    raise Fault(f"{what} of {name} must be a number", getattr(argument, "word", name), ("a number",))


def _numbers(arguments: list[Any], names: str, name: str) -> list[float]:
    wanted = names.split(", ")
    if len(arguments) != len(wanted):
        raise Fault(f"{name} takes {len(wanted)} numbers: {name}({names})", name)
    return [_number(argument, what, name) for argument, what in zip(arguments, wanted, strict=True)]


def _point(arguments: list[Any], name: str) -> Operand:
    return Constant(built(name, Point, *_numbers(arguments, "lon, lat", name)), name)


def _box(arguments: list[Any], name: str) -> Operand:
    return Named(built(name, regions.box, *_numbers(arguments, "west, south, east, north", name)), name)


def _circle(arguments: list[Any], name: str) -> Operand:
    match arguments:
        case [Constant(Reference() | Point() as centre), radius]:
            pass
        case [lon, lat, radius]:
            centre = built(name, Point, _number(lon, "lon", name), _number(lat, "lat", name))
        case _:
            raise Fault(f"{name} takes {name}(lon, lat, metres) or {name}(myloc, metres)", name)
    radius_m = radius.value if isinstance(radius, Constant) else None
    if not isinstance(radius_m, Reference):
        radius_m = _number(radius, "the radius", name)
    return Named(built(name, references.circle, centre, radius_m), name)


def _polygon(arguments: list[Any], name: str) -> Operand:
    corners: list[Pair] = []
    for argument in arguments:
        if isinstance(argument, Pair):
            corners.append(argument)
        elif isinstance(argument, list):
            corners += argument
        else:
            raise Fault(
                f"{name} takes its corners as pairs: {name}(8.5 47.3, 8.6 47.3, 8.5 47.4)", argument.word, ("lon lat",)
            )
    return Named(built(name, regions.polygon, [built(c.word, Point, c.lon, c.lat) for c in corners]), name)


def _texts(arguments: list[Any], name: str) -> list[str]:
    for argument in arguments:
        if not isinstance(argument, Constant) or not isinstance(argument.value, str):
            raise Fault(f"{name} takes names of places as texts", getattr(argument, "word", name), ("a 'text'",))
    return [argument.value for argument in arguments]


def _places(arguments: list[Any], name: str) -> Operand:
    return Named(sets.places(_texts(arguments, name)), name)


def _place(arguments: list[Any], name: str) -> Operand:
    names = _texts(arguments, name)
    if len(names) != 1:
        raise Fault(f"{name} takes the name of one place; places('a', 'b') takes several", name)
    return Named(OpenSet("place", (names[0], offset_of(name))), name)


def _steps(place: Reference, arguments: list[Any], name: str) -> ValueSet:
    if len(arguments) != 1 or not isinstance(arguments[0], Constant):
        raise Fault(f"{name} takes a number of steps: {name}(2)", name)
    values: ValueSet = built(arguments[0].word, references.vicinity, place, arguments[0].value)
    return values


_FUNCTIONS: dict[str, Callable[[list[Any], str], Operand]] = {
    "circle": _circle,
    "box": _box,
    "polygon": _polygon,
    "places": _places,
    "place": _place,
    "point": _point,
}
SET_FUNCTIONS = tuple(_FUNCTIONS)
"""The functions of a filter, which make a value or a set."""
REGIONS = ("circle(…)", "box(…)", "polygon(…)", "places(…)", "place(…)", "myloc")
