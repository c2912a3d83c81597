"""Commands in ```sh blocks: each is run by a test or says why not, and `godwit` knows its commands and options."""

import re
import shlex
from collections.abc import Iterator

import pytest
import typer

from godwit.cli.main import app
from tests.conventions.repository import ROOT, documents
from tests.conventions.sh_blocks import shell_blocks
from tests.conventions.test_cli_documented import commands
from tests.network.pages_played import PLAYED

TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in documents()}
PAGES = {name: text for name, text in TEXTS.items() if "```sh" in text}
KNOWN = dict(commands(typer.main.get_command(app), "godwit"))
GODWIT = re.compile(r"(?:^|[|;&] *|\b[A-Z_]+=\S+ )(?P<words>godwit(?=\s|$)(?: +(?:'[^']*'|\"[^\"]*\"|[^\s|;&#>]+))*)")


def unplayed(name: str, page: str) -> Iterator[str]:
    """Blocks that no test runs and that do not say why."""
    for block in shell_blocks(page):
        if block.run_by:
            test = ROOT / block.run_by
            if not test.is_file() or "shell_blocks" not in test.read_text(encoding="utf-8"):
                yield f"{name}:{block.line}: {block.run_by} runs no blocks of pages"
        elif not block.why_not and name not in PLAYED:
            yield f"{name}:{block.line}: no test runs this block; add <!-- not run: reason --> above it"


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
                except Exception as error:  # typer's own, whose classes are not public
                    if type(error).__name__ != "BadParameter":  # such as a file that is not here
                        yield f"line {block.line}: {found['words']}: {error}"


@pytest.mark.parametrize("name", PAGES)
def test_a_shell_block_is_run_or_says_why_not(name: str) -> None:
    assert list(unplayed(name, PAGES[name])) == []


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
