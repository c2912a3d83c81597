"""Profiles of a large organisation, and XQL queries about them. Everything follows from the seed.

Of ten profiles, four are of users and six of artefacts. Skills, subjects and cities are drawn by Zipf's law: a few are
everywhere, most are rare. A third of the titles, and all free texts, are longer than what an index keeps whole.

Queries are what people look for: a person by name, by skill and place, a document by subject and author, by number, by
date and size. `KINDS` has them, with their shares. The constants of a query are taken from a profile that exists.
"""

import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple
from xml.sax.saxutils import escape

from godwit.teamwork.profile_index import Entry

__all__ = ["KINDS", "Person", "ProfileWorkload"]

SKILLS, SUBJECTS, CITIES, AUTHORS, SCOPES = 2_000, 5_000, 1_000, 20_000, 200
WORDS = [
    *("plan", "report", "review", "design", "budget", "test", "line", "release"),
    *("safety", "motor", "bridge", "survey", "meeting", "contract", "site"),
]


class Person(NamedTuple):
    """What is drawn of a user."""

    name: str
    skills: list[str]
    city: str
    zip: int
    role: str


class Document(NamedTuple):
    """What is drawn of an artefact."""

    title: str
    subject: str
    author: str
    size: int
    year: int
    number: int


class _Zipf:
    """Numbers up to a count, the first ones often."""

    def __init__(self, count: int) -> None:
        self._numbers = range(count)
        self._shares = list(accumulate(1 / (place + 3) for place in self._numbers))

    def draw(self, rng: random.Random) -> int:
        return rng.choices(self._numbers, cum_weights=self._shares)[0]


class ProfileWorkload:
    """So many profiles, and queries about them."""

    def __init__(self, count: int, seed: int = 1) -> None:
        self.count, self._seed = count, seed
        self._skills, self._subjects, self._cities = _Zipf(SKILLS), _Zipf(SUBJECTS), _Zipf(CITIES)

    def entries(self) -> Iterator[Entry]:
        """The profiles."""
        for place in range(self.count):
            scope = f"community/user{place % 97}.{place % SCOPES}"
            if place % 10 < 4:
                document, text = _user(place, self.person(place)), ""
            else:
                artefact = self.artefact(place)
                document, text = _artefact(place, artefact), f"{artefact.title} {_free_text(place, 12)}"
            yield Entry(scope, f"artefact/{place}", document, text, place + 1)

    def person(self, place: int) -> Person:
        """The user of a place."""
        rng = random.Random(self._seed * 10**9 + place)
        skills = [f"skill{self._skills.draw(rng)}" for _ in range(rng.randint(2, 4))]
        city = self._cities.draw(rng)
        role = rng.choice(["engineer", "manager", "editor", "buyer", "tester"])
        return Person(f"Anna{place // 7 % 90_000} Muster{place % 1_000}", skills, f"city{city}", 1_000 + city, role)

    def artefact(self, place: int) -> Document:
        """The artefact of a place."""
        rng = random.Random(self._seed * 10**9 + place)
        title = " ".join(rng.choices(WORDS, k=rng.choice([3, 5, 14]))) + f" {place}"
        author = f"Anna{rng.randrange(AUTHORS)} Muster{place % 1_000}"
        return Document(
            title,
            f"subject{self._subjects.draw(rng)}",
            author,
            rng.randrange(10_000_000),
            rng.randint(1999, 2026),
            place,
        )

    def queries(self, count: int, seed: int = 2) -> Iterator[tuple[str, str]]:
        """XQL queries, each with the name of its kind."""
        rng = random.Random(seed)
        names, shares = list(KINDS), [share for _, share in KINDS.values()]
        for name in rng.choices(names, shares, k=count):
            place = rng.randrange(self.count // 10) * 10
            yield name, KINDS[name][0](self.person(place), self.artefact(place + 5), rng)


def _user(place: int, person: Person) -> bytes:
    skills = "".join(f"<skill>{skill}</skill>" for skill in person.skills)
    return (
        f'<user id="u{place}"><name>{person.name}</name><role>{person.role}</role>{skills}<language>de</language>'
        f"<language>en</language><device>laptop</device><address><zip>{person.zip}</zip><city>{person.city}</city>"
        f"<country>AT</country></address><about>{_free_text(place, 18)}</about></user>"
    ).encode()


def _artefact(place: int, made: Document) -> bytes:
    return (
        f'<artefact id="a{place}"><name>file{place}.pdf</name><type>application/pdf</type><size>{made.size}</size>'
        f"<changed>{made.year}-0{1 + place % 9}-1{place % 10}T08:00:00Z</changed><title>{escape(made.title)}</title>"
        f"<author>{made.author}</author><subject>{made.subject}</subject><year>{made.year}</year>"
        f"<description>{_free_text(place, 15)}</description></artefact>"
    ).encode()


def _free_text(place: int, count: int) -> str:
    return " ".join(WORDS[(place * 7 + word * word) % len(WORDS)] for word in range(count)) + f" number {place}"


Kind = Callable[[Person, Document, random.Random], str]
KINDS: dict[str, tuple[Kind, int]] = {
    "name": (lambda user, _, rng: f"/user[name = '{user.name}']", 3),
    "skill and city": (lambda user, _, rng: f"/user[skill = '{user.skills[0]}' $and$ address/city = '{user.city}']", 3),
    "two skills, not a role": (
        lambda user, _, rng: (
            f"/user[skill = '{user.skills[0]}' $and$ skill = '{user.skills[1]}' $and$ $not$ role = '{user.role}']"
        ),
        2,
    ),
    "skill and zip": (
        lambda user, _, rng: (
            f"//user[skill = '{user.skills[-1]}' $and$ address/zip > {user.zip - 3} $and$ address/zip < {user.zip + 3}]"
        ),
        2,
    ),
    "title": (lambda _, made, rng: f"/artefact[title = '{made.title}']", 2),
    "anywhere": (lambda _, made, rng: f"//author = '{made.author}'", 2),
    "subject, year and size": (
        lambda _, made, rng: (
            f"/artefact[subject = '{made.subject}' $and$ year = {made.year} $and$ "
            f"size > {made.size - 100_000} $and$ size < {made.size + 100_000}]"
        ),
        3,
    ),
    "size and day": (
        lambda _, made, rng: (
            f"/artefact[size > {made.size - 300} $and$ size < {made.size + 300} $and$ changed > '{made.year}']"
        ),
        2,
    ),
    "author or title": (
        lambda _, made, rng: f"/artefact[author = '{made.author}' $or$ title = '{made.title}'][year > 1990]",
        1,
    ),
}
