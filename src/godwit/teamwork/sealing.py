"""Sealing: messages between peers are readable for members of the scope, or for one device. [motion §2.1, requirement
3]

*Theory.* What goes to a scope is sealed with the key in use there (ChaCha20-Poly1305); what goes to one device, with a
key agreed between a fresh key pair and the device's own (X25519, HKDF-SHA-256). Attributes are not sealed: brokers
route by them. So brokers see the team, the kind of message, the scope, sizes and times, and nothing of what is written.

*Rules.*
1. A key is 32 random bytes. Its name is the start of its hash, so that no peer can give another secret under that name.
2. A sealed payload is bound to its scope or device: moved to another, it does not open.
3. Keys are in the settings of the repository, which is readable by the owner of the files alone.
"""

from hashlib import sha256
from os import urandom
from typing import Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

__all__ = ["KeyRing", "Secrets", "key_name", "opened_by_device", "sealed_for_device"]

KEY_BYTES, NONCE_BYTES, NAME_CHARS = 32, 12, 32
PUBLIC_BYTES = 32


class Sealed(msgspec.Struct, frozen=True):
    """A payload that is sealed with a key of its scope."""

    scope: str
    name: str
    nonce: bytes
    data: bytes


class Secrets(Protocol):
    """Where keys are kept."""

    def get(self, name: str, default: bytes | None = None) -> bytes | None: ...

    def put(self, name: str, value: bytes) -> None: ...


def key_name(key: bytes) -> str:
    """The name of a key."""
    return sha256(b"godwit scope key" + key).hexdigest()[:NAME_CHARS]


class KeyRing:
    """The keys of scopes that this device has."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def has(self, scope: str, name: str) -> bool:
        """Whether the key of that name is here."""
        return self.key(scope, name) is not None

    def key(self, scope: str, name: str) -> bytes | None:
        """The secret."""
        return self._secrets.get(f"key {scope} {name}")

    def made(self, scope: str) -> str:
        """Draw a key and keep it; its name."""
        key = urandom(KEY_BYTES)
        self._secrets.put(f"key {scope} {key_name(key)}", key)
        return key_name(key)

    def keep(self, scope: str, name: str, key: bytes) -> bool:
        """Keep a key that another device gave, if it is the one of that name. (rule 1)"""
        if len(key) != KEY_BYTES or key_name(key) != name:
            return False
        self._secrets.put(f"key {scope} {name}", key)
        return True

    def sealed(self, scope: str, name: str, payload: bytes) -> bytes:
        """A payload for the members of a scope."""
        key = self.key(scope, name)
        assert key is not None, "nothing is sealed with a key that is not here"
        nonce = urandom(NONCE_BYTES)
        data = ChaCha20Poly1305(key).encrypt(nonce, payload, scope.encode())
        return msgspec.msgpack.encode(Sealed(scope, name, nonce, data))

    def opened(self, payload: bytes) -> "bytes | Sealed | None":
        """What was sealed; the sealed form itself if its key is not here; None if it is broken."""
        try:
            sealed = msgspec.msgpack.decode(payload, type=Sealed)
        except msgspec.MsgspecError:
            return None
        key = self.key(sealed.scope, sealed.name)
        if key is None:
            return sealed
        try:
            return ChaCha20Poly1305(key).decrypt(sealed.nonce, sealed.data, sealed.scope.encode())
        except (InvalidTag, ValueError):
            return None


def sealed_for_device(public_key: bytes, device: str, payload: bytes) -> bytes:
    """A payload that only the device with this key can open."""
    fresh = X25519PrivateKey.generate()
    mine = fresh.public_key().public_bytes_raw()
    key = _agreed(fresh.exchange(X25519PublicKey.from_public_bytes(public_key)), mine + public_key)
    return mine + ChaCha20Poly1305(key).encrypt(bytes(NONCE_BYTES), payload, device.encode())


def opened_by_device(private_key: X25519PrivateKey, device: str, box: bytes) -> bytes | None:
    """What was sealed for this device; None if it was not."""
    theirs, data = box[:PUBLIC_BYTES], box[PUBLIC_BYTES:]
    try:
        shared = private_key.exchange(X25519PublicKey.from_public_bytes(theirs))
        key = _agreed(shared, theirs + private_key.public_key().public_bytes_raw())
        return ChaCha20Poly1305(key).decrypt(bytes(NONCE_BYTES), data, device.encode())
    except (InvalidTag, ValueError):
        return None


def _agreed(shared: bytes, keys: bytes) -> bytes:
    """A key for one payload: the pair is fresh, so the nonce may be constant."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"godwit box" + keys).derive(shared)
