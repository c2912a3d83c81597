"""Messages are frozen, cheap to compare, and each has its line in the reference."""

from pathlib import Path

import msgspec
import pytest

from godwit.broker import effects, messages
from godwit.mobility import adhoc_messages as over_the_air
from godwit.mobility import messages as about_moves

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "messages.md"
TYPES = [
    kind
    for kind in (getattr(room, name) for room in (messages, about_moves, over_the_air) for name in room.__all__)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
]
MOVES = [
    kind
    for kind in (getattr(effects, name) for name in effects.__all__)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
]


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_each_type_and_each_of_its_fields_is_in_the_reference(kind):
    page = PAGE.read_text(encoding="utf-8")
    name = f"`{kind.__name__}`"
    rows = [line for line in page.split("\n") if line.startswith(f"| {name} ")]
    about = (
        rows[0] if rows else next(part for part in page.split("\n\n") if f"A {name}" in part or part.startswith(name))
    )
    missing = [field.name for field in msgspec.structs.fields(kind) if f"`{field.name}`" not in about]
    assert not missing


@pytest.mark.parametrize("kind", [*TYPES, *MOVES], ids=lambda kind: kind.__name__)
def test_nothing_that_travels_can_be_changed(kind):
    assert kind.__struct_config__.frozen
