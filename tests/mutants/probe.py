"""Notes which test comes to a place in the code. A copy of this file lies beside the copy of the package.

`PYTEST_CURRENT_TEST`, which pytest sets, is inherited by processes that a test starts: they are noted, too.
"""

import os
from pathlib import Path

FOLDER = "GODWIT_MUTANTS_REACHED"  # the variable that names where notes go: one file for each process

_noted: set[tuple[int, str]] = set()


def at(number: int) -> None:
    """This place was reached."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if (number, test) not in _noted:
        _noted.add((number, test))
        with (Path(os.environ[FOLDER]) / str(os.getpid())).open("a", encoding="utf-8") as notes:
            notes.write(f"{number} {test}\n")
