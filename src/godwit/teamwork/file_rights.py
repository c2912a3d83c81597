"""Rights to files of this peer: who may read a file, and who may know of it."""

from typing import Protocol

import msgspec

from godwit.teamwork.file_requests import Asker
from godwit.teamwork.machine.scope_log import Devices

__all__ = ["AskingDevices", "MayRead", "Permission", "Shown"]


class Permission(msgspec.Struct, frozen=True):
    """Whether a user may read a file, and in which form."""

    refused: str = ""
    """Why not; empty if it is allowed. For the audit: the asker is not told."""
    must_be_sealed: bool = False
    """Whether it may travel in its sealed form alone: its community is a sealed one."""


class MayRead(Protocol):
    """Decides by rights, with the state of the moment."""

    def __call__(self, asker: Asker, scope: str, record: str, name: bytes) -> Permission:
        """Whether a user may read the content of this name, as a version of this document.

        It is refused if the document has no such version, the user no right to it, or the device was ended.
        """
        ...


class AskingDevices(Devices, Protocol):
    """The keys of the team's devices, and that of this one."""

    def sealing_key(self, device: str) -> bytes | None:
        """The key by which something is sealed for a device; None if it is not known."""
        ...


class Shown(msgspec.Struct, frozen=True):
    """What the audit is told: somebody reads a file from now on, or was refused."""

    asker: Asker
    scope: str
    record: str
    name: bytes
    refused: str = ""
