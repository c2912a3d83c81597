"""Accounts for the HTTP API of a peer: passwords, sessions of browsers, tokens of programs, and login links.

*Theory.* A thin client has no device key of its own. It shows a *secret* that this peer has drawn: a session (the
cookie of a browser), a token (for curl and programs), or a login code, which is good for one login. The file holds the
SHA-256 of each secret, so a reader of the file cannot log in. Passwords are kept as argon2 hashes.

*Rules.*
1. A secret belongs to one user and ends at a fixed time. A code ends with its first use.
2. An unknown user and a wrong password are refused in the same time and with the same reason.
3. After a few failed attempts, a host must wait before the next one, twice as long each time.
4. A user has at most `KEYS_MAX` sessions, and as many tokens. A further session ends the oldest; a further token is
   refused.
5. A new password ends all sessions of its user but the one that has set it. Tokens stay until they are ended.
"""

from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any

import msgspec

from godwit.errors import PeerFault, Refused
from godwit.runtime.clock import SYSTEM, Clock
from godwit.runtime.rate_limits import FailedAttempts
from godwit.runtime.users import Passwords, hashed
from godwit.teamwork.names import not_there
from godwit.teamwork.sqlite_file import Layout, SqliteFile

__all__ = ["CODE", "SESSION", "TOKEN", "Key", "WebAccounts", "new_hash"]

FILE = "web_accounts.sqlite"
LAYOUT = Layout(
    "godwit: accounts of thin clients",
    1,
    """
CREATE TABLE passwords (user TEXT PRIMARY KEY, hash TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE keys (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, digest BLOB NOT NULL UNIQUE,
    user TEXT NOT NULL, label TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL
);
CREATE INDEX keys_by_user ON keys (user, kind, created);
CREATE TABLE about_peer (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
""",
)
SESSION, TOKEN, CODE = "session", "token", "code"
DAY_S = 86_400.0
SESSION_S, CODE_S, TOKEN_S_MAX = 30 * DAY_S, DAY_S, 366 * DAY_S
KEYS_MAX = 50
LABEL_CHARS_MAX = 100
PASSWORD_CHARS_MIN = 8
NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$Aj0LYA4VaLBmChPQBWeAgA$hEWAgIV4GsFDa6EeTpjAfdamnatp61S5tDjWKwIBS1Q"
"""The hash of a password that nobody knows, to be as slow for an unknown user. (rule 2)"""
WRONG = "there is no such user, or the password is wrong"


class Key(msgspec.Struct, frozen=True):
    """A session or token, without its secret."""

    id: str
    kind: str
    user: str
    label: str
    created: float
    expires: float


class WebAccounts:
    """The file in the folder of a peer. The command line may use it while the peer runs."""

    def __init__(self, folder: Path, passwords: Passwords | None = None, clock: Clock = SYSTEM) -> None:
        self._file = SqliteFile(folder / FILE, LAYOUT)
        self._passwords = Passwords() if passwords is None else passwords
        self._attempts, self._clock = FailedAttempts(), clock
        self._file.run("INSERT OR IGNORE INTO about_peer VALUES ('identity', ?)", [token_hex(4)])

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    @property
    def identity(self) -> str:
        """Tells this peer from others on the same machine, whose cookies a browser would mix up."""
        return str(self._file.row("SELECT value FROM about_peer WHERE name = 'identity'")[0])

    # ------------------------------------------------------------ passwords

    def set_password(self, user: str, password: str) -> None:
        """Let a user in by this password, and by no earlier one."""
        self.set_hash(user, new_hash(password))

    def set_hash(self, user: str, hash: str, kept: str = "") -> None:
        """The same for a hash that `new_hash` has made. `kept`: the session that goes on. (rule 5)"""
        with self._file.transaction():
            self._file.run("INSERT OR REPLACE INTO passwords VALUES (?, ?)", (user, hash))
            self._file.run("DELETE FROM keys WHERE user = ? AND kind = ? AND id != ?", (user, SESSION, kept))

    def has_password(self, user: str) -> bool:
        """Whether a user can come in by a password."""
        return self._hash_of(user) != ""

    async def check_password(self, user: str, password: str, host: str) -> None:
        """PeerFault: this is not the password of that user. (rules 2 and 3)"""
        now = self._clock.time()
        if (wait_s := self._attempts.wait_s(host, user, now)) > 0:
            raise PeerFault(f"too many failed attempts: try again in {wait_s:.0f} s")
        hash = self._hash_of(user)
        is_right = await self._passwords.is_right(hash or NOBODY, password)
        if not (is_right and hash):
            self._attempts.failed(host, user, self._clock.time())
            raise PeerFault(WRONG)
        self._attempts.succeeded(host, user)

    def _hash_of(self, user: str) -> str:
        found = self._file.row("SELECT hash FROM passwords WHERE user = ?", [user])
        return str(found[0]) if found else ""

    # ------------------------------------------------------------ secrets

    def new_session(self, user: str, label: str) -> tuple[str, Key]:
        """The secret of a browser, and what is known of it. (rule 4)"""
        oldest = "SELECT id FROM keys WHERE user = ? AND kind = ? ORDER BY created DESC LIMIT -1 OFFSET ?"
        self._file.run(f"DELETE FROM keys WHERE id IN ({oldest})", (user, SESSION, KEYS_MAX - 1))
        return self._new(SESSION, user, label, SESSION_S)

    def new_token(self, user: str, label: str, expires_s: float) -> tuple[str, Key]:
        """The secret of a program, good for so long."""
        if not 0 < expires_s <= TOKEN_S_MAX:
            raise Refused(f"a token is good for more than 0 and at most {TOKEN_S_MAX:,.0f} seconds, not {expires_s:g}")
        if len(self.keys(user, TOKEN)) >= KEYS_MAX:
            raise Refused(f"a user has at most {KEYS_MAX} tokens: end one of them first")
        return self._new(TOKEN, user, label, expires_s)

    def new_code(self, user: str) -> str:
        """A code by which a user logs in once, within a day."""
        return self._new(CODE, user, "", CODE_S)[0]

    def user_of_code(self, code: str, host: str) -> str:
        """Whose code this is; it ends here. PeerFault: it is none. (rules 1 and 3)"""
        now = self._clock.time()
        if (wait_s := self._attempts.wait_s(host, "", now)) > 0:
            raise PeerFault(f"too many failed attempts: try again in {wait_s:.0f} s")
        statement = "DELETE FROM keys WHERE digest = ? AND kind = ? AND expires > ? RETURNING user"
        found = self._file.rows(statement, (_digest(code), CODE, now))
        if not found:
            self._attempts.failed(host, "", now)
            raise PeerFault("the login link was used, or has expired: make another one with `godwit team serve`")
        return str(found[0][0])

    def key_of(self, secret: str) -> Key | None:
        """The session or token with this secret, if it has not ended."""
        condition = "digest = ? AND kind != ? AND expires > ?"
        found = self._keys(condition, (_digest(secret), CODE, self._clock.time()))
        return found[0] if found else None

    def is_open(self, key: Key) -> bool:
        """Whether a session or token has not ended."""
        return bool(self._keys("id = ? AND expires > ?", (key.id, self._clock.time())))

    def keys(self, user: str, kind: str) -> list[Key]:
        """The sessions or tokens of a user, the newest first."""
        values = (user, kind, self._clock.time())
        return self._keys("user = ? AND kind = ? AND expires > ? ORDER BY created DESC", values)

    def end(self, user: str, id: str) -> None:
        """End a session or token of a user."""
        if not self._file.run("DELETE FROM keys WHERE user = ? AND id = ?", (user, id)).rowcount:
            raise not_there("session or token", id, [])

    def _new(self, kind: str, user: str, label: str, expires_s: float) -> tuple[str, Key]:
        now = self._clock.time()
        secret = f"gw_{urlsafe_b64encode(token_bytes(32)).decode().rstrip('=')}"
        label = "".join(each for each in label if each.isprintable())[:LABEL_CHARS_MAX]
        key = Key(token_hex(8), kind, user, label, now, now + expires_s)
        with self._file.transaction():
            self._file.run("DELETE FROM keys WHERE expires <= ?", [now])
            row = (key.id, kind, _digest(secret), user, label, key.created, key.expires)
            self._file.run("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return secret, key

    def _keys(self, condition: str, values: tuple[Any, ...]) -> list[Key]:
        statement = f"SELECT id, kind, user, label, created, expires FROM keys WHERE {condition}"
        return [Key(*row) for row in self._file.rows(statement, values)]


def new_hash(password: str) -> str:
    """The hash of a new password. It takes a good part of a second: call it in a thread."""
    if len(password) < PASSWORD_CHARS_MIN:
        raise Refused(f"a password must have at least {PASSWORD_CHARS_MIN} characters, not {len(password)}")
    return hashed(password)


def _digest(secret: str) -> bytes:
    """What is kept of a secret. It is drawn from 256 bits, so a plain hash cannot be guessed."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()
