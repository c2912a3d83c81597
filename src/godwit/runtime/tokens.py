"""Tokens (JWT): signed claims about a user and its rights, checked by the broker's key.

*Theory.* The key file determines the allowed algorithms: a text of 32 bytes or more is a secret (HS256), a public key
in PEM is RSA, elliptic curve or Ed25519, a JWKS file has several of any kind, selected by the token's `kid`. The
algorithm in a token is only compared with those of its key.

*Rules.*
1. A token must have a user (`sub`) and an end (`exp`); times are numbers, not texts. Its issuer and audience must be
   those of the settings. A token with an audience is refused if the settings have none.
2. `none` is not an algorithm, and a public key is never used as a secret, in whatever format its file is: otherwise
   everyone with the public key could sign.
3. Grants are in the claim `godwit`: `publish`, `subscribe`, `clients`, `context`, `admin`. Without it the rights of
   `sub` come from the user file.
4. Errors name the problem, but show nothing of the token.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from godwit.errors import PeerFault, SecurityError
from godwit.runtime.users import Rights

__all__ = ["Claims", "TokenKeys", "looks_like_a_token"]

TOKEN_CHARS_MAX = 16_384
SECRET_BYTES_MIN = 32
KEYS_MAX = 100
RSA_BITS_MIN = 2_048
SECRETS = ("HS256", "HS384", "HS512")
RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
EDWARDS = ("EdDSA",)
DEFAULTS = ("HS256", "RS256", "ES256", "EdDSA")
PARTS = 3
TIMES = ("exp", "nbf", "iat")  # seconds since 1970


class Claims(msgspec.Struct, frozen=True):
    """The claims of a valid token."""

    user: str
    until: float
    rights: Rights | None = None  # None: not in the token


def looks_like_a_token(text: str) -> bool:
    """Whether a password may be a token: some clients have only a field for a password."""
    return len(text) <= TOKEN_CHARS_MAX and text.startswith("ey") and text.count(".") == PARTS - 1


class TokenKeys:
    """The keys that check tokens."""

    def __init__(
        self, path: Path, algorithms: tuple[str, ...] = DEFAULTS, issuer: str = "", audience: str = ""
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        known = {*SECRETS, *RSA, *EDWARDS, *(name for names in CURVES.values() for name in names)}
        algorithms = algorithms or DEFAULTS
        strange = [name for name in algorithms if name not in known]
        if strange:
            raise SecurityError(f"token_algorithms: {', '.join(strange)}: known are {', '.join(sorted(known))}")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise SecurityError(f"{path}: {error.strerror or error}") from None
        self._keys: list[tuple[str, Any, tuple[str, ...]]] = []  # its id, the key, its algorithms
        for id, key, possible in _keys(content, path):
            allowed = tuple(name for name in possible if name in algorithms)
            if allowed:
                self._keys.append((id, key, allowed))
        if not self._keys:
            raise SecurityError(f"{path}: none of the algorithms {', '.join(algorithms)} is for a key in this file")

    def claims(self, token: str) -> Claims:
        """The claims of a token. PeerFault if it is not valid."""
        import jwt

        if len(token) > TOKEN_CHARS_MAX:
            raise PeerFault(f"a token has at most {TOKEN_CHARS_MAX} characters")
        try:
            header = jwt.get_unverified_header(token)
            key, allowed = self._key_for(header)
            said = jwt.decode(
                token,
                key,
                algorithms=list(allowed),
                issuer=self._issuer or None,
                audience=self._audience or None,
                options={"require": ["exp", "sub", *(["iss"] if self._issuer else [])]},
            )
            if any(type(said[name]) not in (int, float) for name in TIMES if name in said):
                raise PeerFault(f"the token is not accepted: {', '.join(TIMES)} must be numbers")
            until = float(said["exp"])
        except jwt.PyJWTError as error:
            raise PeerFault(f"the token is not accepted: {_why(error)}") from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise PeerFault("the token is not accepted: it is not a token") from None
        try:
            rights = msgspec.convert(said["godwit"], Rights) if "godwit" in said else None
        except msgspec.ValidationError as error:
            raise PeerFault(f"the token is not accepted: its claim godwit: {error}") from None
        return Claims(str(said["sub"]), until, rights)

    def _key_for(self, header: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
        """The key of the token."""
        id, algorithm = header.get("kid"), header.get("alg")
        fitting = [
            (key, allowed)
            for known, key, allowed in self._keys
            if algorithm in allowed and (not known or id is None or id == known)
        ]
        if len(fitting) != 1:
            raise PeerFault(
                "the token is not accepted: " + ("it does not say which key" if fitting else "no key is for it")
            )
        return fitting[0]


def _why(error: Exception) -> str:
    """The error in words, without any part of the token."""
    import jwt

    reasons = [
        (jwt.ExpiredSignatureError, "it has expired"),
        (jwt.ImmatureSignatureError, "it is not valid yet"),
        (jwt.InvalidIssuerError, "it is from another issuer"),
        (jwt.InvalidAudienceError, "it is for another audience"),
        (jwt.InvalidSignatureError, "its signature is wrong"),
        (jwt.InvalidAlgorithmError, "its algorithm is not allowed"),
        (jwt.MissingRequiredClaimError, "it must have sub and exp"),
    ]
    return next((text for kind, text in reasons if isinstance(error, kind)), "it is not a token")


def _keys(content: bytes, path: Path) -> list[tuple[str, Any, tuple[str, ...]]]:
    """The keys of a file, each with its id and algorithms."""
    start = content.lstrip()
    if start.startswith(b"-----BEGIN"):
        if b"PRIVATE KEY" in content:
            raise SecurityError(f"{path}: this is a private key: the broker needs the public one only")
        return [("", *_public(content, path))]
    if start.startswith(b"{"):
        return _set(content, path)
    secret = content.strip()
    if _is_known_form(content):
        raise SecurityError(f"{path}: a key or certificate in an unknown format: it must be in PEM, or a JWKS")
    if len(secret) < SECRET_BYTES_MIN:
        raise SecurityError(f"{path}: a secret of {len(secret)} bytes: it must have {SECRET_BYTES_MIN} or more")
    return [("", secret, SECRETS)]


def _is_known_form(content: bytes) -> bool:
    """Whether an apparent secret is a key or certificate. (rule 2)"""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    if b"-----BEGIN" in content or content.lstrip().startswith((b"ssh-", b"ecdsa-sha2-")):
        return True
    for load in (load_der_public_key, x509.load_der_x509_certificate):
        try:
            load(content)
        except UnsupportedAlgorithm:
            return True
        except (ValueError, TypeError):
            continue
        return True
    return False


def _public(content: bytes, path: Path) -> tuple[Any, tuple[str, ...]]:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise SecurityError(f"{path}: no public key in PEM, no JWKS and no secret") from None
    return key, _algorithms(key, str(path))


def _algorithms(key: Any, where: str) -> tuple[str, ...]:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    if isinstance(key, RSAPublicKey):
        if key.key_size < RSA_BITS_MIN:
            raise SecurityError(f"{where}: an RSA key of {key.key_size} bits: it must have {RSA_BITS_MIN} or more")
        return RSA
    if isinstance(key, Ed25519PublicKey):
        return EDWARDS
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in CURVES:
        return CURVES[key.curve.name]
    raise SecurityError(f"{where}: a key of a kind that is not known here: RSA, P-256, P-384, P-521 and Ed25519 are")


def _set(content: bytes, path: Path) -> list[tuple[str, Any, tuple[str, ...]]]:
    import jwt

    try:
        entries = json.loads(content)["keys"]
        if not isinstance(entries, list) or not 0 < len(entries) <= KEYS_MAX:
            raise ValueError
        found: list[tuple[str, Any, tuple[str, ...]]] = []
        for entry in entries:
            if entry.get("use", "sig") != "sig":
                continue
            id = str(entry.get("kid", ""))
            if "d" in entry:
                raise SecurityError(f"{path}: key {id!r} is a private key: the broker needs the public one only")
            key = jwt.PyJWK(entry).key
            if isinstance(key, bytes) and len(key) < SECRET_BYTES_MIN:
                raise SecurityError(f"{path}: key {id!r}: a secret must have {SECRET_BYTES_MIN} bytes or more")
            possible = SECRETS if isinstance(key, bytes) else _algorithms(key, f"{path}: key {id!r}")
            named = entry.get("alg")
            found.append((id, key, possible if named is None else tuple(name for name in possible if name == named)))
    except SecurityError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError):
        raise SecurityError(f"{path}: no JWKS: it must be an object with `keys`, 1 to {KEYS_MAX} of them") from None
    return found
