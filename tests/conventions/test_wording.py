"""Plain, current English: phrases that readers had to translate are banned from pages, help, errors and logs.

Looked at are all pages (but for code and decisions, which are history), all texts of the program (but for docstrings,
which only developers read), and the help of every command. Every command's help has an example.
"""

import ast
import re
from collections.abc import Iterator

import pytest
import typer

from godwit.cli.main import app
from tests.conventions.repository import ROOT, documents, modules
from tests.conventions.test_cli_documented import commands
from tests.conventions.test_docs import FENCE

BANNED = {
    r"anew": "again",
    r"how-?manyeth": "the number of …",
    r"reckon\w*": "compute, count",
    r"thus": "so",
    r"shall": "must, will",
    r"who(?:ever)? comes": "the client, a connection from …",
    r"whoever": "name who: the client, the user, anyone who",
    r"(?:with|and|is) a word": "a message, a warning",
    r"for want of": "because … is missing",
    r"come to terms": "agree",
    r"(?:token|session|time|lease) is over": "has expired, has ended",
    r"nobody (?:listens|answers)": "connection refused, no server answers",
    r"good-bye": "disconnect",
    r"unsa(?:y|id)\w*": "withdraw",
    r"(?:is|was) said (?:twice|before|by)": "given, sent",
    r"(?:it|this|which) is no (?!longer|more|way|such|reason|need)\w+": "is not a …, not valid …",
    r"taken away": "removed",
    r"held against": "compared with",
    r"in vain": "needlessly",
    r"sign by sign": "character by character",
    r"(?:not|nobody|were|was|is) let in": "accepted, authenticated; a login was refused",
    r"what became of": "what happened to",
    r"forth and back": "back and forth",
}
PATTERN = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)


def banned(text: str) -> Iterator[str]:
    for found in PATTERN.finditer(text):
        better = next(BANNED[each] for each in BANNED if re.fullmatch(each, found[0], re.IGNORECASE))
        yield f"{found[0]!r}: write {better}"


def texts(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The string constants of a module that are no docstrings, with their lines."""
    bare = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.lineno, node.value


PAGES = [path for path in documents() if path.parent.name != "decisions"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_is_in_plain_english(path) -> None:
    assert list(banned(FENCE.sub("", path.read_text(encoding="utf-8")))) == []


def test_texts_of_the_program_are_in_plain_english() -> None:
    faults = [
        f"{module.name}:{line}: {fault}"
        for module in modules()
        for line, text in texts(module.tree)
        for fault in banned(text)
    ]
    assert faults == []


def test_help_is_in_plain_english_and_has_an_example() -> None:
    for name, command in commands(typer.main.get_command(app), "godwit"):
        shown = command.help or ""
        assert list(banned(shown)) == [], name
        assert getattr(command, "commands", None) or f"Example: {name}" in shown, f"{name}: no example in its help"


def test_a_banned_phrase_is_caught_and_plain_words_are_not() -> None:
    assert list(banned("it is begun anew, with a word")) == [
        "'anew': write again",
        "'with a word': write a message, a warning",
    ]
    assert list(banned("a search for a word in a text; a newer one; the warm-up is over")) == []
    module = ast.parse('"""Thus."""\nraise ValueError(f"{x}: your token is over")\n')
    assert [fault for _, text in texts(module) for fault in banned(text)] == [
        "'token is over': write has expired, has ended"
    ]
