"""TLS for clients and for links between brokers, from files.

*Theory.* One listener serves clients and brokers. If links need certificates it requests one from every peer and
requires it of brokers only (`LinkGuard`): the certificate of a broker must have its name and be signed by an authority
of this network. A connecting broker checks the name of the broker, not of the host, so that brokers may move to other
machines.

*Rules.*
1. TLS 1.2 or newer, with the system's default ciphers.
2. The key of a certificate is read by this process and shown nowhere.
3. An unusable file is reported at the start, with its name.
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
    """The certificate of this broker, and the authorities that it trusts. Paths to files in PEM; "" is none."""

    certificate: str = ""  # with intermediate certificates, if there are any
    key: str = ""  # of the certificate; "": in the same file
    authorities: str = ""  # authorities that sign certificates of brokers and clients
    client_certificates: Literal["none", "optional", "required"] = "none"

    @property
    def is_on(self) -> bool:
        """Whether connections are encrypted at all."""
        return bool(self.certificate)


class LinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Authentication of links."""

    tls: bool = False  # by certificates with the names of brokers
    secret: str = ""  # by the secret in this file, the same for all brokers of the network


def server_context(tls: TlsSettings, links: LinkSettings = LinkSettings()) -> ssl.SSLContext | None:  # noqa: B008
    """The TLS context of listeners; None without TLS. SecurityError if a file cannot be used."""
    if not tls.is_on:
        if tls.client_certificates != "none" or links.tls:
            raise SecurityError("certificates of clients or brokers are required, but tls.certificate is missing")
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
    """The TLS context of a client: it checks the host's name, by these authorities or those of the system."""
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
    """Load the present certificate, and trust the present authorities, too."""
    _show(context, tls)
    if context.verify_mode != ssl.CERT_NONE:
        _believe(context, tls.authorities, "tls.authorities")


def link_secret(links: LinkSettings) -> bytes:
    """The secret in the file; b"" if there is none."""
    if not links.secret:
        return b""
    path = Path(links.secret)
    secret = _read(path).strip()
    if len(secret) < SECRET_BYTES_MIN:
        raise SecurityError(f"{path}: a secret of {len(secret)} bytes: it must have {SECRET_BYTES_MIN} or more")
    return secret


def link_guard(name: str, links: LinkSettings, tls: TlsSettings) -> LinkGuard:
    """The authentication of neighbours, and the TLS context for connections to them."""
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
        raise SecurityError(f"{key} is missing: it names a file with the certificates of authorities")
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
