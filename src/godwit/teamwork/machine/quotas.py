"""Quotas of a scope: how much a user, all users together, and users without a role may write.

*Theory.* A quota is checked twice. The peer of a user refuses what would be over a quota before it is made, with the
figure and what to do. That is for honest peers. What another peer sends is not trusted with this, so a peer also does
not take more than a bound from one device.

What is not taken must not depend on the order of arrival, or peers would not converge. Changes of a device are taken in
the order of its numbers, so a bound per device lets every peer take the same first ones, and only these. A change that
is not taken now is asked for again (`exchange.py`), and is taken when an owner has raised the quota or given a role.

*Rules.*
1. Changes that govern (settings, members, devices, keys) are over no quota, up to `RESERVED` of them: an owner must be
   able to raise it.
2. From one device a peer takes what the largest quota of a user allows that was ever set. A quota that is lowered stops
   users from writing more; what was written before stays, for new members, too.
3. A device of a user without a role has at most `ROLELESS_MAX` changes without a right kept here, those with which it
   asks for membership included. More are counted and dropped. As soon as the user has a role, they are taken.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

__all__ = [
    "RESERVED",
    "RESERVED_BYTES",
    "ROLELESS_MAX",
    "Quota",
    "Usage",
    "largest",
    "over",
    "problem_of_quota",
    "quota_of",
]

ROLELESS_MAX = 100
RESERVED = 1_000
RESERVED_BYTES = 16 * 2**20
QUOTA_MAX = 2**53


class Quota(msgspec.Struct, frozen=True):
    """What may be written, since the beginning: changes are kept permanently."""

    changes: int
    bytes: int
    messages: int


class Usage(msgspec.Struct, frozen=True):
    """What was written."""

    changes: int = 0
    bytes: int = 0
    messages: int = 0


DEFAULTS = {
    "user_quota": Quota(100_000, 256 * 2**20, 50_000),
    "quota": Quota(2_000_000, 4 * 2**30, 1_000_000),
}
"""By setting of a scope: what one user may write into it, and all together."""


def quota_of(setting: str, settings: Mapping[str, Any]) -> Quota:
    """A quota as the settings of a scope have it. What cannot be one counts as the default."""
    default, told = DEFAULTS[setting], settings.get(setting)
    if not isinstance(told, dict) or problem_of_quota(setting, told):
        return default
    return msgspec.structs.replace(default, **told)


def largest(setting: str, ever: Iterable[Any]) -> Quota:
    """The largest of a quota's values, by each of its figures; the default is one of them. (rule 2)"""
    quotas = [DEFAULTS[setting], *(quota_of(setting, {setting: told}) for told in ever)]
    return Quota(*(max(getattr(each, name) for each in quotas) for name in Quota.__struct_fields__))


def problem_of_quota(setting: str, told: Any) -> str:
    """Why this is not a valid quota, or ""."""
    names = Quota.__struct_fields__
    if not isinstance(told, dict) or not told.keys() <= set(names):
        return f"{setting} has some of {', '.join(names)}, not {told!r}"
    for name, figure in told.items():
        if type(figure) is not int or not 1 <= figure <= QUOTA_MAX:
            return f"{name} of {setting} must be a whole number from 1 to {QUOTA_MAX:,}, not {figure!r}"
    return ""


def over(quota: Quota, used: Usage, more: Usage, who: str, setting: str) -> str:
    """Why so much more cannot be written, or nothing."""
    for name in Quota.__struct_fields__:
        allowed, now, wanted = getattr(quota, name), getattr(used, name), getattr(more, name)
        if wanted and now + wanted > allowed:
            return (
                f"{who} has used {now:,} of {allowed:,} {name}, and this needs {wanted:,} more: "
                f"an owner can raise {setting}"
            )
    return ""
