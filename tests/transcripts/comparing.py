"""Compare what the machines do now with what is recorded, except for names that `renamed.toml` says have changed.

*Theory.* Each table of `renamed.toml` maps a recorded name to its present one. Present names are mapped back to
recorded ones in the fresh text, and then the two must be equal, byte for byte. Where a name is looked for depends on
its table:

| table | looked for |
|---|---|
| types | as a whole word anywhere: types are also named in reasons and records |
| fields | in front of `=`, and in the signatures of `types.txt` |
| kinds | as the kind of a `Record` |
| timers | as the first part of the key of a timer |
| texts | as whole words anywhere: reasons, names of tables |

*Rules.*
1. A mapping is one-to-one, and no present name is the recorded name of something else, so that no two things that were
   told apart can become one.
2. All mappings are applied at once: two names may have changed places.
"""

import re
import tomllib
from collections import Counter
from difflib import unified_diff
from functools import cache
from pathlib import Path

__all__ = ["HERE", "RENAMED", "TABLES", "Renames", "difference", "faults_of", "recorded", "renames"]

HERE = Path(__file__).parent
RENAMED = HERE / "renamed.toml"
CONTEXT_LINES = 12
SHOWN_LINES = 60

TABLES = {
    "types": r"(?<!\w){}(?!\w)",
    "fields": r"(?<=[(\s]){}(?=[=,)])",
    "kinds": r"(?<=\bRecord\('){}(?=')",
    "timers": r"(?<=Timer\(\('){}(?=')|(?<=TimerDue\(\('){}(?=')",
    "texts": r"(?<!\w){}(?!\w)",
}
"""Where the names of each table are looked for."""


class Renames:
    """The recorded names of things that are called otherwise now."""

    def __init__(self, tables: dict[str, dict[str, str]]) -> None:
        assert tables.keys() <= TABLES.keys(), f"tables are {', '.join(TABLES)}"
        self.tables = tables
        self.used: Counter[tuple[str, str]] = Counter()
        self._recorded: list[tuple[str, str]] = []
        branches = []
        for table, names in tables.items():
            for old, new in sorted(names.items(), key=lambda names: -len(names[1])):
                branches.append(f"({TABLES[table].replace('{}', re.escape(new))})")
                self._recorded.append((table, old))
        self._pattern = re.compile("|".join(branches)) if branches else None

    def restored(self, text: str) -> str:
        """`text` with recorded names in place of present ones."""
        return text if self._pattern is None else self._pattern.sub(self._old, text)

    def _old(self, match: re.Match[str]) -> str:
        assert match.lastindex is not None
        found = self._recorded[match.lastindex - 1]
        self.used[found] += 1
        return found[1]


@cache
def renames() -> Renames:
    """Those of `renamed.toml`."""
    return Renames(tomllib.loads(RENAMED.read_text(encoding="utf-8")))


def faults_of(tables: dict[str, dict[str, str]], words: set[str]) -> list[str]:
    """Why a mapping cannot be trusted. `words`: all words of the recorded files."""
    found = []
    for table, names in tables.items():
        for new, count in Counter(names.values()).items():
            if count > 1:
                found.append(f"{table}: {count} recorded names became {new}")
            if table == "types" and new in words and new not in names:
                found.append(f"{table}: {new} is the recorded name of something that was not renamed")
        found += [f"{table}: {old} is mapped to itself" for old, new in names.items() if old == new]
    return found


def recorded(name: str) -> str:
    """A recorded file."""
    return (HERE / name).read_text(encoding="utf-8")


def difference(name: str, after: str) -> str:
    """How a fresh text, with names mapped back, differs from the recorded one; empty when it does not."""
    before = recorded(name)
    if before == after:
        return ""
    lines = unified_diff(
        before.splitlines(), after.splitlines(), f"recorded {name}", f"fresh {name}", lineterm="", n=CONTEXT_LINES
    )
    shown = [line for _, line in zip(range(SHOWN_LINES), lines, strict=False)]
    return "\n".join(shown) or "they differ in line ends"
