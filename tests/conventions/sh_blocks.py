"""The blocks of pages with commands or programs: what is in them, the test that runs a block, or why none does.

A comment directly above a block, `<!-- not run: needs Docker -->`, says why no test runs it, and
`<!-- run by tests/… -->` which test does. A comment `<!-- not run below: … -->` holds for
all further ```sh blocks of the page.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = re.compile(
    r"^(?:<!-- (?:not run: (?P<why>.+?)|run by (?P<by>\S+)) -->\n+)?"
    r"```(?P<kind>\w*)[^\n]*\n(?P<body>.*?)^```[ ]*$|^<!-- not run below: (?P<rest>.+?) -->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class CodeBlock:
    """A block of a page. `why_not`: why it is not run; `run_by`: the test that runs it, if the page names one."""

    line: int
    kind: str
    text: str
    why_not: str
    run_by: str

    @property
    def commands(self) -> tuple[str, ...]:
        """The lines of a ```sh block; a line that ends in a backslash goes on in the next."""
        return tuple(self.text.replace("\\\n", "").strip().splitlines())


def code_blocks(page: str, *kinds: str) -> Iterator[CodeBlock]:
    """The blocks of a page that are of these kinds: the words behind the first fences."""
    rest = ""
    for found in BLOCK.finditer(page):
        if found["rest"]:
            rest = found["rest"]
        elif found["kind"] in kinds:
            by = found["by"] or ""
            why = "" if by else found["why"] or (rest if found["kind"] == "sh" else "")
            yield CodeBlock(page.count("\n", 0, found.start("body")), found["kind"], found["body"], why, by)


def shell_blocks(page: str) -> Iterator[CodeBlock]:
    """The ```sh blocks of a page."""
    return code_blocks(page, "sh")
