"""The table of commands of a module."""

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Commands"]

Commands = Mapping[str, Callable[..., Any]]
"""By name: a function over a `Team` that returns one answer or a list, or an async generator of answers."""
