"""Sources of a file: which peers have it, and where; asked and answered by events, with the public client.

*Theory.* A peer that wants a file asks the whole team (`WhoHas`). Each peer that has it, and whose rules let the asking
user read it, answers that device alone with its addresses of this moment (`HasFile`). Who has which file is told to
nobody else. Brokers keep a question for peers that are away, for `ASKED_S`; one that comes back meanwhile answers then,
from wherever it is.

These events have the attribute `team_files`, not `team`: the machine of the peer does not see them.

*Rules.*
1. A question is signed. A peer without the file, or whose rules refuse it, is silent.
2. An answer is signed, and sealed for the asking device: brokers see neither addresses nor what was found.
3. An answer counts only for a question of this peer that is still open.
4. What is wrong with an event is reported, at most `FAULTS_MAX` of them, and hinders nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from secrets import token_hex
from types import TracebackType
from typing import Self

import msgspec

from godwit.errors import GodwitError, NotConnected, Refused
from godwit.filters.events import Event
from godwit.runtime.clock import SYSTEM, Clock
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.pending_requests import PendingRequest
from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.file_requests import Asker, WantedFile
from godwit.teamwork.file_rights import AskingDevices, MayRead
from godwit.teamwork.file_source import Me, Source
from godwit.teamwork.machine.bus import quoted
from godwit.teamwork.sealing import sealed_for_device

__all__ = ["FileSources", "HasFile", "WhoHas"]

ASKED_S = 600.0
PAYLOAD_BYTES_MAX = 8_192
ADDRESSES_MAX = 8
FAULTS_MAX = 100
WHO_HAS, HAS_FILE = "who_has", "has_file"


class WhoHas(msgspec.Struct, frozen=True, tag=WHO_HAS):
    """A peer wants a file."""

    asker: Asker
    question: str
    """Random."""
    wanted: WantedFile
    until: float
    """Time of day after which nobody needs to answer."""
    signature: bytes = b""


class HasFile(msgspec.Struct, frozen=True, tag=HAS_FILE):
    """A peer has the file that was asked for."""

    giver: Asker
    question: str
    addresses: tuple[str, ...]
    must_be_sealed: bool = False
    signature: bytes = b""


class FileSources:
    """Asks and answers. `addresses` is called for each answer; None for a peer that gives no files."""

    def __init__(
        self,
        client: NetworkClient,
        team: str,
        me: Me,
        devices: AskingDevices,
        files: ContentFiles,
        may_read: MayRead,
        addresses: Callable[[], tuple[str, ...]] | None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._client, self._team, self._me, self._devices = client, team, me, devices
        self._files, self._may_read, self._addresses, self._clock = files, may_read, addresses, clock
        self._listeners: dict[WantedFile, list[Callable[[Source], None]]] = {}
        self._questions: dict[str, WantedFile] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.faults: deque[str] = deque(maxlen=FAULTS_MAX)
        """What was wrong with events, and what brokers refused."""

    # ------------------------------------------------------------ coming and going

    async def __aenter__(self) -> Self:
        self._start(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------ asking

    def listen(self, wanted: WantedFile, heard: Callable[[Source], None]) -> Callable[[], None]:
        """Tell of each peer that has the file, until the function that is returned is called."""
        self._listeners.setdefault(wanted, []).append(heard)

        def stop() -> None:
            self._listeners[wanted].remove(heard)
            if not self._listeners[wanted]:
                del self._listeners[wanted]
                self._questions = {key: other for key, other in self._questions.items() if other != wanted}

        return stop

    def ask(self, wanted: WantedFile) -> None:
        """Ask the team who has it."""
        question = token_hex(8)
        self._questions[question] = wanted
        until = self._clock.time() + ASKED_S
        asked = WhoHas(self._me.asker, question, wanted, until)
        signed = msgspec.structs.replace(asked, signature=self._devices.sign(_signed_bytes(asked)))
        self._publish({"message": WHO_HAS}, msgspec.msgpack.encode(signed), until)

    def _on_has_file(self, answer: HasFile) -> str:
        """A peer has it; why the answer does not count, or nothing. (rules 2 and 3)"""
        giver = answer.giver
        if (wanted := self._questions.get(answer.question)) is None:
            return ""  # it comes too late
        if problem := self._devices.check(giver.device, giver.user, _signed_bytes(answer), answer.signature):
            return problem
        source = Source(giver.device, answer.addresses[:ADDRESSES_MAX], answer.must_be_sealed)
        for heard in list(self._listeners.get(wanted, ())):
            heard(source)
        return ""

    # ------------------------------------------------------------ answering

    def _on_who_has(self, asked: WhoHas) -> str:
        """Another peer asks; what is wrong with the question, or nothing. (rule 1)"""
        asker, wanted = asked.asker, asked.wanted
        if asker == self._me.asker or self._addresses is None or asked.until < self._clock.time():
            return ""
        manifest = self._files.manifest(wanted.name)
        if manifest is None or manifest.root != wanted.root:
            return ""
        if problem := self._devices.check(asker.device, asker.user, _signed_bytes(asked), asked.signature):
            return problem
        permission = self._may_read(asker, wanted.scope, wanted.record, wanted.name)
        key = self._devices.sealing_key(asker.device)
        if permission.refused or key is None:
            return ""
        answer = HasFile(self._me.asker, asked.question, self._addresses(), permission.must_be_sealed)
        signed = msgspec.structs.replace(answer, signature=self._devices.sign(_signed_bytes(answer)))
        box = sealed_for_device(key, asker.device, msgspec.msgpack.encode(signed))
        self._publish({"message": HAS_FILE, "for_device": asker.device}, box, asked.until)
        return ""

    # ------------------------------------------------------------ events

    async def _read(self) -> None:
        concerns = f"message = {quoted(WHO_HAS)} OR for_device = {quoted(self._me.asker.device)}"
        try:
            subscription = await self._client.subscribe(
                f"team_files = {quoted(self._team)} AND ({concerns})", name="files"
            )
        except Refused as error:
            self.faults.append(f"the broker refuses the subscription to files: {error}")
            return
        async for event in subscription:
            try:
                problem = self._taken(event.payload or b"")
            except (GodwitError, msgspec.MsgspecError) as error:
                problem = str(error)
            if problem:
                self.faults.append(problem)  # rule 4

    def _taken(self, payload: bytes) -> str:
        if len(payload) > PAYLOAD_BYTES_MAX:
            return f"an event about files has at most {PAYLOAD_BYTES_MAX:,} bytes, not {len(payload):,}"
        message = _DECODER.decode(self._me.opened(payload) or payload)
        return self._on_who_has(message) if isinstance(message, WhoHas) else self._on_has_file(message)

    def _publish(self, attributes: dict[str, str], payload: bytes, until: float) -> None:
        event = Event({"team_files": self._team, **attributes}, payload=payload, expires_at=until)
        self._start(self._accepted(self._client.publish(event), attributes["message"]))

    async def _accepted(self, request: PendingRequest, what: str) -> None:
        try:
            await request
        except (Refused, NotConnected) as error:
            self.faults.append(f"the broker does not take {what}: {error}")


_DECODER = msgspec.msgpack.Decoder(WhoHas | HasFile)


def _signed_bytes(message: WhoHas | HasFile) -> bytes:
    """What the signature of a message is made over."""
    return b"godwit files " + msgspec.msgpack.encode(msgspec.structs.replace(message, signature=b""))
