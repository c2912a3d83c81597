"""Languages of queries over profiles: every name that is offered works, on the command line and in Python."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from godwit.cli import main
from godwit.errors import GodwitError
from godwit.languages import LANGUAGES
from godwit.teamwork.access import Grant, checked_grants
from godwit.teamwork.machine.records import Record
from godwit.teamwork.query_languages import DEFAULT, LANGUAGE_HELP, OFFERED, SHORT_NAMES, parse_profile_query
from godwit.teamwork.record_profiles import RecordProfiles

NAMES = {**OFFERED, **{short: OFFERED[full] for short, full in SHORT_NAMES.items()}}
NOT_OFFERED = {"cesql"}


def run(*arguments: str) -> str:
    done = CliRunner().invoke(main.app, ["team", *arguments])
    assert done.exit_code == 0, done.output
    return str(done.stdout)


def test_every_language_of_ours_is_offered_or_is_named_here_as_one_that_is_not() -> None:
    made_by = {name: type(LANGUAGES.part(name)).__module__ for name in LANGUAGES.names()}
    ours = {name for name, module in made_by.items() if module.startswith("godwit.languages")}  # tests register others
    assert set(OFFERED) | NOT_OFFERED == ours
    assert next(iter(OFFERED)) == DEFAULT
    assert all(name in LANGUAGE_HELP for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_each_language_finds_who_has_the_skill(name: str) -> None:
    profiles, example = RecordProfiles(), NAMES[name]
    for skills, is_found in ((["law", "welding"], True), (["law"], False)):
        assert profiles.matches(name, example, Record("user/bob", {"skill": skills}, {}, ())) is is_found


def test_a_language_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(GodwitError, match=r"there is no language 'sql': known are .*cql2-text.*xql"):
        parse_profile_query("sql", "x = 1")


def test_a_grant_is_written_with_the_full_name() -> None:
    [grant] = checked_grants([Grant(query=NAMES["cql2"], language="cql2")])
    assert grant["language"] == "cql2-text"


def test_commands_take_every_name(tmp_path: Path) -> None:
    folder = str(tmp_path / "ann")
    run("init", folder, "--user", "ann", "--broker", "127.0.0.1:1", "--field", "skill=welding")
    for name, example in NAMES.items():
        given = ("--language", name, "--folder", folder)
        out = run("search", "--query", example, "--wait", "0.1", *given)
        found = [json.loads(line) for line in out.splitlines()]
        assert [each["result"]["id"] for each in found if "result" in each] == ["ann"], name
        made = json.loads(run("subscribe", example, "--kind", "user", "--desktop", *given))
        assert made.get("language", DEFAULT) == SHORT_NAMES.get(name, name)
        run("community", "create", f"By {name}", "--join", "rule", "--rule", example, *given)
    for command in ("search", "subscribe"):
        assert all(name in run(command, "--help") for name in NAMES)
