"""Names of parts: what a module is known to register is loaded when it is asked for."""

import sys
from typing import Any

import pytest

from godwit.errors import ConfigurationError
from godwit.registry import Registry


def test_a_module_is_loaded_when_a_name_that_it_registers_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    registry: Registry[str] = Registry("thing", "godwit.things")
    (tmp_path / "some_things.py").write_text("from builtins import registry\nregistry.register('a', 'first')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.registry", registry, raising=False)
    registry.expect("some_things", "a")
    assert registry.names() == ("a",)
    assert "some_things" not in sys.modules
    assert registry.part("a") == "first"
    monkeypatch.delitem(sys.modules, "some_things")


def test_a_part_whose_library_is_missing_says_which(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    registry: Registry[str] = Registry("thing", "godwit.things")
    (tmp_path / "needy_things.py").write_text("import a_library_that_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry.expect("needy_things", "a")
    with pytest.raises(
        ConfigurationError, match="the thing 'a' needs a_library_that_nobody_has, which is not installed"
    ):
        registry.part("a")


def test_all_modules_are_loaded_but_those_whose_library_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    registry: Registry[str] = Registry("thing", "godwit.things")
    (tmp_path / "wanting_things.py").write_text("import a_library_that_nobody_has\n")
    (tmp_path / "present_things.py").write_text("from builtins import registry\nregistry.register('b', 'second')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.registry", registry, raising=False)
    registry.expect("wanting_things", "a")
    registry.expect("present_things", "b")
    registry.load_expected()
    assert registry.registered == {"b": "second"}
    monkeypatch.delitem(sys.modules, "present_things")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    registry: Registry[str] = Registry("thing", "godwit.things")
    registry.register("b", "part")
    registry.expect("nowhere", "a")
    with pytest.raises(ConfigurationError, match="there is no thing 'c': known are a, b"):
        registry.part("c")


def test_installed_parts_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def entry_points(group: str) -> list[Any]:
        looked.append(group)
        return []

    monkeypatch.setattr("godwit.registry.entry_points", entry_points)
    registry: Registry[str] = Registry("thing", "godwit.things")
    assert registry.names() == registry.names() == ()
    assert looked == ["godwit.things"]
