"""`godwit team add`, `get` and `document …`: documents that a team shares."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from godwit.cli.signatures import Argument, BadParameter, Group, Option
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, answer_of, answers_of, ask
from godwit.cli.team.team_display import HISTORY, show_answer, show_facts, show_rows
from godwit.cli.team.team_users import Fields
from godwit.cli.terminal import Progress, Task, clock_of
from godwit.errors import GodwitError

__all__ = ["add", "app", "get"]

app = Group(
    help="See, change, lock, move and delete documents.",
)

STANDARD_STREAM = "-"
File = Annotated[str, Argument(metavar="FILE", help="File; - reads standard input.")]
Document = Annotated[str, Argument(metavar="DOCUMENT", help="Name or identifier of a document.")]
COLUMNS = {
    "name": "name",
    "size": "size",
    "version": "version",
    "here": "is_here",
    "locked by": "locked_by",
    "conflicts": "conflicts",
    "identifier": "id",
}


def add(
    file: File,
    to: Annotated[
        str, Option("--to", metavar="COMMUNITY", help="Community to share it with, or team for the whole team.")
    ] = "team",
    name: Annotated[str, Option(metavar="NAME", help="Name of the document (default: that of the file).")] = "",
    fields: Fields = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Add a document: store a file and share it. Title, author and text are read from office, PDF and text files.

    Example: godwit team add plan.pdf --to Optics --field keyword=lens
    """
    name = name or ("" if file == STANDARD_STREAM else Path(file).name)
    if not name:
        raise BadParameter("standard input has no name: add --name NAME")
    with _path(file) as path:
        answer = answer_of(folder, "add document", path=path, community=to, name=name, fields=fields or [])
    _show(answer, f"{answer['name']} is stored: {answer['id']}")


def get(
    document: Document,
    output: Annotated[
        str,
        Option("--output", "-o", metavar="FILE", help="File to write (default: name of the document); - prints."),
    ] = "",
    version: Annotated[int | None, Option(metavar="NUMBER", help="Version (default: the current one).")] = None,
    force: Annotated[bool, Option("--force", help="Replace an existing file.")] = False,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Get a document from this device or another one.

    Example: godwit team get plan.pdf -o plan.pdf
    """
    with _Progress() as progress:
        ask(folder, "get document", {"document": document, "version": version}, progress.take)
    answer = progress.answer
    if output == STANDARD_STREAM:
        with Path(answer["path"]).open("rb") as source:
            shutil.copyfileobj(source, sys.stdout.buffer)
        return
    target = Path(output or answer["name"])
    try:
        with target.open("wb" if force else "xb") as copy, Path(answer["path"]).open("rb") as source:
            shutil.copyfileobj(source, copy)
    except FileExistsError:
        raise GodwitError(f"{target} already exists: add --force, or name another file with -o") from None
    except OSError as error:
        raise GodwitError(f"cannot write {target}: {error.strerror}") from None
    show_answer({**answer, "file": str(target)}, f"{answer['name']} is in {target}.")


@app.add("list")
def list_documents(
    community: Annotated[str, Option("--community", metavar="COMMUNITY", help="Only of this community.")] = "",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """List documents: size, version, lock, conflicts. Also whether the content is on this device.

    Example: godwit team document list
    """
    show_rows(answers_of(folder, "documents", community=community), COLUMNS, "No documents.")


@app.add()
def show(document: Document, folder: Folder = DEFAULT_FOLDER) -> None:
    """Show a document: its profile and versions.

    Example: godwit team document show report.pdf
    """
    show_facts(answer_of(folder, "document", document=document))


@app.add()
def change(document: Document, file: File, folder: Folder = DEFAULT_FOLDER) -> None:
    """Store a new version of a document. Earlier versions stay.

    Example: godwit team document change plan.pdf plan-2.pdf
    """
    with _path(file) as path:
        answer = answer_of(folder, "change document", document=document, path=path)
    _show(answer, f"{answer['name']} has version {answer['version']}.")


@app.add()
def describe(document: Document, fields: Fields = None, folder: Folder = DEFAULT_FOLDER) -> None:
    """Change the profile of a document.

    Example: godwit team document describe plan.pdf --field keyword=lens --field keyword=mount
    """
    show_facts(answer_of(folder, "describe document", document=document, fields=fields or []))


@app.add()
def history(document: Document, folder: Folder = DEFAULT_FOLDER) -> None:
    """List all changes of a document. Changes that lost a conflict or were refused are listed, too.

    Example: godwit team document history report.pdf
    """
    show_rows(answers_of(folder, "history", document=document), HISTORY, "No changes.")


@app.add()
def lock(document: Document, folder: Folder = DEFAULT_FOLDER) -> None:
    """Lock a document: only you and owners may change it.

    Example: godwit team document lock report.pdf
    """
    answer = answer_of(folder, "lock document", document=document)
    show_answer(answer, f"{answer['name']} is locked by {answer['locked_by']}.")


@app.add()
def unlock(document: Document, folder: Folder = DEFAULT_FOLDER) -> None:
    """Unlock a document.

    Example: godwit team document unlock report.pdf
    """
    answer = answer_of(folder, "unlock document", document=document)
    show_answer(answer, f"{answer['name']} is unlocked.")


@app.add()
def move(
    document: Document,
    community: Annotated[str, Argument(metavar="COMMUNITY", help="Community, or team for the whole team.")],
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Move a document to another community, with its versions.

    Example: godwit team document move report.pdf optics
    """
    answer = answer_of(folder, "move document", document=document, community=community)
    show_answer(answer, f"{answer['name']} is in {community} now.")


@app.add()
def share(
    document: Document,
    users: Annotated[list[str] | None, Option("--user", metavar="USER", help="User. Repeatable.")] = None,
    communities: Annotated[
        list[str] | None, Option("--community", metavar="COMMUNITY", help="Members of a community. Repeatable.")
    ] = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Let non-members find a document and read its current version. Without an option, end that.

    Example: godwit team document share plan.pdf --user dana
    """
    answer = answer_of(folder, "share document", document=document, users=users or [], communities=communities or [])
    names = ", ".join([*(users or ()), *(communities or ())]) or "nobody else"
    show_answer(answer, f"{answer['name']} is shown to its community and {names}.")


@app.add()
def delete(document: Document, folder: Folder = DEFAULT_FOLDER) -> None:
    """Delete a document for all. Its history stays.

    Example: godwit team document delete report.pdf
    """
    answer = answer_of(folder, "delete document", document=document)
    show_answer(answer, f"{answer['name']} is deleted.")


def _show(answer: dict[str, Any], text: str) -> None:
    problem = answer.get("problem")
    show_answer(answer, f"{text}\nIts profile is not complete: {problem}" if problem else text)


@contextmanager
def _path(file: str) -> Iterator[str]:
    """The absolute path of a file, for the peer; of standard input, a copy."""
    if file != STANDARD_STREAM:
        path = Path(file).absolute()
        if not path.is_file():
            raise GodwitError(f"{file} is not a file" if path.exists() else f"there is no file {file}")
        if not os.access(path, os.R_OK):
            raise GodwitError(f"cannot read {file}: permission denied")
        yield str(path)
        return
    with tempfile.NamedTemporaryFile(prefix="godwit-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield copy.name


class _Progress:
    """A progress bar on a terminal while a file is received."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def take(self, answer: dict[str, Any]) -> None:
        """Handle an answer: progress, or the file."""
        if "fetched" not in answer:
            self.answer = answer
        elif sys.stderr.isatty():
            if self._bar is None:
                self._begin(answer["of"])
            self._bar.update(self._task, completed=answer["fetched"], total=answer["of"])

    def _begin(self, total: int) -> None:
        self._bar = Progress(_transfer, transient=False)
        self._task = self._bar.add_task("", total=total)
        self._bar.start()


def _transfer(task: Task) -> str:
    """Behind the bar of a transfer: what has arrived, how fast, and the time that is left."""
    speed = task.completed / task.elapsed_s if task.elapsed_s else 0.0
    left = f"  {clock_of(((task.total or 0) - task.completed) / speed)}" if speed else ""
    return f"{task.completed / 1e6:,.1f} of {(task.total or 0) / 1e6:,.1f} MB  {speed / 1e6:,.1f} MB/s{left}"
