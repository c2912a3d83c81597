"""docs/reference/configuration.md has every key of the configuration, under its section and with its default."""

import json
import re
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from godwit.runtime.config_sections import BrokerSettings
from godwit.runtime.configuration import load
from godwit.runtime.reloading import LIVE, MACHINE, TLS
from tests.conventions.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^#+ \[+(?P<name>[\w.]+)\]+\s*$", re.MULTILINE)
ROW = re.compile(r"^\| `(?P<key>\w+)` \| (?P<default>`[^|]*`|required) \| .+\|$", re.MULTILINE)


def keys(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str, str]]:
    """Section, key and default as it is written, of every key."""
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        [field] = [field for field in msgspec.structs.fields(kind) if field.name == name]
        inner = [each for each in (hint, *_arguments(hint)) if _is_struct(each)]
        for struct in inner:
            yield from keys(struct, (*path, name))
        if path and not (inner and inner[0] is hint):
            made = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else None
            default = field.default if field.default is not msgspec.NODEFAULT else made
            yield ".".join(path), name, "required" if field.required else f"`{json.dumps(default)}`"


def _arguments(hint: Any) -> Iterator[Any]:
    for each in typing.get_args(hint):
        yield each
        yield from _arguments(each)


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def documented(page: str) -> set[tuple[str, str, str]]:
    found = list(SECTION.finditer(page))
    ends = [heading.start() for heading in found[1:]] + [len(page)]
    return {
        (heading["name"], row["key"], row["default"])
        for heading, end in zip(found, ends, strict=True)
        for row in ROW.finditer(page[heading.start() : end])
    }


def test_every_key_is_documented_with_its_default() -> None:
    assert documented(PAGE) == set(keys(BrokerSettings))


def test_every_section_is_documented() -> None:
    assert {heading["name"].partition(".")[0] for heading in SECTION.finditer(PAGE)} == set(
        BrokerSettings.__struct_fields__
    )


def test_a_key_that_is_missing_or_has_another_default_is_caught() -> None:
    for planted in (
        PAGE.replace("| `window` | `1024` |", "| `window` | `65` |"),
        PAGE.replace('| `secret` | `""` |', "| secret | |"),
        PAGE.replace("| `name` |", "| `nam` |"),
    ):
        assert planted != PAGE
        assert documented(planted) != set(keys(BrokerSettings))


@pytest.mark.parametrize("block", re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
def test_what_the_page_shows_can_be_used(block: str, tmp_path: Any) -> None:
    (tmp_path / "shown.toml").write_text(block)
    load(tmp_path / "shown.toml")


def test_the_guide_names_every_section_that_can_change_while_a_broker_runs() -> None:
    guide = (ROOT / "docs" / "guides" / "run.md").read_text(encoding="utf-8")
    paragraph = next(each for each in guide.split("\n\n") if "can change while a broker runs" in each)
    sections = {key.partition(".")[0] for key in (*MACHINE, *TLS)} | {*LIVE} - {"machine", "files"}
    assert {name for name in sections if f"[{name}]" not in paragraph} == set()
