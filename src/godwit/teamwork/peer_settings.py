"""Settings of a peer: an optional TOML file in its folder, `peer.toml`.

    brokers = ["broker.example.org:7077"]      # instead of those of the invitation
    schema = "organisation.toml"               # further elements of profiles (`profile_schema.py`)

    [listen]
    pages = "127.0.0.1:7085"                   # web pages and HTTP API
    files = "0.0.0.0:7086"                     # documents, for other devices of the team
    announced = ["ann.example.org"]            # hosts under which other devices find them

    [mail]
    host = "mail.example.org"

    [limits]
    disk_bytes_max = 50_000_000_000

*Rules.*
1. No key is ignored. All faults are told at once, each with file, line, key and what is allowed.
2. Secrets (passwords, tokens) stand in the file itself: it is refused when others than its owner can read it.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from godwit import settings
from godwit.errors import ConfigurationError
from godwit.teamwork.documents import VERSIONS_KEPT

__all__ = ["FILE", "BrokerSection", "PeerSettings", "read_settings"]

FILE = "peer.toml"
OTHERS = 0o077
SECRETS = (("mail", "password"), ("broker", "password"), ("broker", "token"))

Count = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class ListenSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the peer listens."""

    pages: str = "127.0.0.1:7085"
    """Web pages and HTTP API; empty for none."""
    files: str = "127.0.0.1:0"
    """Documents for other devices; port 0: any that is free. Empty for none."""
    announced: tuple[str, ...] = ()
    """Hosts under which other devices find the files (default: the addresses of this machine)."""


class MailSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The server that takes mail."""

    host: str = ""
    """Empty: this peer sends no mail."""
    port: Port = 25
    sender: str = "godwit@localhost"
    user: str = ""
    password: str = ""
    starttls: bool = False


class BrokerSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How brokers know the peer."""

    user: str = ""
    password: str = ""
    token: str = ""
    tls: bool = False
    ca: str = ""
    """PEM file with the authorities to trust."""


class LimitsSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the peer may take."""

    disk_bytes_max: Count | None = None
    """Contents of documents, together."""
    file_bytes_max: Count | None = None
    """One document."""
    versions_kept: Count = VERSIONS_KEPT
    """Versions of each document whose content stays here."""


class PeerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `peer.toml` sets."""

    brokers: tuple[str, ...] = ()
    """Addresses, instead of those in `team.json`."""
    listen: ListenSection = ListenSection()
    mail: MailSection = MailSection()
    broker: BrokerSection = BrokerSection()
    limits: LimitsSection = LimitsSection()
    schema: str = ""
    """File with the organisation's own elements of profiles, relative to the folder; empty for the standard ones."""


def read_settings(folder: Path) -> PeerSettings:
    """The settings of a folder; the defaults without a file."""
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
        is_private = not path.stat().st_mode & OTHERS
    except FileNotFoundError:
        return PeerSettings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {getattr(error, 'strerror', None) or error}") from None

    def where(place: settings.Path) -> str:
        line = settings.line_of(text, place)
        return f"{path}{f':{line}' if line else ''}: {settings.key_text(place)}"

    faults = list(settings.faults(PeerSettings, data, where))
    if not is_private and any(_has(data, secret) for secret in SECRETS):
        faults.append(f"{path} holds a secret, and others can read it: chmod 600 {path}")
    if faults:
        raise ConfigurationError(*faults)
    return msgspec.convert(data, PeerSettings)


def _has(data: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return bool(data)
