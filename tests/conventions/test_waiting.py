"""Tests wait for a condition with `until`: no loop asks for it again and again."""

import ast

import pytest

from tests.conventions.repository import ROOT

TURN = "a_turn"
"""What lets others go first for a moment. `pause` is for what another process does, which the loop does not see."""


def busy_waits(text: str) -> list[int]:
    """The lines of loops that only wait: `while` with nothing in it but the moment that it lets others go first."""
    return [
        loop.lineno
        for loop in ast.walk(ast.parse(text))
        if isinstance(loop, ast.While) and all(_is_turn(each) for each in loop.body)
    ]


def _is_turn(statement: ast.stmt) -> bool:
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Await)):
        return False
    call = statement.value.value
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name == TURN


def test_no_test_waits_in_a_loop() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if TURN in (text := path.read_text(encoding="utf-8"))
        for line in busy_waits(text)
    ]
    assert found == [], "use `await until(lambda: …)` of tests/network/waiting.py"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("async def scene():\n    while not done():\n        await a_turn()\n", [2]),
        ("async def scene():\n    while not done():\n        await waiting.a_turn()\n", [2]),
        ("async def scene():\n    while True:\n        await a_turn()\n        await a_turn()\n", [2]),
        ("async def scene():\n    for _ in range(5):\n        await a_turn()\n", []),
        ("async def scene():\n    while node.unhandled:\n        publish()\n        await a_turn()\n", []),
        ("async def scene():\n    while queue:\n        await give(queue.pop())\n", []),
    ],
)
def test_a_busy_wait_is_caught_and_a_pace_is_not(text: str, lines: list[int]) -> None:
    assert busy_waits(text) == lines
