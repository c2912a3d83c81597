"""Record transcripts and traces anew: `python -m tests.transcripts.record`, or with the names of some transcripts.

Without names everything is written, and `renamed.toml` is emptied: the files then have present names.
"""

import sys
from functools import cache

from tests.transcripts.catalogue import SCRIPTS
from tests.transcripts.comparing import HERE, RENAMED, TABLES, Renames, renames
from tests.transcripts.network import Network
from tests.transcripts.rendering import signature
from tests.transcripts.traces import RUNS, traced, written

NO_NAMES = Renames({})
HEAD = """# Recorded names of things that are called otherwise now: `Recorded = "Present"`. See README.md.
"""


@cache
def played(name: str) -> Network:
    """The network of a script after it was played."""
    return SCRIPTS[name]()


def types_text() -> str:
    """The signatures of all types that are in any transcript."""
    found: dict[str, type] = {}
    for name in SCRIPTS:
        for word, kind in played(name).writer.types.items():
            assert found.setdefault(word, kind) is kind, f"two types are called {word}"
    return "".join(f"{signature(kind)}\n" for _, kind in sorted(found.items()))


def main(names: list[str]) -> None:
    known = NO_NAMES if not names else renames()
    for name in names or SCRIPTS:
        (HERE / f"{name}.txt").write_text(played(name).text(known), encoding="utf-8")
    if names:
        return
    (HERE / "types.txt").write_text(types_text(), encoding="utf-8")
    (HERE / "traces.json").write_text(written([traced(run, NO_NAMES) for run in RUNS]), encoding="utf-8")
    RENAMED.write_text(HEAD + "".join(f"\n[{table}]\n" for table in TABLES), encoding="utf-8")
    for path in HERE.glob("*.txt"):
        if path.stem not in SCRIPTS and path.name != "types.txt":
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
