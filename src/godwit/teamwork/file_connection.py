"""One connection to the file server, from its first request to its end. The rules are those of `file_server.py`."""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from secrets import token_hex
from types import MappingProxyType
from typing import BinaryIO, Protocol

import msgspec

from godwit.errors import GodwitError
from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.file_http import BadRequest, Request, byte_range, head_of_answer, read_request
from godwit.teamwork.file_requests import (
    Asker,
    Form,
    Target,
    challenge_header,
    manifest_bytes,
    read_authorization,
    sealed_bytes,
    signed_bytes,
)
from godwit.teamwork.file_rights import AskingDevices, MayRead, Permission, Shown
from godwit.teamwork.file_threads import in_thread
from godwit.teamwork.manifests import Manifest
from godwit.teamwork.sealing import sealed_for_device

__all__ = ["ConnectionHost", "FileConnection"]

READ_BYTES = 4_096
PIECE_BYTES = 65_536  # of what is in memory, are sent within `idle_s`
STEP_BYTES = 2**20  # are given to the network at once, before others have their turn
RETRY_AFTER_S = 2
NOT_HERE = "there is no such file here, or you may not read it"
SEALED_ALONE = "this file is given in its sealed form alone"
NOT_SIGNED = "sign the request with the key of a device that this peer knows"
NOT_RANGE = "there are no such bytes"

BINARY: Mapping[str, object] = MappingProxyType({"Content-Type": "application/octet-stream"})
NOTHING: Mapping[str, object] = MappingProxyType({})
LAST = Request("GET", "", {}, stays_open=False)  # instead of one that could not be read


class ConnectionHost(Protocol):
    """The server, as its connections see it."""

    files: ContentFiles
    device: str
    devices: AskingDevices
    may_read: MayRead
    audit: Callable[[Shown], None]

    @property
    def idle_s(self) -> float:
        """After how many seconds without a byte a connection is closed."""
        ...

    def admit(self, connection: "FileConnection", asker: Asker) -> bool:
        """Whether there is room for one more connection of an asker. It is counted then."""
        ...

    def report(self, fault: str) -> None:
        """Something went wrong here."""
        ...


class FileConnection:
    """A connection that another peer has opened."""

    def __init__(self, host: ConnectionHost, connected: socket.socket) -> None:
        self._host, self._socket = host, connected
        self._challenge = token_hex(16)
        self._received = b""
        self._audited: set[tuple[str, str, bytes]] = set()  # files that were given here
        self.asker: Asker | None = None
        """Whose connection it is, once that is known and admitted."""

    async def serve(self) -> None:
        """Answer requests until one side has had enough."""
        try:
            stays_open = True
            while stays_open and (request := await self._next_request()) is not None:
                stays_open = request.stays_open
                await self._answer(request)
        except BadRequest as error:
            await self._close_with(error.status, str(error))
        except GodwitError as error:  # a file has gone meanwhile
            self._host.report(str(error))
        except OSError:
            pass  # it has gone, or does not read: rule 5
        finally:
            self._socket.close()

    async def refuse(self) -> None:
        """Say that there is no room."""
        try:
            await self._close_with(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections: try again later")
        finally:
            self._socket.close()

    async def _close_with(self, status: HTTPStatus, error: str) -> None:
        with suppress(OSError):
            await self._send_error(LAST, status, error, {"Retry-After": RETRY_AFTER_S})

    async def _next_request(self) -> Request | None:
        """The next request; None when the other side is done."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._host.idle_s):
            while (found := read_request(self._received)) is None:
                data = await loop.sock_recv(self._socket, READ_BYTES)
                if not data:
                    return None
                self._received += data
        request, self._received = found
        return request

    # ------------------------------------------------------------ deciding

    async def _answer(self, request: Request) -> None:
        target = Target.read(request.target)
        if target is None:
            await self._send_error(request, HTTPStatus.NOT_FOUND, NOT_HERE)
            return
        asker = self._signed_by(request)
        if asker is None:
            challenge = {"WWW-Authenticate": challenge_header(self._challenge)}
            await self._send_error(request, HTTPStatus.UNAUTHORIZED, NOT_SIGNED, challenge)
            return
        if self.asker is None and not self._host.admit(self, asker):
            raise BadRequest(HTTPStatus.TOO_MANY_REQUESTS, "too many connections of this user or device")
        self.asker = asker
        try:
            manifest, permission = self._allowed(asker, target)
        except Exception as error:  # rights or audit cannot be asked: rule 2
            self._host.report(f"cannot decide about {request.target} for {asker.user}: {error!r}")
            raise BadRequest(HTTPStatus.INTERNAL_SERVER_ERROR, "this cannot be decided now") from error
        if manifest is None:
            await self._send_error(request, HTTPStatus.NOT_FOUND, NOT_HERE)
        elif permission.must_be_sealed and not target.is_sealed:
            await self._send_error(request, HTTPStatus.FORBIDDEN, SEALED_ALONE)  # rule 3
        elif target.is_sealed:
            await self._give_sealed(request, target, manifest, asker)
        elif target.form is Form.MANIFEST:
            await self._send(request, HTTPStatus.OK, manifest_bytes(manifest))
        else:
            await self._give_file(request, manifest)

    def _signed_by(self, request: Request) -> Asker | None:
        """Who has signed a request; None if nobody has, or another one than those before it on this connection."""
        credentials = read_authorization(request.headers.get("authorization", ""))
        if credentials is None or self.asker not in (None, credentials.asker):
            return None
        asker = credentials.asker
        said = (request.method, request.target, request.headers.get("range", ""))
        data = signed_bytes(self._challenge, self._host.device, asker, said)
        return None if self._host.devices.check(asker.device, asker.user, data, credentials.signature) else asker

    def _allowed(self, asker: Asker, target: Target) -> tuple[Manifest | None, Permission]:
        """The manifest of a file that the asker may read, and how; None for all others. (rules 1 and 2)"""
        asked = (target.scope, target.record, target.name)
        permission = self._host.may_read(asker, *asked)
        manifest = None if permission.refused else self._host.files.manifest(target.name)
        is_given = manifest is not None and (target.is_sealed or not permission.must_be_sealed)
        if permission.refused or (is_given and asked not in self._audited):
            self._host.audit(Shown(asker, *asked, permission.refused))
            if not permission.refused:
                self._audited.add(asked)
        return manifest, permission

    # ------------------------------------------------------------ giving

    async def _give_file(self, request: Request, manifest: Manifest) -> None:
        asked = byte_range(request.headers.get("range", ""), manifest.size)
        headers = {**BINARY, "Accept-Ranges": "bytes", "ETag": f'"{manifest.root.hex()}"'}
        if asked is None:
            headers["Content-Range"] = f"bytes */{manifest.size}"
            await self._send_error(request, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, NOT_RANGE, headers)
            return
        headers["Content-Length"] = len(asked)
        status = HTTPStatus.OK
        if len(asked) < manifest.size:
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {asked.start}-{asked.stop - 1}/{manifest.size}"
        with self._host.files.open(manifest.name) as file:
            await self._send_all(head_of_answer(status, headers, stays_open=request.stays_open))
            if request.method == "GET":
                await self._send_file(file, asked)

    async def _give_sealed(self, request: Request, target: Target, manifest: Manifest, asker: Asker) -> None:
        key = self._host.devices.sealing_key(asker.device)
        if key is None:
            await self._send_error(
                request, HTTPStatus.FORBIDDEN, f"no key is known to seal something for {asker.device}"
            )
        elif target.form is Form.SEALED_MANIFEST:
            box = sealed_for_device(key, asker.device, manifest_bytes(manifest))
            await self._send(request, HTTPStatus.OK, box)
        elif not 0 <= target.chunks.start < target.chunks.stop <= manifest.chunk_count:
            await self._send_error(request, HTTPStatus.NOT_FOUND, f"the file has {manifest.chunk_count} chunks")
        else:
            headers = {**BINARY, "Content-Length": sealed_bytes(manifest, target.chunks)}
            await self._send_all(head_of_answer(HTTPStatus.OK, headers, stays_open=request.stays_open))
            for number in target.chunks if request.method == "GET" else ():
                await self._send_all(await in_thread(None, self._box, key, asker.device, manifest.name, number))

    def _box(self, key: bytes, device: str, name: bytes, number: int) -> bytes:
        try:
            return sealed_for_device(key, device, self._host.files.chunk(name, number))
        except GodwitError as error:
            self._host.report(str(error))
            raise ConnectionAbortedError(str(error)) from error

    async def _send_file(self, file: BinaryIO, asked: range) -> None:
        """Hand a part of a file to the network. (rules 5 and 6)"""
        out, source, at = self._socket.fileno(), file.fileno(), asked.start
        while at < asked.stop:
            step = min(STEP_BYTES, asked.stop - at)
            try:
                if _is_in_memory(source, at, step):
                    count = os.sendfile(out, source, at, step)
                    await asyncio.sleep(0)
                else:
                    count = await in_thread(None, os.sendfile, out, source, at, step)
            except BlockingIOError:
                await self._writable()
                continue
            if not count:
                self._host.report(f"a file is shorter than it was: {file.name}")
                raise ConnectionAbortedError
            at += count

    async def _writable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._socket, ready.set)
        try:
            async with asyncio.timeout(self._host.idle_s):
                await ready.wait()
        finally:
            loop.remove_writer(self._socket)

    async def _send_all(self, data: bytes) -> None:
        loop, left = asyncio.get_running_loop(), memoryview(data)
        while left:
            async with asyncio.timeout(self._host.idle_s):
                await loop.sock_sendall(self._socket, left[:PIECE_BYTES])
            left = left[PIECE_BYTES:]

    async def _send(
        self, request: Request, status: HTTPStatus, body: bytes, headers: Mapping[str, object] = BINARY
    ) -> None:
        """Send an answer that is in memory."""
        head = head_of_answer(status, {**headers, "Content-Length": len(body)}, stays_open=request.stays_open)
        await self._send_all(head if request.method == "HEAD" else head + body)

    async def _send_error(
        self, request: Request, status: HTTPStatus, error: str, headers: Mapping[str, object] = NOTHING
    ) -> None:
        body = msgspec.json.encode({"error": error})
        await self._send(request, status, body, {**headers, "Content-Type": "application/json"})


def _is_in_memory(file: int, at: int, count: int) -> bool:
    """Whether a part of a file can be read without waiting for the disk, as far as its last byte tells."""
    try:
        return bool(os.preadv(file, [bytearray(1)], at + count - 1, os.RWF_NOWAIT))
    except (AttributeError, OSError):
        return False
