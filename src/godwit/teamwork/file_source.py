"""A peer that has a file, and the connection to it: every answer is checked before it is used.

Connections are blocking and are used by threads: receiving, hashing and writing take the time of several cores then,
since none of them needs the interpreter.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPResponse

import msgspec

from godwit.errors import ContentError, TransferError
from godwit.teamwork.file_requests import (
    BOX_BYTES,
    MANIFEST_BYTES_MAX,
    Asker,
    Form,
    Target,
    WantedFile,
    authorization,
    challenge_in,
    read_manifest,
    sealed_bytes,
)
from godwit.teamwork.machine.scope_log import Devices
from godwit.teamwork.manifests import CHUNK_BYTES, Manifest

__all__ = ["Chunk", "Declined", "Lied", "Me", "Source", "SourceConnection", "address_of"]

CONNECT_S = 5.0
ERROR_BYTES_MAX = 4_096
GIVEN, BUSY = (200, 206), (429, 503)
PIECE_BYTES = 2**18  # are received before they are counted


class Source(msgspec.Struct, frozen=True):
    """A peer that has a file."""

    device: str
    addresses: tuple[str, ...]
    """`HOST:PORT`, the best first."""
    must_be_sealed: bool = False
    """Whether it gives the file in its sealed form alone."""


class Lied(Exception):
    """A peer has sent other bytes than those that were asked for. It is not asked again."""


class Declined(Exception):
    """A peer does not give the file, and why."""

    def __init__(self, reason: str, *, is_busy: bool = False) -> None:
        super().__init__(reason)
        self.is_busy = is_busy


class Me(msgspec.Struct, frozen=True):
    """Who asks, and how it signs and opens."""

    asker: Asker
    devices: Devices
    opened: Callable[[bytes], bytes | None]
    """What was sealed for this device; None if it was not."""


class Chunk(msgspec.Struct, frozen=True):
    """A chunk that has the right hash. Its data is valid until the next one is read."""

    number: int
    data: bytes | memoryview
    hash: bytes


class SourceConnection:
    """A connection to a peer. One thread at a time uses it; any may end it."""

    def __init__(self, source: Source, me: Me, idle_s: float) -> None:
        self._source, self._me, self._idle_s = source, me, idle_s
        self._http: HTTPConnection | None = None
        self._challenge = ""
        self._buffer = memoryview(bytearray(CHUNK_BYTES + BOX_BYTES))
        self._is_ended = False
        self.bytes_received = 0
        """Of files and manifests."""

    # ------------------------------------------------------------ reading

    def manifest(self, wanted: WantedFile) -> Manifest:
        """The manifest of a file."""
        sealed = self._source.must_be_sealed
        answer = self._answer(self._target(wanted, Form.SEALED_MANIFEST if sealed else Form.MANIFEST))
        size = answer.length
        if size is None or size > MANIFEST_BYTES_MAX + BOX_BYTES:
            raise Declined(f"sent a manifest of {size or 'unknown'} bytes; at most {MANIFEST_BYTES_MAX:,} are taken")
        data = bytearray(size)
        self._read_into(answer, memoryview(data))
        try:
            return read_manifest(wanted, self._opened(bytes(data)) if sealed else bytes(data))
        except ContentError as error:
            raise Lied(str(error)) from error

    def chunks(self, wanted: WantedFile, manifest: Manifest, numbers: range) -> Iterator[Chunk]:
        """Some chunks, each checked against its hash as it arrives."""
        sealed = self._source.must_be_sealed
        first, last = numbers.start * CHUNK_BYTES, min(numbers.stop * CHUNK_BYTES, manifest.size) - 1
        if sealed:
            answer = self._answer(self._target(wanted, Form.SEALED_CHUNKS, numbers))
            expected = sealed_bytes(manifest, numbers)
        else:
            answer = self._answer(self._target(wanted, Form.FILE), f"bytes={first}-{last}")
            expected = last + 1 - first
        if answer.length != expected:
            self._close()
            raise Declined(f"answered with {answer.length} bytes, and {expected} were asked for")
        for number in numbers:
            size = manifest.chunk_size(number)
            part = self._buffer[: size + BOX_BYTES if sealed else size]
            self._read_into(answer, part)
            data = self._opened(bytes(part)) if sealed else part
            hash = sha256(data).digest()
            if hash != manifest.hash_of(number):
                raise Lied(f"chunk {number} of {manifest.name.hex()} has another hash than its manifest says")
            yield Chunk(number, data, hash)

    @staticmethod
    def _target(wanted: WantedFile, form: Form, chunks: range = range(0)) -> Target:
        return Target(form, wanted.scope, wanted.record, wanted.name, chunks)

    def _opened(self, box: bytes) -> bytes:
        data = self._me.opened(box)
        if data is None:
            raise Lied("what it sent is not sealed for this device")
        return data

    def _read_into(self, answer: HTTPResponse, part: memoryview) -> None:
        count = 0
        while count < len(part):
            more = 0 if self._is_ended else answer.readinto(part[count : count + PIECE_BYTES])
            if not more:
                raise ConnectionAbortedError("the connection ended in the middle of a file")
            count += more
            self.bytes_received += more

    # ------------------------------------------------------------ asking

    def _answer(self, target: Target, byte_range: str = "") -> HTTPResponse:
        """The answer to a signed request, if it is a good one."""
        try:
            answer = self._asked(target, byte_range)
            if answer.status == 401:  # a new connection has a new challenge
                self._challenge = challenge_in(answer.getheader("WWW-Authenticate", ""))
                answer.read(ERROR_BYTES_MAX)
                answer = self._asked(target, byte_range)
            reason = b"" if answer.status in GIVEN else answer.read(ERROR_BYTES_MAX)
        except HTTPException as error:
            self._close()
            raise ConnectionAbortedError(f"no answer in HTTP: {error!r}") from error
        if answer.status not in GIVEN:
            self._close()
            raise Declined(_reason(answer.status, reason), is_busy=answer.status in BUSY)
        return answer

    def _asked(self, target: Target, byte_range: str) -> HTTPResponse:
        headers = {"Range": byte_range} if byte_range else {}
        if self._challenge:
            said = ("GET", str(target), byte_range)
            headers["Authorization"] = authorization(
                self._me.devices, self._challenge, self._source.device, self._me.asker, said
            )
        http = self._connected()
        http.request("GET", str(target), headers=headers)
        return http.getresponse()

    def _connected(self) -> HTTPConnection:
        if self._is_ended:
            raise ConnectionAbortedError("ended")
        if self._http is None or self._http.sock is None:
            self._challenge = ""
            self._http = self._connect()
        return self._http

    def _connect(self) -> HTTPConnection:
        """A connection to the first address that takes one."""
        problems = []
        for address in self._source.addresses:
            try:
                http = HTTPConnection(*address_of(address), timeout=min(CONNECT_S, self._idle_s))
                http.connect()
            except (OSError, TransferError) as error:
                problems.append(f"{address}: {error}")
                continue
            http.sock.settimeout(self._idle_s)
            return http
        raise ConnectionRefusedError("; ".join(problems) or "it gave no address")

    # ------------------------------------------------------------ the end

    def end(self) -> None:
        """Let a thread that waits for this peer wait no longer."""
        self._is_ended = True
        if self._http is not None and self._http.sock is not None:
            with suppress(OSError):
                self._http.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it. No thread may use it now."""
        self._is_ended = True
        self._close()

    def _close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an address of IPv6 is in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise TransferError(f"{text!r} is not an address: HOST:PORT is allowed")
    return host.strip("[]"), int(port)


def _reason(status: int, body: bytes) -> str:
    """What a peer gave as its reason, shortened."""
    try:
        error = msgspec.json.decode(body, type=dict[str, str]).get("error", "")
    except msgspec.MsgspecError:
        error = ""
    return f"{status} {error}".strip()[:300]
