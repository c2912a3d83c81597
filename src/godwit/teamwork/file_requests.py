"""Requests for files between peers: HTTP/1.1, signed by the asking device.

*Theory.* A file is asked for by its name, which is its SHA-256. The server answers a request without a signature with
401 and a *challenge*: random, and of this connection alone. The asker signs the challenge, the name of the peer that it
believes to be at the other end, and the request. So no clock must be right; a request that was overheard is of no use
on another connection; and a peer that was asked cannot pass the request on to a third one, to see what it may not.

*Rules.*
1. Every request is signed by itself. A signature for one file or range is none for another.
2. A manifest is sent as the bytes that its root is the SHA-256 of: a peer that knows the root checks it before using
   it.
3. The sealed form of a file is a row of boxes, one for each chunk, that the asking device alone can open. So it goes by
   chunks; the plain form goes by bytes.

The reference is docs/reference/file_transfer.md.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from godwit.errors import ContentError
from godwit.teamwork.machine.scope_log import Devices
from godwit.teamwork.manifests import CHUNK_BYTES, HASH_BYTES, Manifest

__all__ = [
    "BOX_BYTES",
    "MANIFEST_BYTES_MAX",
    "Asker",
    "Credentials",
    "Form",
    "Target",
    "WantedFile",
    "authorization",
    "challenge_header",
    "challenge_in",
    "manifest_bytes",
    "read_authorization",
    "read_manifest",
    "sealed_bytes",
    "signed_bytes",
]

BOX_BYTES = 48
"""How many bytes a box has more than the chunk in it: a public key and a tag."""
SIZE_BYTES = 8
MANIFEST_BYTES_MAX = 32 * 2**20
"""Of one that is fetched. It is enough for a file of 1 TB."""
SCHEME = "Godwit"
CREDENTIALS_CHARS_MAX = 2_000


class WantedFile(msgspec.Struct, frozen=True):
    """A file of a document. The change that made it known has all of this."""

    scope: str
    record: str
    """The document that the file is a version of: users with a right to it may read the file."""
    name: bytes
    """SHA-256 of the content."""
    root: bytes
    """Of its manifest."""


class Asker(msgspec.Struct, frozen=True):
    """Who asks for a file."""

    user: str
    device: str


class Credentials(msgspec.Struct, frozen=True):
    """What a request says of its sender."""

    asker: Asker
    signature: bytes


# ------------------------------------------------------------ targets


class Form(StrEnum):
    """The requested part of a file."""

    FILE = "file"
    MANIFEST = "manifest"
    SEALED_CHUNKS = "sealed chunks"
    SEALED_MANIFEST = "sealed manifest"


class Target(NamedTuple):
    """What a request is about."""

    form: Form
    scope: str
    record: str
    name: bytes
    chunks: range = range(0)
    """Of the sealed form."""

    def __str__(self) -> str:
        family = "sealed" if self.is_sealed else "files"
        part = {
            Form.FILE: "",
            Form.MANIFEST: "/manifest",
            Form.SEALED_MANIFEST: "/manifest",
            Form.SEALED_CHUNKS: f"/{self.chunks.start}-{self.chunks.stop - 1}",
        }[self.form]
        document = f"scope={quote(self.scope, safe='')}&record={quote(self.record, safe='')}"
        return f"/{family}/{self.name.hex()}{part}?{document}"

    @property
    def is_sealed(self) -> bool:
        """Whether what is answered can be opened by the asking device alone."""
        return self.form in (Form.SEALED_CHUNKS, Form.SEALED_MANIFEST)

    @classmethod
    def read(cls, text: str) -> "Target | None":
        """What a target says; None if it is none of ours."""
        if (found := TARGET.fullmatch(text)) is None:
            return None
        family, name, part, first, last, scope, record = found.groups()
        is_sealed = family == "sealed"
        if first:
            form, chunks = Form.SEALED_CHUNKS, range(int(first), int(last) + 1)
        elif part:
            form, chunks = Form.SEALED_MANIFEST if is_sealed else Form.MANIFEST, range(0)
        else:
            form, chunks = Form.FILE, range(0)
        target = cls(form, unquote(scope), unquote(record), bytes.fromhex(name), chunks)
        return target if target.is_sealed == is_sealed else None


TARGET = re.compile(
    rf"/(files|sealed)/([0-9a-f]{{{2 * HASH_BYTES}}})(?:/(manifest|(\d{{1,9}})-(\d{{1,9}})))?"
    r"\?scope=([^&=?]*)&record=([^&=?]*)"
)


# ------------------------------------------------------------ signatures


def signed_bytes(challenge: str, peer: str, asker: Asker, request: tuple[str, str, str]) -> bytes:
    """What is signed; `request` is its method, its target and its range. (rule 1)"""
    return b"godwit file request 1 " + msgspec.msgpack.encode((challenge, peer, asker.user, asker.device, *request))


def authorization(devices: Devices, challenge: str, peer: str, asker: Asker, request: tuple[str, str, str]) -> str:
    """The header `Authorization` of a request."""
    credentials = Credentials(asker, devices.sign(signed_bytes(challenge, peer, asker, request)))
    return f"{SCHEME} {b64encode(msgspec.msgpack.encode(credentials)).decode()}"


def read_authorization(header: str) -> Credentials | None:
    """What the header `Authorization` says; None if it is not ours."""
    scheme, _, text = header.partition(" ")
    if scheme != SCHEME or len(text) > CREDENTIALS_CHARS_MAX:
        return None
    try:
        return msgspec.msgpack.decode(b64decode(text, validate=True), type=Credentials)
    except (Base64Error, ValueError):
        return None


def challenge_header(challenge: str) -> str:
    """The header `WWW-Authenticate` of an answer."""
    return f'{SCHEME} challenge="{challenge}"'


def challenge_in(header: str) -> str:
    """The challenge of a header `WWW-Authenticate`; empty if there is none."""
    found = re.fullmatch(rf'{SCHEME} challenge="([0-9a-f]+)"', header)
    return found[1] if found else ""


# ------------------------------------------------------------ manifests


def manifest_bytes(manifest: Manifest) -> bytes:
    """A manifest as it is sent. (rule 2)"""
    return manifest.name + manifest.size.to_bytes(SIZE_BYTES, "big") + manifest.chunks


def read_manifest(wanted: WantedFile, data: bytes) -> Manifest:
    """The manifest of a file; `ContentError` if these bytes are another. (rule 2)"""
    if sha256(data).digest() != wanted.root:
        raise ContentError(f"what was sent as the manifest of {wanted.name.hex()} has another hash")
    head = HASH_BYTES + SIZE_BYTES
    manifest = Manifest(data[:HASH_BYTES], int.from_bytes(data[HASH_BYTES:head], "big"), data[head:])
    manifest.check()
    if manifest.name != wanted.name:
        raise ContentError(f"the manifest of {wanted.name.hex()} is that of {manifest.name.hex()}")
    return manifest


def sealed_bytes(manifest: Manifest, chunks: range) -> int:
    """How many bytes these chunks have in their boxes."""
    plain = min(chunks.stop * CHUNK_BYTES, manifest.size) - chunks.start * CHUNK_BYTES
    return plain + len(chunks) * BOX_BYTES
