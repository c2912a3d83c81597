"""docs/guides/limits.md names every bound of the configuration."""

import re

import pytest

from godwit.runtime.config_sections import HttpSection, LimitsSection, LinksSection, MqttSection
from tests.conventions.repository import ROOT

PAGE = (ROOT / "docs" / "guides" / "limits.md").read_text(encoding="utf-8")
BOUND = re.compile(r"(?!.*_s_max).*(_max|_maximum|maximum_\w+|window)$")  # but for times


def missing(page: str, section: str, keys: tuple[str, ...]) -> list[str]:
    """The keys that are not on a page, by themselves or with their section."""
    return [key for key in keys if not re.search(rf"`(?:{section}\.)?{key}`", page)]


def bounds(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in keys if BOUND.match(key))


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("limits", LimitsSection.__struct_fields__),
        ("mqtt", bounds(MqttSection.__struct_fields__)),
        ("http", bounds(HttpSection.__struct_fields__)),
        ("links", bounds(LinksSection.__struct_fields__)),
    ],
)
def test_every_bound_is_on_the_page(section: str, keys: tuple[str, ...]) -> None:
    assert keys
    assert missing(PAGE, section, keys) == []


def test_a_bound_that_is_left_out_is_noticed() -> None:
    page = PAGE.replace("`links.outbox_bytes_max`", "").replace("`seen_window`", "")
    assert missing(page, "links", LinksSection.__struct_fields__).count("outbox_bytes_max") == 1
    assert "seen_window" in missing(page, "limits", LimitsSection.__struct_fields__)
