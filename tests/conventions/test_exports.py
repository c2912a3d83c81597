"""Each room says in `__all__` what it offers, and each thing it offers explains itself."""

import doctest
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.conventions.repository import PACKAGE, rooms


def built_rooms() -> list[str]:
    return [room for room in rooms() if (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()]


def faults(room: ModuleType) -> Iterator[str]:
    if not inspect.getdoc(room):
        yield f"{room.__name__} has no docstring"
    if not hasattr(room, "__all__"):
        yield f"{room.__name__} has no __all__"
        return
    for name in room.__all__:
        if not hasattr(room, name):
            yield f"{room.__name__} exports {name}, which does not exist"
        elif not _is_documented(getattr(room, name)):
            yield f"{room.__name__}.{name} has no docstring"


def _is_documented(thing: object) -> bool:
    """Whether a class or function has a docstring of its own; a dataclass's generated one does not count."""
    if inspect.isclass(thing):
        doc = vars(thing).get("__doc__") or ""
        return bool(doc) and not doc.startswith(f"{thing.__name__}(")
    return bool(thing.__doc__) if inspect.isroutine(thing) else True


@pytest.mark.parametrize("room", built_rooms())
def test_a_room_says_what_it_offers(room: str) -> None:
    assert list(faults(importlib.import_module(f"godwit.{room}"))) == []


@pytest.mark.parametrize("room", built_rooms())
def test_what_a_room_shows_of_itself_is_true(room: str) -> None:
    assert doctest.testmod(importlib.import_module(f"godwit.{room}")).failed == 0


def planted(text: str) -> ModuleType:
    room = ModuleType("planted", "A room.")
    exec(text, vars(room))
    return room


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x = 1", "planted has no __all__"),
        ("__all__ = ['gone']", "planted exports gone, which does not exist"),
        ("__all__ = ['f']\ndef f(): pass", "planted.f has no docstring"),
        ("__all__ = ['C']\nclass C(Exception): pass", "planted.C has no docstring"),
        (
            "__all__ = ['D']\nfrom dataclasses import dataclass\n@dataclass\nclass D:\n    x: int",
            "planted.D has no docstring",
        ),
    ],
)
def test_a_missing_export_or_docstring_is_caught(text: str, fault: str) -> None:
    assert list(faults(planted(text))) == [fault]


def test_a_room_in_order_has_no_fault() -> None:
    assert list(faults(planted("__all__ = ['f', 'LIMIT']\nLIMIT = 3\ndef f():\n    'Do it.'"))) == []
