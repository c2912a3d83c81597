"""An index of the profiles on one peer: answers a query of any language, and full-text search. [motion §1, §2]

"In order to enable searches by other users, XML Meta-data (called profiles) about each artefact is also stored."

*Theory.* A profile is an XML document. It is flattened to attributes as an event is (`languages/xml_documents.py`), and
each value becomes a row (path, key, profile). A query has a filter and an exact test; the filter selects candidates by
rows (`profile_postings.py`), and the query itself decides on each candidate's document. Which part of a conjunction is
looked up first is decided by counting: the one with the fewest rows. The others are probed, joined, or left to the
test, whichever takes least.

The texts of profiles and of documents are in a table of SQLite's FTS5. With a search text, results are ranked by bm25;
without one, the profile that was put last comes first.

The index can be made again from the repository. So its file is not synced at each change: after a crash it is as it was
some changes before, and follows from there (`revision`).

*Rules.*
1. A search finds what matches the query, has the words, and the asker may see: all of it, up to `limit`. `is_complete`
   says whether there may be more.
2. Rights are part of the question that SQLite is asked: no profile is looked at that the asker may not see.
3. A search looks at `candidates_max` profiles at most. A test that takes too many steps (`QueryTooCostly`) ends it.
4. A file that belongs to another repository, or is ahead of this one, is emptied: `revision` is 0 then.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from godwit.errors import Unbound
from godwit.filters import is_open, references_of
from godwit.filters.events import Attributes, values_of
from godwit.languages import Query
from godwit.languages.query import Certainty
from godwit.languages.xml_documents import flattened_document, parsed_document, structure_of, xml_subject
from godwit.languages.xml_names import ANYWHERE
from godwit.languages.xml_trees import Tree
from godwit.teamwork.profile_postings import AllOf, AnyOf, Rows, Selection, key_of, says_all, selection_of, statement_of
from godwit.teamwork.search_texts import match_expression
from godwit.teamwork.sqlite_file import Layout, SqliteFile

__all__ = ["FORMAT", "Entry", "IndexAnswer", "ProfileIndex", "Result", "Rights"]

FORMAT = 1
SCHEMA = """
CREATE TABLE scopes (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE paths (
    number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, has_several INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE profiles (
    number INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, record TEXT NOT NULL, revision INTEGER NOT NULL
);
CREATE UNIQUE INDEX profiles_by_name ON profiles (scope, record);
CREATE TABLE documents (profile INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE texts (path INTEGER, key TEXT, profile INTEGER, PRIMARY KEY (path, key, profile)) WITHOUT ROWID;
CREATE TABLE numbers (path INTEGER, key REAL, profile INTEGER, PRIMARY KEY (path, key, profile)) WITHOUT ROWID;
CREATE VIRTUAL TABLE full_text USING fts5 (profile, body, tokenize = "unicode61 remove_diacritics 2")
"""
LAYOUT = Layout("godwit: index of profiles", FORMAT, SCHEMA)
CACHE_KB = 65_536

CANDIDATES_MAX = 100_000
LIMIT = 100
COUNTED_MAX = 10_000  # rows of a selection that are counted, to see which has the fewest
PROBED_FROM = 16  # candidates: to look up one more row of each takes 1/50 of what a test takes
JOINED_FROM = 200  # candidates: rows of a range are read for so many, not for fewer
ROWS_PER_CANDIDATE = 100  # that take as long to read as a test
BODY_CHARS_MAX = 1_000_000
IN_SCOPES = "profiles.scope IN (SELECT number FROM scopes WHERE name IN (SELECT value FROM json_each(?)))"

Row = tuple[str, int, Any]
"""Of a profile: table, path and key."""


class Entry(NamedTuple):
    """A profile to be found."""

    scope: str
    record: str
    document: bytes
    body: str = ""
    """The text of the document that it describes, if there is one."""
    revision: int = 0


class Rights(NamedTuple):
    """What an asker may see: profiles of these scopes (None: of all) for which the predicate is true."""

    scopes: Collection[str] | None
    predicate: Callable[[str, str], bool] | None = None
    """Asked with scope and record."""


EVERYTHING = Rights(None)


class Result(NamedTuple):
    """A profile that was found."""

    scope: str
    record: str
    score: float
    """Larger is better. 0 without a search text."""
    document: bytes


class IndexAnswer(NamedTuple):
    """What a search found, best first."""

    results: list[Result]
    is_complete: bool


class ProfileIndex:
    """The index in a file. To be used by one thread at a time; other threads open it again for themselves."""

    def __init__(self, path: Path, identity: str = "", revision: int | None = None) -> None:
        """`identity` and `revision` are those of the repository that it follows. (rule 4)"""
        self._file = SqliteFile(path, LAYOUT, durable=False, cache_kb=CACHE_KB)
        self.revision = self._stored_revision()
        known = self._file.row("SELECT value FROM about WHERE name = 'identity'")
        is_another = known is not None and known[0] != identity
        if is_another or (revision is not None and self.revision > revision):
            self.clear()
        self._file.run("INSERT OR REPLACE INTO about VALUES ('identity', ?)", [identity])
        self._paths: dict[str, int] = {}
        self._named: dict[str, list[int]] = {}  # paths by what `//` finds them by
        self._read_paths()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def __len__(self) -> int:
        return int(self._file.row("SELECT count(*) FROM profiles")[0])

    def row_count(self) -> int:
        """How many values of profiles there are."""
        return sum(int(self._file.row(f"SELECT count(*) FROM {table}")[0]) for table in ("texts", "numbers"))

    # ------------------------------------------------------------ writing

    def put(self, *entries: Entry) -> None:
        """Index profiles, replacing those of the same scope and record."""
        self.put_many(entries)

    def put_many(self, entries: Iterable[Entry]) -> None:
        """Index many profiles at once: all of them, or none if one is not valid XML document (`BadEvent`)."""
        latest = list({(each.scope, each.record): each for each in entries}.values())
        read = [(each, parsed_document(each.document)) for each in latest]
        with self._changing():
            added: dict[str, list[tuple[int, Any, int]]] = {"texts": [], "numbers": []}
            for entry, root in read:
                rows = set(self._rows_of(flattened_document(root)))
                number = self._put(entry, root, rows)
                self._note_several(rows)
                for table, path, key in rows:
                    added[table].append((path, key, number))
            for table, found in added.items():  # in order, they are beside each other in the file
                self._file.run_many(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?)", sorted(found))
            self._set_revision(max((each.revision for each in latest), default=0))

    def _put(self, entry: Entry, root: Tree, rows: set[Row]) -> int:
        """Write a profile but for its rows; its number."""
        scope = self._scope(entry.scope)
        known = self._file.row("SELECT number FROM profiles WHERE scope = ? AND record = ?", (scope, entry.record))
        if known is None:
            values = (scope, entry.record, entry.revision)
            cursor = self._file.run("INSERT INTO profiles (scope, record, revision) VALUES (?, ?, ?)", values)
            number = int(cursor.lastrowid or 0)
        else:
            number = int(known[0])
            self._take_out(number, kept=rows)
            self._file.run("UPDATE profiles SET revision = ? WHERE number = ?", (entry.revision, number))
        self._file.run("INSERT INTO documents VALUES (?, ?)", (number, entry.document))
        said = " ".join(text for each in root.itertext() if (text := str(each).strip()))
        self._file.run(
            "INSERT INTO full_text (rowid, profile, body) VALUES (?, ?, ?)",
            (number, said, entry.body[:BODY_CHARS_MAX]),
        )
        return number

    def remove(self, scope: str, record: str, revision: int = 0) -> None:
        """Take a profile out, if it is there."""
        with self._changing():
            known = self._file.row(
                "SELECT number FROM profiles WHERE record = ? AND scope = (SELECT number FROM scopes WHERE name = ?)",
                (record, scope),
            )
            if known is not None:
                self._take_out(known[0])
                self._file.run("DELETE FROM profiles WHERE number = ?", known)
            self._set_revision(revision)

    def _take_out(self, number: int, kept: Collection[Row] = ()) -> None:
        """Remove what was written of a profile, but for the rows that are `kept`."""
        (document,) = self._file.row("SELECT body FROM documents WHERE profile = ?", [number])
        for table, path, key in set(self._rows_of(flattened_document(parsed_document(document)))).difference(kept):
            self._file.run(f"DELETE FROM {table} WHERE path = ? AND key = ? AND profile = ?", (path, key, number))
        self._file.run("DELETE FROM documents WHERE profile = ?", [number])
        self._file.run("DELETE FROM full_text WHERE rowid = ?", [number])

    def clear(self) -> None:
        """Forget everything."""
        with self._file.transaction():
            for table in ("profiles", "documents", "texts", "numbers", "full_text"):
                self._file.run(f"DELETE FROM {table}")
            self._file.run("INSERT OR REPLACE INTO about VALUES ('revision', 0)")
        self.revision = 0

    def _set_revision(self, revision: int) -> None:
        self._file.run("INSERT OR REPLACE INTO about VALUES ('revision', ?)", [max(revision, self.revision)])

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A transaction, after which what is remembered follows the file again, also if it failed."""
        try:
            with self._file.transaction():
                yield
        finally:
            self.revision = self._stored_revision()
            self._read_paths()

    def _stored_revision(self) -> int:
        found = self._file.row("SELECT value FROM about WHERE name = 'revision'")
        return int(found[0]) if found else 0

    # ------------------------------------------------------------ rows

    def _rows_of(self, attributes: Attributes) -> Iterator[Row]:
        """The rows of a profile. Attributes `//name` are found by the paths that end so."""
        for attribute, held in attributes.items():
            if attribute.startswith(ANYWHERE):
                continue
            path = self._path(attribute)
            for value in values_of(held):
                if type(value) is str:
                    yield "texts", path, key_of(value)
                else:
                    yield "numbers", path, float(value)  # type: ignore[arg-type]

    def _path(self, path: str) -> int:
        """The number of a path, given now if it has none."""
        number = self._paths.get(path)
        if number is None:
            number = int(self._file.run("INSERT INTO paths (path) VALUES (?)", [path]).lastrowid or 0)
            self._remember(path, number)
        return number

    def _note_several(self, rows: Iterable[Row]) -> None:
        """Remember the paths at which a profile has several numbers."""
        paths = [path for table, path, _ in rows if table == "numbers"]
        if len(paths) > len(set(paths)):
            repeated = [(path,) for path, count in Counter(paths).items() if count > 1]
            self._file.run_many("UPDATE paths SET has_several = 1 WHERE number = ? AND NOT has_several", repeated)

    def _read_paths(self) -> None:
        """Learn the numbers of all paths: others may have given some, and a change that failed takes some back."""
        count = self._file.row("SELECT count(*) FROM paths")[0]
        if count != len(self._paths):
            self._paths, self._named = {}, {}
            for number, path in self._file.rows("SELECT number, path FROM paths"):
                self._remember(path, number)

    def _remember(self, path: str, number: int) -> None:
        self._paths[path] = number
        steps = path.split("/")
        self._named.setdefault(ANYWHERE + "/".join(steps[-2 if "/@" in path else -1 :]), []).append(number)

    def _paths_of(self, attribute: str) -> list[int]:
        if attribute.startswith(ANYWHERE):
            return self._named.get(attribute, [])
        number = self._paths.get(attribute)
        return [] if number is None else [number]

    def _scope(self, name: str) -> int:
        known = self._file.row("SELECT number FROM scopes WHERE name = ?", [name])
        if known is None:
            return int(self._file.run("INSERT INTO scopes (name) VALUES (?)", [name]).lastrowid or 0)
        return int(known[0])

    # ------------------------------------------------------------ searching

    def search(
        self,
        query: Query | None,
        rights: Rights = EVERYTHING,
        *,
        text: str = "",
        limit: int = LIMIT,
        candidates_max: int = CANDIDATES_MAX,
    ) -> IndexAnswer:
        """What matches a query and has the words of a search text, as far as the asker may see it. (rules 1 to 3)"""
        self._read_paths()
        candidates = self._candidates(query, rights, text, candidates_max + 1)
        certain = query.certainty() if query is not None else None
        results: list[Result] = []
        for number, scope, record, score in candidates[:candidates_max]:
            (document,) = self._file.row("SELECT body FROM documents WHERE profile = ?", [number])
            if query is None or _matches(query, certain, document):
                if len(results) == limit:
                    return IndexAnswer(results, False)
                results.append(Result(scope, record, score, document))
        return IndexAnswer(results, len(candidates) <= candidates_max)

    def _candidates(self, query: Query | None, rights: Rights, text: str, count: int) -> list[Any]:
        """Profiles that may match: number, scope, record and score, best first."""
        if query is not None and (query.references or is_open(query.routable)):
            raise Unbound(*map(str, query.references or references_of(query.routable)))
        parts = [] if query is None else self._conjuncts(query)
        if AnyOf(()) in parts:
            return []
        statement, values = self._question(parts, rights, match_expression(text) if text else "")
        if rights.predicate is not None:
            self._file.add_function("may_see", 2, rights.predicate)
        return self._file.rows(f"{statement} LIMIT ?", [*values, count])

    def _conjuncts(self, query: Query) -> list[Selection]:
        several = {number for (number,) in self._file.rows("SELECT number FROM paths WHERE has_several")}
        selection = selection_of(query.routable, self._paths_of, query.language, several)
        if selection is None:
            return []
        return list(selection.parts) if isinstance(selection, AllOf) else [selection]

    def _question(self, parts: list[Selection], rights: Rights, words: str) -> tuple[str, list[Any]]:
        """The question for candidates: which selection is the source, and how the others are asked for."""
        counted = sorted(((self._count(part, COUNTED_MAX), part) for part in parts), key=itemgetter(0))
        conditions: list[str] = []
        values: list[Any] = []
        score = "0.0"
        visible = COUNTED_MAX
        seen = json.dumps(list(rights.scopes), ensure_ascii=False) if rights.scopes is not None else ""
        if seen and (not counted or counted[0][0] == COUNTED_MAX):
            visible = self._rows_counted(f"SELECT 1 FROM profiles WHERE {IN_SCOPES}", [seen], COUNTED_MAX)
        if words:
            expected = self._rows_counted("SELECT 1 FROM full_text WHERE full_text MATCH ?", [words], COUNTED_MAX)
            source, score = "full_text CROSS JOIN profiles ON profiles.number = full_text.rowid", "-bm25(full_text)"
            conditions.append("full_text MATCH ?")
            values.append(words)
        elif counted and visible == COUNTED_MAX:
            (expected, part), *counted = counted
            inner, values = statement_of(part)
            source = (
                f"(SELECT DISTINCT profile FROM ({inner})) AS chosen CROSS JOIN profiles ON profiles.number = profile"
            )
        else:
            expected, source = visible, "profiles"
        for _, part in counted:
            condition, more = self._condition(part, expected)
            if condition:
                conditions.append(condition)
                values += more
        if seen:
            conditions.append(IN_SCOPES)
            values.append(seen)
        if rights.predicate is not None:
            conditions.append("may_see(scopes.name, profiles.record)")
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        statement = (
            f"SELECT profiles.number, scopes.name, profiles.record, {score} AS score "
            f"FROM {source} CROSS JOIN scopes ON scopes.number = profiles.scope {where} "
            "ORDER BY score DESC, profiles.revision DESC, scopes.name, profiles.record"
        )
        return statement, values

    def _condition(self, part: Selection, expected: int) -> tuple[str, list[Any]]:
        """A further part as a condition on a profile; none where the test takes less than the condition."""
        if isinstance(part, Rows) and part.finds:
            if expected < PROBED_FROM:
                return "", []
            statement, values = statement_of(part)
            return f"EXISTS ({statement} AND profile = profiles.number)", values
        rows_max = expected * ROWS_PER_CANDIDATE
        if expected < JOINED_FROM or says_all(part) or self._count(part, rows_max) >= rows_max:
            return "", []
        statement, values = statement_of(part)
        return f"profiles.number IN ({statement})", values

    def _count(self, selection: Selection, count_max: int) -> int:
        """How many rows a selection has, at most, and up to a number."""
        if isinstance(selection, AllOf):
            return min(self._count(part, count_max) for part in selection.parts)
        if isinstance(selection, AnyOf):
            return min(count_max, sum(self._count(part, count_max) for part in selection.parts))
        if selection.scans:
            return count_max
        return self._rows_counted(*statement_of(selection), count_max)

    def _rows_counted(self, statement: str, values: list[Any], count_max: int) -> int:
        return int(self._file.row(f"SELECT count(*) FROM ({statement} LIMIT ?)", [*values, count_max])[0])


def _matches(query: Query, certain: Certainty | None, document: bytes) -> bool:
    """Whether a profile matches. What is certain of it is not tested: most tests take longer than all else here."""
    subject = xml_subject(document)
    if not query.routable.matches(subject.event):
        return False
    if certain is not None and (certain.filter is None or certain.filter.matches(subject.event)):
        structure = structure_of(subject)
        if structure is not None and structure.meets(certain.assumptions):
            return True
    return query.wants(subject)
