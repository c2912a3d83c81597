"""Roles by their names in commands."""

from godwit.errors import Refused
from godwit.teamwork.machine.governance import ROLES, Role

__all__ = ["role_of"]


def role_of(word: str) -> Role:
    """The role of that name."""
    role = ROLES.get(word)
    if role is None:
        raise Refused(f"a role is one of {', '.join(ROLES)}, not {word!r}")
    return role
