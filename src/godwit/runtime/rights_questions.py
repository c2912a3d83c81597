"""Rights of users, and tests of a right: for administrators, from the user file.

*Rules.*
1. No secrets: the answer says whether a user has a password, without its hash.
2. A right is tested as for a client: by the same code, and with the same reason.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from godwit.broker.client_rights import NOT_ALLOWED
from godwit.broker.messages import Denied, Publish, Subscribe
from godwit.errors import GodwitError
from godwit.filters.events import event
from godwit.filters.language import parse, to_text
from godwit.runtime.users import Users

__all__ = ["Verb", "may", "users_told"]

Verb = Literal["subscribe", "publish"]


def users_told(users: Users | None) -> list[dict[str, Any]]:
    """All users and their grants. (rule 1)"""
    return [
        {
            "user": name,
            "publish": list(user.publish),
            "subscribe": list(user.subscribe),
            "clients": list(user.clients),
            "context": user.context,
            "admin": user.admin,
            "password": bool(user.password),
            "certificate": user.certificate,
        }
        for name, user in ({} if users is None else users.all()).items()
    ]


def may(users: Users | None, asked: Mapping[str, str]) -> dict[str, Any]:
    """Whether a user has a right, and if not, why: `user`, `verb`, and `what`, a filter or an event's attributes."""
    name, verb, what = (asked.get(key, "") for key in ("user", "verb", "what"))
    entry = None if users is None else users.get(name)
    if entry is None:
        raise GodwitError(f"there is no user {name[:100]!r}")
    if verb not in get_args(Verb):
        raise GodwitError(f"verb is {verb[:40]!r}: it must be {' or '.join(get_args(Verb))}")
    wish: Any = Subscribe((name, "asked"), parse(what)) if verb == "subscribe" else Publish(event(_attributes(what)))
    found = entry[1].grants.checked_wish(wish)
    if isinstance(found, Denied):
        reason = found.reason.replace(NOT_ALLOWED, f"{name} is not allowed to", 1)  # said to others
        return {"allowed": False, "reason": reason, "narrowed": None}
    narrowed = to_text(found.filter) if verb == "subscribe" and found is not wish else None
    return {"allowed": True, "reason": "", "narrowed": narrowed}


def _attributes(text: str) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise GodwitError(f"an event is given by its attributes, as a JSON object: {error}") from None
    if not isinstance(said, dict):
        raise GodwitError("an event is given by its attributes, as a JSON object")
    return said
