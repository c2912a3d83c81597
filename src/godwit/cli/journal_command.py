"""`godwit backup`, `godwit restore` and `godwit journal`: copy, restore, inspect and verify journals."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from godwit.cli.admin_client import HTTP, Http, office
from godwit.cli.broker_connection import CaFile, Password, Token, User
from godwit.cli.signatures import Argument, Exit, Group, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.errors import GodwitError

__all__ = ["app", "backup", "restore"]

app = Group(help="Look into a broker's journal.")

Folder = Annotated[Path, Argument(metavar="JOURNAL", help="Folder of a journal, or a backup file.")]


def backup(
    file: Annotated[Path, Argument(metavar="FILE", help="File to write; it must not exist.")],
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """Copy the journal of a running broker to a file. It has sessions, subscriptions, queues and retained events.

    The broker keeps running. The file is verified before it gets its name.

    Example: godwit backup b1.backup
    """
    import os

    from godwit.runtime.journal_files import inspected, why_damaged

    if file.exists():
        raise GodwitError(f"{file} exists already: choose another name, or remove it")
    draft = file.with_name(f".{file.name}.part")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as to:
            size = office(http, token, user, password, ca).fetch("/backup", to)
            to.flush()
            os.fsync(to.fileno())
        if damage := why_damaged(draft):
            raise GodwitError(f"the copy that arrived is incomplete: {damage}; try again")
        broker = inspected(draft)["broker"]
        draft.rename(file)
    except OSError as error:
        raise GodwitError(f"{file}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
    _tell({"file": str(file), "broker": broker, "bytes": size}, f"{file}: the journal of {broker}, {size:,} bytes")


def restore(
    file: Annotated[Path, Argument(metavar="FILE", help="Backup file.")],
    folder: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="Folder of the journal (default: godwit-data and the name of the broker in the backup)."
        ),
    ] = None,
    replace: Annotated[bool, Option("--replace", help="Move an existing journal to a folder replaced-….")] = False,
) -> None:
    """Restore the journal of a stopped broker from a backup.

    Example: godwit restore b1.backup --folder godwit-data/b1
    """
    from godwit.runtime.journal_files import inspected, restored

    target = folder or Path("godwit-data") / str(inspected(file)["broker"])
    done = restored(file, target, replace=replace)
    _tell(done, f"{done['folder']} is the journal of {done['broker']} up to batch {done['batch']}.")


@app.add()
def inspect(journal: Folder) -> None:
    """Show the contents of a journal. The journal of a running broker may be inspected, too.

    Example: godwit journal inspect godwit-data/b1
    """
    from godwit.runtime.journal_files import inspected

    echo(json.dumps(inspected(journal), ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


@app.add()
def verify(journal: Folder) -> None:
    """Check every batch and snapshot of a journal by its checksum. Exit status 1 if something is damaged or missing.

    Example: godwit journal verify b1.backup
    """
    from godwit.runtime.journal_files import why_damaged

    damage = why_damaged(journal)
    _tell({"journal": str(journal), "valid": not damage, "damage": damage}, damage or f"{journal} is whole.")
    if damage:
        raise Exit(STATUS_NO)


def _tell(answer: dict[str, Any], text: str) -> None:
    echo(text if sys.stdout.isatty() else json.dumps(answer, ensure_ascii=False))
