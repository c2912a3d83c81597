"""The keys of a device: one to sign its changes and messages, one to open what was sealed for it.

A key file is JSON with a name and a version, readable by its owner alone. The devices of a team, with their public
keys, are records of the scope of the team (`device/NAME`). The first one vouches for itself: the name of the scope ends
in a hash of its key.
"""

import os
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from godwit.errors import SecurityError
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.governance import founder_of
from godwit.teamwork.machine.store import Store

__all__ = ["DeviceKeys", "TeamDevices", "team_scope"]

FORMAT, VERSION = "godwit device keys", 1
FINGERPRINT_CHARS = 32


class KeyFile(msgspec.Struct, forbid_unknown_fields=True):
    """What is in the file."""

    format: str
    version: int
    device: str
    signing: bytes
    sealing: bytes


class DeviceKeys:
    """The private keys of this device."""

    def __init__(self, device: str, signing: Ed25519PrivateKey, sealing: X25519PrivateKey) -> None:
        self.device, self.signing, self.sealing = device, signing, sealing

    @classmethod
    def made(cls, label: str) -> "DeviceKeys":
        """New keys for a device; its name is the label and eight random digits."""
        return cls(f"{label}.{token_hex(4)}", Ed25519PrivateKey.generate(), X25519PrivateKey.generate())

    @property
    def public_fields(self) -> dict[str, str]:
        """The public keys, as fields of the record of the device."""
        signing, sealing = self.signing.public_key(), self.sealing.public_key()
        return {"signing": signing.public_bytes_raw().hex(), "sealing": sealing.public_bytes_raw().hex()}

    @property
    def fingerprint(self) -> str:
        """A hash of the public key that signs."""
        return _fingerprint(self.public_fields["signing"])

    def save(self, path: Path) -> None:
        """Write the key file. One that is there is not replaced."""
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise SecurityError(f"{path} already exists: the keys of a device are never replaced") from None
        with os.fdopen(file, "wb") as stream:
            stream.write(self.to_bytes())
            stream.flush()
            os.fsync(stream.fileno())

    def to_bytes(self) -> bytes:
        """What is in the key file."""
        signing, sealing = self.signing.private_bytes_raw(), self.sealing.private_bytes_raw()
        return msgspec.json.encode(KeyFile(FORMAT, VERSION, self.device, signing, sealing))

    @classmethod
    def load(cls, path: Path) -> "DeviceKeys":
        """Read the key file."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise SecurityError(f"cannot read {path}: {error.strerror}") from error
        return cls.from_bytes(data, str(path))

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> "DeviceKeys":
        """The keys that a key file holds; `path` names it in errors."""
        try:
            kept = msgspec.json.decode(data, type=KeyFile)
        except msgspec.MsgspecError as error:
            raise SecurityError(f"{path} is not a key file: {error}") from error
        if (kept.format, kept.version) != (FORMAT, VERSION):
            raise SecurityError(
                f"{path} is {kept.format!r}, version {kept.version}; this program reads {FORMAT!r}, version {VERSION}"
            )
        try:
            signing = Ed25519PrivateKey.from_private_bytes(kept.signing)
            sealing = X25519PrivateKey.from_private_bytes(kept.sealing)
        except ValueError as error:
            raise SecurityError(f"{path} has an invalid key: {error}") from error
        return cls(kept.device, signing, sealing)


class TeamDevices:
    """Signatures of this device, and checks of those of others by the records of the team."""

    def __init__(self, scope: str, store: Store, keys: DeviceKeys) -> None:
        self._scope, self._store, self._keys = scope, store, keys

    def sign(self, data: bytes) -> bytes:
        return self._keys.signing.sign(data)

    def check(self, device: str, user: str, data: bytes, signature: bytes) -> str:
        record = self._store.record(self._scope, f"device/{device}")
        fields = record.fields if record else self._first_device(device, data)
        if "signing" not in fields:
            return f"device {device} is not known"
        if fields.get("user") != user:
            return f"device {device} belongs to {fields.get('user')}, not to {user}"
        return "" if is_signature(fields["signing"], data, signature) else f"no signature of device {device}"

    def sealing_key(self, device: str) -> bytes | None:
        """The public key by which something is sealed for a device; None if it is not known."""
        record = self._store.record(self._scope, f"device/{device}")
        try:
            return bytes.fromhex(record.fields["sealing"]) if record else None
        except (KeyError, TypeError, ValueError):
            return None

    def _first_device(self, device: str, data: bytes) -> dict[str, Any]:
        """The fields of the founder's device, from the change that makes it known, if this is that change."""
        try:
            change = msgspec.msgpack.decode(data, type=Change)
        except msgspec.MsgspecError:
            return {}
        fields, fingerprint = change.fields, self._scope.rpartition(".")[2]
        is_first = (change.scope, change.record, change.number) == (self._scope, f"device/{device}", 1)
        is_founder = fields.get("user") == change.user == founder_of(self._scope)
        return fields if is_first and is_founder and _fingerprint(fields.get("signing")) == fingerprint else {}


def is_signature(public_key: Any, data: bytes, signature: bytes) -> bool:
    """Whether the holder of a key has signed this."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(signature, data)
    except (TypeError, ValueError, InvalidSignature):
        return False
    return True


def team_scope(founder: str, keys: DeviceKeys) -> str:
    """The name of the scope of a new team."""
    return f"team/{founder}.{keys.fingerprint}"


def _fingerprint(public_key: Any) -> str:
    try:
        return sha256(bytes.fromhex(public_key)).hexdigest()[:FINGERPRINT_CHARS]
    except (TypeError, ValueError):
        return ""
