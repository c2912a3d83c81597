"""Matching: which of many subscriptions does this event match?

`NaiveMatcher` asks every filter, `IndexMatcher` is the fast one, `BddMatcher` does it SPEAR's way; all three give the
same answers. They are imported when they are first used, so that an unused matcher costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from godwit.matching.matcher import Matcher, Matches

if TYPE_CHECKING:
    from godwit.matching.bdd_matcher import BddMatcher
    from godwit.matching.index_matcher import IndexMatcher
    from godwit.matching.naive_matcher import NaiveMatcher

__all__ = ["BddMatcher", "IndexMatcher", "Matcher", "Matches", "NaiveMatcher"]

_MODULES = {"BddMatcher": "bdd_matcher", "IndexMatcher": "index_matcher", "NaiveMatcher": "naive_matcher"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
