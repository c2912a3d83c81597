"""Files of a team between its peers: rights, sources and downloads.

The parts are `file_server.py`, `file_sources.py` and `file_fetcher.py`. Here they get the rights and the audit log of
the peer.

*Rules.*
1. A file goes to a user who may read that version of that document now (`access.py`), on a device of a member that was
   not ended. It is in the audit log before the first byte goes.
2. A file of a sealed community travels sealed.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Self

import msgspec

from godwit.errors import NotHere, TransferError
from godwit.runtime.clock import SYSTEM, Clock
from godwit.teamwork.access import Access
from godwit.teamwork.audit_log import AuditLog
from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.file_download import DroppedPeer, Progress
from godwit.teamwork.file_fetcher import FileFetcher
from godwit.teamwork.file_requests import Asker, WantedFile
from godwit.teamwork.file_rights import Permission, Shown
from godwit.teamwork.file_server import FileServer
from godwit.teamwork.file_source import Me
from godwit.teamwork.file_sources import FileSources
from godwit.teamwork.live_peer import LivePeer
from godwit.teamwork.sealing import opened_by_device

__all__ = ["FileAddress", "TeamFiles"]

REFUSED_MAX = 1_000  # refusals that are remembered, and not written twice


class FileAddress(msgspec.Struct, frozen=True):
    """Where a peer gives files."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free."""
    announced_hosts: tuple[str, ...] = ()
    """Names or addresses under which other peers find this one (default: by `host`)."""


class TeamFiles:
    """Gives the files of a peer to others, and fetches theirs."""

    def __init__(
        self,
        peer: LivePeer,
        contents: ContentFiles,
        access: Access,
        audit: AuditLog,
        address: FileAddress | None,
        clock: Clock = SYSTEM,
    ) -> None:
        """`address`: None for a peer that gives no files."""
        self._peer, self._access, self._audit = peer, access, audit
        identity = peer.identity
        self._server = None if address is None else FileServer(
            contents, identity.device, peer.devices, self.permission, self._on_shown,
            host=address.host, port=address.port, announced_hosts=address.announced_hosts,
        )  # fmt: skip
        opened = partial(opened_by_device, peer.keys.sealing, identity.device)
        me = Me(Asker(identity.user, identity.device), peer.devices, opened)
        self._sources = FileSources(
            peer.client, identity.team, me, peer.devices, contents, self.permission,
            self._server.addresses if self._server is not None else None, clock,
        )  # fmt: skip
        self._fetcher = FileFetcher(contents, self._sources, me, dropped=self._on_dropped)
        self._stack = AsyncExitStack()
        self._refused: set[Shown] = set()

    async def __aenter__(self) -> Self:
        for part in (self._server, self._sources, self._fetcher):
            if part is not None:
                await self._stack.enter_async_context(part)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def addresses(self) -> Sequence[str]:
        """Where files are given; none if they are not."""
        return () if self._server is None else self._server.addresses()

    async def fetch(self, wanted: WantedFile, progress: Progress | None = None) -> None:
        """Bring a file here. `NotHere` if no peer gives it, `ContentError` if there is no room for it."""
        try:
            await self._fetcher.fetch(wanted, progress)
        except TransferError as error:
            raise NotHere(str(error)) from error

    # ------------------------------------------------------------ rights

    def permission(self, asker: Asker, scope: str, record: str, name: bytes) -> Permission:
        """Whether a user may read a version of a document. (rules 1 and 2)"""
        device = self._peer.repository.record(self._peer.team, f"device/{asker.device}")
        if device is None or device.fields.get("user") != asker.user or "last" in device.fields:
            return Permission(f"{asker.device} is not a device of {asker.user}, or was ended")
        if not self._access.may_read_content(asker.user, scope, record, name.hex()):
            return Permission(f"{asker.user} has no right to this version of {record} in {scope}")
        return Permission(must_be_sealed=bool(self._peer.machine.governance(scope).settings.get("sealed")))

    def _on_shown(self, shown: Shown) -> None:
        """A file goes out, or was refused."""
        if shown.refused:
            if shown in self._refused:  # else asking again would fill the log
                return
            if len(self._refused) >= REFUSED_MAX:
                self._refused.clear()
            self._refused.add(shown)
        way, detail = ("refused", shown.refused) if shown.refused else ("file", shown.name.hex())
        self._audit.show([(shown.scope, shown.record)], shown.asker.user, way, f"{detail} ({shown.asker.device})")

    def _on_dropped(self, dropped: DroppedPeer) -> None:
        self._peer.faults.append(f"{dropped.device} does not give {dropped.wanted.name.hex()}: {dropped.reason}")
