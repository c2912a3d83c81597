"""Commands and programs of pages: each is run by a test or says why not, and `godwit` knows its commands and options.

Commands stand in ```sh blocks, or in ```console blocks, which `test_docs.py` runs. Python without `>>>` is a program.
"""

import re
import shlex
from collections.abc import Iterator

import pytest

from godwit.cli.main import app
from tests.conventions.repository import ROOT, documents
from tests.conventions.sh_blocks import CodeBlock, code_blocks, shell_blocks
from tests.conventions.test_cli_documented import commands
from tests.conventions.test_docs import is_run, scripts
from tests.network.pages_played import PLAYED

TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in documents()}
PAGES = {name: text for name, text in TEXTS.items() if "```sh" in text}
KNOWN = dict(commands(app, "godwit"))
GODWIT = re.compile(r"(?:^|[|;&] *|\b[A-Z_]+=\S+ )(?P<words>godwit(?=\s|$)(?: +(?:'[^']*'|\"[^\"]*\"|[^\s|;&#>]+))*)")


COMMAND = re.compile(
    r"^(?:\$ |(?:[A-Z_]+=\S+ )*"
    r"(?:godwit|curl|docker|git|java|kubectl|make|mosquitto_\w+|npm|npx|pip|pipx|pytest|python3?|sudo|systemctl|uv) )",
    re.MULTILINE,
)
"""A line that a reader would type."""


def labelled(name: str, block: CodeBlock, read: str) -> Iterator[str]:
    """Faults of the label of a block, which a test that reads blocks by `read` must run, if it says so."""
    if block.run_by:
        test = ROOT / block.run_by
        if not test.is_file() or read not in test.read_text(encoding="utf-8"):
            yield f"{name}:{block.line}: {block.run_by} runs no blocks of pages"
    elif not block.why_not:
        yield f"{name}:{block.line}: no test runs this block; add <!-- not run: reason --> above it"


def unplayed(name: str, page: str) -> Iterator[str]:
    """Blocks that no test runs and that do not say why."""
    for block in shell_blocks(page):
        if block.run_by or name not in PLAYED:
            yield from labelled(name, block, "shell_blocks")
    for block in code_blocks(page, "console"):
        if not all(is_run(script) for script in scripts(block.text)):
            yield from labelled(name, block, "code_blocks")
    for block in code_blocks(page, "python", "py"):
        if ">>>" not in block.text:
            yield from labelled(name, block, "blocks")
    for block in code_blocks(page, "", "text"):
        if COMMAND.search(block.text):
            yield f"{name}:{block.line}: a command: show it in a ```sh or ```console block"


def wrong_words(page: str) -> Iterator[str]:
    """What `godwit` would say to the words of each command."""
    for block in shell_blocks(page):
        for line in block.commands:
            for found in GODWIT.finditer(line):
                words = shlex.split(found["words"])
                length = max(n for n in range(1, len(words) + 1) if " ".join(words[:n]) in KNOWN)
                name = " ".join(words[:length])
                try:
                    KNOWN[name].make_context(name, words[length:])
                except Exception as error:  # click's own
                    if type(error).__name__ != "BadParameter":  # such as a file that is not here
                        yield f"line {block.line}: {found['words']}: {error}"


@pytest.mark.parametrize("name", TEXTS)
def test_a_block_is_run_or_says_why_not(name: str) -> None:
    assert list(unplayed(name, TEXTS[name])) == []


@pytest.mark.parametrize("name", PAGES)
def test_godwit_knows_the_commands_of_shell_blocks(name: str) -> None:
    assert list(wrong_words(PAGES[name])) == []


def test_a_block_without_a_reason_and_an_unknown_option_are_caught() -> None:
    page = "```sh\ngodwit serve --no-such-option\n```\n<!-- not run: Docker -->\n```sh\ndocker run godwit\n```\n"
    assert len(list(unplayed("page.md", page))) == 1
    assert len(list(wrong_words(page))) == 1
    assert len(list(wrong_words("```sh\ngodwit filter covers 'a = 1'\n```\n"))) == 1  # an argument is missing
    assert len(list(unplayed("page.md", "<!-- run by tests/gone.py -->\n```sh\na\n```\n"))) == 1
    assert list(unplayed("page.md", "<!-- not run below: needs a team -->\n```sh\na\n```\nthen\n```sh\nb\n```\n")) == []


@pytest.mark.parametrize(
    "block",
    [
        "```python\nprint(1)\n```",
        "```py\nprint(1)\n```",
        "```console\n$ curl localhost\n```",
        "```console\n$ godwit --version\n$ X=1 curl localhost\n```",
        "```\ngodwit simulate city\n```",
        "```text\n$ ls\n```",
        "```text\nGODWIT_HTTP=x godwit trace\n```",
        "<!-- run by tests/conventions/test_text.py -->\n```python\nprint(1)\n```",
        "<!-- not run below: of shell blocks only -->\n```python\nprint(1)\n```",
    ],
)
def test_a_program_or_a_command_in_another_kind_of_block_is_caught(block: str) -> None:
    assert len(list(unplayed("page.md", f"{block}\n"))) == 1


@pytest.mark.parametrize(
    "block",
    [
        "```python\n>>> 1\n1\n```",
        "<!-- not run: needs a phone -->\n```python\nprint(1)\n```",
        "```console\n$ GODWIT_LOG__LEVEL=loud godwit --version\n```",
        "<!-- not run: needs a phone -->\n```console\n$ curl localhost\n```",
        "```text\nthe godwit flies\n```",
        "<!-- run by tests/network/test_readme_commands.py -->\n```python\nprint(1)\n```",
    ],
)
def test_a_program_or_a_command_that_is_run_or_says_why_not_is_accepted(block: str) -> None:
    assert list(unplayed("page.md", f"{block}\n")) == []
