"""An SQLite file with its format and identity: opened or created, refused if it is another, changed in transactions.

*Rules.*
1. The table `about` names what the file holds and its format. A file of something else, or of another format, is
   refused with a `RepositoryError` before anything is written to it.
2. Transactions are atomic. With `durable`, it is on the disk when `transaction`
   returns (WAL, `synchronous = FULL`); without, the end of the power may take the last ones, and nothing else.
3. An SQLite error becomes a `RepositoryError` that names the file. A full disk is named as such, and rolls back.
4. One connection, used by one thread at a time: callers with several threads must lock.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from godwit.errors import RepositoryError

__all__ = ["Layout", "SqliteFile"]

MAGIC = b"SQLite format 3\0"
ABOUT = "CREATE TABLE about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
BUSY_MS = 10_000


class Layout(NamedTuple):
    """What a file holds."""

    what: str
    format: int
    schema: str


class SqliteFile:
    """An open file."""

    def __init__(self, path: Path, layout: Layout, *, durable: bool = True, cache_kb: int = 8_192) -> None:
        self.path, self._layout, self._is_durable = path, layout, durable
        with self._named_errors():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size:
                with path.open("rb") as file:
                    if file.read(len(MAGIC)) != MAGIC:
                        raise self._other("it is not a SQLite file")
            self._connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, cached_statements=512
            )
        try:
            with self._named_errors():
                self._take_over(cache_kb)
        except BaseException:
            self._connection.close()
            raise

    def _take_over(self, cache_kb: int) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        tables = [name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")]
        if tables and "about" not in tables:
            raise self._other("it does not say what it is")
        if tables:
            self._check_about()
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._sync(self._is_durable)
        self._connection.execute(f"PRAGMA cache_size = -{cache_kb}")
        if not tables:
            about = [("what", self._layout.what), ("format", self._layout.format)]
            with self.transaction():
                for statement in (ABOUT + self._layout.schema).split(";"):
                    self._connection.execute(statement)
                self._connection.executemany("INSERT INTO about VALUES (?, ?)", about)
            self.path.chmod(0o600)  # what a team writes is not for every user of the machine

    def _check_about(self) -> None:
        """Refuse a file that is another. (rule 1)"""
        about = dict(self._connection.execute("SELECT name, value FROM about"))
        if about.get("what") != self._layout.what:
            raise self._other(f"it says that it is {about.get('what')!r}")
        if about.get("format") != self._layout.format:
            raise RepositoryError(
                f"{self.path} is of format {about.get('format')!r}, and this version reads format "
                f"{self._layout.format}: use the version that wrote it, or another folder"
            )

    # ------------------------------------------------------------ statements

    def run(self, statement: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        with self._named_errors():
            return self._connection.execute(statement, tuple(values))

    def run_many(self, statement: str, rows: Iterable[Iterable[Any]]) -> None:
        """Run one statement for each row."""
        with self._named_errors():
            self._connection.executemany(statement, rows)  # type: ignore[arg-type]

    def rows(self, statement: str, values: Iterable[Any] = ()) -> list[Any]:
        """All rows of a question."""
        with self._named_errors():
            return self._connection.execute(statement, tuple(values)).fetchall()

    def row(self, statement: str, values: Iterable[Any] = ()) -> Any:
        """The first row of a question, or None."""
        with self._named_errors():
            return self._connection.execute(statement, tuple(values)).fetchone()

    def add_function(self, name: str, arguments: int, function: Any) -> None:
        """Let statements call a Python function."""
        self._connection.create_function(name, arguments, function)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Change several things at once, or none of them. (rule 2)"""
        with self._named_errors():
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self._named_errors():
                self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk may have rolled back already
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def durable_transaction(self) -> Iterator[None]:
        """The same; it is on the disk when this returns, also in a file that is not durable, with all before it."""
        self._sync(True)
        try:
            with self.transaction():
                yield
        finally:
            self._sync(self._is_durable)

    def _sync(self, is_durable: bool) -> None:
        self.run(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")

    def limit(self, bytes_max: int) -> None:
        """Let the file take so many bytes at most; more is answered as a full disk is."""
        page_bytes = self.row("PRAGMA page_size")[0]
        self.run(f"PRAGMA max_page_count = {max(1, bytes_max // page_bytes)}")

    def close(self) -> None:
        """Give the file back."""
        with self._named_errors():
            self._connection.close()

    # ------------------------------------------------------------ errors

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Errors of SQLite and of the disk, with the name of the file. (rule 3)"""
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                raise RepositoryError(
                    f"there is no room for {self.path}, on the disk or within its limit: nothing was changed; "
                    "free some space, or raise the limit, and try again"
                ) from error
            raise RepositoryError(f"{self.path} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise RepositoryError(f"{self.path} cannot be used, it may be damaged: {error}") from error
        except OSError as error:
            raise RepositoryError(f"{self.path} cannot be used: {error.strerror or error}") from error

    def _other(self, why: str) -> RepositoryError:
        return RepositoryError(f"{self.path} is not {self._layout.what!r}: {why}; choose another folder")
