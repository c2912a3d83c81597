"""A module fits in a head: 600 lines at most."""

from collections.abc import Iterable, Iterator

from tests.conventions.repository import Module, modules

LINES_MAX = 600


def faults(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        lines = len(module.text.splitlines())
        if lines > LINES_MAX:
            yield f"{module.name} has {lines} lines, {LINES_MAX} are allowed: split it where it has two subjects"


def test_no_module_is_too_long() -> None:
    assert list(faults(modules())) == []


def test_a_module_one_line_too_long_is_caught() -> None:
    long, longer = Module("filters/long.py", "\n" * LINES_MAX), Module("filters/longer.py", "\n" * (LINES_MAX + 1))
    [fault] = faults([long, longer])
    assert "filters/longer.py has 601 lines" in fault
