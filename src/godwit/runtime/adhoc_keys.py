"""Keys of devices in ad hoc networks: the key of this device, and the known keys of others.

*Theory.* A device has a permanent Ed25519 key in a file. The first key that is seen for a name is stored in another
file: a device with another key under that name is refused, also after a restart (trust on first use). With a list of
allowed devices, only those are accepted, with the keys of the list, and each with a bound on its priority, if the list
has one.

*Rules.*
1. A name has one key. It changes only by hand.
2. At most `names_max` names are remembered. Beyond that unknown devices are refused; known ones are not forgotten.
3. Unknown devices are accepted at a bounded rate (`NEW_PER_S`), so that the table cannot be filled quickly.
4. Key files can be read by their owner only. Stored files have a format and a version.
5. Each start of a device has a higher number than the one before, independent of its clock.
"""

import os
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Annotated, TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from godwit.errors import NotAdmitted, ScenarioError, SecurityError
from godwit.files import write_whole
from godwit.runtime.rate_limits import TokenBucket
from godwit.settings import checked, key_text, line_of

__all__ = ["AllowedDevice", "DeviceFolder", "DeviceKey", "KnownKeys", "is_signed", "read_allowed"]

KEY_FORMAT, KNOWN_FORMAT, LIFE_FORMAT, VERSION = "godwit ad hoc key", "godwit known devices", "godwit lives", 1
KEY_CHARS = 64
NEW_PER_S, NEW_BURST = 1.0, 64
LIVES_SINCE_S = 1_577_836_800  # 2020: lives are counted in seconds since then, and must stay below 2**30


class AllowedDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An allowed device."""

    key: Annotated[str, msgspec.Meta(min_length=KEY_CHARS, max_length=KEY_CHARS, pattern="^[0-9a-f]+$")]
    priority_max: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0


class AllowedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of allowed devices, by their names."""

    devices: dict[str, AllowedDevice]


class KeyFile(msgspec.Struct, frozen=True):
    """The content of a key file."""

    format: str
    version: int
    key: bytes


class KnownFile(msgspec.Struct, frozen=True):
    """The keys that were seen first, by name, in hexadecimal digits."""

    format: str
    version: int
    devices: dict[str, str]


class LifeFile(msgspec.Struct, frozen=True):
    """The number of the last life."""

    format: str
    version: int
    life: int


class DeviceKey:
    """The private key of this device."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw()

    @classmethod
    def made(cls) -> "DeviceKey":
        """A new key."""
        return cls(Ed25519PrivateKey.generate())

    @property
    def text(self) -> str:
        """The public key, as lists of allowed devices have it."""
        return self.public.hex()

    @property
    def fingerprint(self) -> str:
        """A short form of the public key, for people."""
        return sha256(self.public).hexdigest()[:16]

    def sign(self, data: bytes) -> bytes:
        """A signature of 64 bytes."""
        return self._key.sign(data)

    def to_bytes(self) -> bytes:
        """What is in the key file."""
        return msgspec.json.encode(KeyFile(KEY_FORMAT, VERSION, self._key.private_bytes_raw()))

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> "DeviceKey":
        """The key that a key file holds; `where` names it in errors."""
        kept = _read(data, KeyFile, KEY_FORMAT, where)
        try:
            return cls(Ed25519PrivateKey.from_private_bytes(kept.key))
        except ValueError as error:
            raise SecurityError(f"{where} has an invalid key: {error}") from None


def is_signed(key: bytes, signature: bytes, data: bytes) -> bool:
    """Whether a signature of these bytes is valid for a public key."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, data)
    except (ValueError, InvalidSignature):
        return False
    return True


class KnownKeys:
    """The key of each name: that of the list, or the first that was seen."""

    def __init__(
        self,
        seen: dict[str, bytes] | None = None,
        allowed: dict[str, AllowedDevice] | None = None,
        names_max: int = 1_024,
    ) -> None:
        self._seen = {} if seen is None else dict(seen)
        self._allowed = allowed
        self._names_max = names_max
        self._new = TokenBucket(NEW_PER_S, NEW_BURST, 0.0)
        self.changed = False  # since it was last written

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def seen(self) -> dict[str, bytes]:
        """The keys that were seen first."""
        return self._seen

    def check(self, name: str, key: bytes, now: float) -> None:
        """Raise Raise NotAdmitted unless this key is that of the name, or the first one for it."""
        if self._allowed is not None:
            device = self._allowed.get(name)
            if device is None:
                raise NotAdmitted(f"{name!r} is not in the list of allowed devices", "link")
            if device.key != key.hex():
                raise NotAdmitted(f"{name!r} has another key than the list of allowed devices says", "link")
            return
        known = self._seen.get(name)
        if known is not None:
            if known != key:
                raise NotAdmitted(f"{name!r} has another key than the first one that was seen for it", "link")
            return
        if len(self._seen) >= self._names_max:
            raise NotAdmitted(f"no room for more than {self._names_max} names of devices", "link")
        if not self._new.has(1, now):
            raise NotAdmitted("too many devices with new names: try again later", "link")
        self._new.take(1, now)
        self._seen[name] = key
        self.changed = True

    def check_own(self, name: str, key: bytes) -> None:
        """Raise SecurityError if the list does not have this device with its key: others would refuse it."""
        if self._allowed is None:
            return
        device = self._allowed.get(name)
        if device is None or device.key != key.hex():
            raise SecurityError(f"the list of allowed devices must have {name!r}, with the key {key.hex()}")

    def is_known(self, name: str) -> bool:
        """Whether this name has a key."""
        return name in (self._seen if self._allowed is None else self._allowed)

    def may_have(self, name: str, priority: float) -> bool:
        """Whether a device may claim this priority."""
        device = None if self._allowed is None else self._allowed.get(name)
        return priority <= (1.0 if device is None else device.priority_max)


class DeviceFolder:
    """The folder of a device: its key, the keys that it has seen, and the number of its life."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SecurityError(f"cannot make the folder {path}: {error.strerror}") from None

    def key(self) -> DeviceKey:
        """The key of this device; a new one at the first start."""
        path = self.path / "key.json"
        made = DeviceKey.made()
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return DeviceKey.from_bytes(self._bytes(path), str(path))
        except OSError as error:
            raise SecurityError(f"cannot write {path}: {error.strerror}") from None
        with os.fdopen(file, "wb") as stream:
            stream.write(made.to_bytes())
            stream.flush()
            os.fsync(stream.fileno())
        return made

    def known(self, allowed: dict[str, AllowedDevice] | None = None) -> KnownKeys:
        """The keys of others."""
        path = self.path / "known.json"
        if not path.exists():
            return KnownKeys(allowed=allowed)
        kept = _read(self._bytes(path), KnownFile, KNOWN_FORMAT, str(path))
        try:
            seen = {name: bytes.fromhex(key) for name, key in kept.devices.items()}
        except ValueError as error:
            raise SecurityError(f"{path} has an invalid key: {error}") from None
        return KnownKeys(seen, allowed)

    def write_known(self, known: KnownKeys) -> None:
        """Store the keys of others, if there are new ones."""
        if known.changed:
            known.changed = False
            keys = {name: key.hex() for name, key in known.seen.items()}
            write_whole(self.path / "known.json", msgspec.json.encode(KnownFile(KNOWN_FORMAT, VERSION, keys)))

    def next_life(self) -> int:
        """The number of a new life. (rule 5)"""
        path, last = self.path / "life.json", 0
        if path.exists():
            last = _read(self._bytes(path), LifeFile, LIFE_FORMAT, str(path)).life
        life = max(last + 1, int(time()) - LIVES_SINCE_S)
        write_whole(path, msgspec.json.encode(LifeFile(LIFE_FORMAT, VERSION, life)))
        return life

    @staticmethod
    def _bytes(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise SecurityError(f"cannot read {path}: {error.strerror}") from None


def read_allowed(path: Path) -> dict[str, AllowedDevice]:
    """The devices of a list; SecurityError names the error and its line."""
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise SecurityError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SecurityError(f"{path} is not TOML: {error}") from None
    try:
        found = checked(AllowedFile, data, lambda way: f"{path}:{line_of(text, way) or 1}: {key_text(way)}")
    except ScenarioError as error:
        raise SecurityError(str(error)) from None
    return found.devices


File = TypeVar("File", KeyFile, KnownFile, LifeFile)


def _read(data: bytes, kind: type[File], format: str, where: str) -> File:
    try:
        kept = msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise SecurityError(f"{where} is not a file of the format {format!r}: {error}") from None
    if (kept.format, kept.version) != (format, VERSION):
        found = f"{kept.format!r}, version {kept.version}"
        raise SecurityError(f"{where} is {found}; this program reads {format!r}, version {VERSION}")
    return kept
