"""What happens in the demonstration: two sites, two travellers, three brokers.

Ann leads the team in Zurich, cid works in Geneva, bob travels between them, and dora leaves the project. Each broker is
a separate process; the peers run in this process, each with its folder and connections.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from godwit.cli.local_brokers import LocalBroker, start_network
from godwit.cli.team.demo.books import Account, Books
from godwit.cli.team.demo.mail_inbox import MailInbox
from godwit.errors import GodwitError, NotHere
from godwit.teamwork.documents import Version
from godwit.teamwork.file_requests import WantedFile
from godwit.teamwork.machine.governance import ROLES
from godwit.teamwork.machine.notification_rules import Channel, UserSubscription
from godwit.teamwork.peer_settings import ListenSection, MailSection, PeerSettings
from godwit.teamwork.team import Team
from godwit.teamwork.team_folder import join_team, new_team
from godwit.teamwork.team_server import serving

__all__ = ["Step", "tell"]

BROKERS = ("zurich", "bern", "geneva")
LINKS = (("bern", "zurich"), ("bern", "geneva"))
HUB = "bern"
PEOPLE: dict[str, dict[str, Any]] = {
    "ann": {"name": "Ann Miller", "place": ["Zurich"], "skill": ["optics"]},
    "bob": {"name": "Bob Frei", "place": ["Zurich", "Geneva"], "skill": ["optics", "mechanics"]},
    "cid": {"name": "Cid Rossi", "place": ["Geneva"], "skill": ["mechanics"]},
    "dora": {"name": "Dora Weber", "place": ["Geneva"], "skill": ["optics"]},
}
START = {"ann": "zurich", "bob": "zurich", "cid": "geneva", "dora": "geneva"}
NAME = "lens-mount.md"
DRAFT = "# Lens mount\n\nThe mount is made of brass, and holds the lens by three screws.\n"
OF_ANN = DRAFT + "\nZurich: aluminium is lighter.\n"
OF_BOB = DRAFT + "\nThe train: four screws hold better.\n"
AGREED = DRAFT + "\nAgreed: aluminium, and four screws.\n"
SITES = {"cid": "Geneva", "ann": "Zurich"}
"""By user, the site where that user announces documents about lenses."""
FILE_S = 3.0


class Step(msgspec.Struct, frozen=True):
    """One step of the story."""

    title: str
    text: str
    seconds: float


class _Cast:
    """The peers, brokers and checks of the demonstration."""

    def __init__(self, folder: Path, brokers: dict[str, LocalBroker], inbox: MailInbox, books: Books) -> None:
        self.folder, self.brokers, self.inbox, self.books = folder, brokers, inbox, books
        self.teams: dict[str, Team] = {}
        self.optics = self.document = ""
        self.sites: dict[str, str] = {}

    @asynccontextmanager
    async def peer(self, user: str) -> AsyncIterator[Team]:
        """The peer of a user at the broker where the user starts."""
        settings = PeerSettings(
            brokers=(self.address(START[user]),),
            listen=ListenSection(pages="", files="127.0.0.1:0"),
            mail=MailSection("127.0.0.1", self.inbox.port, f"{user}@example.org"),
        )
        async with serving(self.folder / user, settings) as served:
            self.teams[user] = served.team
            yield served.team

    def address(self, broker: str) -> str:
        """The address of a broker."""
        return self.brokers[broker].listens["native"]

    async def go(self, user: str, broker: str = "") -> None:
        """Connect a peer to a broker, or to none."""
        client = self.teams[user].peer.client
        await client.move(*([self.address(broker)] if broker else []))
        if broker:
            await client.attached(30.0)

    async def all_due(self, what: str, readers: str, has_come: Callable[[Team], Any]) -> None:
        """Record that several readers must receive something."""
        await asyncio.gather(
            *(
                self.books.due(f"{what}, for {user}", lambda user=user: has_come(self.teams[user]))  # type: ignore[misc]
                for user in readers.split()
            )
        )

    def version_texts(self, team: Team) -> set[str]:
        """The versions of the document that a peer knows of, by content."""
        try:
            return {version.content for version in team.documents.versions(self.optics, self.document)}
        except GodwitError:
            return set()


async def tell(folder: Path, on_step: Callable[[Step], None]) -> Account:
    """Run the demonstration; returns the result of the checks."""
    async with AsyncExitStack() as stack:
        began = perf_counter()
        brokers = {name: LocalBroker(name, folder, ["native"]) for name in BROKERS}
        for broker in brokers.values():
            stack.push_async_callback(broker.stop)
        await start_network(brokers, LINKS, HUB)
        inbox = await stack.enter_async_context(MailInbox())
        cast = _Cast(folder, brokers, inbox, Books())
        on_step(Step("network", "zurich – bern – geneva: three brokers, each a process", perf_counter() - began))
        peers = await stack.enter_async_context(AsyncExitStack())  # they leave before the brokers stop
        for title, scene in SCENES.items():
            began = perf_counter()
            text = await scene(cast, peers)
            on_step(Step(title, text, perf_counter() - began))
        return cast.books.closed()


# ------------------------------------------------------------ scenes


async def _found(cast: _Cast, peers: AsyncExitStack) -> str:
    new_team(cast.folder / "ann", "ann", brokers=[cast.address("zurich")])
    ann = await peers.enter_async_context(cast.peer("ann"))
    ann.people.change_profile(PEOPLE["ann"])
    for user in ("bob", "cid", "dora"):
        join_team(cast.folder / user, ann.invite(user))
        await peers.enter_async_context(cast.peer(user))
    await cast.all_due("the team", "ann bob cid dora", lambda team: len(team.people.all()) == len(PEOPLE))
    for user in ("bob", "cid", "dora"):
        cast.teams[user].people.change_profile(PEOPLE[user])
    known = {user: fields["name"] for user, fields in PEOPLE.items()}
    await cast.all_due(
        "profiles",
        "ann bob cid dora",
        lambda team: {user.name: user.profile.get("name") for user in team.people.all()} == known,
    )
    return "ann founds a team in Zurich; bob, cid and dora join with her invitations"


async def _gather(cast: _Cast, peers: AsyncExitStack) -> str:
    ann = cast.teams["ann"]
    roles = {"ann": "owner", "bob": "editor", "cid": "reader", "dora": "reader"}
    cast.optics = ann.communities.create("Optics", description="lenses and what holds them")
    for user in ("bob", "cid", "dora"):
        ann.communities.add(cast.optics, user, ROLES[roles[user]])
    members = {cast.optics: set(roles)}
    for user, site in SITES.items():
        communities = cast.teams[user].communities
        id = cast.sites[site] = communities.create(site, join="rule", rule=f"//place[. = '{site}']", listed=False)
        members[id] = {user for user, fields in PEOPLE.items() if site in fields["place"]}
    await asyncio.gather(*(_know(cast, id, users) for id, users in members.items()))
    for user, site in SITES.items():
        query = f"//keyword[. = 'lens'] $and$ //place[. = '{site}']"
        channels = (Channel("mail", f"{user}@example.org"), Channel("message", cast.sites[site]))
        wanted = UserSubscription("lenses", f"lenses in {site}", ("artefact",), channels, query=query)
        cast.teams[user].subscriptions.subscribe(wanted)
    return "the community Optics, and one for each site, whose members are found by their profiles; all are encrypted"


async def _know(cast: _Cast, id: str, users: set[str]) -> None:
    """The members of a community know each other."""

    def knows(team: Team) -> bool:
        return any(each.id == id and each.members.keys() == users for each in team.communities.mine())

    await cast.all_due(f"the community {id}", " ".join(sorted(users)), knows)


async def _store_on_train(cast: _Cast, peers: AsyncExitStack) -> str:
    bob = cast.teams["bob"]
    await cast.go("bob")
    path = cast.folder / NAME
    path.write_text(DRAFT)
    added = bob.documents.add(cast.optics, path, NAME, {"keyword": ["lens", "mount"], "place": ["Geneva"]})
    cast.document = added.id
    return f"bob is on a train, without a broker: {NAME} is on his disk, {bob.status().waiting} event waits to go out"


async def _search(cast: _Cast, peers: AsyncExitStack) -> str:
    await cast.go("bob", "bern")
    await cast.all_due(NAME, "ann cid dora", lambda team: len(cast.version_texts(team)) == 1)
    ann = cast.teams["ann"]
    results = await ann.search(words="brass screws", kinds=("artefact",)).finished()
    ids = {result.id for result in results}
    await cast.books.due("a search for words in the text of the document", lambda: cast.document in ids, is_result=True)
    path = await ann.documents.fetch(cast.optics, cast.document)
    await cast.books.due("the file of the document, for ann", lambda: path.read_text() == DRAFT)
    who = await ann.search("//skill[. = 'mechanics']", kinds=("user",)).finished()
    people = {result.id for result in who}
    await cast.books.due("a search for people", lambda: people >= {"bob", "cid"}, is_result=True)
    return (
        "the train stops in Bern: ann, in Zurich, finds the document by words of its text, and gets the file from bob"
    )


async def _announce(cast: _Cast, peers: AsyncExitStack) -> str:
    inbox, geneva, zurich = cast.inbox, cast.sites["Geneva"], cast.sites["Zurich"]
    await cast.all_due("the announcement", "bob cid dora", lambda team: team.messages.thread(geneva))
    await cast.books.due("a mail, for cid", lambda: any("cid@" in str(mail["To"]) for mail in inbox.mails))
    cast.books.denied(
        "a mail about Geneva, for ann in Zurich", lambda: any("ann@" in str(mail["To"]) for mail in inbox.mails)
    )
    cast.books.denied("Geneva's announcement, in Zurich", lambda: cast.teams["ann"].messages.thread(zurich))
    cast.books.denied("Geneva's announcement, by ann", lambda: cast.teams["ann"].messages.thread(geneva))
    subjects = ", ".join(f'"{mail["Subject"]}"' for mail in inbox.mails)
    return f"it is announced to the site in Geneva, and cid has mail: {subjects}; Zurich hears nothing"


async def _change_on_both_sides(cast: _Cast, peers: AsyncExitStack) -> str:
    before = cast.version_texts(cast.teams["ann"])
    await asyncio.gather(cast.go("ann"), cast.go("bob"))
    for user, text in (("ann", OF_ANN), ("bob", OF_BOB)):
        path = cast.folder / f"{user}.md"
        path.write_text(text)
        cast.teams[user].documents.change(cast.optics, cast.document, path)
    made = {user: cast.teams[user].documents.get(cast.optics, cast.document).content for user in ("ann", "bob")}
    await asyncio.gather(cast.go("ann", "zurich"), cast.go("bob", "geneva"))
    wanted = before | set(made.values())
    await cast.all_due("both versions", "ann bob cid dora", lambda team: cast.version_texts(team) == wanted)
    now = [team.documents.get(cast.optics, cast.document) for team in cast.teams.values()]
    await cast.books.due("one current version at all peers", lambda: len({each.content for each in now}) == 1)
    await cast.all_due(
        "the conflict",
        "ann bob cid dora",
        lambda team: len(team.documents.get(cast.optics, cast.document).conflicts) == 1,
    )
    [winner] = [user for user, content in made.items() if content == now[0].content]
    loser = "bob" if winner == "ann" else "ann"
    return f"ann and bob changed it offline: all peers agree on {winner}'s version; {loser}'s is reported and kept"


async def _leave(cast: _Cast, peers: AsyncExitStack) -> str:
    ann, dora = cast.teams["ann"], cast.teams["dora"]
    key = ann.peer.machine.keys.in_use(cast.optics)
    dora.communities.leave(cast.optics)
    await cast.all_due(
        "dora's leaving", "ann bob cid", lambda team: "dora" not in team.communities.get(cast.optics).members
    )
    await cast.books.due("a new key", lambda: ann.peer.machine.keys.in_use(cast.optics) != key)
    path = cast.folder / "agreed.md"
    path.write_text(AGREED)
    ann.documents.change(cast.optics, cast.document, path)
    content = ann.documents.get(cast.optics, cast.document).content
    await cast.all_due("the next version", "bob cid", lambda team: content in cast.version_texts(team))
    await cast.all_due(
        "the end of the conflict",
        "ann bob cid",
        lambda team: not team.documents.get(cast.optics, cast.document).conflicts,
    )
    await _try_to_read(cast, dora, ann.documents.versions(cast.optics, cast.document)[-1])
    return "dora has left: bob and cid have the next version; her device has no key for it, and is given no file"


async def _try_to_read(cast: _Cast, dora: Team, version: Version) -> None:
    """Check all ways in which dora could see the version that was made after she left."""
    content = version.content
    name, books = f"artefact/{cast.document}", cast.books

    def is_on_disk() -> bool:
        changes = dora.peer.repository.changes_of(cast.optics, name)
        return any(change.fields.get("content") == content for change in changes)

    books.denied("the next version, by dora's view", lambda: content in cast.version_texts(dora))
    books.denied("the next version, on dora's disk", is_on_disk)
    wanted = WantedFile(cast.optics, name, bytes.fromhex(content), bytes.fromhex(version.root))
    with suppress(TimeoutError, NotHere):
        async with asyncio.timeout(FILE_S):
            await dora.files.fetch(wanted)
    books.denied("the file of the next version, from other devices", lambda: wanted.name in dora.contents)
    results = await dora.search(words="agreed aluminium", kinds=("artefact",)).finished()
    books.denied("the next version, by a search of dora's", lambda: results)


SCENES: dict[str, Callable[[_Cast, AsyncExitStack], Any]] = {
    "team": _found,
    "community": _gather,
    "offline": _store_on_train,
    "search": _search,
    "announcement": _announce,
    "conflict": _change_on_both_sides,
    "leaving": _leave,
}
