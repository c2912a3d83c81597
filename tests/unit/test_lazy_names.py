"""A package fetches its names from its modules when they are asked for."""

import subprocess
import sys
from types import ModuleType

import pytest

from godwit.lazy_names import names_from


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made, part = ModuleType("planted_package"), ModuleType("planted_package.part")
    part.thing = "a thing"  # type: ignore[attr-defined]
    made.__getattr__ = names_from("planted_package", {"thing": "part"})  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "planted_package", made)
    monkeypatch.setitem(sys.modules, "planted_package.part", part)
    return made


def test_a_name_is_fetched_when_it_is_asked_for_and_then_kept(package: ModuleType) -> None:
    assert "thing" not in vars(package)
    assert package.thing == "a thing"
    assert vars(package)["thing"] == "a thing"


def test_a_name_that_is_not_offered_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'planted_package' has no attribute 'other'"):
        _ = package.other


@pytest.mark.parametrize("first", ["import godwit.mobility.mobile_broker", "import godwit.mobility"])
def test_a_function_with_the_name_of_its_module_is_the_function_whoever_comes_first(first: str) -> None:
    code = f"{first}\nfrom godwit.mobility import mobile_broker\nprint(type(mobile_broker).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "function\n"
