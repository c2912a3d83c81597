"""The documentation is true: its commands give the output it shows, its Python runs, its links lead somewhere.

A page is one shell: its ```console blocks are run in order, by one bash, in one empty folder with a link to the
repository's `examples`. A command is a line that starts with `$ `; lines that start with `> ` continue it. It is run
when its first word, after variables, is in `RUN`; other commands (`make`, `git`) are for the reader, and their block
says why no test runs it (`sh_blocks.py`). Under it stands its output, the
whole of it, standard error included; a line `...` stands for any lines. A command shown without output may print what
it likes, but must not fail with an error. What runs on in the background, like a broker on its usual ports, is for a
```sh block, which is not run: here it would outlive the page and meet the machine's own services.

A page is one interpreter too: its ```python blocks with `>>>` are a doctest with shared names.
"""

import doctest
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from godwit.cli.statuses import STATUS_ERROR
from tests.conventions.repository import ROOT, documents
from tests.network import warm

RUN = {"godwit", "cat", "echo", "printf", "head"}
SLOW = frozenset(
    {
        "godwit simulate city --seed 1",
        "godwit simulate city --set routing.reduction=flooding --set clients.publishers=20 --trace out",
        "godwit simulate fire --set fire.interface=traditional --set routing.strategy=gsf",
        "godwit tour",
    }
)  # run by `make slow`; `tests/unit/cli/test_tour_command.py` has a shorter one
RUN_SECONDS_MAX = 300

FENCE = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(?P<title>.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """A command that a page shows, and the output it shows below it."""

    script: str
    shown: str


def blocks(page: str, kind: str) -> list[str]:
    return [fence["body"] for fence in FENCE.finditer(page) if fence["kind"] == kind]


def scripts(block: str) -> Iterator[str]:
    """The commands of a ```console block."""
    yield from (command.script for command in shown_commands(block))


def shown_commands(block: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        length = 1 + next((n for n, line in enumerate(lines[1:]) if not line.startswith(">")), len(lines) - 1)
        script = "\n".join([lines[0], *(line[1:].removeprefix(" ") for line in lines[1:length])])
        yield Command(script, "\n".join(lines[length:]).strip())


def is_run(script: str) -> bool:
    """Whether this test runs a command: `godwit …`, `GODWIT_HTTP=… godwit …`."""
    return next(word for word in script.split() if not re.match(r"[A-Z_]+=", word)) in RUN


def commands(page: str) -> Iterator[Command]:
    for block in blocks(page, "console"):
        yield from (command for command in shown_commands(block) if is_run(command.script))


def run(scripts: list[str], folder: Path, first: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    """What each script prints, and its exit status; one shell runs them all. Programs are looked for in `first`."""
    mark = "{ status=$?; printf '\\036%d\\036' $status; (exit $status); }"
    environment = {
        **os.environ,
        "PATH": os.pathsep.join((*first, str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONIOENCODING": "utf-8",
    }
    with subprocess.Popen(
        ["bash", "-c", "".join(f"{script}\n{mark}\n" for script in scripts)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=RUN_SECONDS_MAX)
        except BaseException:
            os.killpg(shell.pid, signal.SIGKILL)  # what it has started too
            raise
    parts = printed.split("\036")
    return [(printed, int(status)) for printed, status in zip(parts[0::2], parts[1::2], strict=False)]


def is_shown(printed: str, shown: str) -> bool:
    """Whether `shown` is what was printed, with `...` lines as wildcards and blanks at line ends ignored."""
    lines = ["(.*\n)*" if line.strip() == "..." else re.escape(line.rstrip()) + "\n" for line in shown.splitlines()]
    tidy = "".join(f"{line.rstrip()}\n" for line in printed.strip().splitlines())
    return re.fullmatch("".join(lines), tidy) is not None


def false_commands(page: str, folder: Path, *first: str, besides: Collection[str] = ()) -> Iterator[str]:
    told = [command for command in commands(page) if command.script not in besides]
    for command in told:
        if command.script.endswith("&"):
            yield f"$ {command.script}\n--- runs on in the background: show it in a ```sh block"
            return
    ran = run([command.script for command in told], folder, first)
    assert len(ran) == len(told), f"the shell gave up after {len(ran)} of {len(told)} commands"
    for command, (printed, status) in zip(told, ran, strict=True):
        if command.shown and not is_shown(printed, command.shown):
            yield f"$ {command.script}\n--- shown\n{command.shown}\n--- printed\n{printed}"
        elif not command.shown and status >= STATUS_ERROR:
            yield f"$ {command.script}\n--- failed with status {status}\n{printed}"


def false_examples(page: str, name: str) -> str:
    """The doctest's report: empty when every example holds."""
    text = "\n".join(block for block in blocks(page, "python") if ">>>" in block)
    report: list[str] = []
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    return "".join(report)


def anchors(page: str) -> set[str]:
    """What a link into the page may name: each heading in small letters, dashes for blanks, nothing else."""
    titles = (heading["title"] for heading in HEADING.finditer(FENCE.sub("", page)))
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def broken_links(page: str, path: Path) -> Iterator[str]:
    for link in LINK.finditer(FENCE.sub("", page)):
        target, _, anchor = link["target"].partition("#")
        if ":" in target:  # https:, mailto:
            continue
        file = path if not target else path.parent / target
        if not file.exists():
            yield f"{path.name} links to {target}, which does not exist"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield f"{path.name} links to {link['target']}, which has no such heading"


PAGES = {path.relative_to(ROOT).as_posix(): path for path in documents()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if (ROOT / "examples").is_dir():
        (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def cases_of_pages() -> Iterator[Any]:
    """Each page; whole, but slow, if it has slow commands, and without those."""
    for name, path in PAGES.items():
        has_slow = any(command.script in SLOW for command in commands(path.read_text(encoding="utf-8")))
        yield pytest.param(name, SLOW, id=name)
        if has_slow:
            yield pytest.param(name, frozenset(), id=f"{name}, all of it", marks=pytest.mark.slow)


@pytest.mark.parametrize(("name", "besides"), list(cases_of_pages()))
def test_commands_print_what_the_page_shows(
    name: str, besides: frozenset[str], folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = PAGES[name].read_text(encoding="utf-8")
    if not any("godwit" in command.script for command in commands(page)):
        first = []
    else:  # without what Python takes to start, fifty times
        first = [str(warm.program(tmp_path_factory.mktemp("bin")).parent)]
    faults = list(false_commands(page, folder, *first, besides=besides))
    assert not faults, "\n\n".join(faults)


@pytest.mark.parametrize("name", PAGES)
def test_python_examples_hold(name: str) -> None:
    report = false_examples(PAGES[name].read_text(encoding="utf-8"), name)
    assert not report, report


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    assert list(broken_links(PAGES[name].read_text(encoding="utf-8"), PAGES[name])) == []


def page(kind: str, body: str) -> str:
    return f"# A page\n\n```{kind}\n{body}\n```\n"


@pytest.mark.parametrize(
    "body",
    [
        "$ echo one\ntwo",
        "$ echo one; echo two\none",
        "$ echo one\none\n...\nthree",
        "$ godwit no-such-command",
        "$ echo one\none\n\n$ godwit --version\ngodwit 0",
        "$ godwit serve &",
    ],
)
def test_a_false_command_is_caught(body: str, folder: Path) -> None:
    assert len(list(false_commands(page("console", body), folder))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "$ echo one; echo two\none\ntwo",
        "$ echo one; echo two; echo three\none\n...",
        "$ cat > file <<END\n> price < 10\n> END\n$ cat file\nprice < 10",
        "$ godwit --version",
        "$ godwit --no-such-option\n...\n$ echo $?\n2",
        "$ make something\nthat is not run",
    ],
)
def test_a_true_command_is_let_through(body: str, folder: Path) -> None:
    assert list(false_commands(page("console", body), folder)) == []


def test_a_false_example_is_caught_and_names_are_shared_by_the_blocks_of_a_page() -> None:
    assert false_examples(page("python", ">>> x = 1\n") + page("python", ">>> x + 1\n2"), "page") == ""
    assert "Expected:\n    3" in false_examples(page("python", ">>> 1 + 1\n3"), "page")


def test_a_broken_link_is_caught(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Two words: here\n")
    text = "[a](gone.md) [b](page.md#nowhere) [c](page.md#two-words-here) [d](https://example.org)"
    assert list(broken_links(text, path)) == [
        "page.md links to gone.md, which does not exist",
        "page.md links to page.md#nowhere, which has no such heading",
    ]


def unlinked(page: str) -> list[str]:
    """Paths of code and tests that stand in tables as plain text."""
    rows = [line for line in FENCE.sub("", page).splitlines() if line.startswith("|")]
    return [path for row in rows for path in re.findall(r"(?<!\[)`([\w./]+/[\w./]+)`", row) if is_file_of_ours(path)]


def is_file_of_ours(path: str) -> bool:
    return any((ROOT / start / path).exists() for start in ("", "src/godwit"))


def test_code_and_tests_that_carry_out_a_paper_are_links() -> None:
    assert unlinked((ROOT / "docs" / "papers.md").read_text(encoding="utf-8")) == []


def test_a_path_without_a_link_is_caught() -> None:
    row = "| a | `teamwork/web`, [team](../src/godwit/teamwork/team.py) | `tests/unit/cli/test_main.py` | `a/b` |"
    assert unlinked(row) == ["teamwork/web", "tests/unit/cli/test_main.py"]
