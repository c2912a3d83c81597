"""Queries in other languages on the command line: `godwit filter check`, and subscriptions of `godwit match`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from godwit.cli import main
from godwit.filters.language import to_text
from godwit.languages import operators
from godwit.languages.query import LANGUAGES, NATIVE, Query, Subject, parse_query
from godwit.registry import Registry

ADULT = "//user[name = 'Anna' $and$ age > 17]"
TWO_PEOPLE = "<r><user><name>Anna</name><age>7</age></user><user><name>Bob</name><age>18</age></user></r>"
SAME_PERSON = "<r><user><name>Anna</name><age>18</age></user></r>"
MODULE = """
import re
from godwit.languages import operator

@operator("{name}")
def begins_like(text, other):
    return re.match(other[:1], text, re.IGNORECASE)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, and no operators but those that a test loads."""
    monkeypatch.chdir(tmp_path)
    forget_operators(monkeypatch)
    yield tmp_path
    forget_operators(monkeypatch)


def forget_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on as another process would, that has loaded nothing yet."""
    monkeypatch.setattr(operators, "_REGISTERED", {})
    for name in ("ops", "other"):
        sys.modules.pop(name, None)


def run(*words: str, input: str | None = None) -> Result:
    return CliRunner(env={"FORCE_COLOR": None}).invoke(main.app, list(words), input=input)


def told(*words: str, input: str | None = None) -> Any:
    ran = run(*words, input=input)
    assert (ran.exit_code, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


def json_lines(*documents: Any) -> str:
    return "".join(f"{json.dumps(document)}\n" for document in documents)


def test_check_shows_the_routable_filter_the_printed_query_and_whether_more_is_tested() -> None:
    query = parse_query(ADULT, "xql")
    assert told("filter", "check", "--language", "xql", ADULT) == {
        "valid": True,
        "language": "xql",
        "query": query.text,
        "routable": to_text(query.routable),
        "has_exact_part": True,
        "never_matches": False,
    }
    assert told("filter", "check", "--language", "xql", "-", input=ADULT)["query"] == query.text
    assert not told("filter", "check", "--language", "cesql", "EXISTS a")["has_exact_part"]
    assert told("filter", "check", "--language", "cql2-text", "FALSE")["never_matches"]


def test_check_on_a_terminal_says_it_in_words() -> None:
    ran = CliRunner(env={"FORCE_COLOR": "1", "COLUMNS": "100"}).invoke(
        main.app, ["filter", "check", "--language", "xql", ADULT]
    )
    assert "brokers route by" in ran.stdout
    assert "tests the query itself" in ran.stdout


def test_a_bad_query_and_an_unknown_language_are_errors_that_say_what_is_allowed() -> None:
    ran = run("filter", "check", "--language", "xql", "//a[")
    assert ran.exit_code == 2
    assert "line 1, column 5" in ran.stderr
    ran = run("filter", "check", "--language", "klingon", "Qapla'")
    assert ran.exit_code == 2
    assert "there is no language 'klingon': known are cesql, cql2-json, cql2-text, filter" in ran.stderr


@pytest.mark.parametrize("said", ["my_operators_{}", "./my_operators_{}.py"])
def test_operators_come_from_the_module_that_the_user_names_and_from_nowhere_else(
    folder: Path, said: str, request: pytest.FixtureRequest
) -> None:
    unique = f"{abs(hash(request.node.name))}"
    (folder / f"my_operators_{unique}.py").write_text(MODULE.format(name="begins_like"))
    query = ("filter", "check", "--language", "cesql", "begins_like(name, 'Ann')")
    assert "there is no function begins_like" in run(*query).stderr
    path = list(sys.path)
    assert told(*query, "--operators", said.format(unique))["routable"] == "name IS NOT NULL"
    assert sys.path == path


def test_one_function_of_a_module_becomes_an_operator_by_its_own_name_or_the_one_it_was_given(folder: Path) -> None:
    (folder / "ops.py").write_text(MODULE.format(name="alike") + "\ndef is_odd(number):\n    return number % 2 == 1\n")
    for text, routable in (("alike(name, 'Ann')", "name IS NOT NULL"), ("is_odd(n)", "n IS NOT NULL")):
        said = ("filter", "check", "--language", "cesql", text, "--operators", "./ops.py:is_odd")
        assert told(*said, "--operators", "./ops.py:begins_like")["routable"] == routable
    for name, words in (("./ops.py:nope", "has no function 'nope'"), ("ops.py:re", "has no function 're'")):
        assert words in run("filter", "check", "TRUE", "--operators", name).stderr
    (folder / "sub").mkdir()
    (folder / "sub" / "ops.py").write_text("")
    assert "rename the file" in run("filter", "check", "TRUE", "--operators", "sub/ops.py").stderr


def test_a_module_that_cannot_be_loaded_is_named(folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0")
    for name, words in (("no_such_module", "No module named"), ("./broken.py", "ZeroDivisionError"), ("none.py", "")):
        ran = run("filter", "check", "--language", "cesql", "TRUE", "--operators", name)
        assert ran.exit_code == 2
        assert f"cannot load operators from {name}" in ran.stderr
        assert words in ran.stderr


def test_match_takes_subscriptions_in_any_language_and_documents_as_events(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "ops.py").write_text(MODULE.format(name="begins_like"))
    (folder / "s.jsonl").write_text(
        json_lines(
            {"id": "xql", "filter": ADULT, "language": "xql"},
            {"id": "xpath", "filter": "//user[age > 17]", "language": "xpath"},
            {"id": "plain", "filter": "n > 1"},
            {"id": "named", "filter": "n > 1", "language": "filter"},
            {"id": "json", "filter": {"missing": "n"}},
            {"id": "op", "filter": "begins_like(name, 'Ann')", "language": "cesql"},
            {"id": "sent", "filter": ADULT, "language": "xql", "sender": "battery > 20"},
        )
    )
    (folder / "e.jsonl").write_text(
        json_lines(
            {"xml": TWO_PEOPLE},
            {"xml": SAME_PERSON, "attributes": {"n": 2}, "sender": {"battery": 80}},
            {"attributes": {"n": 3, "name": "anton"}},
            {"attributes": {"n": 3, "name": "bob"}},
        )
    )
    for matcher in ("index", "naive", "bdd"):
        forget_operators(monkeypatch)
        ran = run(
            *("match", "--subscriptions", "s.jsonl", "--events", "e.jsonl"),
            *("--operators", "./ops.py", "--matcher", matcher),
        )
        assert ran.stderr == ""
        assert [json.loads(line)["subscriptions"] for line in ran.stdout.splitlines()] == [
            ["xpath", "json"],
            ["xql", "xpath", "plain", "named", "sent"],
            ["plain", "named", "op"],
            ["plain", "named"],
        ]


def test_what_sub_prints_of_a_document_can_be_matched(folder: Path) -> None:
    from godwit.filters.json_lines import line_of
    from godwit.languages.xml_documents import xml_event

    (folder / "s.jsonl").write_text(json_lines({"id": 1, "filter": ADULT, "language": "xql"}))
    printed = [line_of(xml_event(document.encode())) for document in (TWO_PEOPLE, SAME_PERSON)]
    (folder / "e.jsonl").write_text(json_lines(*printed))
    ran = run("match", "--subscriptions", "s.jsonl", "--events", "e.jsonl", "--matcher", "naive")
    assert [json.loads(line)["subscriptions"] for line in ran.stdout.splitlines()] == [[], [1]]


def test_bad_lines_say_what_is_wrong_with_them(folder: Path) -> None:
    (folder / "s.jsonl").write_text(
        json_lines(
            {"id": 1, "filter": "//a[", "language": "xql"},
            {"id": 2, "filter": {"missing": "n"}, "language": "xql"},
            {"id": 3, "filter": "n > 1", "language": "klingon"},
        )
    )
    (folder / "e.jsonl").write_text(
        json_lines({"xml": "<r>"}, {"xml": "<r/>", "payload": "x"}, {"attributes": {}, "payload": 3})
    )
    ran = run("match", "--subscriptions", "s.jsonl", "--events", "e.jsonl", "--matcher", "naive")
    for words in (
        "s.jsonl:1: line 1, column 5: the query ends too early",
        "s.jsonl:2: filter: in the language 'xql' it must be a text",
        "s.jsonl:3: there is no language 'klingon'",
        "e.jsonl:1: line 1, column 4: not well-formed XML",
        "e.jsonl:2: an event has 'xml' or a 'payload', not both",
        "e.jsonl:3: payload: a text",
        "skipped 6 bad lines",
    ):
        assert words in ran.stderr


class Shouting:
    """A language of somebody else: whatever is in capital letters."""

    name = "shouting"

    def parse(self, text: str, operators: Any = None) -> Query:
        def test(subject: Subject) -> bool:
            return str(subject.event.attributes[text]).isupper()

        return Query("shouting", text, parse_query(f"{text} IS NOT NULL", NATIVE).routable, test)


class Point:
    """An entry point of an installed package."""

    name = "shouting"

    def load(self) -> Any:
        return Shouting()


def test_a_language_can_come_from_an_entry_point(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[str] = []

    def entry_points(group: str) -> list[Point]:
        asked_for.append(group)
        return [Point()]

    monkeypatch.setattr("godwit.registry.entry_points", entry_points)
    fresh: Registry[Any] = Registry(LANGUAGES.what, LANGUAGES.group)
    fresh.register(NATIVE, LANGUAGES.part(NATIVE))
    monkeypatch.setattr("godwit.languages.query.LANGUAGES", fresh)
    (folder / "s.jsonl").write_text(json_lines({"id": 1, "filter": "word", "language": "shouting"}))
    (folder / "e.jsonl").write_text(json_lines({"attributes": {"word": "HELP"}}, {"attributes": {"word": "help"}}))
    ran = run("match", "--subscriptions", "s.jsonl", "--events", "e.jsonl", "--matcher", "naive")
    assert ran.stderr == ""
    assert [json.loads(line)["subscriptions"] for line in ran.stdout.splitlines()] == [[1], []]
    assert asked_for == ["godwit.languages"]
