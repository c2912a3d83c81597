"""Names that people give: allowed characters, new identifiers, and the error for an unknown name."""

from collections.abc import Iterable
from secrets import token_hex

from godwit.errors import Refused

__all__ = ["MissingRole", "NotReceived", "NotThere", "check_name", "new_id", "not_there"]

NAME_CHARS_MAX = 100
FORBIDDEN = "/.'\\"


def check_name(what: str, name: str) -> None:
    """A name that can be part of the names of records: `Refused` if not."""
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable() or any(each in name for each in FORBIDDEN):
        raise Refused(
            f"{name!r} cannot be the name of a {what}: 1 to {NAME_CHARS_MAX} printable characters, "
            f"none of {' '.join(FORBIDDEN)}"
        )


def new_id() -> str:
    """An identifier that nobody else has."""
    return token_hex(8)


class NotThere(Refused):
    """What a user has named does not exist, or the user may not know of it."""


class MissingRole(Refused):
    """The user has no role where something was to be changed."""


class NotReceived(Refused):
    """The peer is new and knows nothing of its team yet."""

    def __init__(self, problem: str = "") -> None:
        """`problem`: what failed for this reason."""
        said = "this device has not received the team's data yet (is a device of the team online?)"
        super().__init__(f"{said}: {problem}" if problem else said)


def not_there(what: str, name: str, known: Iterable[str]) -> NotThere:
    """An error that lists what there is."""
    some = sorted(known)[:20]
    return NotThere(f"there is no {what} {name!r}" + (f"; there are {', '.join(some)}" if some else ""))
