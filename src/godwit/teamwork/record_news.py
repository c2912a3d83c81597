"""News about records: the differences since the last look, and the changes that caused them.

*Theory.* Each record that is put has a revision, and each change that is taken a position; both grow. A follower keeps
two numbers, and so loses nothing when the process ends between a change and what follows from it.

A change may be taken before the right of its author is known: peers exchange changes of different devices in any order.
It sets nothing then, and the record comes again when the right is known. So changes that are refused now are
*doubtful*: a follower keeps them, and asks about them again.

*Rules.*
1. Each change that sets something is told of once: when it is taken, or when its author's right becomes known.
2. A record that is different because a right was removed has no news: only actions of users are news.
"""

from collections.abc import Collection, Iterator
from typing import Protocol

import msgspec

from godwit.teamwork.machine.changes import Change, ChangeId
from godwit.teamwork.machine.records import Record

__all__ = ["FollowedRepository", "News", "Place", "news_since", "now_at"]

LOOKED_AT = 50  # changes of one record, the last ones
PAGE = 200


class Place(msgspec.Struct, frozen=True):
    """How far somebody has followed a repository."""

    repository: str
    """The identity of the repository."""
    revision: int
    position: int


class FollowedRepository(Protocol):
    """A repository, for those who follow it."""

    @property
    def identity(self) -> str: ...

    @property
    def revision(self) -> int: ...

    @property
    def position(self) -> int: ...

    def records_since(self, revision: int, count: int) -> list[tuple[int, str, Record]]: ...

    def last_changes(self, scope: str, record: str, count: int) -> list[tuple[int, Change]]: ...

    def record(self, scope: str, name: str) -> Record | None: ...

    def change(self, scope: str, id: ChangeId) -> Change | None: ...


class News(msgspec.Struct, frozen=True):
    """A record that is different now."""

    scope: str
    record: Record
    changes: tuple[Change, ...]
    """What has set something in it and was not told of before, the last to come first."""
    refused: tuple[ChangeId, ...] = ()
    """What has come and sets nothing: doubtful from now on."""


def now_at(repository: FollowedRepository) -> Place:
    """Where one is who has followed until now."""
    return Place(repository.identity, repository.revision, repository.position)


def news_since(
    repository: FollowedRepository, place: Place, doubtful: Collection[tuple[str, ChangeId]]
) -> Iterator[News]:
    """What has become of records since then, in order. `doubtful`: by scope, changes that were refused until then.

    Nothing may be changed before all of it was read: the reader is then at `now_at`.
    """
    revision = place.revision
    while page := repository.records_since(revision, PAGE):
        for _, scope, record in page:
            changes = repository.last_changes(scope, record.name, LOOKED_AT)
            refused = {each.change for each in record.refused}
            new = {change.id for position, change in changes if position > place.position}
            news = [
                change
                for _, change in changes
                if change.id not in refused and (change.id in new or (scope, change.id) in doubtful)
            ]
            yield News(scope, record, tuple(news), tuple(sorted(new & refused)))
        revision = page[-1][0]
