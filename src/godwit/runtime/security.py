"""The authenticator of a broker with users and tokens.

*Theory.* A client shows a token, a name and a password, a certificate, or nothing. The first of these decides: a client
with wrong credentials is not accepted as anonymous.

*Rules.*
1. Anonymous clients are accepted only from this machine, with all rights, and with `anonymous = "never"` not at all.
2. After a few wrong passwords for a user, further attempts must wait, twice as long each time; the same for a host that
   tries many users. (A token cannot be guessed, and costs little to check.) A clock that is set back causes no wait.
3. A password that is known to be right is accepted at once, however many others have failed from that host.
4. Connected principals are registered, so that their rights follow the user file (`rights_watch.py`).
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Literal
from weakref import WeakKeyDictionary

import msgspec

from godwit.broker.client_rights import ClientRights
from godwit.errors import GodwitError, NotAdmitted, PeerFault, SecurityError
from godwit.runtime.authentication import Authenticator, Credentials, LocalAuthenticator, Principal
from godwit.runtime.grants import LITERALS_MAX, BeyondGrants
from godwit.runtime.rate_limits import FailedAttempts
from godwit.runtime.tokens import TokenKeys, looks_like_a_token
from godwit.runtime.users import USER_CHARS_MAX, Passwords, User, Users, principal_of

__all__ = ["ConfiguredAuthenticator", "SecuritySettings", "authenticator_from"]

BY_CERTIFICATE = "certificate"  # instead of a hash
WRONG = "there is no such user, or the password is wrong"


class SecuritySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of authentication. Paths are as given; "" is none."""

    anonymous: Literal["local", "never"] = "local"  # whether clients of this machine need no credentials
    users: str = ""  # the user file
    token_key: str = ""  # a secret, a public key in PEM, or a JWKS file
    token_algorithms: tuple[str, ...] = ()  # none: HS256, RS256, ES256, EdDSA, as the key is
    token_issuer: str = ""  # the required issuer of tokens; "": any
    token_audience: str = ""  # the required audience of tokens; "": they must have none
    beyond_grants: BeyondGrants = "refuse"  # treatment of requests that are not granted
    asserted: tuple[str, ...] = ()  # context attributes that only users and tokens set, not clients


def authenticator_from(
    settings: SecuritySettings,
    *,
    literals_max: int = LITERALS_MAX,
    on_trouble: Callable[[str], None] = lambda text: None,
) -> Authenticator:
    """The authenticator of these settings. SecurityError if they cannot be used."""
    if not settings.users and not settings.token_key:
        if settings.anonymous == "never":
            raise SecurityError('anonymous = "never" without users and without token_key: no client could connect')
        return LocalAuthenticator()
    for key, package, comes_with in (
        ("users", "argon2", "godwit"),
        ("token_key", "jwt", "godwit"),
        ("token_key", "cryptography", "'godwit[server]'"),
    ):
        if getattr(settings, key) and find_spec(package) is None:
            raise SecurityError(f"{key} needs {package}, which is not installed: pip install {comes_with}")
    users = None
    if settings.users:
        users = Users(Path(settings.users), settings.asserted, settings.beyond_grants, literals_max, on_trouble)
    return ConfiguredAuthenticator(settings, users, _token_keys(settings), literals_max=literals_max)


def _token_keys(settings: SecuritySettings) -> TokenKeys | None:
    if not settings.token_key:
        return None
    return TokenKeys(
        Path(settings.token_key), settings.token_algorithms, settings.token_issuer, settings.token_audience
    )


class ConfiguredAuthenticator:
    """Accepts clients with a valid token, password or certificate, and anonymous ones according to the settings."""

    def __init__(
        self,
        settings: SecuritySettings,
        users: Users | None,
        tokens: TokenKeys | None,
        *,
        passwords: Passwords | None = None,
        literals_max: int = LITERALS_MAX,
    ) -> None:
        self._settings = settings
        self._users = users
        self._tokens = tokens
        self._passwords = Passwords() if passwords is None else passwords
        self._literals_max = literals_max
        self._attempts = FailedAttempts()
        self._admitted: WeakKeyDictionary[Principal, str] = WeakKeyDictionary()  # and the hash of its password

    @property
    def users(self) -> Users | None:
        """The users of the file, if there is one."""
        return self._users

    def read_again(self) -> None:
        """Read the keys of tokens, and the user file if it has changed. SecurityError if the keys cannot be used."""
        self._tokens = _token_keys(self._settings)
        if self._users is not None:
            self._users.refresh()

    def admitted(self) -> list[tuple[Principal, str]]:
        """The connected principals of the user file, each with the hash of its password."""
        return list(self._admitted.items())

    def _let_in(self, principal: Principal, hash: str = "") -> Principal:
        self._admitted[principal] = hash
        return principal

    async def admit(self, credentials: Credentials) -> Principal:
        """The principal of a peer. PeerFault: access is refused."""
        who = credentials
        if who.token:
            return self._by_token(who.token, who.user)
        if who.user or who.password:
            return await self._by_password(who)
        if who.certificate and (entry := self._entry(who.certificate)) is not None and entry[0].certificate:
            return self._let_in(entry[1].copy(), BY_CERTIFICATE)
        if self._settings.anonymous == "local" and who.is_local:
            return Principal(is_admin=True, rights=ClientRights())
        if who.certificate:
            raise NotAdmitted(f"there is no user {who.certificate!r} who may log in by certificate", "certificate")
        raise NotAdmitted("this broker requires a user and password, or a token", "anonymous")

    def _by_token(self, token: str, user: str) -> Principal:
        try:
            return self._principal_of_token(token, user)
        except PeerFault as fault:
            raise NotAdmitted(str(fault), "token") from None

    def _principal_of_token(self, token: str, user: str) -> Principal:
        if self._tokens is None:
            raise PeerFault("this broker accepts no tokens")
        claims, settings = self._tokens.claims(token), self._settings
        if user and user != claims.user:
            raise PeerFault("the token is another user's")
        rights = claims.rights
        if rights is None:
            entry = self._entry(claims.user)
            if entry is None:
                raise PeerFault("the token grants nothing, and there is no such user")
            rights = entry[0]
        try:
            principal = principal_of(
                claims.user,
                rights,
                settings.asserted,
                settings.beyond_grants,
                self._literals_max,
                claims.until,
                from_token=claims.rights is not None,
            )
            return principal if claims.rights is not None else self._let_in(principal)
        except GodwitError as error:
            raise PeerFault(f"the token is not accepted: {error}") from None

    async def _by_password(self, who: Credentials) -> Principal:
        entry = self._entry(who.user)
        if self._tokens is not None and entry is None and looks_like_a_token(who.password):
            return self._by_token(who.password, who.user)  # from clients that have no other field for it
        hash = entry[0].password if entry is not None else ""
        if hash and self._passwords.is_known(hash, who.password):
            assert entry is not None
            return self._let_in(entry[1].copy(), hash)
        user = who.user[:USER_CHARS_MAX]  # names are limited, so that they cannot fill memory
        if (wait_s := self._attempts.wait_s(who.host, user, monotonic())) > 0:  # rules 2, 3
            raise NotAdmitted(f"too many attempts have failed: try again in {wait_s:.0f} s", "attempts")
        other = hash or ("" if self._users is None else self._users.any_hash())
        is_right = bool(other) and await self._passwords.is_right(other, who.password)
        entry = self._entry(who.user)  # the file may have changed meanwhile
        if entry is None or not hash or entry[0].password != hash or not is_right:
            self._attempts.failed(who.host, user, monotonic())
            raise NotAdmitted(WRONG, "password")
        self._attempts.succeeded(who.host, user)
        return self._let_in(entry[1].copy(), hash)

    def _entry(self, user: str) -> tuple[User, Principal] | None:
        return None if self._users is None else self._users.get(user)
