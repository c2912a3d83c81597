"""Plain, current English: phrases that readers had to translate are banned from pages, help, errors and logs.

Checked are all pages (without code and decisions, which are history), all texts of the program, their docstrings,
and the help of every command. Every command's help has an example.
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
    r"forth and back|to and fro": "back and forth",
    r"over there": "at the remote, at the other broker",
    r"(?:that|what) (?:is|are|was) no (?!longer|more|way|such|reason|need)\w+": "an invalid …, … that is not a …",
    r"so that nobody": "so that no client, user, peer …",
    r"let (?:the client|a client|it|them|him|her|somebody|nobody) in": "accepted, authenticated",
    r"lost,? (?:or |nor |and )?doubled": "lost or duplicated",
    r"as (?:brokers|they) like": "the default of …",
    r"made up": "generated, composed of",
    r"(?:is|are) told so": "receives a receipt, an error, a warning",
    r"what (?:is|was) (?:said|told|asked for)": "a noun: the message, the request, the filters",
    r"for good": "permanently",
    r"in place of": "instead of",
    r"not of now|context of now": "too old, present",
    r"(?:for|of|with|by) who (?:fills|signs|reads|sends|runs|comes)": "a noun: the capture, the authority, the reader",
    r"would say nothing|a fault of ours": "cannot be used; a bug in Godwit",
    r"in (?:its|their|his|her) stead": "instead",
    r"what (?:comes|came|has come|becomes) of": "the result of, what happens to",
    r"who may come in|be let in": "access, authentication",
    r"nobody in particular": "anonymous",
    r"hears? of it": "is told, is notified, gets",
    r"wholly or not at all": "atomically",
    r"lets? (?:everybody|everyone) go|lets? go of": "close, disconnect, release",
    r"(?:in|of) (?:its|their|our) own words": "as it is, the log of",
    r"for ever": "permanently, without end",
    r"take another (?:folder|one|--out)": "use another",
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


def docstrings(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The strings of a module that stand alone, with their lines, without code in backticks."""
    for node in ast.walk(module):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(re.sub("`[^`]*`", "", node.value.value).split())


def test_docstrings_are_in_plain_english() -> None:
    faults = [
        f"{module.name}:{line}: {fault}"
        for module in modules()
        for line, text in docstrings(module.tree)
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
    assert [fault for _, text in docstrings(module) for fault in banned(text)] == ["'Thus': write so"]
