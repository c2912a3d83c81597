"""Twins: for each struct that holds filters, events or contexts, a struct of plain fields that msgspec can write.

*Theory.* Messages and states are msgspec structs. What they hold besides plain values (events, filters, contexts) are
classes of our own. For each type that holds such a thing a *twin* is made, once, from its type hints. A struct is
lowered to its twin to be written, and raised from it after reading. A type that holds plain values only is its own twin
and costs nothing. A *form* says how filters, events and contexts are written: the wire writes each where it stands, a
snapshot writes each once (`plain_data.py`).

*Rules.*
1. What was lowered and is raised again is equal to what it was, and of the same types all the way down.
2. A field keeps its name, its default and its place. A twin keeps the tag of its type.
3. A field with the hint `msgspec.Struct` holds a struct of any registered kind; it is written with its tag. So are the
   messages in a `Frame` and in a `Packet`, whose types further rooms add to.
4. A type that nobody knows how to write is a `TypeError` when its twin is made, not when the first value comes.
5. What is lowered in steps (`Twins.lowering`) is written with the same bytes as what is lowered at once (`pieces_of`).
   Between two steps one element of a collection is lowered and written, or at most `AT_ONCE` small ones are lowered.
"""

import types
from collections.abc import Callable, Sequence
from functools import reduce
from operator import attrgetter, or_
from typing import Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import structs

from godwit.broker.messages import Frame, Packet
from godwit.codec.pieces import ARRAY, TABLE, Steps, Written, collected, pieces_of
from godwit.filters.contexts import Described
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.values import Value

__all__ = ["Convert", "Lowering", "Shape", "Twins", "WireForm", "any_of", "many_in_steps"]

Convert = Callable[[Any], Any]
Lowering = Callable[[Any], Steps]
"""Lowers a value in steps; what it returns may have parts in it that are written already (`Written`)."""

PLAIN = (str, int, float, bool, bytes, None, type(None), str | None, int | None, float | None)
CONTEXTS = (dict[str, Value], dict[str, Value | tuple[Value, ...]], Attributes)
BEARING = {(Frame, "message"), (Packet, "message")}
AT_ONCE = 64  # small elements of a collection that are lowered in one step


class Shape:
    """A type of a field: what stands for it in the twin, and how to get there and back. None: nothing to do.

    `steps`: how to get there bit by bit, for what may be large.
    """

    __slots__ = ("lower", "raise_", "steps", "type")

    def __init__(
        self, type: Any, lower: Convert | None = None, raise_: Convert | None = None, steps: Lowering | None = None
    ) -> None:
        self.type = type
        self.lower = lower
        self.raise_ = raise_
        self.steps = steps


class WireForm(Protocol):
    """How the classes of our own are written, and what stands for a struct of any kind."""

    filter: Shape
    event: Shape
    described: Shape
    value: Shape
    attributes: Shape
    any_struct: Shape


class Twins:
    """The twins of one form."""

    def __init__(self, form: WireForm) -> None:
        self._form = form
        self._shapes: dict[Any, Shape] = {}
        self.lowers: dict[type, Convert] = {}  # by type
        self.raises: dict[type, Convert] = {}  # by twin

    def lowered(self, value: Any) -> Any:
        """The twin of a struct."""
        lower = self.lowers.get(type(value))
        return value if lower is None else lower(value)

    def lowering(self, value: Any) -> Steps:
        """The twin of a struct, made in steps."""
        shape = self._shapes.get(type(value))
        if shape is None or shape.steps is None:
            return self.lowered(value)
        return (yield from shape.steps(value))

    def raised(self, twin: Any) -> Any:
        """The struct of a twin."""
        back = self.raises.get(type(twin))
        return twin if back is None else back(twin)

    def of(self, kind: type[msgspec.Struct]) -> Any:
        """The twin of a type; the type itself when it holds plain values only."""
        return self._struct(kind).type

    # ------------------------------------------------------------ from hints to shapes

    def _struct(self, kind: type[msgspec.Struct]) -> Shape:
        if kind in self._shapes:
            return self._shapes[kind]
        hints = get_type_hints(kind)
        shapes = {
            field.name: self._form.any_struct
            if (kind, field.name) in BEARING
            else self._shape(hints[field.name], f"{kind.__name__}.{field.name}")
            for field in structs.fields(kind)
        }
        if all(shape.lower is None and shape.raise_ is None for shape in shapes.values()):
            self._shapes[kind] = Shape(kind)
            return self._shapes[kind]
        fields = [
            (field.name, shapes[field.name].type, field.default)
            if field.default is not msgspec.NODEFAULT
            else (field.name, shapes[field.name].type, msgspec.field(default_factory=field.default_factory))
            if field.default_factory is not msgspec.NODEFAULT
            else (field.name, shapes[field.name].type)
            for field in structs.fields(kind)
        ]
        config = kind.__struct_config__
        twin = msgspec.defstruct(
            f"{kind.__name__}Twin", fields, tag=config.tag, frozen=True, omit_defaults=config.omit_defaults
        )
        self.lowers[kind] = _converter(twin, [(name, shape.lower) for name, shape in shapes.items()])
        self.raises[twin] = _converter(kind, [(name, shape.raise_) for name, shape in shapes.items()])
        self._shapes[kind] = Shape(twin, self.lowers[kind], self.raises[twin], _struct_in_steps(twin, shapes))
        return self._shapes[kind]

    def _shape(self, hint: Any, where: str) -> Shape:
        """What stands for a type in a twin; `where` says in errors which field it is."""
        if hint in PLAIN:
            return Shape(hint)
        if hint == Filter:
            return self._form.filter
        if hint is Event:
            return self._form.event
        if hint == Described:
            return self._form.described
        if hint == Value:
            return self._form.value
        if hint in CONTEXTS:
            return self._form.attributes
        if hint is msgspec.Struct:
            return self._form.any_struct
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self._struct(hint)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return self._union(arguments, where)
        if origin is Literal:
            return Shape(hint)
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return _many(self._shape(arguments[0], where), hint)
        if origin is tuple:
            return _row([self._shape(each, where) for each in arguments], hint)
        if origin is dict:
            return _table(self._shape(arguments[0], where), self._shape(arguments[1], where), hint)
        raise TypeError(f"{where}: cannot write a field of type {hint}")

    def _union(self, arguments: tuple[Any, ...], where: str) -> Shape:
        """One of several structs or plain values; or one of anything, or None."""
        others = tuple(each for each in arguments if each is not type(None))
        if len(others) < len(arguments):
            inner = self._shape(reduce(or_, others), where)
            if inner.lower is None and inner.raise_ is None:
                return Shape(inner.type | None)
            return Shape(_or_none(inner.type), _unless_none(inner.lower), _unless_none(inner.raise_))
        shapes = [self._shape(each, where) for each in others]
        whole = any_of([shape.type for shape in shapes])
        if all(shape.lower is None and shape.raise_ is None for shape in shapes):
            return Shape(whole)
        return Shape(whole, self.lowered, self.raised)


# ---------------------------------------------------------------- parts


def _converter(kind: Any, fields: list[tuple[str, Convert | None]]) -> Convert:
    """A function that makes a `kind` of an object with these fields, each converted if need be."""
    converts = [(place, convert) for place, (_, convert) in enumerate(fields) if convert is not None]
    if len(fields) == 1:
        name, convert = fields[0][0], converts[0][1] if converts else _as_it_is
        return lambda seen: kind(convert(getattr(seen, name)))
    values_of = attrgetter(*(name for name, _ in fields))

    def converted(seen: Any) -> Any:
        values = list(values_of(seen))
        for place, convert in converts:
            values[place] = convert(values[place])
        return kind(*values)

    return converted


def _struct_in_steps(twin: Any, shapes: dict[str, Shape]) -> Lowering:
    """Lowers one field after the other."""

    def lowering(seen: Any) -> Steps:
        values = []
        for name, shape in shapes.items():
            value = getattr(seen, name)
            if shape.steps is not None:
                value = yield from shape.steps(value)
            elif shape.lower is not None:
                value = shape.lower(value)
            values.append(value)
        return twin(*values)

    return lowering


def any_of(kinds: list[Any]) -> Any:
    """The union of types that are known only now."""
    return reduce(or_, kinds)


def _or_none(kind: Any) -> Any:
    return Any if kind is Any else kind | None


def _as_it_is(value: Any) -> Any:
    return value


def _unless_none(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _many(inner: Shape, hint: Any) -> Shape:
    """Any number of one shape."""
    if inner.lower is None and inner.raise_ is None:
        return Shape(hint)
    whole = tuple[inner.type, ...]  # type: ignore[name-defined]
    return Shape(
        whole, _mapped(inner.lower), _mapped(inner.raise_), many_in_steps(inner.lower or _as_it_is, inner.steps)
    )


def many_in_steps(lower: Convert, steps: Lowering | None = None, at_once: int = AT_ONCE) -> Lowering:
    """Lowers and writes one element of a tuple or list after the other; `steps`: the same for one that may be large.

    `at_once`: so many small elements need no steps.
    """

    def lowering(values: Sequence[Any]) -> Steps:
        if len(values) > at_once:
            return (yield from collected(ARRAY, len(values), map(lower, values)))
        if steps is None:
            return tuple(map(lower, values))
        parts = []
        for value in values:
            parts.append(Written(pieces_of((yield from steps(value)))))
            yield
        return tuple(parts)

    return lowering


def _mapped(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: tuple(map(convert, values))


def _row(shapes: list[Shape], hint: Any) -> Shape:
    """So many, each of its own shape."""
    if all(shape.lower is None and shape.raise_ is None for shape in shapes):
        return Shape(hint)
    kinds = tuple(shape.type for shape in shapes)
    lowers = [shape.lower or _as_it_is for shape in shapes]
    raises = [shape.raise_ or _as_it_is for shape in shapes]
    return Shape(
        tuple[kinds],  # type: ignore[valid-type]
        lambda values: tuple([lower(value) for lower, value in zip(lowers, values, strict=True)]),
        lambda values: tuple([back(value) for back, value in zip(raises, values, strict=True)]),
    )


def _table(key: Shape, value: Shape, hint: Any) -> Shape:
    """A dict; the order of its entries stays."""
    if all(convert is None for convert in (key.lower, key.raise_, value.lower, value.raise_)):
        return Shape(hint)
    return Shape(
        dict[key.type, value.type],  # type: ignore[name-defined]
        _entries(key.lower, value.lower),
        _entries(key.raise_, value.raise_),
        _table_in_steps(key.lower or _as_it_is, value),
    )


def _table_in_steps(key: Convert, inner: Shape) -> Lowering:
    lower = inner.lower or _as_it_is

    def lowering(table: dict[Any, Any]) -> Steps:
        if len(table) > AT_ONCE:
            both = (each for name, value in table.items() for each in (key(name), lower(value)))
            return (yield from collected(TABLE, len(table), both))
        if inner.steps is None:
            return {key(name): lower(value) for name, value in table.items()}
        parts = {}
        for name, value in table.items():
            parts[key(name)] = Written(pieces_of((yield from inner.steps(value))))
            yield
        return parts

    return lowering


def _entries(key: Convert | None, value: Convert | None) -> Convert | None:
    if key is None and value is None:
        return None
    if key is None:
        assert value is not None
        return lambda table: {name: value(held) for name, held in table.items()}
    if value is None:
        return lambda table: {key(name): held for name, held in table.items()}
    return lambda table: {key(name): value(held) for name, held in table.items()}
