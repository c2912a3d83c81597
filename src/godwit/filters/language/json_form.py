"""Filters as plain data, for JSON: `to_json` and `from_json`.

*Theory.* The tree as it is: `{"all": […]}`, `{"any": […]}`, `{"some": attribute, "in": set}`, `{"only": attribute,
"in": set}`, `{"missing": attribute}`. A set is an object with one key, its kind: `one_of`, `range`, `kind`, `prefix`,
`suffix`, `substring`, `like`, `topic`, `circle`, `box`, `polygon`, `places`, `vicinity`, `not`. Values are written as
in events (`{"$time": …}`, `{"lon": …, "lat": …}`); `{"$my": "threshold"}` refers to the subscriber's own context.

*Rules.*
1. Whatever the data, the answer is a filter or a `FilterError` that begins with the JSON path of the fault.
2. The data may be less canonical than what `to_json` gives: `{"range": {">=": 5, "<=": 5}}` becomes the set of 5.

*Profile.* A broker reads filters of strangers, and others wait meanwhile. Where a part stands is kept as a chain of
steps, which becomes a text only for a fault; the texts took a fifth of the time.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from sys import intern
from typing import Any

from godwit.errors import BadValue, FilterError, FilterSyntaxError, FilterTooBig
from godwit.filters import references, regions, sets
from godwit.filters.events import NAME_LENGTH_MAX
from godwit.filters.filters import (
    DEPTH_MAX,
    LITERALS_MAX,
    And,
    Filter,
    Missing,
    Or,
    Some,
    all_of,
    any_of,
    missing,
    only,
    some,
)
from godwit.filters.references import OpenSet, Operand, Reference
from godwit.filters.regions import Box, Circle, Polygon
from godwit.filters.sets import (
    Complement,
    Everything,
    Interval,
    Like,
    Nothing,
    OneOf,
    Places,
    Prefix,
    Substring,
    Suffix,
    TopicPattern,
    ValueSet,
    complement,
)
from godwit.filters.shared_literals import shared_literals
from godwit.filters.values import Kind, Point, checked_value, kind_name

KINDS = {kind_name(kind): kind for kind in (Kind.NUMBER, Kind.TIME, Kind.TEXT)}
SHOWN_LENGTH_MAX = 60
PARTS_MAX = 2 * LITERALS_MAX  # of all ANDs and ORs together: no filter within the limits needs more
RANGE_ENDS = frozenset({">", ">=", "<", "<="})

Place = tuple["Place | None", str, int | None]
"""Where a part of the data stands: what it is a part of (None: it is the whole), its key, its number in a list."""


# ---------------------------------------------------------------- filter to data


def to_json(filter: Filter) -> dict[str, Any]:
    """The filter as plain data: dicts, lists, texts, numbers and bools."""
    match filter:
        case And(parts=parts):
            return {"all": [to_json(part) for part in parts]}
        case Or(parts=parts):
            return {"any": [to_json(part) for part in parts]}
        case Missing(attribute=attribute):
            return {"missing": attribute}
    return {"some" if isinstance(filter, Some) else "only": filter.attribute, "in": _set_data(filter.values)}


def _set_data(values: ValueSet) -> dict[str, Any]:
    match values:
        case Complement(inner):
            return {"not": _set_data(inner)}
        case Everything():
            return {"not": {"one_of": []}}
        case Nothing():
            return {"one_of": []}
        case OneOf(values=members) | OpenSet(builder="one_of", operands=members):
            return {"one_of": [value_to_json(member) for member in members]}
        case Interval(kind=kind, low=None, high=None):
            return {"kind": kind_name(kind)}
        case (
            Interval(low=low, high=high, low_open=low_open, high_open=high_open)
            | OpenSet(builder="interval", operands=(low, high, low_open, high_open))
        ):
            ends = ((">" if low_open else ">=", low), ("<" if high_open else "<=", high))
            return {"range": {op: value_to_json(end) for op, end in ends if end is not None}}
        case Prefix(text):
            return {"prefix": text}
        case Suffix(text):
            return {"suffix": text}
        case Substring(text):
            return {"substring": text}
        case Like(pattern):
            return {"like": pattern}
        case TopicPattern(pattern):
            return {"topic": pattern}
        case Circle(Point(lon, lat), radius) | OpenSet(builder="circle", operands=(Point(lon, lat), radius)):
            return {"circle": [lon, lat, value_to_json(radius)]}
        case Box(west, south, east, north):
            return {"box": [west, south, east, north]}
        case Polygon(corners):
            return {"polygon": [[corner.lon, corner.lat] for corner in corners]}
        case Places(names):
            return {"places": list(names)}
        case OpenSet(builder="like", operands=(reference,)):
            return {"like": value_to_json(reference)}
        case OpenSet(builder=builder, operands=operands):
            return {builder: [value_to_json(operand) for operand in operands]}
    raise TypeError(f"a {type(values).__name__} has no JSON form")


def value_to_json(value: Operand) -> Any:
    """A value as plain data, the way events write it too."""
    match value:
        case Reference(name):
            return {"$my": name}
        case datetime():
            return {"$time": value.isoformat().replace("+00:00", "Z")}
        case Point(lon, lat):
            return {"lon": lon, "lat": lat}
    return value


# ---------------------------------------------------------------- data to filter


def from_json(data: Any) -> Filter:
    """The filter that plain data says, or a `FilterError` with the path of what is wrong."""
    _check_size(data)
    return _filter(data, None, 0)


def _check_size(data: Any) -> None:
    """Refuse data of far too many parts before any is looked at."""
    pending, count = [data], 0
    while pending:
        node = pending.pop()
        if not isinstance(node, dict) or "in" in node:
            continue
        for parts in (node.get("all"), node.get("any")):
            if isinstance(parts, list | tuple):
                count += len(parts)
                if count > PARTS_MAX:
                    raise FilterTooBig(
                        f"a filter of more than {PARTS_MAX} parts: at most {LITERALS_MAX} literals are allowed"
                    )
                pending += parts


def loads(text: str) -> Filter:
    """The filter that a JSON document says."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise FilterSyntaxError(f"not valid JSON: {error.msg}", error.lineno, error.colno, text) from None
    except RecursionError:
        raise FilterTooBig("a JSON document nested too deep to be a filter") from None
    except ValueError as error:  # an int of thousands of digits
        raise FilterError(f"$: {error}") from None
    return from_json(data)


def _filter(data: Any, place: Place | None, depth: int) -> Filter:
    if depth > 2 * DEPTH_MAX:
        raise FilterTooBig(f"a filter nested more than {2 * DEPTH_MAX} deep, at {_path(place)[:SHOWN_LENGTH_MAX]}…")
    tag = _tag(data, place, _FILTERS, "a filter")
    for key in data:
        if key != tag and not (key == "in" and tag in ("some", "only")):
            raise _fault((place, key, None), f"nothing of this name belongs beside {tag!r}")
    if tag in ("all", "any"):
        parts = [
            _filter(part, (place, tag, i), depth + 1) for i, part in enumerate(_list(data[tag], (place, tag, None)))
        ]
        return all_of(*parts) if tag == "all" else any_of(*parts)
    name = _text(data[tag], (place, tag, None))
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise _fault(
            (place, tag, None), f"an attribute's name has 1 to {NAME_LENGTH_MAX} characters, this has {len(name)}"
        )
    if tag == "missing":
        return missing(name)
    if "in" not in data:
        raise _fault(place, f"{tag!r} needs 'in', the set of values")
    within = (place, "in", None)
    if tag == "some" and (text := _one_text(data["in"])) is not None:
        shared: Filter = _built((within, "one_of", 0), lambda: shared_literals.some(name, text))
        return shared
    values = _set(data["in"], within)
    name = intern(name)  # there are few of them, and many filters
    return some(name, values) if tag == "some" else only(name, values)


def _one_text(data: Any) -> str | None:
    """The text that is the only member of a set; None of any other set."""
    if type(data) is not dict or len(data) != 1:
        return None
    members = data.get("one_of")
    return members[0] if type(members) is list and len(members) == 1 and type(members[0]) is str else None


_FILTERS = dict.fromkeys(("all", "any", "some", "only", "missing"))


def _set(data: Any, place: Place) -> ValueSet:
    tag = _tag(data, place, _SETS, "a set of values")
    if len(data) > 1:
        raise _fault(place, f"a set of values has one key, this has {', '.join(map(_shown, data))}")
    within = (place, tag, None)
    try:
        return _SETS[tag](data[tag], within)
    except BadValue as error:
        raise _fault(within, str(error)) from None


def _not(data: Any, place: Place) -> ValueSet:
    if isinstance(data, dict) and "not" in data:
        raise _fault(place, "a 'not' within a 'not': leave out both")
    return complement(_set(data, place))


def _one_of(data: Any, place: Place) -> ValueSet:
    return references.one_of([_value(value, (place, "", i)) for i, value in enumerate(_list(data, place))])


def _range(data: Any, place: Place) -> ValueSet:
    if not isinstance(data, dict) or not data or not data.keys() <= RANGE_ENDS:
        raise _fault(place, f"{_shown(data)} is not a range: it takes one of > and >=, one of < and <=, or both")
    if (">" in data and ">=" in data) or ("<" in data and "<=" in data):
        raise _fault(place, "a range has each end once")
    low = high = None
    for op, value in data.items():
        if op[0] == ">":
            low = _value(value, (place, op, None))
        else:
            high = _value(value, (place, op, None))
    return references.interval(low, high, low_open=">" in data, high_open="<" in data)


def _kind(data: Any, place: Place) -> ValueSet:
    if not isinstance(data, str) or data not in KINDS:
        raise _fault(place, f"{_shown(data)} is not an ordered kind: allowed are {', '.join(KINDS)}")
    return sets.all_of_kind(KINDS[data])


def _like(data: Any, place: Place) -> ValueSet:
    pattern = _value(data, place)
    return references.like(pattern if isinstance(pattern, Reference) else _text(data, place))


def _circle(data: Any, place: Place) -> ValueSet:
    match [_value(item, (place, "", i)) for i, item in enumerate(_list(data, place))]:
        case [(Reference() | Point()) as centre, radius]:
            return references.circle(centre, radius)
        case [lon, lat, radius]:
            return references.circle(Point(lon, lat), radius)
    raise _fault(place, "a circle is [lon, lat, metres], or [a point or reference, metres]")


def _box(data: Any, place: Place) -> ValueSet:
    corners = _list(data, place)
    if len(corners) != 4:
        raise _fault(place, "a box is [west, south, east, north]")
    return regions.box(*corners)


def _polygon(data: Any, place: Place) -> ValueSet:
    corners = _list(data, place)
    for i, corner in enumerate(corners):
        if not isinstance(corner, list) or len(corner) != 2:
            raise _fault((place, "", i), f"{_shown(corner)} is not a corner: it is [lon, lat]")
        _built((place, "", i), lambda corner=corner: Point(*corner))  # type: ignore[misc]
    return regions.polygon(corners)


def _places(data: Any, place: Place) -> ValueSet:
    return sets.places([_text(name, (place, "", i)) for i, name in enumerate(_list(data, place))])


def _vicinity(data: Any, place: Place) -> ValueSet:
    match _list(data, place):
        case [{"$my": str() as name}, steps]:
            return references.vicinity(Reference(name), steps)
    raise _fault(place, 'a vicinity is [{"$my": "location"}, steps]')


_SETS: dict[str, Callable[[Any, Place], ValueSet]] = {
    "one_of": _one_of,
    "range": _range,
    "kind": _kind,
    "prefix": lambda data, place: sets.starts_with(_text(data, place)),
    "suffix": lambda data, place: sets.ends_with(_text(data, place)),
    "substring": lambda data, place: sets.holds_text(_text(data, place)),
    "like": _like,
    "topic": lambda data, place: sets.topic_pattern(_text(data, place)),
    "circle": _circle,
    "box": _box,
    "polygon": _polygon,
    "places": _places,
    "vicinity": _vicinity,
    "not": _not,
}


# ---------------------------------------------------------------- pieces


def _value(data: Any, place: Place) -> Any:
    """A value or a reference."""
    match data:
        case {"$my": str() as name, **rest} if not rest and 0 < len(name) <= NAME_LENGTH_MAX:
            return Reference(str(_built(place, lambda: checked_value(name))))
        case {"$time": str() as moment, **rest} if not rest:
            return _built(place, lambda: checked_value(_moment(moment)))
        case {"lon": lon, "lat": lat, **rest} if not rest:
            return _built(place, lambda: Point(lon, lat))
        case dict() | list() | None:
            raise _fault(
                place,
                f"{_shown(data)} is not a value: write a text, number or bool, "
                '{"$time": …}, {"lon": …, "lat": …} or {"$my": …}',
            )
    try:
        return checked_value(data)
    except BadValue as error:
        raise _fault(place, str(error)) from None


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise BadValue(f"{_shown(text)} is not a time: write it as 2026-11-15T06:00:00Z") from None


def _tag(data: Any, place: Place | None, tags: Mapping[str, Any], what: str) -> str:
    """The one key of an object that says what the object is."""
    found, count = "", 0
    for key in data if isinstance(data, dict) else ():
        if key in tags:
            found, count = key, count + 1
    if count != 1:
        raise _fault(place, f"{_shown(data)} is not {what}: it must be an object with one of {', '.join(tags)}")
    return found


def _list(data: Any, place: Place) -> list[Any]:
    if not isinstance(data, list | tuple):
        raise _fault(place, f"{_shown(data)} is not a list")
    return list(data)


def _text(data: Any, place: Place) -> str:
    if not isinstance(data, str):
        raise _fault(place, f"{_shown(data)} is not a text")
    try:
        return str(checked_value(data))
    except BadValue as error:
        raise _fault(place, str(error)) from None


def _built(place: Place, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except BadValue as error:
        raise _fault(place, str(error)) from None


def _shown(data: Any) -> str:
    if isinstance(data, dict | list):
        data = (
            f"an object with {', '.join(map(repr, data)) or 'no keys'}"
            if isinstance(data, dict)
            else f"a list of {len(data)}"
        )
    else:
        data = repr(data)
    return data if len(data) <= SHOWN_LENGTH_MAX else f"{data[:SHOWN_LENGTH_MAX]}…"


def _fault(place: Place | None, message: str) -> FilterError:
    return FilterError(f"{_path(place)}: {message}")


def _path(place: Place | None) -> str:
    """Where something stands, as a JSON path."""
    steps: list[str] = []
    while place is not None:
        place, key, number = place
        step = f"['{key}']" if key in RANGE_ENDS else f".{key}" if key else ""
        steps.append(step if number is None else f"{step}[{number}]")
    return "".join(["$", *reversed(steps)])
