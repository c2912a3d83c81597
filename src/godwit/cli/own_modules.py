"""User-defined parts, given as module:Class: the module may be a file in the current folder."""

import sys

__all__ = ["allow_modules_here"]


def allow_modules_here() -> None:
    """Make modules of the current folder importable, also by the installed command."""
    if "" not in sys.path:
        sys.path.insert(0, "")
