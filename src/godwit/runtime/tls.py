"""TLS for clients and for links between brokers, from files.

*Theory.* One listener serves clients and brokers. Where links need certificates it asks everybody for one and demands
it of brokers alone (`LinkGuard`): a broker must show that an authority of this network has given it its name. A broker
that dials checks the name of the broker, not of the host, so that brokers may move to other machines.

*Rules.*
1. TLS 1.2 or newer; the system's own choice of ciphers.
2. The key of a certificate is read by this process and shown nowhere.
3. What is wrong with a file is said at the start, with its name.
"""

import ssl
from pathlib import Path
from typing import Literal

import msgspec

from godwit.errors import SecurityError
from godwit.runtime.link_authentication import LinkGuard

__all__ = ["LinkSettings", "TlsSettings", "client_context", "link_guard", "link_secret", "renew", "server_context"]

SECRET_BYTES_MIN = 32


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The certificate of this broker, and whom it believes. Paths to files in PEM; "" is none."""

    certificate: str = ""  # with those between it and its authority, if there are any
    key: str = ""  # of the certificate; "": it stands in the same file
    authorities: str = ""  # who signs certificates of brokers and clients
    client_certificates: Literal["none", "optional", "required"] = "none"

    @property
    def is_on(self) -> bool:
        """Whether connections are encrypted at all."""
        return bool(self.certificate)


class LinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How brokers know each other."""

    tls: bool = False  # by certificates: each names its broker
    secret: str = ""  # by what stands in this file, the same for all brokers of the network


def server_context(tls: TlsSettings, links: LinkSettings = LinkSettings()) -> ssl.SSLContext | None:  # noqa: B008
    """What to listen with; None: without TLS. SecurityError: a file cannot be used."""
    if not tls.is_on:
        if tls.client_certificates != "none" or links.tls:
            raise SecurityError("certificates of clients or brokers are asked for, and tls.certificate is missing")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _show(context, tls)
    asked = "optional" if links.tls and tls.client_certificates == "none" else tls.client_certificates
    if asked != "none":
        _believe(context, tls.authorities, "tls.authorities")
        context.verify_mode = ssl.CERT_REQUIRED if asked == "required" else ssl.CERT_OPTIONAL
    return context


def client_context(authorities: str = "", certificate: str = "", key: str = "") -> ssl.SSLContext:
    """What a client dials with: it checks the host's name, by these authorities or else by those of the system."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authorities:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _believe(context, authorities, "authorities")
    if certificate:
        _show(context, TlsSettings(certificate, key))
    return context


def renew(context: ssl.SSLContext, tls: TlsSettings) -> None:
    """Show the certificate as its files are now, and believe the authorities of today's file, too."""
    _show(context, tls)
    if context.verify_mode != ssl.CERT_NONE:
        _believe(context, tls.authorities, "tls.authorities")


def link_secret(links: LinkSettings) -> bytes:
    """What stands in the file of the secret; b"": there is none."""
    if not links.secret:
        return b""
    path = Path(links.secret)
    secret = _read(path).strip()
    if len(secret) < SECRET_BYTES_MIN:
        raise SecurityError(f"{path}: a secret of {len(secret)} bytes: it must have {SECRET_BYTES_MIN} or more")
    return secret


def link_guard(name: str, links: LinkSettings, tls: TlsSettings) -> LinkGuard:
    """What tells this broker's neighbours from others, and what it dials them with."""
    secret = link_secret(links)
    context = None
    if links.tls:
        if not tls.is_on:
            raise SecurityError("links.tls needs tls.certificate, tls.key and tls.authorities")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False  # LinkGuard checks the broker's
        _show(context, tls)
        _believe(context, tls.authorities, "tls.authorities")
    return LinkGuard(name, secret=secret, needs_certificate=links.tls, tls=context)


def _show(context: ssl.SSLContext, tls: TlsSettings) -> None:
    key = tls.key or tls.certificate
    for path in (tls.certificate, key):
        _read(Path(path))
    try:
        context.load_cert_chain(tls.certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError):
        raise SecurityError(f"{tls.certificate}, {key}: no certificate in PEM with its key") from None


def _believe(context: ssl.SSLContext, authorities: str, key: str) -> None:
    if not authorities:
        raise SecurityError(f"{key} is missing: it names a file with the certificates of who signs others")
    _read(Path(authorities))
    try:
        context.load_verify_locations(authorities)
    except ssl.SSLError:
        raise SecurityError(f"{authorities}: no certificates in PEM") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SecurityError(f"{path}: {error.strerror or error}") from None


def _no_password() -> str:
    raise ValueError("an encrypted key cannot be used: a broker has no way to ask for its password")
