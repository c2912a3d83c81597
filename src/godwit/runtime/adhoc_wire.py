"""The wire format between devices of an ad hoc network: greetings, and messages signed by their first sender.

*Theory.* Beacons and relayed messages travel over several devices. So each is signed by the device that sent it first,
and every device on the path checks the signature: a relay can change only the hops and the age. The signed bytes are
forwarded unchanged. Messages to one target in one turn are signed once, as a bundle: under load a signature costs
little.

A connection begins with a `Greeting` from each side and a `Proof`: a signature of both greetings, with the fresh nonce
of the other side in it. So a recording of another connection proves nothing.

*Rules.*
1. A message without a valid signature of the device that it names is a `PeerFault`. A message is dropped if it is a
   duplicate, was not sent within `skew_s` by its sender's clock, or is signed with another key than the known key of
   that name (`adhoc_keys.py`): the neighbour that relays it may know another device by that name.
2. The signed bytes begin with their purpose and the name of the network, so they cannot be used elsewhere.
3. Messages kept for forwarding are bounded in number and in bytes.
4. A device's name has no slash: fixed brokers know it as NETWORK/NAME, where it must not be the name of another.
"""

from collections import OrderedDict
from collections.abc import Sequence
from secrets import token_bytes
from typing import Any, cast

import msgspec
from msgspec import structs

from godwit.adhoc import radio_messages as radio
from godwit.adhoc.radio_messages import Beacon, Relayed, check_radio
from godwit.codec.message_codec import MESSAGES, Codec
from godwit.errors import NotAdmitted, PeerFault
from godwit.runtime.adhoc_keys import DeviceKey, KnownKeys, is_signed
from godwit.seen import Seen

__all__ = [
    "NONCE_BYTES",
    "WIRE",
    "Alive",
    "Announcement",
    "Greeting",
    "MessageSeals",
    "Proof",
    "RadioMessage",
    "Signed",
    "WireMessage",
    "announced",
    "check_announcement",
    "check_greeting",
    "check_proof",
    "greeting",
    "proof_of",
]

VERSION = 1
NAME_CHARS_MAX = 256
NONCE_BYTES = 32
KEY_BYTES = 32
BUNDLE_MAX = 64  # messages that are signed together
BODY_BYTES_MAX = 2 * 2**20  # of them; a message that is longer is not sent
KEPT_MAX = 8_192  # messages that may be forwarded
KEPT_BYTES_MAX = 16 * 2**20
REPLAY_WINDOW = 4_096
REPLAY_NAMES_MAX = 4_096  # above the names that `KnownKeys` has room for: none of them is forgotten


class Greeting(msgspec.Struct, frozen=True, tag=True):
    """First message of both sides: name, key, and the nonce that the other side must sign."""

    version: int
    network: str
    name: str
    key: bytes
    nonce: bytes


class Proof(msgspec.Struct, frozen=True, tag=True):
    """Second message: the proof of the private key of the greeting."""

    signature: bytes


class Alive(msgspec.Struct, frozen=True, tag=True):
    """A sign of life of a device that has nothing else to send."""


class Signed(msgspec.Struct, frozen=True, tag=True):
    """A beacon, or some relayed messages to one target, as the device `origin` has signed them."""

    origin: str
    key: bytes
    sent_at: float  # by the clock of `origin`, in seconds since 1970
    signature: bytes
    body: bytes  # the messages, without hops and age
    hops: int = 0
    age_s: float = 0.0


class Announcement(msgspec.Struct, frozen=True, tag=True):
    """In a datagram: the device `name` listens at this port of the host that the datagram comes from."""

    version: int
    network: str
    name: str
    key: bytes
    port: int
    sent_at: float
    signature: bytes = b""


RadioMessage = Beacon | Relayed
"""Messages between the machines of neighbours."""

WireMessage = Greeting | Proof | Alive | Signed
"""The content of a frame."""

_KINDS = [kind for name in radio.__all__ if isinstance(kind := getattr(radio, name), type)]
_BODY = Codec(MESSAGES, [kind for kind in _KINDS if issubclass(kind, msgspec.Struct)], as_json=False)
_BODIES = msgspec.msgpack.Decoder(list[bytes])
_DECODER = msgspec.msgpack.Decoder(WireMessage)
_ANNOUNCEMENTS = msgspec.msgpack.Decoder(Announcement)


class _Wire:
    """Frames of a connection between devices as bytes."""

    @staticmethod
    def encode(message: Any) -> bytes:
        """A message as bytes."""
        return msgspec.msgpack.encode(message)

    @staticmethod
    def decode(data: bytes) -> WireMessage:
        """A message from bytes; `PeerFault` if it is invalid."""
        try:
            return cast(WireMessage, _DECODER.decode(data))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise PeerFault(f"a frame that is not a message of a device: {error}") from None


WIRE = _Wire()


def _signed_bytes(purpose: str, *parts: Any) -> bytes:
    """The signed bytes: the purpose, and all that the signature covers."""
    return msgspec.msgpack.encode((f"godwit ad hoc {purpose} {VERSION}", *parts))


# ---------------------------------------------------------------- greetings


def greeting(network: str, name: str, key: DeviceKey) -> Greeting:
    """The greeting of this device, with a fresh nonce."""
    return Greeting(VERSION, network, name, key.public, token_bytes(NONCE_BYTES))


def proof_of(key: DeviceKey, ours: Greeting, theirs: Greeting, *, is_dialler: bool) -> Proof:
    """The answer of this device to a greeting."""
    return Proof(key.sign(_proof_bytes(ours, theirs, is_dialler=is_dialler)))


def check_greeting(ours: Greeting, theirs: Greeting) -> None:
    """Raise `PeerFault` unless this is the greeting of another device of the same network."""
    if theirs.version != VERSION:
        raise PeerFault(f"version {theirs.version} of the protocol between devices: this is version {VERSION}")
    if theirs.network != ours.network:
        raise PeerFault(f"a device of the network {theirs.network[:40]!r}: this is {ours.network!r}")
    _check_name(theirs.name)
    if len(theirs.nonce) != NONCE_BYTES or len(theirs.key) != KEY_BYTES:
        raise PeerFault(f"a greeting needs a nonce of {NONCE_BYTES} bytes and a key of {KEY_BYTES}")
    if theirs.name == ours.name:
        raise PeerFault(f"a device with our own name, {ours.name!r}")


def check_proof(ours: Greeting, theirs: Greeting, proof: Proof, *, is_dialler: bool) -> None:
    """Raise `PeerFault` unless the other side has the key of its greeting; `is_dialler`: this side opened the
    connection."""
    if not is_signed(theirs.key, proof.signature, _proof_bytes(theirs, ours, is_dialler=not is_dialler)):
        raise PeerFault(f"the device that calls itself {theirs.name!r} does not have the key that it shows")


def _proof_bytes(signer: Greeting, other: Greeting, *, is_dialler: bool) -> bytes:
    role = "dialler" if is_dialler else "dialled"
    mine = (signer.network, signer.name, signer.key, signer.nonce)
    return _signed_bytes("connection", role, *mine, other.name, other.key, other.nonce)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable() or "/" in name:
        raise PeerFault(f"a device's name has 1 to {NAME_CHARS_MAX} characters that print, and no slash")


# ---------------------------------------------------------------- announcements


def announced(key: DeviceKey, network: str, name: str, port: int, now: float) -> bytes:
    """A datagram that announces this device."""
    unsigned = Announcement(VERSION, network, name, key.public, port, now)
    return msgspec.msgpack.encode(structs.replace(unsigned, signature=key.sign(_announcement_bytes(unsigned))))


def check_announcement(data: bytes, network: str) -> Announcement | None:
    """The announcement in a datagram; None if it is of another network or version. `PeerFault` if it is forged or
    invalid.

    The caller checks whether it is new, and whether its key is that of its name.
    """
    try:
        found = _ANNOUNCEMENTS.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PeerFault(f"an invalid announcement: {error}") from None
    if found.version != VERSION or found.network != network:
        return None
    _check_name(found.name)
    if not 0 < found.port < 2**16:
        raise PeerFault(f"an announcement of port {found.port}")
    if not is_signed(found.key, found.signature, _announcement_bytes(found)):
        raise PeerFault(f"an announcement of {found.name!r} that it has not signed")
    return found


def _announcement_bytes(said: Announcement) -> bytes:
    return _signed_bytes("announcement", said.network, said.name, said.key, said.port, said.sent_at)


# ---------------------------------------------------------------- messages of the machine


def _origin(message: RadioMessage) -> str:
    return message.leader if isinstance(message, Beacon) else message.source


class MessageSeals:
    """Signs messages of this device, checks signatures of others, and keeps messages that may be forwarded."""

    def __init__(self, name: str, network: str, key: DeviceKey, known: KnownKeys, skew_s: float) -> None:
        self._name, self._network, self._key, self._known = name, network, key, known
        self._skew_s = skew_s  # 0: clocks are not compared
        self._seen = Seen(REPLAY_WINDOW, REPLAY_NAMES_MAX)
        self._kept: OrderedDict[tuple[str, int], Signed] = OrderedDict()  # by sender and number of a message
        self._kept_bytes = 0
        self._beacons: dict[str, tuple[int, Signed]] = {}  # the last one of each leader
        self.dropped = 0
        self.last_reason = ""  # for which a message was dropped

    # ------------------------------------------------------------ what goes

    def sealed(self, messages: Sequence[RadioMessage], now: float) -> list[Signed]:
        """Messages to one neighbour in wire form. Messages of others that are no longer kept are left out."""
        found: list[Signed] = []
        bundle: list[Relayed] = []
        for message in messages:
            if bundle and not (type(message) is Relayed and message.source == self._name and _fits(bundle, message)):
                found += self._bundled(bundle, now)
                bundle = []
            if _origin(message) != self._name:
                signed = self._passed_on(message)
                if signed is not None and (not found or found[-1].signature != signed.signature):
                    found.append(signed)
            elif isinstance(message, Relayed):
                bundle.append(message)
            else:
                found.append(self._own_beacon(message, now))
        return found + self._bundled(bundle, now)

    def _passed_on(self, message: RadioMessage) -> Signed | None:
        """A message that another has signed, with the present hops and age."""
        origin, number = _origin(message), message.number
        if type(message) is not Beacon:
            kept = self._kept.get((origin, number))
            return None if kept is None else structs.replace(kept, hops=message.hops)
        last = self._beacons.get(origin)
        if last is None or last[0] != number:
            return None
        return structs.replace(last[1], hops=message.hops, age_s=message.age_s)

    def _own_beacon(self, beacon: Beacon, now: float) -> Signed:
        last = self._beacons.get(self._name)
        if last is None or last[0] != beacon.number:  # otherwise it is the same message to another neighbour
            last = (beacon.number, self._signed([_BODY.encode(beacon)], now))
            self._beacons[self._name] = last
        return structs.replace(last[1], hops=beacon.hops, age_s=beacon.age_s)

    def _bundled(self, bundle: list[Relayed], now: float) -> list[Signed]:
        bodies = [_BODY.encode(message) for message in bundle]
        fitting = [body for body in bodies if len(body) <= BODY_BYTES_MAX]
        if len(fitting) < len(bodies):
            self.dropped += len(bodies) - len(fitting)
            self.last_reason = f"a message of more than {BODY_BYTES_MAX:,} bytes cannot be sent"
        found: list[Signed] = []
        while fitting:
            size = count = 0
            while count < len(fitting) and (count == 0 or size + len(fitting[count]) <= BODY_BYTES_MAX):
                size += len(fitting[count])
                count += 1
            found.append(self._signed(fitting[:count], now))
            fitting = fitting[count:]
        return found

    def _signed(self, bodies: list[bytes], now: float) -> Signed:
        body = msgspec.msgpack.encode(bodies)
        return Signed(self._name, self._key.public, now, self._key.sign(self._bytes(self._name, now, body)), body)

    # ------------------------------------------------------------ what comes

    def opened(self, signed: Signed, now: float) -> list[RadioMessage]:
        """The new messages in a signed bundle. `PeerFault` if it is forged or invalid."""
        if signed.origin == self._name:
            return []
        _check_name(signed.origin)
        if not is_signed(signed.key, signed.signature, self._bytes(signed.origin, signed.sent_at, signed.body)):
            raise PeerFault(f"a message of {signed.origin!r} that it has not signed")
        reason = self._why_dropped(signed, now)
        if reason:
            return self._drop(reason)
        try:
            bodies = _BODIES.decode(signed.body)
        except msgspec.MsgspecError as error:
            raise PeerFault(f"an invalid bundle: {error}") from None
        if len(bodies) > BUNDLE_MAX:
            raise PeerFault(f"a bundle of {len(bodies)} messages: at most {BUNDLE_MAX} are allowed")
        found = [self._checked(signed, _BODY.decode(body)) for body in bodies]
        return [message for message in found if self._is_new(signed, message)]

    def _checked(self, signed: Signed, message: Any) -> RadioMessage:
        check_radio(message)
        if _origin(message) != signed.origin:
            raise PeerFault(f"a message of {_origin(message)!r} that {signed.origin!r} has signed")
        if type(message) is Beacon:
            return structs.replace(message, hops=signed.hops, age_s=signed.age_s)
        return cast(Relayed, structs.replace(message, hops=signed.hops))

    def _is_new(self, signed: Signed, message: RadioMessage) -> bool:
        """Whether a message is new and may be handled; if so, it may be forwarded, too."""
        if type(message) is Beacon and not self._known.may_have(message.leader, message.priority):
            self._drop(f"{message.leader!r} claims the priority {message.priority:g}, which it may not have")
            return False
        if not self._seen.add(signed.origin, message.number):
            return False
        if type(message) is Beacon:
            self._beacons[signed.origin] = (message.number, signed)  # as many as there are names
        elif type(message) is Relayed and message.target != self._name:
            self._keep((signed.origin, message.number), signed)
        return True

    def _why_dropped(self, signed: Signed, now: float) -> str:
        if self._skew_s and abs(now - signed.sent_at) > self._skew_s:
            return f"a message of {signed.origin!r} that is too old or too new: do the clocks of all devices agree?"
        try:
            self._known.check(signed.origin, signed.key, now)
        except NotAdmitted as refused:
            return str(refused)
        return ""

    def _drop(self, reason: str) -> list[RadioMessage]:
        self.dropped, self.last_reason = self.dropped + 1, reason
        return []

    def _bytes(self, origin: str, sent_at: float, body: bytes) -> bytes:
        return _signed_bytes("message", self._network, origin, sent_at, body)

    def _keep(self, key: tuple[str, int], signed: Signed) -> None:
        self._kept[key] = signed
        self._kept_bytes += len(signed.body)
        while len(self._kept) > KEPT_MAX or self._kept_bytes > KEPT_BYTES_MAX:
            _, gone = self._kept.popitem(last=False)
            self._kept_bytes -= len(gone.body)


def _fits(bundle: list[Relayed], message: Relayed) -> bool:
    return message.target == bundle[-1].target and len(bundle) < BUNDLE_MAX
