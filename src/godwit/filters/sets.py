"""Value sets: the sets of values a literal may name.

*Theory.* A set is made of checked values (`values.py`) and is immutable, hashable and in canonical form, so that `==`
is cheap and means what it says. The builders at the end of the file (`between`, `one_of`, `like` ...) choose the
canonical class: an interval of one point is a finite set, a LIKE pattern that only asks for a prefix is a `Prefix`.
How two sets relate (subset, disjoint, union ...) is the business of `relations.py`.

*Rules.*
1. `contains` is total: a value of a kind the set knows nothing of is outside, never an error.
2. `kinds` never leaves out a kind that the set holds a value of.
3. The order within a kind is treated as dense; texts order by code point, which is also the order of their UTF-8 bytes.
4. A complement is taken within all values of all kinds, so `complement(complement(s)) == s`.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from godwit.errors import BadValue
from godwit.filters.like_patterns import (
    ANY_ONE,
    ANY_RUN,
    ESCAPE,
    Plan,
    Segments,
    escaped,
    matches,
    planned,
    row_of,
    segments_of,
)
from godwit.filters.topic_patterns import ANY_LEVEL, ANY_LEVELS, Levels, levels_of, pattern_of, why_no_pattern
from godwit.filters.topic_patterns import matches as matches_topic
from godwit.filters.values import (
    ALL_KINDS,
    ORDERED_KINDS,
    Kind,
    Value,
    checked_value,
    distinct_sorted,
    identity,
    kind_of,
)

PATTERN_LENGTH_MAX = 1_024
VALUES_PER_STEP = 8
CHARACTERS_PER_STEP = 256
PATTERN_CHARACTERS_PER_STEP = 16
"""Numbers of values, characters of a text and characters of a pattern that weigh as much as one literal."""
VALUES_ONE_BY_ONE_MAX = 16  # of an attribute: a pattern looks at more of them all at once


class ValueSet:
    """A set of values. Ask `contains`; build with the functions of this module."""

    __slots__ = ()

    @property
    def kinds(self) -> Kind:
        """The kinds of which this set may hold values."""
        return ALL_KINDS

    @property
    def is_open(self) -> bool:
        """Whether the set depends on a subscriber's context that is not filled in yet (`references.py`)."""
        return False

    @property
    def weight(self) -> int:
        """What a comparison with this set costs: 1, and more for one that takes long to look at."""
        return 1

    if TYPE_CHECKING:  # not an ABC: its metaclass makes `isinstance`, which `relations.py` lives on, four times slower

        @abstractmethod
        def contains(self, value: Value) -> bool:
            """Whether `value` lies in the set."""

    def contains_some(self, values: tuple[Value, ...]) -> bool:
        """Whether some of `values` lies in the set."""
        return any(map(self.contains, values))

    def contains_every(self, values: tuple[Value, ...]) -> bool:
        """Whether each of `values` lies in the set."""
        return all(map(self.contains, values))


@dataclass(frozen=True, slots=True)
class Everything(ValueSet):
    """All values of all kinds."""

    def contains(self, value: Value) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Nothing(ValueSet):
    """No value at all."""

    @property
    def kinds(self) -> Kind:
        return Kind(0)

    def contains(self, value: Value) -> bool:
        return False


EVERYTHING = Everything()
NOTHING = Nothing()


@dataclass(frozen=True, slots=True)
class OneOf(ValueSet):
    """A finite set of values, kept in canonical order."""

    values: tuple[Value, ...]
    _many: frozenset[Any] | None = field(init=False, compare=False, repr=False)  # None: there is one, as is most usual

    def __post_init__(self) -> None:
        many = None if len(self.values) == 1 else frozenset(map(identity, self.values))
        object.__setattr__(self, "_many", many)

    @property
    def members(self) -> frozenset[Any]:
        """The values by which they meet: see `identity`."""
        return frozenset((identity(self.values[0]),)) if self._many is None else self._many

    def __hash__(self) -> int:
        return hash(self.values if self._many is None else self._many)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OneOf):
            return False
        if self._many is None:
            return other._many is None and self.contains(other.values[0])
        return self._many == other._many

    @property
    def kinds(self) -> Kind:
        kinds = Kind(0)
        for value in self.values:
            kinds |= kind_of(value)
        return kinds

    @property
    def weight(self) -> int:
        return 1 + len(self.values) // VALUES_PER_STEP

    def contains(self, value: Value) -> bool:
        if self._many is None:
            own = self.values[0]
            return own == value and (type(own) is bool) is (type(value) is bool)
        return (identity(value) if type(value) is bool else value) in self._many


@dataclass(frozen=True, slots=True)
class Interval(ValueSet):
    """All values of one ordered kind between two ends; an end that is None is unbounded, an open end is left out."""

    kind: Kind
    low: Value | None = None
    high: Value | None = None
    low_open: bool = False
    high_open: bool = False

    @property
    def kinds(self) -> Kind:
        return self.kind

    def contains(self, value: Value) -> bool:
        if kind_of(value) is not self.kind:
            return False
        low: Any = self.low
        high: Any = self.high
        if low is not None and (value <= low if self.low_open else value < low):
            return False
        return high is None or (value < high if self.high_open else value <= high)


@dataclass(frozen=True, slots=True)
class Prefix(ValueSet):
    """All texts that start with `text`."""

    text: str

    @property
    def kinds(self) -> Kind:
        return Kind.TEXT

    @property
    def weight(self) -> int:
        return 1 + len(self.text) // CHARACTERS_PER_STEP

    def contains(self, value: Value) -> bool:
        return type(value) is str and value.startswith(self.text)


@dataclass(frozen=True, slots=True)
class Suffix(ValueSet):
    """All texts that end with `text`."""

    text: str

    @property
    def kinds(self) -> Kind:
        return Kind.TEXT

    @property
    def weight(self) -> int:
        return 1 + len(self.text) // CHARACTERS_PER_STEP

    def contains(self, value: Value) -> bool:
        return type(value) is str and value.endswith(self.text)


@dataclass(frozen=True, slots=True)
class Substring(ValueSet):
    """All texts that hold `text` somewhere."""

    text: str

    @property
    def kinds(self) -> Kind:
        return Kind.TEXT

    @property
    def weight(self) -> int:
        return 1 + len(self.text) // CHARACTERS_PER_STEP

    def contains(self, value: Value) -> bool:
        return type(value) is str and self.text in value


@dataclass(frozen=True, slots=True)
class Like(ValueSet):
    """All texts that match an SQL LIKE pattern which is none of the simpler sets: see `like_patterns.py`."""

    pattern: str
    segments: Segments = field(init=False, compare=False, repr=False)
    _plan: Plan | None = field(init=False, compare=False, repr=False)  # None: it was never looked for

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", segments_of(self.pattern))
        object.__setattr__(self, "_plan", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Like, (self.pattern,))

    @property
    def kinds(self) -> Kind:
        return Kind.TEXT

    @property
    def weight(self) -> int:
        return 1 + len(self.pattern) // PATTERN_CHARACTERS_PER_STEP

    def plan(self) -> Plan:
        """How the pattern is looked for, worked out when it is first."""
        plan = self._plan
        if plan is None:
            plan = planned(self.segments)
            object.__setattr__(self, "_plan", plan)
        return plan

    def contains(self, value: Value) -> bool:
        return type(value) is str and matches(value, self.segments, self._plan or self.plan())

    def _are_few(self, values: tuple[Value, ...]) -> bool:
        length_max = self.plan().length_max
        return len(values) <= VALUES_ONE_BY_ONE_MAX and not any(
            type(value) is str and len(value) > length_max for value in values
        )

    def contains_some(self, values: tuple[Value, ...]) -> bool:
        if self._are_few(values):
            return any(map(self.contains, values))
        return row_of(values).some(self.segments)

    def contains_every(self, values: tuple[Value, ...]) -> bool:
        if self._are_few(values):
            return all(map(self.contains, values))
        return all(type(value) is str for value in values) and row_of(values).every(self.segments)


@dataclass(frozen=True, slots=True)
class TopicPattern(ValueSet):
    """All texts that match a topic pattern of MQTT with a wildcard: see `topic_patterns.py`."""

    pattern: str

    @property
    def kinds(self) -> Kind:
        return Kind.TEXT

    @property
    def weight(self) -> int:
        return 1 + len(self.pattern) // PATTERN_CHARACTERS_PER_STEP

    @property
    def levels(self) -> Levels:
        """The pattern level by level."""
        return levels_of(self.pattern)

    def contains(self, value: Value) -> bool:
        return type(value) is str and matches_topic(self.pattern, value)


@dataclass(frozen=True, slots=True)
class Places(ValueSet):
    """A set of named places. It holds their names: so an event says where it is when it has no coordinates."""

    names: tuple[str, ...]
    members: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozenset(self.names))

    @property
    def kinds(self) -> Kind:
        return Kind.TEXT

    @property
    def weight(self) -> int:
        return 1 + len(self.names) // VALUES_PER_STEP

    def contains(self, value: Value) -> bool:
        return type(value) is str and value in self.members


@dataclass(frozen=True, slots=True)
class Complement(ValueSet):
    """All values of all kinds that are not in `inner`."""

    inner: ValueSet

    @property
    def is_open(self) -> bool:
        return self.inner.is_open

    @property
    def weight(self) -> int:
        return self.inner.weight

    def contains(self, value: Value) -> bool:
        return not self.inner.contains(value)

    def contains_some(self, values: tuple[Value, ...]) -> bool:
        return not self.inner.contains_every(values)

    def contains_every(self, values: tuple[Value, ...]) -> bool:
        return not self.inner.contains_some(values)


# ---------------------------------------------------------------- builders: the canonical set for what is meant


def one_of(values: Iterable[Any]) -> ValueSet:
    """The finite set of `values`."""
    distinct = distinct_sorted(checked_value(value) for value in values)
    return OneOf(distinct) if distinct else NOTHING


def interval(low: Any = None, high: Any = None, *, low_open: bool = False, high_open: bool = False) -> ValueSet:
    """The values from `low` to `high`; None leaves that side unbounded. Both ends must be of one ordered kind."""
    if low is None and high is None:
        raise BadValue("an interval needs at least one end; all_of_kind() gives all values of a kind")
    low = None if low is None else checked_value(low)
    high = None if high is None else checked_value(high)
    kind = kind_of(high if low is None else low)
    if kind not in ORDERED_KINDS:
        raise BadValue(f"{(high if low is None else low)!r} has no order: allowed are numbers, times and texts")
    if low is None and high == "":
        low = ""  # the least text, so an end; and as a closed lower end it bounds nothing
    elif low == "" and high != "" and not low_open and (high is None or kind_of(high) is kind):
        low = None
    if low is not None and high is not None:
        if kind_of(high) is not kind:
            raise BadValue(f"an interval from {low!r} to {high!r} mixes two kinds of values")
        if low > high or (low == high and (low_open or high_open)):
            return NOTHING
        if low == high:
            return one_of([low])
    return Interval(kind, low, high, low_open and low is not None, high_open and high is not None)


def less_than(value: Any) -> ValueSet:
    """The values below `value`."""
    return interval(high=value, high_open=True)


def at_most(value: Any) -> ValueSet:
    """The values up to and with `value`."""
    return interval(high=value)


def more_than(value: Any) -> ValueSet:
    """The values above `value`."""
    return interval(low=value, low_open=True)


def at_least(value: Any) -> ValueSet:
    """The values from `value` on."""
    return interval(low=value)


def between(low: Any, high: Any) -> ValueSet:
    """The values from `low` to `high`, both with it."""
    return interval(low, high)


def all_of_kind(kind: Kind) -> ValueSet:
    """All values of an ordered kind."""
    if kind not in (Kind.NUMBER, Kind.TIME, Kind.TEXT):
        raise BadValue(f"{kind!r} is not an ordered kind: allowed are NUMBER, TIME and TEXT")
    return Interval(kind)


def starts_with(text: str) -> ValueSet:
    """The texts that start with `text`."""
    checked_value(text)
    return Prefix(text) if text else Interval(Kind.TEXT)


def ends_with(text: str) -> ValueSet:
    """The texts that end with `text`."""
    checked_value(text)
    return Suffix(text) if text else Interval(Kind.TEXT)


def holds_text(text: str) -> ValueSet:
    """The texts that hold `text` somewhere."""
    checked_value(text)
    return Substring(text) if text else Interval(Kind.TEXT)


def like(pattern: str, escape: str | None = ESCAPE) -> ValueSet:
    """The texts that match an SQL LIKE pattern, as the simplest set that says so."""
    if escape is not None and (len(escape) != 1 or escape in (ANY_RUN, ANY_ONE)):
        raise BadValue(f"{escape!r} cannot escape: ESCAPE takes one character that is not a wildcard")
    checked_value(pattern)
    canonical = _canonical_pattern(pattern, escape)
    match _literals_of(canonical):
        case [text]:
            return one_of([text])
        case [text, ""]:
            return starts_with(text)
        case ["", text]:
            return ends_with(text)
        case ["", text, ""]:
            return holds_text(text)
    if len(canonical) > PATTERN_LENGTH_MAX:
        raise BadValue(f"a LIKE pattern of {len(canonical)} characters: at most {PATTERN_LENGTH_MAX} are allowed")
    return Like(canonical)


def topic_pattern(pattern: str) -> ValueSet:
    """The texts that match a topic pattern of MQTT: `fleet/+/speed`, `fleet/#`. Without a wildcard it is one text."""
    checked_value(pattern)
    fault = why_no_pattern(pattern)
    if fault is not None:
        raise BadValue(f"{fault}: {pattern!r}" if pattern else fault)
    if ANY_LEVEL not in pattern and ANY_LEVELS not in pattern:
        return one_of([pattern])
    return TopicPattern(ANY_LEVELS if pattern == f"{ANY_LEVEL}/{ANY_LEVELS}" else pattern)


def topic_of_levels(levels: Levels) -> ValueSet:
    """The texts that match a pattern which was made of others."""
    pattern = pattern_of(levels)
    return TopicPattern(pattern) if levels.is_open or ANY_LEVEL in levels.levels else one_of([pattern])


def _literals_of(canonical: str) -> list[str]:
    """The texts between the `%`s of a pattern; none if it has a `_`."""
    if ESCAPE not in canonical:
        return [] if ANY_ONE in canonical else canonical.split(ANY_RUN)
    segments = segments_of(canonical)
    literals = ["".join(segment) for segment in segments if None not in segment]  # type: ignore[arg-type]
    return literals if len(literals) == len(segments) else []


def _canonical_pattern(pattern: str, escape: str | None) -> str:
    """The same pattern, `\\` as its escape if it needs one; of wildcards in a row the `_`s first, then one `%`."""
    unusual = (ESCAPE, escape or ESCAPE, ANY_RUN + ANY_RUN, ANY_RUN + ANY_ONE)
    if not any(piece in pattern for piece in unusual):
        return pattern
    out: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise BadValue(f"the LIKE pattern {pattern!r} ends in its escape character: twice, it means itself")
            out.append(escaped(literal))
        elif character not in (ANY_RUN, ANY_ONE):
            out.append(escaped(character))
        elif not out or out[-1] != ANY_RUN:
            out.append(character)
        elif character == ANY_ONE:
            out.insert(-1, ANY_ONE)
    return "".join(out)


def places(names: Iterable[str]) -> ValueSet:
    """The named places `names`."""
    distinct = sorted({str(checked_value(name)) for name in names})
    return Places(tuple(distinct)) if distinct else NOTHING


def complement(values: ValueSet) -> ValueSet:
    """All values that `values` leaves out."""
    if isinstance(values, Complement):
        return values.inner
    if isinstance(values, Everything):
        return NOTHING
    if isinstance(values, Nothing):
        return EVERYTHING
    return Complement(values)
