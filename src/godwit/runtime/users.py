"""The user file: users, their passwords and grants.

*Theory.* One TOML table for each user. The password is stored as an argon2 hash, which takes a considerable part of a
second to check, by design; so it is checked in a thread, few at once, and a correct password is cached as a keyed
digest while the hash in the file stays the same. The file is read again when it has changed: at each login, and by
`rights_watch.py`.

*Rules.*
1. An invalid file is an error at the start, which names the user and the key. Later it is logged: the last valid
   content stays in force until the file is valid again.
2. Names of users have no slash, and no two users have the same client name: so their sessions are separate.
3. An unknown user and a wrong password are refused after the same time, with the same reason.
4. At most `TESTS_MAX` passwords are checked at once and `WAITING_MAX` wait; further logins are refused.
"""

import asyncio
import json
import os
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from typing import Any

import msgspec

from godwit.errors import GodwitError, PeerFault, SecurityError
from godwit.filters.contexts import checked_context, why_too_large
from godwit.filters.events import Attributes, flattened
from godwit.runtime.authentication import Principal
from godwit.runtime.grants import LITERALS_MAX, BeyondGrants, Grants

__all__ = [
    "Passwords",
    "Rights",
    "User",
    "Users",
    "hashed",
    "is_right",
    "principal_of",
    "read_users",
    "why_weak",
    "with_user",
]

USER_CHARS_MAX = 64
PASSWORD_CHARS_MAX = 1_024
PASSWORD_CHARS_MIN = 10  # shorter ones cause a warning
DISTINCT_MIN = 5
COMMON = ("1234567890", "password123", "qwertyuiop", "letmein1234", "administrator", "changeme123", "mosquitto123")
GRANTS_MAX = 100
GRANT_CHARS_MAX = 4_096
CLIENTS_MAX = 1_000
TESTS_MAX = 2
WAITING_MAX = 64
REMEMBERED_MAX = 1_000


class Rights(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Grants, as in a user file or a token."""

    publish: tuple[str, ...] = ()  # filters; "*": everything
    subscribe: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()  # names of clients, besides those that begin with the user's
    context: dict[str, Any] = {}  # the asserted context of its clients
    admin: bool = False  # whether it is an administrator


class User(Rights, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An entry of the user file."""

    password: str = ""  # its argon2 hash; "": no login by password
    certificate: bool = False  # whether a trusted certificate with the user's name is enough

    def __repr__(self) -> str:
        return f"User(publish={self.publish}, subscribe={self.subscribe}, …)"  # not the hash


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: dict[str, User] = {}


# ---------------------------------------------------------------- from texts to rights


def why_no_user(name: str) -> str | None:
    """Why this cannot be a user's name, or None."""
    if not 0 < len(name) <= USER_CHARS_MAX:
        return f"a user's name has 1 to {USER_CHARS_MAX} characters"
    if "/" in name or not name.isprintable() or name.startswith("$"):
        return "a user's name has no slash and no control character, and begins with no $"
    return None


def principal_of(
    user: str,
    rights: Rights,
    names: tuple[str, ...],
    beyond_grants: BeyondGrants = "refuse",
    literals_max: int = LITERALS_MAX,
    until: float | None = None,
    *,
    from_token: bool = False,
) -> Principal:
    """A principal with these rights; `names`: the asserted context attributes. GodwitError if they are invalid."""
    if (reason := why_no_user(user)) is not None:
        raise SecurityError(reason)
    texts = (*rights.publish, *rights.subscribe)
    if len(texts) > GRANTS_MAX or any(len(text) > GRANT_CHARS_MAX for text in texts):
        raise SecurityError(f"at most {GRANTS_MAX} grants of {GRANT_CHARS_MAX} characters each are allowed")
    if len(rights.clients) > CLIENTS_MAX:
        raise SecurityError(f"at most {CLIENTS_MAX} clients are allowed")
    asserted: Attributes = checked_context(flattened(rights.context))
    strange = [name for name in asserted if name not in names]
    if strange:
        allowed = ", ".join(names) or "nothing"
        raise SecurityError(f"context has {', '.join(strange)}; this broker asserts: {allowed}")
    if (reason := why_too_large(asserted)) is not None:
        raise SecurityError(f"context: {reason}")
    grants = Grants.of(rights.publish, rights.subscribe, beyond_grants, asserted, names, literals_max)
    return Principal(
        user,
        asserted,
        grants,
        clients=rights.clients,
        is_admin=rights.admin,
        until=until,
        rights=grants.rights(user, from_token=from_token),
    )


def read_users(text: str, where: str) -> dict[str, User]:
    """The users in the text of a file. SecurityError if it is invalid."""
    try:
        users = msgspec.convert(tomllib.loads(text), _File).users
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SecurityError(f"{where}: {error}") from None
    given: dict[str, str] = {}
    for name, user in users.items():
        if (reason := why_no_user(name)) is not None:
            raise SecurityError(f"{where}: users.{name[:USER_CHARS_MAX]}: {reason}")
        if user.password and not user.password.startswith("$argon2"):
            raise SecurityError(f"{where}: users.{name}.password must be an argon2 hash: `godwit user add` makes one")
        for client in user.clients:
            owner = client.partition("/")[0]
            if given.setdefault(client, name) != name or (owner in users and owner != name):
                raise SecurityError(f"{where}: users.{name}.clients: {client!r} is another user's")  # rule 2
    return users


class Users:
    """The users of a file."""

    def __init__(
        self,
        path: Path,
        names: tuple[str, ...] = (),
        beyond_grants: BeyondGrants = "refuse",
        literals_max: int = LITERALS_MAX,
        on_trouble: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.path = path
        self._names, self._beyond_grants, self._literals_max = names, beyond_grants, literals_max
        self._on_trouble = on_trouble
        self._trouble = ""  # the last logged error
        self._state: tuple[int, ...] = ()
        self._entries: Mapping[str, tuple[User, Principal]] = {}
        self.on_changed: list[Callable[[], None]] = []  # called when the file has changed
        self._refresh()

    def get(self, name: str) -> tuple[User, Principal] | None:
        """A user and its rights."""
        self.refresh()
        return self._entries.get(name)

    def entry(self, name: str) -> tuple[User, Principal] | None:
        """The same, from the last read of the file."""
        return self._entries.get(name)

    def all(self) -> dict[str, User]:
        """Every user, by name."""
        self.refresh()
        return {name: user for name, (user, _) in self._entries.items()}

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        try:
            is_new = self._refresh()
        except SecurityError as error:  # rule 1
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._on_trouble(self._trouble)
            return
        self._trouble = self._trouble if not is_new else ""
        for changed in self.on_changed if is_new else ():
            changed()

    def any_hash(self) -> str:
        """Any user's hash, to take the same time for an unknown user. (rule 3)"""
        return next((user.password for user, _ in self._entries.values() if user.password), "")

    def _refresh(self) -> bool:
        try:
            status = self.path.stat()
            state = (status.st_mtime_ns, status.st_size, status.st_ino)
            if state == self._state:
                return False
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SecurityError(f"{self.path}: {getattr(error, 'strerror', None) or error}") from None
        self._state = state  # an invalid file is not read again until it changes
        entries = {}
        for name, user in read_users(text, str(self.path)).items():
            try:
                entries[name] = (user, principal_of(name, user, self._names, self._beyond_grants, self._literals_max))
            except GodwitError as error:
                raise SecurityError(f"{self.path}: users.{name}: {error}") from None
        self._entries = entries
        return True


# ---------------------------------------------------------------- passwords


def hashed(password: str, *, rounds: int = 3, memory_kib: int = 65_536, lanes: int = 4) -> str:
    """The argon2 hash of a password, for the user file."""
    from argon2 import PasswordHasher

    if not 0 < len(password) <= PASSWORD_CHARS_MAX:
        raise SecurityError(f"a password has 1 to {PASSWORD_CHARS_MAX} characters")
    return PasswordHasher(rounds, memory_kib, lanes).hash(password)


def why_weak(password: str, user: str = "") -> str:
    """The weakness of a password; "" if none is found."""
    if len(password) < PASSWORD_CHARS_MIN:
        return f"it has {len(password)} characters; use {PASSWORD_CHARS_MIN} or more"
    if user and user.lower() in password.lower():
        return "it contains the user's name"
    if len(set(password)) < DISTINCT_MIN:
        return f"it has only {len(set(password))} different characters"
    return "it is one of the most common passwords" if password.lower() in COMMON else ""


def is_right(hash: str, password: str) -> bool:
    """Whether a password matches a hash. It is slow by design."""
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return PasswordHasher().verify(hash, password)
    except (VerificationError, InvalidHashError):
        return False


class Passwords:
    """Checks passwords in threads, and caches correct ones."""

    def __init__(self, test: Callable[[str, str], bool] = is_right) -> None:
        self._test = test
        self._threads = ThreadPoolExecutor(TESTS_MAX, "passwords")
        self._waiting = 0
        self._key = token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()

    def is_known(self, hash: str, password: str) -> bool:
        """Whether it is cached as correct."""
        digest = self._digest(hash, password)
        if digest not in self._right:
            return False
        self._right.move_to_end(digest)
        return True

    async def is_right(self, hash: str, password: str) -> bool:
        """Whether a password matches a hash. PeerFault if too many checks are pending."""
        if len(password) > PASSWORD_CHARS_MAX:
            return False
        if self._waiting >= TESTS_MAX + WAITING_MAX:
            raise PeerFault("too many logins at once: try again")
        self._waiting += 1
        try:
            right = await asyncio.get_running_loop().run_in_executor(self._threads, self._test, hash, password)
        finally:
            self._waiting -= 1
        if right:
            self._right[self._digest(hash, password)] = None
            if len(self._right) > REMEMBERED_MAX:
                self._right.popitem(last=False)
        return right

    def _digest(self, hash: str, password: str) -> bytes:
        text = f"{len(hash)}:{hash}:{password}".encode("utf-8", "surrogatepass")
        return blake2b(text, key=self._key, digest_size=32).digest()


# ---------------------------------------------------------------- changing the file


def with_user(text: str, name: str, user: User | None, where: str) -> str:
    """The text of a user file with a user's entry replaced; None: removed.

    All else in the file stays as it is written, comments too.
    """
    if (reason := why_no_user(name)) is not None:
        raise SecurityError(reason)
    expected = read_users(text, where)
    headers = (f"[users.{name}]", f"[users.{_toml(name)}]", f"[users.'{name}']")
    kept: list[str] = []
    is_inside = False
    for line in text.split("\n"):
        if line.startswith("["):
            ends = [line[len(header) :].strip() for header in headers if line.startswith(header)]
            is_inside = any(not end or end.startswith("#") for end in ends)
        if not is_inside:
            kept.append(line)
    while kept and not kept[-1].strip():
        kept.pop()
    if user is None:
        expected.pop(name, None)
    else:
        expected[name] = user
        kept += ([""] if kept else []) + _entry(name, user)
    changed = "\n".join(kept) + "\n" if kept else ""
    try:
        is_so = read_users(changed, where) == expected
    except SecurityError as error:
        if user is not None and "another user" in str(error):
            raise
        is_so = False
    if not is_so:
        raise SecurityError(f"{where}: the entry of {name} is written in a way that cannot be changed here")
    return changed


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically; only its owner may read it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SecurityError(f"{path}: {error.strerror or error}") from None


def _entry(name: str, user: User) -> list[str]:
    lines = [f"[users.{_toml(name)}]"]
    for field in ("password", "certificate", "publish", "subscribe", "clients", "context", "admin"):
        value = getattr(user, field)
        if value or field in ("publish", "subscribe"):
            lines.append(f"{field} = {_toml(value)}")
    return lines


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return f"{{ {', '.join(f'{_toml(key)} = {_toml(each)}' for key, each in value.items())} }}"
        case int() | float():
            return str(value)
    raise SecurityError(f"a {type(value).__name__} cannot be written to a user file")
