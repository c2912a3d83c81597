"""Plain, current English: phrases that readers had to translate are banned from pages, help, errors and logs.

Checked are all pages (without code and decisions, which are history), all texts of the program, their docstrings and
comments, the help of every command, the pages and styles for browsers, the client for browsers, and what stands beside
the package: the Makefile, scripts, benchmarks, examples and deployment. Every command's help has an example.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from godwit.cli.main import app
from tests.conventions.repository import ROOT, documents, files, modules
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
    r"(?:with|without|and|is) a word|a word (?:about|from|to)": "a message, a warning; for a text: a note, a reason",
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
    r"is nothing that": "is not a …",
    r"kn(?:ow|ows|ew) of nobody": "has no …, knew of no …",
    r"nobody (?:said|checked|further on)": "was not announced, was not checked; no subscriber",
    r"(?:its|their) time was over": "it expired",
    r"(?:yours|theirs|mine|its own) to say": "set by …",
    r"got by others": "received by others",
    r"today's tables": "the present tables",
    r"seam between": "interface between",
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


def comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a module, with the line of their beginning; those that continue one another are joined."""
    found = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT]
    joined = [(token.start, token.string.lstrip("#: ")) for token in found]
    for after in range(len(joined) - 1, 0, -1):
        (line, column), said = joined[after]
        (line_before, column_before), before = joined[after - 1]
        if (line, column) == (line_before + 1, column_before):
            joined[after - 1 :] = [(joined[after - 1][0], f"{before} {said}"), *joined[after + 1 :]]
    yield from ((line, words) for (line, _), words in joined)


def test_comments_are_in_plain_english() -> None:
    faults = [
        f"{module.name}:{line}: {fault}"
        for module in modules()
        for line, text in comments(module.text)
        for fault in banned(text)
    ]
    assert faults == []


READ_WHOLE = {".js", ".ts", ".mjs", ".html", ".css", ".sh", ".toml", ".yml", ".yaml", ".service"}
BESIDES = ("benchmarks", "clients", "deploy", "docs", "examples", "scripts", "src")  # tests are not for users
FOREIGN = {"vendor", "node_modules", "stylesheets"}


def whole_files() -> Iterator[Path]:
    """Files that are read as they are: code and comments for browsers, settings, and Python beside the package."""
    for path in files():
        parts = path.relative_to(ROOT).parts
        if parts == ("Makefile",) or (
            parts[0] in BESIDES
            and not FOREIGN.intersection(parts)
            and (path.suffix in READ_WHOLE or (path.suffix == ".py" and parts[0] != "src"))
        ):
            yield path


LINE_OF_COMMENT = re.compile(r"\n[ \t]*(?:///?|\*(?!/)|#:?)?[ \t]*")


def banned_in_lines(text: str) -> Iterator[str]:
    """The banned phrases of a file with their lines, also those that a line break divides."""
    starts = [0]  # of each line, in the joined text
    joined = ""
    for at, line in enumerate(LINE_OF_COMMENT.split(text)):
        joined += line if at == 0 else f" {line}"
        starts.append(len(joined) + 1)
    for found in PATTERN.finditer(joined):
        line = sum(start <= found.start() for start in starts)
        yield f"{line}: {next(banned(found[0]))}"


def test_files_for_browsers_and_beside_the_package_are_in_plain_english() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in whole_files()
        for fault in banned_in_lines(path.read_text(encoding="utf-8"))
    ]
    assert faults == []


def test_files_for_browsers_the_client_and_the_makefile_are_read() -> None:
    read = {path.relative_to(ROOT).as_posix() for path in whole_files()}
    assert {
        "Makefile",
        "clients/browser/src/options.ts",
        "src/godwit/dashboard/web/pages/users.js",
        "src/godwit/teamwork/web/index.html",
        "benchmarks/network.py",
        "deploy/compose.yaml",
    } <= read
    assert not any("vendor" in name for name in read)


def test_a_banned_phrase_is_caught_in_a_file_its_comments_and_across_lines() -> None:
    script = "/** As long as\n * brokers like. */\nconst told = `ask whoever runs it`;\n// it is\n  // begun anew\n"
    assert [fault.partition(": write")[0] for fault in banned_in_lines(script)] == [
        "1: 'as brokers like'",
        "3: 'whoever'",
        "5: 'anew'",
    ]
    module = "x = 1  # whoever\n# it is begun\n# anew, in\n# vain\ny = '# thus'\n"
    assert [(line, fault.partition(":")[0]) for line, text in comments(module) for fault in banned(text)] == [
        (1, "'whoever'"),
        (2, "'anew'"),
        (2, "'in vain'"),
    ]


def test_help_is_in_plain_english_and_has_an_example() -> None:
    for name, command in commands(app, "godwit"):
        shown = command.help or ""
        assert list(banned(shown)) == [], name
        assert getattr(command, "commands", None) or f"Example: {name}" in shown, f"{name}: no example in its help"


def test_a_banned_phrase_is_caught_and_plain_words_are_not() -> None:
    assert list(banned("it is begun anew, with a word")) == [
        "'anew': write again",
        "'with a word': write a message, a warning; for a text: a note, a reason",
    ]
    assert list(banned("a search for a word in a text; a newer one; the warm-up is over")) == []
    module = ast.parse('"""Thus."""\nraise ValueError(f"{x}: your token is over")\n')
    assert [fault for _, text in texts(module) for fault in banned(text)] == [
        "'token is over': write has expired, has ended"
    ]
    assert [fault for _, text in docstrings(module) for fault in banned(text)] == ["'Thus': write so"]
