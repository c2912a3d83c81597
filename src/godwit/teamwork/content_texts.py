"""The texts of documents whose content is at this peer, for full-text search: a cache, which may be lost."""

from pathlib import Path

from godwit.teamwork.sqlite_file import Layout, SqliteFile

__all__ = ["ContentTexts"]

FILE = "texts.sqlite"
TEXT_CHARS_MAX = 1_000_000
LAYOUT = Layout(
    "godwit: texts of a peer", 1, "CREATE TABLE texts (content TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID"
)


class ContentTexts:
    """The texts in the folder of a peer, by the hash of the content."""

    def __init__(self, folder: Path) -> None:
        self._file = SqliteFile(folder / FILE, LAYOUT, durable=False)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def put(self, content: str, text: str) -> None:
        """Keep the text of a content."""
        self._file.run("INSERT OR REPLACE INTO texts VALUES (?, ?)", (content, text[:TEXT_CHARS_MAX]))

    def get(self, content: str) -> str:
        """The text of a content; empty if it has none, or is not here."""
        found = self._file.row("SELECT body FROM texts WHERE content = ?", [content])
        return str(found[0]) if found else ""

    def keep_only(self, contents: set[str]) -> None:
        """Forget the texts of all other contents."""
        for (content,) in self._file.rows("SELECT content FROM texts"):
            if content not in contents:
                self._file.run("DELETE FROM texts WHERE content = ?", [content])
