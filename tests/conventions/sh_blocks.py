"""The ```sh blocks of pages: their commands, the test that runs a block, or why none does.

A comment directly above a block, `<!-- not run: needs Docker -->`, says why no test runs it, and
`<!-- run by tests/… -->` which test does. A comment `<!-- not run below: … -->` holds for the rest of the page.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = re.compile(
    r"^(?:<!-- (?:not run: (?P<why>.+?)|run by (?P<by>\S+)) -->\n+)?"
    r"```sh\n(?P<body>.*?)^```$|^<!-- not run below: (?P<rest>.+?) -->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class ShellBlock:
    """A block of a page. `why_not`: why it is not run; `run_by`: the test that runs it, if the page names one."""

    line: int
    commands: tuple[str, ...]
    why_not: str
    run_by: str


def shell_blocks(page: str) -> Iterator[ShellBlock]:
    rest = ""
    for found in BLOCK.finditer(page):
        if found["rest"]:
            rest = found["rest"]
            continue
        lines = found["body"].replace("\\\n", "").strip().splitlines()
        by = found["by"] or ""
        why = "" if by else found["why"] or rest
        yield ShellBlock(page.count("\n", 0, found.start("body")), tuple(lines), why, by)
