"""A team as an API for programs: people, communities, documents, search, messages, meetings, notification. [motion §2]

    new_team("~/team", "ann", brokers=["127.0.0.1:7077"])                  # once
    async with open_team("~/team") as team:
        community = team.communities.create("Bridges")
        team.documents.add(community, Path("plan.pdf"))
        async for result in team.search("//keyword[. = 'bridge']"):
            print(result.name, result.fields)

Whatever touches this peer alone is a plain method, and is on its disk when it returns; what waits for other peers is
awaited. Everything works without a broker, and goes out when one is met.

*Users.* A peer acts for one user, whose device it is. `as_user` gives the same facade as another user may see it, for
programs that serve several: reading only, since this device cannot sign for anybody else. Users who also write there
are *hosted* (`host`): they have a device of their own in the same process, and `as_user` gives their own team.

*Rights.* All reading goes through `peer_view.py`, which shows a user what that user may see at that moment. What other
users are shown is in `audit` before.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from secrets import token_bytes
from time import time
from typing import Any

import msgspec
from msgspec.structs import replace

from godwit.errors import GodwitError, Refused
from godwit.runtime.clock import SYSTEM, Clock
from godwit.runtime.connecting import connect
from godwit.runtime.network_client import NetworkClient
from godwit.teamwork.access import Access
from godwit.teamwork.audit_log import AuditLog
from godwit.teamwork.communities import Communities
from godwit.teamwork.content_files import NO_LIMITS, ContentFiles, Limits
from godwit.teamwork.content_texts import ContentTexts
from godwit.teamwork.device_keys import DeviceKeys
from godwit.teamwork.documents import VERSIONS_KEPT, Documents, Progress, collect
from godwit.teamwork.extraction import extracted
from godwit.teamwork.file_requests import WantedFile
from godwit.teamwork.hosted_users import HostedUsers
from godwit.teamwork.live_peer import Listener, LivePeer
from godwit.teamwork.machine.bus import Wanted
from godwit.teamwork.machine.governance import Governance, Role
from godwit.teamwork.machine.notification_rules import UserSubscription
from godwit.teamwork.machine.peer import Identity
from godwit.teamwork.machine.peer_effects import ChangeRecord, Follow, SetAvailability
from godwit.teamwork.meetings import Meetings
from godwit.teamwork.messages import Messages
from godwit.teamwork.notification_channels import MailChannel, MailServer, MessageChannel, Sender, WebhookChannel
from godwit.teamwork.notification_queue import NotificationQueue
from godwit.teamwork.notifier import Notifier
from godwit.teamwork.open_searches import KeptSearch, OpenSearches
from godwit.teamwork.peer_view import PeerView
from godwit.teamwork.people import People
from godwit.teamwork.profile_index import ProfileIndex
from godwit.teamwork.profile_schema import STANDARD, Schema, fingerprint
from godwit.teamwork.query_languages import DEFAULT, full_name
from godwit.teamwork.record_index import RecordIndex
from godwit.teamwork.record_profiles import RecordProfiles
from godwit.teamwork.repository import Repository
from godwit.teamwork.searching import KINDS, OPEN_S, WAIT_S, AllPeers, Searching, ThisPeer
from godwit.teamwork.team_files import FileAddress, TeamFiles
from godwit.teamwork.team_folder import invitation_text, read_team_folder
from godwit.teamwork.team_rights import TeamRights

__all__ = ["Status", "Team", "TeamPresence", "open_team"]

INDEX, HOSTED = "profiles.sqlite", "hosted"
WEBHOOK_SECRET = "webhook.secret"
UNUSED_S = 3600.0
COLLECT_EVERY_S = 6 * 3600.0

Connect = Callable[[str], Any]
"""Makes a client of a name, to be entered as a context: what `godwit.connect` gives."""


class Status(msgspec.Struct, frozen=True):
    """How a peer is doing."""

    team: str
    user: str
    device: str
    role: str
    connection: str
    """attached, away, …"""
    broker: str
    scopes: tuple[str, ...]
    waiting: int
    """Events that no broker has taken yet."""
    bytes_used: int
    """By contents."""
    bytes_max: int | None
    peers: dict[str, str]
    """By device that is here, its user."""
    faults: tuple[str, ...]
    """What went wrong lately."""
    files: tuple[str, ...] = ()
    """Where other peers get documents of this one."""
    lost: tuple[str, ...] = ()
    """Changes of the user that were replaced by others, until the user has read of it."""


class TeamPresence:
    """Who is here, and how available."""

    def __init__(self, view: PeerView) -> None:
        self._view = view

    def set(self, availability: str, status: str = "", shown_to: Sequence[str] = ()) -> None:
        """Tell the team, or some users alone, how available one is: available, busy, do not disturb, or hidden."""
        self._view.do(SetAvailability(availability, status, tuple(shown_to)))

    def of(self, user: str) -> dict[str, str]:
        """By device of a user that is here, how available; none if the user is away, or hidden."""
        devices = self._view.machine.presence.devices()
        return {device: here.availability for device, here in devices.items() if here.user == user}


class _Parts:
    """What a peer consists of. Made by `open_team`."""

    def __init__(self, folder: Path, brokers: Sequence[str], limits: Limits, schema: Schema, clock: Clock) -> None:
        self.folder, self.schema, self.clock = folder, schema, clock
        self.said, self.keys = read_team_folder(folder)
        self.brokers = tuple(brokers) or self.said.brokers
        self.profiles = RecordProfiles(schema)
        with ExitStack() as opened:
            self.repository = opened.enter_context(closing(Repository(folder)))
            self.contents = opened.enter_context(closing(ContentFiles(folder / "contents", limits)))
            self.texts = opened.enter_context(closing(ContentTexts(folder)))
            self.audit = opened.enter_context(closing(AuditLog(folder, self.said.user, clock.time)))
            self.access = Access(self.said.team, self.repository, self._governance, self.profiles.matches)
            following = f"{self.repository.identity}{fingerprint(schema)}", self.repository.revision
            index = opened.enter_context(closing(ProfileIndex(folder / INDEX, *following)))
            self.index = RecordIndex(
                self.keys.device, self.repository, index, self.profiles, self.access, self.texts.get, self.audit.show
            )
            self.open_searches = OpenSearches(self.repository.settings)
            self.close = opened.pop_all().close
        self.peer: LivePeer
        self.hosted: HostedUsers[Team]
        self._tasks: set[asyncio.Task[None]] = set()

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside everything else, until the team is closed."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def done(self) -> None:
        """Until nothing is done beside everything else."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _governance(self, scope: str) -> Governance:
        return self.peer.machine.governance(scope)


class Team:
    """A team at one peer, as one user sees it."""

    def __init__(self, parts: _Parts, user: str, subscriptions: Notifier, files: TeamFiles) -> None:
        self._parts, self._subscriptions, self.files = parts, subscriptions, files
        self.user, self.folder, self.audit, self.access = user, parts.folder, parts.audit, parts.access
        self.peer, self.contents, self.schema = parts.peer, parts.contents, parts.schema
        view = self._view = PeerView(parts.peer, parts.access, user, parts.audit.show)
        self.people = People(view, parts.schema)
        self.communities = Communities(view, parts.schema)
        self.messages = Messages(view)
        self.meetings = Meetings(view)
        self.documents = Documents(view, parts.contents, parts.texts, self._fetch, parts.schema)
        self.presence = TeamPresence(view)
        self.rights = TeamRights(view)
        self._searches: list[Searching] = []

    @property
    def subscriptions(self) -> Notifier:
        """The subscriptions of the user of this peer."""
        self._view.check_writer()
        return self._subscriptions

    @property
    def webhook_secret(self) -> str:
        """The secret that signs webhooks of this peer, in hexadecimal: for its own user, who checks them with it."""
        self._view.check_writer()
        return _webhook_secret(self.peer.repository).hex()

    @property
    def scope(self) -> str:
        """The scope of the team itself."""
        return self.peer.team

    def as_user(self, name: str) -> "Team":
        """The team as another user may see it: reading only, or the user's own one if the user is hosted here."""
        if name == self.user:
            return self
        self.people.get(name)
        if self._is_own and name in self._parts.hosted.teams:
            return self._parts.hosted.teams[name]
        return Team(self._parts, name, self._subscriptions, self.files)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have a function called with each change that was taken, until the one that is returned is called."""
        self._view.check_writer()
        return self.peer.listen(listener)

    def invite(self, user: str, profile: Mapping[str, Any] | None = None, *, role: Role = Role.EDITOR,
               device: str = "device") -> str:  # fmt: skip
        """Make a user, or a further device of one, and an invitation: a secret text for `join_team`. Owners only."""
        if not self._view.machine.governance(self.scope).state(user):
            self.people.create(user, profile or {}, role)
        keys = DeviceKeys.made(device)
        self.people.add_device(user, keys.device, keys.public_fields)
        return invitation_text(self.scope, user, keys, self._parts.brokers)

    async def host(self, user: str) -> "Team":
        """Run a peer of another user in this process, from now on: a device is made for it. Owners only."""
        self._view.check_writer()
        self.people.get(user)
        known = self._parts.hosted.teams.get(user)
        return await self._parts.hosted.add(self.invite(user, device="hosted")) if known is None else known

    # ------------------------------------------------------------ searching

    def search(
        self,
        text: str = "",
        language: str = DEFAULT,
        *,
        words: str = "",
        kinds: Sequence[str] = KINDS,
        scopes: Collection[str] | None = None,
        stays_open: bool = False,
        limit: int = 100,
        wait_s: float = WAIT_S,
    ) -> Searching:
        """Search this peer and all others: profiles that match a query and have all of some words.

        `scopes`: only results of these. `stays_open`: peers that are away answer when they come back. `limit`: of
        results from one peer. `wait_s`: how long peers that are here have to answer. A search of another user than that
        of the peer (`as_user`) is answered by this peer alone.
        """
        if unknown := set(kinds) - set(KINDS):
            raise Refused(f"a search looks for {', '.join(KINDS)}, not for {min(unknown)!r}")
        wanted = Wanted(tuple(kinds), full_name(language), text, words, limit)
        if not stays_open or not self._is_own:
            return self._begun(wanted, scopes, wait_s=wait_s)
        until = self._parts.clock.time() + OPEN_S
        searching = self._begun(wanted, scopes, open_until=until)
        kept = KeptSearch(searching.id, wanted, None if scopes is None else tuple(scopes), until)
        self._parts.open_searches.put(kept)
        return searching

    @property
    def searches(self) -> list[Searching]:
        """The searches that run, those among them that stayed open when the peer was closed."""
        return [each for each in self._searches if not each.is_over]

    def resume_searches(self) -> None:
        """Go on with the searches that stayed open."""
        for kept in self._parts.open_searches.all(self._parts.clock.time()):
            try:
                self._begun(kept.wanted, kept.scopes, open_until=kept.until, id=kept.id)
            except GodwitError as error:
                self._parts.open_searches.remove(kept.id)
                self.peer.faults.append(f"a search that stayed open has ended: {error}")

    @property
    def is_new(self) -> bool:
        """Whether this peer has not heard yet that its user is in the team."""
        return not self.peer.machine.governance(self.scope).state(self.peer.identity.user)

    def leave_searches(self) -> None:
        """Take no more answers: the peer is about to close."""
        for each in self.searches:
            each.leave()

    def _begun(self, wanted: Wanted, scopes: Collection[str] | None, **options: Any) -> Searching:
        here, device = self._view.repository.scopes, self.peer.identity.device
        asker = AllPeers(self.peer) if self._is_own else ThisPeer(self._parts.index, here, self.user, device)
        searching = Searching(
            asker,
            wanted,
            self._other_devices(scopes) if self._is_own else (),
            self.peer.is_away,
            self._parts.clock,
            scopes=scopes,
            schema=self._parts.schema,
            on_end=self._parts.open_searches.remove,
            **options,
        )
        self._searches = [*self.searches, searching]
        return searching

    @property
    def _is_own(self) -> bool:
        """Whether this is the team as the user of the peer sees it."""
        return self.user == self.peer.identity.user

    def _other_devices(self, scopes: Collection[str] | None) -> list[str]:
        """The other devices of the users who are asked for results of these scopes."""
        members: Collection[str] = self.peer.machine.governance(self.scope).members()
        if (concerned := self.peer.machine.search.concerned(scopes)) is not None:
            members = [user for user in members if user in concerned]
        devices = [
            record.name.partition("/")[2]
            for record in self.peer.repository.records(self.scope, "device")
            if record.fields.get("user") in members and "last" not in record.fields
        ]
        return [device for device in devices if device != self.peer.identity.device]

    # ------------------------------------------------------------ the peer itself

    def status(self) -> Status:
        """How the peer is doing."""
        identity, client = self.peer.identity, self.peer.client
        here, state = self._view.machine.presence.devices(), client.state
        return Status(
            self.scope,
            self.user,
            identity.device,
            self.access.role(self.user, self.scope).name.lower(),
            state.kind,
            state.broker,
            tuple(self._view.repository.scopes()),
            len(self.peer.repository.outbox),
            self.contents.bytes_used,
            self.contents.limits.bytes_max,
            {device: said.user for device, said in here.items()},
            tuple(self.peer.faults) if self._is_own else (),
            tuple(self.files.addresses),
            self._subscriptions.lost if self._is_own else (),
        )

    def collect(self, *, versions_kept: int = VERSIONS_KEPT, unused_s: float = UNUSED_S) -> int:
        """Remove contents of deleted documents and all but the last versions; the bytes that are free now.

        Contents that were stored in the last `unused_s` seconds stay: the change that names them may not be written
        yet.
        """
        self._view.check_writer()
        before = time() - unused_s  # contents are dated by the clock of the machine
        freed = collect(self.peer.repository, self.contents, versions_kept=versions_kept, stored_before=before)
        self._parts.texts.keep_only({name.hex() for name in self.contents.names()})
        return freed

    async def quiet(self) -> None:
        """Until the texts of all documents that have come are read."""
        await self._parts.done()

    async def _fetch(self, scope: str, record: str, content: bytes, root: bytes, progress: Progress | None) -> None:
        """Bring a content here, and let its text be found."""
        await self.files.fetch(WantedFile(scope, record, content, root), progress)
        self._parts.background(self._learn_text(scope, record, content))

    async def _learn_text(self, scope: str, record: str, content: bytes) -> None:
        """Read the text of a document that has come, beside everything else: it may take long."""
        known = self.peer.repository.record(scope, record)
        if known is None:
            return
        name = str(known.fields.get("name", ""))
        said = await asyncio.to_thread(extracted, self.contents.path(content), name)
        if said.text:
            self._parts.texts.put(content.hex(), said.text)
            self._parts.index.refresh(scope, record)


class _Housekeeping:
    """Removes from time to time what no document needs any more."""

    def __init__(self, team: Team, versions_kept: int, clock: Clock) -> None:
        self._team, self._versions_kept, self._clock = team, versions_kept, clock
        self._timer = clock.call_later(COLLECT_EVERY_S, self._collect)

    def _collect(self) -> None:
        self._timer = self._clock.call_later(COLLECT_EVERY_S, self._collect)
        try:
            self._team.collect(versions_kept=self._versions_kept)
        except GodwitError as error:
            self._team.peer.faults.append(f"old versions could not be removed: {error}")

    def close(self) -> None:
        self._timer.cancel()


@asynccontextmanager
async def open_team(
    folder: Path | str,
    *,
    brokers: Sequence[str] = (),
    login: Mapping[str, Any] | None = None,
    mail: MailServer | None = None,
    senders: Mapping[str, Sender] | None = None,
    files: FileAddress | None = None,
    limits: Limits = NO_LIMITS,
    versions_kept: int = VERSIONS_KEPT,
    schema: Schema = STANDARD,
    clock: Clock = SYSTEM,
    connected: Connect | None = None,
) -> AsyncIterator[Team]:
    """Run the peer of a folder that `new_team` or `join_team` has made.

    `brokers`: their addresses (default: those of the folder). `login`: further options of `godwit.connect`, such as
    `token` or `tls`. `mail`: where notifications by mail are handed in. `senders`: further ways to the user, by kind of
    channel. `files`: where other peers get documents of this one (default: nowhere). `limits`: how much may be stored.
    `versions_kept`: of each document; contents of older ones are removed from this peer. `schema`: the elements of
    profiles (`extended`). `clock` and `connected` (makes a client of a name) are for tests.
    """
    parts = _Parts(Path(folder).expanduser(), brokers, limits, schema, clock)
    async with AsyncExitStack() as stack:
        stack.callback(parts.close)
        stack.push_async_callback(parts.done)
        client: NetworkClient = await stack.enter_async_context(
            connected(parts.keys.device)
            if connected is not None
            else _connected(parts.brokers, parts.keys.device, login or {})
        )
        identity = Identity(parts.said.team, parts.said.user, parts.keys.device)
        peer = parts.peer = LivePeer(
            identity, parts.repository, parts.keys, parts.index, client, clock, parts.profiles.matches
        )
        await stack.enter_async_context(peer)
        queue = NotificationQueue(parts.folder)
        stack.callback(queue.close)
        messages = MessageChannel(Messages(peer), asyncio.get_running_loop())
        channels = {**_channels(parts.repository, mail), "message": messages, **(senders or {})}
        notifier = Notifier(
            *(identity.user, parts.repository, queue, channels, parts.profiles.matches),
            *(partial(parts.access.may_see, identity.user), peer.faults.append, clock),
            partial(_check_subscription, parts, identity.user),
            identity.device,
        )
        stack.push_async_callback(notifier.close)
        for listener in (parts.index, parts.audit, notifier):
            peer.listen(listener)
        _begin(peer)
        team_files = TeamFiles(peer, parts.contents, parts.access, parts.audit, files, clock)
        await stack.enter_async_context(team_files)
        team = Team(parts, identity.user, notifier, team_files)
        team.resume_searches()
        stack.callback(team.leave_searches)
        stack.callback(_Housekeeping(team, versions_kept, clock).close)
        opened = partial(
            open_team,
            brokers=brokers,
            login=login,
            mail=mail,
            senders=senders,
            files=None if files is None else replace(files, port=0),
            limits=limits,
            versions_kept=versions_kept,
            schema=schema,
            clock=clock,
            connected=connected,
        )
        parts.hosted = HostedUsers(parts.folder / HOSTED, opened, peer.faults.append)
        stack.push_async_callback(parts.hosted.close)
        await parts.hosted.open_all()
        yield team


def _check_subscription(parts: _Parts, user: str, subscription: UserSubscription) -> None:
    """Refuse a subscription that the team does not let this user make."""
    query = parts.profiles.query(subscription.language, subscription.query) if subscription.query else None
    parts.access.check_query(user, "may_subscribe", query)


@asynccontextmanager
async def _connected(brokers: Sequence[str], device: str, login: Mapping[str, Any]) -> AsyncIterator[NetworkClient]:
    """A client that waits for no broker when it goes: what none has taken is in the outbox of the peer."""
    client = connect(*brokers, name=device, mode="named", confirm="read", **login)
    await client.__aenter__()
    try:
        yield client
    finally:
        await client.close()


def _begin(peer: LivePeer) -> None:
    """Follow the team, and make the founder's device known when the team is new."""
    team, identity = peer.team, peer.identity
    if team not in peer.scopes:
        peer.do(Follow(team))
    is_founder = peer.machine.governance(team).founder == identity.user
    if is_founder and not peer.repository.vector(team) and team.endswith(peer.keys.fingerprint):
        peer.do(ChangeRecord(team, f"device/{identity.device}", {"user": identity.user, **peer.keys.public_fields}))


def _webhook_secret(repository: Repository) -> bytes:
    """Made once, and then kept."""
    secret = repository.settings.get(WEBHOOK_SECRET)
    if secret is None:
        secret = token_bytes(32)
        repository.settings.put(WEBHOOK_SECRET, secret)
    return bytes(secret)


def _channels(repository: Repository, mail: MailServer | None) -> dict[str, Sender]:
    channels: dict[str, Sender] = {"webhook": WebhookChannel(_webhook_secret(repository))}
    if mail is not None:
        channels["mail"] = MailChannel(mail)
    return channels
