"""A team in a fixed state, for tests and pictures of its pages: two communities, documents, talk, a meeting."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

from godwit.teamwork import Channel, Role, UserSubscription
from tests.network.team_site import Site, team_site
from tests.network.waiting import until

__all__ = ["BEGINS", "fixed_team"]

BEGINS = 1_893_495_600.0  # 2030-01-01 11:00 UTC
DAY_S = 86_400.0


@asynccontextmanager
async def fixed_team(folder: Path) -> AsyncIterator[tuple[Site, dict[str, str]]]:
    """Ann's site with all that her pages can show; and identifiers of some of it."""
    async with team_site(folder, "bob") as site:
        ann, bob = site.ann, site.teams["bob"]
        ann.subscriptions.subscribe(
            UserSubscription("s1", "Everything about bridges", ("artefact", "message"), (Channel("desktop"),))
        )
        bridges = ann.communities.create("Bridges", description="Inspection and repair of steel bridges", join="open")
        tender = ann.communities.create("Tender 2030", description="What we offer, and for how much", sealed=True)
        ann.communities.add(bridges, "bob", Role.EDITOR)
        ann.communities.invite(tender, "bob", Role.READER)
        await until(lambda: any(each.id == bridges for each in bob.communities.mine()))
        yard = bob.communities.create("Yard", description="Who is where, and with which tools", join="open")
        report = ann.documents.add(
            bridges, BytesIO(b"The northern pier has a crack."), "inspection.txt", {"title": "Inspection of pier 4"}
        )
        ann.documents.add(bridges, BytesIO(b"%" * 2_300_000), "drawing.bin", {"keyword": ["steel", "pier"]})
        ann.documents.change(bridges, report.id, BytesIO(b"The northern pier has a crack of 4 mm."))
        ann.documents.lock(bridges, report.id)
        asked = ann.messages.send(bridges, "Who can look at pier 4 this week?", attachments=[report.id])
        await until(lambda: bob.messages.thread(bridges))
        bob.messages.mark(bridges, asked)
        bob.messages.send(bridges, "I can, on Thursday. I bring the ultrasonic probe.", reply_to=asked)
        talk = ann.messages.conversation(["bob"])
        ann.messages.send(talk, "Thank you, Bob!")
        meeting = ann.meetings.propose(
            bridges, "Review of pier 4", [BEGINS, BEGINS + DAY_S], agenda="1. Findings\n2. Who repairs, and when"
        )
        await until(lambda: bob.meetings.all(bridges))
        bob.meetings.answer(bridges, meeting, {BEGINS: "yes", BEGINS + DAY_S: "maybe"})
        await until(lambda: len(ann.messages.thread(bridges)) == 2 and ann.meetings.get(bridges, meeting).answers)
        await until(lambda: any(each["id"] == yard for each in ann.communities.listed()))
        ids = {"bridges": bridges, "tender": tender, "yard": yard, "report": report.id, "talk": talk}
        yield site, ids | {"meeting": meeting}
