"""Names in a scenario that installed packages may add to: checked against those that are known."""

from collections.abc import Collection

from godwit.errors import ScenarioError
from godwit.settings import nearest

__all__ = ["check_name"]


def check_name(name: str, known: Collection[str], where: str) -> None:
    """Raise `ScenarioError` unless a name is known. `where`: the key that holds it, and its place in a file."""
    if name not in known:
        allowed = ", ".join(map(repr, known)) or "nothing, since no installed package adds any"
        raise ScenarioError(f"{where} is {name!r}: allowed is {allowed}{nearest(name, known)}")
