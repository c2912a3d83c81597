"""`godwit filter …`: exit status 0 for yes, 1 for no, 2 for an error; JSON on a pipe, drawings on a terminal."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from godwit.cli import filter_command, main
from godwit.filters.language import parse


def run(*arguments: str, stdin: str | bytes | None = None, terminal: bool = False) -> Any:
    environment = {"FORCE_COLOR": "1", "COLUMNS": "100"} if terminal else {"FORCE_COLOR": None}
    return CliRunner(env=environment).invoke(main.app, ["filter", *arguments], input=stdin)


def answer(*arguments: str, status: int = 0) -> Any:
    ran = run(*arguments)
    assert (ran.exit_code, ran.stderr) == (status, "")
    assert ran.stdout.count("\n") == 1
    return json.loads(ran.stdout)


def test_covers_says_yes_and_why() -> None:
    assert answer("covers", "price < 10", "price < 5 AND sym = 'A'") == {
        "covers": True,
        "because": [{"wanted": "price < 10", "given": "price < 5"}],
    }


def test_covers_says_no_and_which_literal_fails_and_shows_an_event() -> None:
    assert answer("covers", "price < 10 AND sym = 'A'", "price < 5", status=1) == {
        "covers": False,
        "because": [{"wanted": "price < 10", "given": "price < 5"}, {"wanted": "sym = 'A'", "given": None}],
        "example": {"price": 4},
    }


def test_covers_tells_the_cases_of_an_or_apart() -> None:
    told = answer("covers", "a < 9", "a = 1 OR a = 2 AND b = 3")
    assert [reason["when"] for reason in told["because"]] == ["a = 1", "a = 2 AND b = 3"]


def test_intersects() -> None:
    assert answer("intersects", "price < 10", "price > 5") == {"intersects": True, "example": {"price": 9}}
    assert answer("intersects", "ALL price < 10", "price > 50", status=1) == {
        "intersects": False,
        "because": [{"a": "ALL price < 10", "b": "price > 50"}],
    }


def test_check() -> None:
    assert answer("check", "5<x and y>=my.a") == {
        "valid": True,
        "filter": "x > 5 AND y >= my.a",
        "references": ["my.a"],
    }


def test_explain() -> None:
    told = answer("explain", "(a = 1 OR b = 2) AND c >= my.x")
    assert told["filter"] == "(a = 1 OR b = 2) AND c >= my.x"
    assert {frozenset(way.split(" AND ")) for way in told["normal_form"]} == {
        frozenset({"a = 1", "c >= my.x"}),
        frozenset({"b = 2", "c >= my.x"}),
    }
    assert told["normal_form_is_exact"]
    assert not told["never_matches"]
    assert (told["attributes"], told["references"], told["size"]) == (["a", "b", "c"], ["my.x"], 3)
    assert parse(told["not"]) == ~parse(told["filter"])
    assert answer("explain", "a = 1 AND a IS NULL")["never_matches"]


def test_explain_tells_the_sender_from_the_event() -> None:
    told = answer("explain", "kind = 'fire' AND sender.battery > 20 AND (x = 1 OR sender.role = 'medic')")
    assert told["of_the_sender"] == "battery > 20"
    assert told["of_the_event"] == "kind = 'fire' AND (x = 1 OR sender.role = 'medic')"
    assert "of_the_sender" not in answer("explain", "x = 1")


def test_a_context_is_put_in() -> None:
    told = answer("explain", "price < my.limit AND x WITHIN myloc", "--context", "limit:=[3, 5]")
    assert (told["filter"], told["references"]) == ("price < 5 AND x IN ()", [])
    shown = run("format", "price < my.limit", "--context", "limit=3")
    assert (shown.exit_code, shown.stdout) == (0, "price < 3\n")


@pytest.mark.parametrize(
    ("context", "complaint"),
    [
        ('{"x": 1}', """--context: '{"x": 1}' is not an attribute: write name=value, or name:=JSON"""),
        ("x:={", "--context: 'x:={': the text after := must be JSON: Expecting"),
        ("x:=NaN", "--context: a context: attribute 'x': nan is not"),
        ("x:=" + "9" * 5_000, "the text after := must be JSON"),
        ("x:=" + "[" * 100_000, "the text after := must be JSON"),
        ("location=market", "asks what lies 2 steps around 'market'"),
    ],
)
def test_a_bad_context_is_an_error(context: str, complaint: str) -> None:
    shown = run("explain", "x WITHIN myloc(2)", "--context", context)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert complaint in shown.stderr


def test_merge() -> None:
    assert answer("merge", "x = 1", "x = 2") == {"merged": "x IN (1, 2)", "perfect": True, "excess": 0.0}
    assert answer("merge", "x < 1", "y > 2", status=1) == {"merged": None}


def test_merge_says_what_an_imperfect_merge_lets_in_besides() -> None:
    apart = ("0 <= x < 4", "5 <= x < 10")
    assert answer("merge", *apart, status=1) == {"merged": None}
    assert answer("merge", *apart, "--excess", "0.2") == {"merged": "0 <= x < 10", "perfect": False, "excess": 0.1}
    assert run("merge", *apart, "--excess", "1.5").exit_code == 2


def test_json_and_back() -> None:
    assert answer("json", "x = 1") == {"some": "x", "in": {"one_of": [1]}}
    assert run("format", '{"some": "x", "in": {"one_of": [1]}}').stdout == "x = 1\n"


def test_format_breaks_lines_at_the_width() -> None:
    assert run("format", "a=1 and b=2", "--width", "8").stdout == "a = 1\nAND b = 2\n"


def test_a_dash_reads_standard_input() -> None:
    assert run("format", "-", stdin="a = 1\nAND b = 'é'\n").stdout == "a = 1 AND b = 'é'\n"
    ran = run("format", "-", stdin=b"a = '\xff'")
    assert (ran.exit_code, ran.stderr) == (2, "error: standard input is not UTF-8: byte 5 is 0xff\n")


@pytest.mark.parametrize("command", ["covers", "intersects", "merge"])
def test_only_one_of_two_filters_can_be_standard_input(command: str) -> None:
    assert run(command, "-", "a = 1", stdin="a = 1").exit_code == 0
    ran = run(command, "-", "-", stdin="a = 1")
    assert ran.exit_code == 2
    assert "only one of the two filters can be standard input" in ran.stderr


@pytest.mark.parametrize("command", ["check", "explain", "json", "format"])
def test_an_error_is_drawn_on_standard_error(command: str) -> None:
    ran = run(command, "price < 10 AND\nsym = = 'A'")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr == "error: line 2, column 7: = has no place here\n  sym = = 'A'\n        ^\nexpected a value\n"


@pytest.mark.parametrize("command", ["covers", "intersects", "merge"])
def test_an_error_in_the_second_filter_is_status_2(command: str) -> None:
    ran = run(command, "a = 1", '{"some": "x"}')
    assert (ran.exit_code, ran.stdout, ran.stderr) == (2, "", "error: $: 'some' needs 'in', the set of values\n")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["check", "x = 5"], 0, ["well formed", "x = 5"]),
        (["covers", "price < 10", "price < 5"], 0, ["covers", "price < 10", "is implied by", "price < 5"]),
        (
            ["covers", "a = 1 AND b = 2", "a = 1 OR c = 3"],
            1,
            ["does not cover", "when", "nothing", "only the second matches"],
        ),
        (["covers", "a = 1", "a = 1"], 0, ["the two are the same filter"]),
        (["covers", "a = 1", "a IN ()"], 0, ["no event can match the second"]),
        (["covers", "a > 0", " OR ".join(f"a = {n} AND b = 1" for n in range(1, 20))], 0, ["and 11 cases more"]),
        (["intersects", "a < 5", "a > 1"], 0, ["they intersect", "both match", '{"a": 4}']),
        (["intersects", "a = 1", "a IS NULL"], 1, ["they do not intersect", "excludes"]),
        (["explain", "a = 1 AND (b = 2 OR c = my.x)"], 0, ["├── a = 1", "matches when", "my.x", "3 literals, 3 deep"]),
        (["explain", "a = 1 AND a IS NULL"], 0, ["never"]),
        (["explain", "a = 1 AND sender.b = 2"], 0, ["of the sender", "b = 2", "of the event", "a = 1"]),
        (["merge", "x = 1", "x = 2"], 0, ["merged exactly", "x IN (1, 2)"]),
        (["merge", "0 <= x < 4", "5 <= x < 10", "--excess", "1"], 0, ["with about 10% further matches", "0 <= x < 10"]),
        (["merge", "x < 1", "y > 2"], 1, ["they cannot be merged"]),
        (["json", "x = 1"], 0, ['"one_of": [']),
        (["json", "x = '[bold]:smile:'"], 0, ['"[bold]:smile:"']),
    ],
)
def test_on_a_terminal_the_answer_is_drawn(arguments: list[str], status: int, words: list[str]) -> None:
    ran = run(*arguments, terminal=True)
    assert ran.exit_code == status
    drawn = "".join(part.partition("m")[2] if number else part for number, part in enumerate(ran.stdout.split("\x1b[")))
    for word in words:
        assert word in drawn


def test_control_characters_do_not_reach_the_terminal() -> None:
    ran = run("check", "x = '\x1b[31mred\x07'", terminal=True)
    assert "\x1b[31m" not in ran.stdout
    assert "\\001B[31mred\\0007" in ran.stdout


def test_help_lists_every_command() -> None:
    shown = run("--help").stdout
    for command in ("check", "explain", "covers", "intersects", "merge", "json", "format"):
        assert command in shown
    assert filter_command.__doc__
