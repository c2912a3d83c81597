"""Profiles of the MOTION platform: random XML documents about users, communities and artefacts.

*Theory.* In MOTION "XML Meta-data (called profiles in MOTION) about each artefact is also stored" [motion §2]. The
paper's experiment draws subscriptions from the profiles of users, communities and artefacts, and publishes profiles of
artefacts [motion §6]. It does not print one. Ours hold what the paper's text speaks of: sites and departments, roles,
artefacts with authors, versions and access rights. What matters for the experiment is that some elements come again
(authors, keywords, changes, rights), each with several parts: there the translation loses which parts belong together.

*Rules.*
1. The same seed gives the same profiles.
2. A person has one name, department and site wherever it is mentioned.
"""

from random import Random
from xml.sax.saxutils import escape

import msgspec

__all__ = ["KINDS", "Artefact", "Community", "Person", "Profiles"]

KINDS = ("User", "Community", "Artefact")
FIRST = ("Anna", "Bruno", "Carla", "David", "Elena", "Franz", "Gina", "Hugo", "Ines", "Jakob", "Klara", "Luca")
LAST = ("Berger", "Costa", "Dorn", "Eder", "Fabbri", "Gruber", "Huber", "Ivanov", "Kern", "Lang", "Moser", "Novak")
SITES = {"Wien": 1050, "Milano": 20121, "Graz": 8010, "Pittsburgh": 15213, "Helsinki": 100, "Salo": 24100}
DEPARTMENTS = ("design", "engineering", "marketing", "quality", "research", "sales", "service", "testing")
ROLES = ("manager", "engineer", "reviewer", "analyst", "assistant")
TOPICS = ("ui", "radio", "battery", "protocol", "casing", "display", "network", "security", "storage", "camera")
TYPES = ("document", "drawing", "code", "minutes", "report", "spreadsheet")
STATES = ("draft", "review", "released", "obsolete")
WORDS = ("analysis", "design", "guide", "interface", "layout", "minutes", "model", "plan", "proposal", "report", "test")
REASONS = ("correction", "review", "extension", "layout")
RIGHTS = ("read", "write", "review")
ADDRESSES_MAX, AUTHORS_MAX, KEYWORDS_MAX, CHANGES_MAX, RIGHTS_MAX = 2, 3, 4, 3, 4


class Person(msgspec.Struct, frozen=True):
    """A user of the platform."""

    name: str
    department: str
    site: str
    role: str
    age: int
    topics: tuple[str, ...]
    sites: tuple[str, ...]  # of its addresses


class Community(msgspec.Struct, frozen=True):
    """A group of users around a topic."""

    name: str
    topic: str
    members: tuple[Person, ...]


class Change(msgspec.Struct, frozen=True):
    """A version of an artefact: who made it and why."""

    by: str
    version: int
    reason: str


class Artefact(msgspec.Struct, frozen=True):
    """A shared document."""

    title: str
    type: str
    status: str
    version: int
    size: int
    authors: tuple[Person, ...]
    keywords: tuple[str, ...]
    community: str
    changes: tuple[Change, ...]
    rights: tuple[tuple[str, str], ...]  # a user and what it may do


class Profiles:
    """All profiles of a platform."""

    def __init__(self, seed: int, users: int = 1_000, communities: int = 100, artefacts: int = 4_000) -> None:
        draw = Random(f"profiles {seed}")
        self.users = [_person(draw, number) for number in range(users)]
        self.communities = [_community(draw, number, self.users) for number in range(communities)]
        self.artefacts = [_artefact(draw, number, self.users, self.communities) for number in range(artefacts)]

    def publications(self, count: int, seed: int) -> list[bytes]:
        """Profiles of artefacts, drawn at random, as documents. [motion §6]"""
        draw = Random(f"publications {seed}")
        return [artefact_document(draw.choice(self.artefacts)) for _ in range(count)]


def _some(draw: Random, choices: tuple[str, ...], most: int) -> tuple[str, ...]:
    return tuple(draw.sample(choices, draw.randint(1, most)))


def _person(draw: Random, number: int) -> Person:
    site = draw.choice(list(SITES))
    return Person(
        name=f"{draw.choice(FIRST)} {draw.choice(LAST)} {number}",
        department=draw.choice(DEPARTMENTS),
        site=site,
        role=draw.choice(ROLES),
        age=draw.randint(20, 65),
        topics=_some(draw, TOPICS, 3),
        sites=(site, *draw.sample(list(SITES), draw.randrange(ADDRESSES_MAX))),
    )


def _community(draw: Random, number: int, users: list[Person]) -> Community:
    topic = draw.choice(TOPICS)
    return Community(f"{topic} {number}", topic, tuple(draw.sample(users, min(len(users), draw.randint(2, 6)))))


def _artefact(draw: Random, number: int, users: list[Person], communities: list[Community]) -> Artefact:
    version = draw.randint(1, 9)
    changes = tuple(
        Change(draw.choice(users).name, max(1, version - back), draw.choice(REASONS))
        for back in range(draw.randint(0, CHANGES_MAX))
    )
    rights = tuple((person.name, draw.choice(RIGHTS)) for person in draw.sample(users, draw.randint(0, RIGHTS_MAX)))
    return Artefact(
        title=f"{draw.choice(WORDS)} {draw.choice(WORDS)} {number}",
        type=draw.choice(TYPES),
        status=draw.choice(STATES),
        version=version,
        size=draw.randint(1, 5_000),
        authors=tuple(draw.sample(users, draw.randint(1, AUTHORS_MAX))),
        keywords=_some(draw, TOPICS, KEYWORDS_MAX),
        community=draw.choice(communities).name,
        changes=changes,
        rights=rights,
    )


# ---------------------------------------------------------------- as XML


def _element(name: str, *content: str) -> str:
    return f"<{name}>{''.join(content)}</{name}>"


def _leaf(name: str, value: object) -> str:
    return _element(name, escape(str(value)))


def artefact_document(artefact: Artefact) -> bytes:
    """The profile of an artefact, as it is published."""
    authors = (
        _element(
            "Author",
            _leaf("Name", person.name),
            _leaf("Department", person.department),
            _leaf("Site", person.site),
            _leaf("Role", person.role),
        )
        for person in artefact.authors
    )
    changes = (
        _element("Change", _leaf("By", change.by), _leaf("Version", change.version), _leaf("Reason", change.reason))
        for change in artefact.changes
    )
    rights = (_element("Access", _leaf("User", user), _leaf("Right", right)) for user, right in artefact.rights)
    return _element(
        "Artefact",
        _leaf("Title", artefact.title),
        _leaf("Type", artefact.type),
        _leaf("Status", artefact.status),
        _leaf("Version", artefact.version),
        _leaf("Size", artefact.size),
        *authors,
        *(_leaf("Keyword", keyword) for keyword in artefact.keywords),
        _leaf("Community", artefact.community),
        *changes,
        *rights,
    ).encode()
